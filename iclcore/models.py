"""The models: which weights they have, how the weights start, and how they enter the prediction.

The weights of a model are a dict of arrays; in attention, the first axis of each array is the head.
``modules`` defines each model in torch, as plainly as possible; this module has everything else that training
needs to know. An input x has D entries, and a token (x, y) has E = D + O entries, where O is the number of
outputs. Every linear attention predicts

    ŷ_o = Σ_{d,a,b} c^o_{dab} x_q[d] S[a,b]    with    S = Σ_m token_m token_mᵀ,
    c^o_{dab} = Σ_h W_h[d,a] v_h^o[b].

and divides this by its divisor. The weights that enter the prediction are the factors of c: (W, v), or
(K, Q, v) with W_h = Q_hᵀ K_h.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from iclcore.checks import BadValue, choice, positive, whole
from iclcore.task import DIVISORS, Divisor

Weights = dict[str, np.ndarray]
Factors = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Layer:
    """A group of ``count`` weight matrices of one shape, drawn at first with standard deviation ``std``.

    ``draws`` is how often the published code draws each matrix; only the last draw is used.
    """

    name: str
    count: int
    shape: tuple[int, int]
    std: float
    draws: int = 1


@dataclass(frozen=True)
class Model:
    """The base class of all models.

    - ``heads``: the number of heads.
    - ``init``: the scale of the initial weights.
    - ``divisor``: the number by which the model divides its sum over tokens: "one", "context" (the number of
      examples) or "tokens" (one more); see ``task.divide_by``.

    ``only_beta`` is True for a model that reads only one column of S, the column of the last label, which is
    β = Σ_m y_m x_m.
    """

    softmax = False  # a constant here; the attention models make it a field
    only_beta: ClassVar[bool] = False
    heads: int = 1
    init: float = 1e-2
    divisor: Divisor = "one"

    def __post_init__(self) -> None:
        whole("heads", self.heads)
        positive("init", self.init)
        choice("divisor", self.divisor, DIVISORS)

    @property
    def linear(self) -> bool:
        """True if the prediction is linear in c, so that the model can be trained on moments."""
        return not self.softmax

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        """Return the groups of weight matrices for inputs of dimension ``dim`` and ``outputs`` outputs."""
        raise NotImplementedError

    def factors(self, weights: Weights, dim: int) -> Factors:
        """Return the weights that enter the prediction: (W, v) or (K, Q, v), all heads stacked.

        They must be views of ``weights``, not copies, because the engines change the weights through them.
        The arrays in ``weights`` may be stacks of weights, with additional axes in front.
        """
        raise NotImplementedError

    def start(
        self, dim: int, outputs: int = 1, seed: int = 0, answer_rows_only: bool = False
    ) -> Weights:
        """Return Gaussian initial weights; those that the paper sets to zero are zero.

        With ``answer_rows_only`` the value matrices have only their last rows, because the other rows do not
        reach the answer. At D = 1,000 the other rows take 8 MB per head.
        """
        rng, weights = np.random.default_rng(seed), {}
        for layer in self.layers(dim, outputs):
            first = -outputs if answer_rows_only and layer.name == "value" else 0
            drawn = [rng.standard_normal(layer.shape)[first:] for _ in range(layer.count)]
            weights[layer.name] = layer.std * np.stack(drawn)
        return self.enter_subspace(weights, dim)

    def enter_subspace(self, weights: Weights, dim: int) -> Weights:
        """Set those weights to zero that are zero in the paper; return ``weights``, changed in place."""
        return weights


class Attention(Model):
    """The base class of attention with merged and with separate key and query."""

    def enter_subspace(self, weights: Weights, dim: int) -> Weights:
        """Set weights to zero so that no score depends on the last label, and no answer on an input."""
        reads, *_, value = self.factors(weights, dim)
        reads[..., -1] = value[:, -1, :dim] = 0
        return weights


@dataclass(frozen=True)
class MergedAttention(Attention):
    """Attention with key and query as one E x E matrix per head: score(n, m) = token_nᵀ KQ token_m.

    - ``heads``: the number of heads.
    - ``init``: the standard deviation of all initial weights.
    - ``divisor``: the number by which the sum over tokens is divided; see ``Model``.
    - ``softmax``: True for softmax attention, False for linear attention.
    """

    heads: int = 8
    init: float = 1e-6
    softmax: bool = False

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        shape = (dim + outputs, dim + outputs)
        return [Layer(name, self.heads, shape, self.init) for name in ("key_query", "value")]

    def factors(self, weights: Weights, dim: int) -> Factors:
        # The query's token has y = 0, and only the last `outputs` rows of a value reach the answer.
        scores = weights["key_query"]
        return scores[..., :dim, :], weights["value"][..., dim - scores.shape[-1] :, :]


@dataclass(frozen=True)
class SeparateAttention(Attention):
    """Attention with a key and a query of rank R in each head: score(n, m) = (Q token_n)·(K token_m).

    - ``heads``: the number of heads.
    - ``init``: the standard deviation of the initial values, and the norm of the initial key and query.
    - ``divisor``: the number by which the sum over tokens is divided; see ``Model``.
    - ``rank``: the number R of rows of key and query.
    - ``softmax``: True for softmax attention, False for linear attention.
    """

    heads: int = 5
    init: float = 1e-2
    rank: int = 1
    softmax: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("rank", self.rank)

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        size = dim + outputs
        std = self.init / np.sqrt(self.rank * size)  # so that |K| and |Q| start near init
        parts = [Layer(name, self.heads, (self.rank, size), std) for name in ("key", "query")]
        return [*parts, Layer("value", self.heads, (size, size), self.init, draws=2)]

    def factors(self, weights: Weights, dim: int) -> Factors:
        key = weights["key"]
        return key, weights["query"][..., :dim], weights["value"][..., dim - key.shape[-1] :, :]


@dataclass(frozen=True)
class CubicMLP(Model):
    """Two linear layers on the features z = vec(β x_qᵀ). β is the block of S between x and the last y.

    - ``heads``: the number of hidden units.
    - ``init``: the standard deviation of all initial weights.
    - ``divisor``: the number by which the sum over tokens is divided; see ``Model``.
    """

    heads: int = 8
    init: float = 1e-6
    only_beta: ClassVar[bool] = True

    def layers(self, dim: int, outputs: int) -> Sequence[Layer]:
        return [
            Layer("first", 1, (self.heads, dim * dim), self.init),
            Layer("second", 1, (outputs, self.heads), self.init),
        ]

    def factors(self, weights: Weights, dim: int) -> Factors:
        first, second = weights["first"][..., 0, :, :], weights["second"][..., 0, :, :]
        first = first.reshape(*first.shape[:-1], dim, dim)  # the first index of z is that of β
        return np.swapaxes(first, -1, -2), np.swapaxes(second, -1, -2)[..., None]


# The models that can be trained, by name. The page book/add_model.md shows how to add another one.
MODELS: dict[str, type] = {m.__name__: m for m in (MergedAttention, SeparateAttention, CubicMLP)}


def trainable(name: str, value: object) -> Model:
    """Check that the class of the value is in MODELS, and return the value.

    A subclass is refused, because it would be trained without what it adds to its base class.
    """
    if type(value) not in MODELS.values():
        own = type(value).__name__
        hint = (
            f'; iclcore.models.MODELS["{own}"] = {own} adds it' if isinstance(value, Model) else ""
        )
        raise BadValue(name, f"takes {' or '.join(MODELS)}, not {own}{hint}")
    return value


def copied(weights: Weights) -> Weights:
    """Return copies of all weights, because the engines change the originals in place."""
    return {name: array.copy() for name, array in weights.items()}


def scoring(factors: Factors) -> np.ndarray:
    """Return W of every head, (…, H, D, E): the score of token m is x_qᵀ W_h token_m, and W_h = Q_hᵀ K_h."""
    *parts, _ = factors
    return parts[0] if len(parts) == 1 else np.einsum("...rd,...ra->...da", parts[1], parts[0])


def scoring_gradients(factors: Factors, slope: np.ndarray) -> Factors:
    """Return the gradients in (W,) or (K, Q), given the gradient ``slope`` in W.

    By the chain rule dK_h = Q_h dW_h and dQ_h = K_h dW_hᵀ.
    """
    *parts, _ = factors
    if len(parts) == 1:
        return (slope,)
    key, query = parts
    return np.einsum("hrd,hda->hra", query, slope), np.einsum("hra,hda->hrd", key, slope)


def predictor(factors: Factors) -> np.ndarray:
    """Return the matrix M of ŷ = βᵀ M x_q for one output, of shape (…, D, D).

    It is Σ_h v_h W_hᵀ, where the column of W_h that belongs to the label is left out.
    """
    w, v = scoring(factors), factors[-1]
    if v.shape[-2] != 1:
        raise BadValue("outputs", f"takes 1 for a predictor, not {v.shape[-2]}")
    return np.einsum("...hda,...h->...ad", w[..., : w.shape[-2]], v[..., 0, -1])
