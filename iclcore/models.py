"""The models: which weights they have, how these start, and how they enter the prediction.

A model's weights are a dict of arrays, the heads stacked in front. ``modules`` says in torch what
a model does with a sequence; here is what training needs beside it: every linear attention is
ŷ_o = Σ_{d,a,b} c^o_{dab} x_q[d] S[a,b] with c^o_{dab} = Σ_h W_h[d,a] v_h^o[b], S = Σ_m token_m token_mᵀ.
The factors (W, v) or (K, Q, v) of c are the only weights that can move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from iclcore.checks import choice, instance, positive, switch, whole
from iclcore.task import DIVISORS, Divisor

Weights = dict[str, np.ndarray]
Factors = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Layer:
    """``count`` weight matrices of one shape; ``draws``: how often the published code draws each."""

    name: str
    count: int
    shape: tuple[int, int]
    std: float
    draws: int = 1


@dataclass(frozen=True)
class Model:
    """What all models share: heads, scale ``init`` of the start, divisor of the sum over tokens.

    One is ``cubic`` if of S it reads only β, the inputs' block with the last label.
    """

    softmax = False  # no field here: attention has one
    cubic: ClassVar[bool] = False
    heads: int = 1
    init: float = 1e-2
    divisor: Divisor = "one"

    def __post_init__(self) -> None:
        whole("heads", self.heads)
        positive("init", self.init)
        choice("divisor", self.divisor, DIVISORS)

    @property
    def linear(self) -> bool:
        """Whether it is its factors, each entry free to move: all that moments need to train it."""
        return not self.softmax

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        raise NotImplementedError

    def factors(self, weights: Weights, dim: int) -> Factors:
        """Views of the weights that can move, (W, v) or (K, Q, v), of one set of weights or of a stack."""
        raise NotImplementedError

    def start(
        self,
        dim: int,
        outputs: int = 1,
        seed: int = 0,
        draw: Callable[[Sequence[Layer]], Weights] | None = None,
        answer_rows_only: bool = False,
    ) -> Weights:
        """Gaussian weights, with those set to zero that would leave the paper's subspace.

        With ``answer_rows_only`` the value matrices have only their last rows, which are all that reaches
        the answer: at D = 1,000 the other rows take 8 MB a head.
        """
        layers = self.layers(dim, outputs)
        weights = (
            draw(layers) if draw else _gaussian(layers, seed, outputs if answer_rows_only else 0)
        )
        return self._enter_subspace(weights, dim)

    def _enter_subspace(self, weights: Weights, dim: int) -> Weights:
        return weights


class Attention(Model):
    """What merged and separate key and query share."""

    def __post_init__(self) -> None:
        super().__post_init__()
        switch("softmax", self.softmax)

    def _enter_subspace(self, weights: Weights, dim: int) -> Weights:
        """No head reads the last label, nor answers with an input."""
        reads, *_, value = self.factors(weights, dim)
        reads[..., -1] = value[:, -1, :dim] = 0
        return weights


@dataclass(frozen=True)
class MergedAttention(Attention):
    """Key and query as one E x E matrix a head: score(n, m) = x_nᵀ KQ x_m."""

    heads: int = 8
    init: float = 1e-6
    softmax: bool = False

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        shape = (dim + outputs, dim + outputs)
        return [
            Layer("key_query", self.heads, shape, self.init),
            Layer("value", self.heads, shape, self.init),
        ]

    def factors(self, weights: Weights, dim: int) -> Factors:
        # the query's token has y = 0, and only the last `outputs` rows of a value reach ŷ
        scores = weights["key_query"]
        return scores[..., :dim, :], weights["value"][..., dim - scores.shape[-1] :, :]


@dataclass(frozen=True)
class SeparateAttention(Attention):
    """Key and query of rank R a head: score(n, m) = (Q x_n)·(K x_m)."""

    heads: int = 5
    init: float = 1e-2
    rank: int = 1
    softmax: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("rank", self.rank)

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        size = dim + outputs
        low = (self.rank, size)
        # so that |k|, |q| and the value that counts all start near init
        std = self.init / np.sqrt(self.rank * size)
        return [
            Layer("key", self.heads, low, std),
            Layer("query", self.heads, low, std),
            Layer("value", self.heads, (size, size), self.init, draws=2),
        ]

    def factors(self, weights: Weights, dim: int) -> Factors:
        key = weights["key"]
        return key, weights["query"][..., :dim], weights["value"][..., dim - key.shape[-1] :, :]


@dataclass(frozen=True)
class CubicMLP(Model):
    """Two linear layers on z = vec(β x_qᵀ), β the block of S between x and the last y."""

    heads: int = 8
    init: float = 1e-6
    cubic: ClassVar[bool] = True

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        return [
            Layer("first", 1, (self.heads, dim * dim), self.init),
            Layer("second", 1, (outputs, self.heads), self.init),
        ]

    def factors(self, weights: Weights, dim: int) -> Factors:
        first, second = weights["first"][..., 0, :, :], weights["second"][..., 0, :, :]
        first = first.reshape(*first.shape[:-1], dim, dim)  # z's first index is β's
        return np.swapaxes(first, -1, -2), np.swapaxes(second, -1, -2)[..., None]


MODELS = {kind.__name__: kind for kind in (MergedAttention, SeparateAttention, CubicMLP)}


def trainable(name: str, value: object) -> Model:
    """One of the models that engines know; of a subclass they would not see what it adds."""
    model = instance(name, value, *MODELS.values())
    if type(model) not in MODELS.values():
        raise TypeError(
            f"{name} takes {' or '.join(MODELS)} itself, not {type(model).__name__}, of which the engines "
            "do not know what it adds"
        )
    return model


def copied(weights: Weights) -> Weights:
    """As they are now: engines move them in place."""
    return {name: array.copy() for name, array in weights.items()}


def feature_count(model: Model, dim: int, outputs: int) -> int:
    """How many features φ the model's moments have, without making them: see ``moments.features``."""
    size = dim + outputs
    return dim * (dim if model.cubic else size * (size + 1) // 2)


def _gaussian(layers: Sequence[Layer], seed: int, last: int = 0) -> Weights:
    """Matrix by matrix, of values only the ``last`` rows are kept; 0 keeps all."""
    rng, weights = np.random.default_rng(seed), {}
    for layer in layers:
        rows = slice(-last if layer.name == "value" else 0, None)
        drawn = [rng.standard_normal(layer.shape)[rows] for _ in range(layer.count)]
        weights[layer.name] = layer.std * np.stack(drawn)
    return weights


def scoring(factors: Factors) -> np.ndarray:
    """W_h of every head, (…, H, D, E): x_qᵀ W_h x_m is its score, of separate key and query Qᵀ K."""
    *parts, _ = factors
    return parts[0] if len(parts) == 1 else np.einsum("...rd,...ra->...da", parts[1], parts[0])


def unscored(factors: Factors, slope: np.ndarray) -> Factors:
    """A gradient in W_h, carried to the factors that W_h is made of: dK_h = Q_h dW_h and dQ_h = K_h dW_hᵀ."""
    *parts, _ = factors
    if len(parts) == 1:
        return (slope,)
    key, query = parts
    return np.einsum("hrd,hda->hra", query, slope), np.einsum("hra,hda->hrd", key, slope)


def predictor(factors: Factors) -> np.ndarray:
    """M of ŷ = βᵀ M x_q, (…, D, D): Σ_h v_h W_hᵀ without the labels' column, for one output."""
    w, v = scoring(factors), factors[-1]
    if v.shape[-2] != 1:
        raise ValueError(f"predictor takes one output, not {v.shape[-2]}")
    return np.einsum("...hda,...h->...ad", w[..., : w.shape[-2]], v[..., 0, -1])
