"""The models as torch modules: the readable definition of what each does with a sequence.

Slow and obvious on purpose. Training goes through ``descent`` and ``softmax``; these modules are
what both must agree with. Tokens are (P, n, E) with the query last and its y set to zero; the
prediction is (P, O).
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from iclcore.extras import needs
from iclcore.models import CubicMLP, Factors, MergedAttention, Model, SeparateAttention, Weights
from iclcore.task import Sequences, divide_by

with needs("torch"):
    import torch
    from torch import Tensor, nn


class Attention(nn.Module):
    """ŷ = Σ_h Σ_m p_h(m) V_h token_m, read from its last O entries; only the query's row is formed.

    p_h(m) is the score of the query's token against token m: as it is (linear) or its softmax.
    """

    def __init__(self, value: Float[Tensor, "H E E"], outputs: int, softmax: bool, divisor: str):
        super().__init__()
        self.value = nn.Parameter(value)
        self.outputs, self.softmax, self.divisor = outputs, softmax, divisor

    def scores(self, tokens: Float[Tensor, "P n E"]) -> Float[Tensor, "P H n"]:
        raise NotImplementedError

    def forward(self, tokens: Float[Tensor, "P n E"]) -> Float[Tensor, "P O"]:
        weight = self.scores(tokens)
        if self.softmax:
            weight = weight.softmax(dim=2)
        seen = torch.einsum("phm,pme->phe", weight, tokens)  # first: no value a token
        output = torch.einsum("phe,hoe->po", seen, self.value[:, -self.outputs :])
        return output / divide_by(self.divisor, tokens.shape[1])


class Merged(Attention):
    """score_h(q, m) = token_qᵀ KQ_h token_m."""

    def __init__(self, key_query: Float[Tensor, "H E E"], value: Float[Tensor, "H E E"], **kind):
        super().__init__(value, **kind)
        self.key_query = nn.Parameter(key_query)

    def scores(self, tokens: Float[Tensor, "P n E"]) -> Float[Tensor, "P H n"]:
        return torch.einsum("pd,hde,pme->phm", tokens[:, -1], self.key_query, tokens)


class Separate(Attention):
    """score_h(q, m) = (Q_h token_q)·(K_h token_m)."""

    def __init__(
        self,
        key: Float[Tensor, "H R E"],
        query: Float[Tensor, "H R E"],
        value: Float[Tensor, "H E E"],
        **kind,
    ):
        super().__init__(value, **kind)
        self.key, self.query = nn.Parameter(key), nn.Parameter(query)

    def scores(self, tokens: Float[Tensor, "P n E"]) -> Float[Tensor, "P H n"]:
        asked = torch.einsum("hrd,pd->phr", self.query, tokens[:, -1])
        return torch.einsum("phr,hre,pme->phm", asked, self.key, tokens)


class Cubic(nn.Module):
    """ŷ = W₂ W₁ vec(β x_qᵀ), β the block of Σ_m token_m token_mᵀ between x and the last y."""

    def __init__(
        self, first: Float[Tensor, "1 H DD"], second: Float[Tensor, "1 O H"], divisor: str
    ):
        super().__init__()
        self.first, self.second = nn.Parameter(first), nn.Parameter(second)
        self.divisor = divisor

    def forward(self, tokens: Float[Tensor, "P n E"]) -> Float[Tensor, "P O"]:
        x = tokens[..., : tokens.shape[2] - self.second.shape[1]]
        beta = torch.einsum("pma,pm->pa", x, tokens[..., -1])
        z = torch.einsum("pa,pd->pad", beta, x[:, -1]).flatten(1)
        return z @ self.first[0].T @ self.second[0].T / divide_by(self.divisor, tokens.shape[1])


def module(model: Model, weights: Weights, outputs: int) -> nn.Module:
    """The torch module of a model, holding copies of ``weights``."""
    held = {name: torch.tensor(array) for name, array in weights.items()}
    if isinstance(model, CubicMLP):
        return Cubic(**held, divisor=model.divisor)
    kinds = {MergedAttention: Merged, SeparateAttention: Separate}
    kind = {"outputs": outputs, "softmax": model.softmax, "divisor": model.divisor}
    return kinds[type(model)](**held, **kind)


class AutogradDescent:
    """Gradient descent of the torch module in float64, by autograd: slow, and the oracle."""

    engine = "autograd"

    def __init__(
        self, model: Model, weights: Weights, train: Sequences, tests: list[Sequences], lr: float
    ):
        self.weights, self.lr = weights, lr
        self.sets = [_tensors(data) for data in (train, *tests)]
        self.module = module(model, weights, train.y.shape[2])
        self.parameters = dict(self.module.named_parameters())
        self.value = lambda: model.factors(self.weights, train.x.shape[2])[-1][:, -1, -1]

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As every engine: losses, test errors and values, each from before its step."""
        loss, errors = np.empty(steps), np.empty((steps, len(self.sets) - 1))
        values = np.empty((steps, len(self.value())))
        for step in range(steps):
            values[step] = self.value()
            with torch.no_grad():
                errors[step] = [mean_loss(self.module, data).item() for data in self.sets[1:]]
            total = mean_loss(self.module, self.sets[0])
            loss[step] = total.item()
            if not np.isfinite(loss[step]):
                return loss[: step + 1], errors[: step + 1], values[: step + 1]
            slopes = torch.autograd.grad(total, list(self.parameters.values()))
            with torch.no_grad():
                for (name, parameter), slope in zip(self.parameters.items(), slopes, strict=True):
                    parameter -= self.lr * slope
                    self.weights[name][...] = parameter.numpy()
        return loss, errors, values


def mean_loss(net: nn.Module, lengths: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Mean squared error over sequences and outputs, then over the lengths."""
    return torch.stack([(net(tokens) - y).square().mean() for tokens, y in lengths]).mean()


def gradient_of(model: Model, data: Sequences, like: Weights) -> Callable[[Factors], Factors]:
    """∂L/∂factors of the torch module; weights that cannot move are left at zero."""
    sets, dim, outputs = _tensors(data), data.x.shape[2], data.y.shape[2]

    def gradient(factors: Factors) -> Factors:
        weights = {name: np.zeros_like(array) for name, array in like.items()}
        for view, factor in zip(model.factors(weights, dim), factors, strict=True):
            view[...] = factor
        net = module(model, weights, outputs)
        names, parameters = zip(*net.named_parameters(), strict=True)
        slopes = torch.autograd.grad(mean_loss(net, sets), parameters)
        found = {name: slope.numpy() for name, slope in zip(names, slopes, strict=True)}
        return model.factors(found, dim)

    return gradient


def _tensors(data: Sequences) -> list[tuple[Tensor, Tensor]]:
    return [(torch.tensor(t).double(), torch.tensor(y).double()) for t, y in data.prefixes()]
