"""Training of the torch modules by autograd: the oracle in float64, and as the first paper's code does it.

Below the edge of stability every engine gives the published curve. Past it the last bit of a number
decides how a run ends, and only the same operations in the same order, in float32, end in the same place.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import numpy as np

from iclcore.engines.base import Engine
from iclcore.extras import needs
from iclcore.models import Factors, Model, Weights
from iclcore.modules import Network, module
from iclcore.optimisers import PLAIN, Adam
from iclcore.task import Sequences, divide_by
from iclcore.threads import one_torch_thread

with needs("torch"):
    import torch
    from torch import Tensor
    from torch.nn.functional import mse_loss

SMALL = 1e6  # scores of a head that one thread computes nearly as soon as two, and sooner on a busy machine

Lengths = list[tuple[Tensor, Tensor, int]]  # of each: what is given, the answers, the divisor


class AutogradEngine(Engine):
    """Descent of any model on sequences: the oracle, by torch.optim."""

    engine, precision = "autograd", torch.float64

    def prepare(self, train: Sequences, tests: list[Sequences]) -> None:
        optimizer = self.optimizer
        self.net = module(self.model, self.weights, train.outputs, self.precision)
        self.held = [matrix for stack in self.weights.values() for matrix in stack]
        self.parameters = list(self.net.parameters())
        self.sets = [lengths(self.net, data) for data in (train, *tests)]
        scores = sum(len(train) * n**2 for n in train.lengths)
        self.threads = one_torch_thread if scores < SMALL else nullcontext
        if isinstance(optimizer, Adam):
            betas = optimizer.beta1, optimizer.beta2
            rule = partial(torch.optim.Adam, betas=betas, eps=optimizer.eps)
        else:
            rule = partial(torch.optim.SGD, momentum=optimizer.momentum)
        decay = optimizer.weight_decay
        # plain steps are taken without it: to load what it is made of takes torch a second
        self.rule = optimizer != PLAIN and rule(self.parameters, lr=self.lr, weight_decay=decay)

    def predict(self, given: Tensor) -> Tensor:
        return self.net.predict(given)

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with self.threads():
            return self._advance(steps)

    def _advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        loss, errors = np.empty(steps), np.empty((steps, len(self.sets) - 1))
        values = np.empty((steps, len(self.views[-1])))
        for step in range(steps):
            values[step] = self.views[-1][:, -1, -1]
            with torch.no_grad():
                errors[step] = [mean_loss(self.predict, data).item() for data in self.sets[1:]]
            total = mean_loss(self.predict, self.sets[0])
            loss[step] = total.item()
            if not np.isfinite(loss[step]):
                return loss[: step + 1], errors[: step + 1], values[: step + 1]
            slopes = torch.autograd.grad(total, self.parameters)
            with torch.no_grad():
                for matrix, slope in zip(self.parameters, slopes, strict=True):
                    if self.rule:
                        matrix.grad = slope
                    else:
                        matrix.sub_(slope, alpha=self.lr)
                if self.rule:
                    self.rule.step()
                for held, matrix in zip(self.held, self.parameters, strict=True):
                    held[...] = matrix.numpy()
        return loss, errors, values


class PublishedEngine(AutogradEngine):
    """The same by the first paper's operations: float32, every token's output, head after head."""

    engine, precision = "published", torch.float32

    def predict(self, given: Tensor) -> Tensor:
        return self.net.as_published(given)


def lengths(net: Network, data: Sequences) -> Lengths:
    """What ``mean_loss`` takes, in the precision of the module."""
    kind, found = next(net.parameters()).dtype, []
    for tokens, answers in data.prefixes():
        divisor = divide_by(net.divisor, tokens.shape[1])
        given = net.given(torch.tensor(tokens, dtype=kind))
        found.append((given, torch.tensor(answers, dtype=kind), divisor))
    return found


def mean_loss(predict: Callable[[Tensor], Tensor], data: Lengths) -> Tensor:
    """Mean squared error over sequences and outputs, then over the lengths."""
    errors = [mse_loss(answers, predict(given) / divisor) for given, answers, divisor in data]
    return sum(errors) / len(errors)


def loss_and_slopes(net: Network, data: Lengths, like: Weights) -> tuple[float, Weights]:
    """The loss of a module, and its gradient in all weights: zero for those that cannot move."""
    total = mean_loss(net.predict, data)
    found = iter(torch.autograd.grad(total, list(net.parameters())))
    slopes = {name: np.stack([next(found).numpy() for _ in stack]) for name, stack in like.items()}
    return total.item(), slopes


def gradient_of(model: Model, data: Sequences, like: Weights) -> Callable[[Factors], Factors]:
    """∂L/∂factors of the torch module; weights that cannot move are left at zero."""
    dim, outputs = data.dim, data.outputs
    sets = lengths(module(model, like, outputs), data)

    def gradient(factors: Factors) -> Factors:
        weights = {name: np.zeros_like(array) for name, array in like.items()}
        for view, factor in zip(model.factors(weights, dim), factors, strict=True):
            view[...] = factor
        slopes = loss_and_slopes(module(model, weights, outputs), sets, like)[1]
        return model.factors(slopes, dim)

    return gradient
