"""The engines that train the torch modules by autograd: the oracle in float64, and the published operations.

Below the edge of stability every engine gives the published curve. Past it the last bit of a number decides
how a run ends, so that only the same operations in the same order, in float32, end in the same place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import current_thread, main_thread

import numpy as np

from iclcore.engines.base import StepwiseEngine
from iclcore.extras import needs
from iclcore.models import Factors, Model, Weights
from iclcore.modules import Network, module
from iclcore.optimisers import PLAIN, Adam, Optimizer
from iclcore.task import Sequences, divide_by

with needs("torch"):
    import torch
    from torch import Tensor
    from torch.nn.functional import mse_loss

SMALL = 1e6  # one thread computes so many scores about as fast as two, and faster on a busy machine

Tensors = list[tuple[Tensor, Tensor, int]]  # for each length: input, answers, divisor


class AutogradEngine(StepwiseEngine):
    """Train any model on sequences by torch.optim in float64."""

    precision = torch.float64

    def prepare(self, train: Sequences, tests: list[Sequences]) -> None:
        self.net = module(self.model, self.weights, train.outputs, self.precision)
        self.matrices = [matrix for stack in self.weights.values() for matrix in stack]
        self.parameters = list(self.net.parameters())
        self.train, *self.tests = (tensors(self.net, data) for data in (train, *tests))
        scores = sum(len(train) * n**2 for n in train.lengths)
        # The runs of a sweep are in other threads than the main one, and share the cores.
        several = scores > SMALL and current_thread() is main_thread()
        self.threads = nullcontext if several else one_torch_thread
        # Plain steps do without torch.optim, because loading it takes a second.
        plain = self.optimizer == PLAIN
        self.rule = None if plain else _rule(self.optimizer, self.parameters, self.lr)

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the predictions before they are divided."""
        return self.net.predict(inputs)

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with self.threads():
            return super().advance(steps)

    @torch.no_grad()
    def error(self, test: Tensors) -> float:
        return mean_loss(self.predict, test).item()

    def gradient(self) -> tuple[float, tuple[Tensor, ...]]:
        loss = mean_loss(self.predict, self.train)
        return loss.item(), torch.autograd.grad(loss, self.parameters)

    @torch.no_grad()
    def move(self, slopes: tuple[Tensor, ...]) -> None:
        for parameter, slope in zip(self.parameters, slopes, strict=True):
            if self.rule:
                parameter.grad = slope
            else:
                parameter.sub_(slope, alpha=self.lr)
        if self.rule:
            self.rule.step()
        for matrix, parameter in zip(self.matrices, self.parameters, strict=True):
            matrix[...] = parameter.numpy()


class PublishedEngine(AutogradEngine):
    """Train by the operations of the first paper's code: float32, every token's output, head after head."""

    precision = torch.float32

    def predict(self, inputs: Tensor) -> Tensor:
        return self.net.predict_as_published(inputs)


def _rule(optimizer: Optimizer, parameters: list, lr: float) -> torch.optim.Optimizer:
    """Return torch's own form of an optimizer."""
    decay = optimizer.weight_decay
    if isinstance(optimizer, Adam):
        betas = optimizer.beta1, optimizer.beta2
        return torch.optim.Adam(parameters, lr, betas, optimizer.eps, weight_decay=decay)
    return torch.optim.SGD(parameters, lr, momentum=optimizer.momentum, weight_decay=decay)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch compute on one thread inside: threads that share small matrices wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def tensors(net: Network, data: Sequences) -> Tensors:
    """Return the input of the module, the answers and the divisor for each length of the sequences."""
    dtype, lengths = next(net.parameters()).dtype, []
    for tokens, answers in data.prefixes():
        inputs = net.inputs(torch.tensor(tokens, dtype=dtype))
        divisor = divide_by(net.divisor, tokens.shape[1])
        lengths.append((inputs, torch.tensor(answers, dtype=dtype), divisor))
    return lengths


def mean_loss(predict: Callable[[Tensor], Tensor], data: Tensors) -> Tensor:
    """Return the mean squared error over sequences and outputs, averaged over the lengths."""
    errors = [mse_loss(answers, predict(inputs) / divisor) for inputs, answers, divisor in data]
    return sum(errors) / len(errors)


def loss_and_slopes(net: Network, data: Tensors, like: Weights) -> tuple[float, Weights]:
    """Return the loss of a module and its gradient in all weights, in the shapes of ``like``."""
    loss = mean_loss(net.predict, data)
    slopes = iter(torch.autograd.grad(loss, list(net.parameters())))
    gradient = {
        name: np.stack([next(slopes).numpy() for _ in stack]) for name, stack in like.items()
    }
    return loss.item(), gradient


def gradient_of(model: Model, data: Sequences, like: Weights) -> Callable[[Factors], Factors]:
    """Return the function ∂L/∂factors of the torch module, whose other weights are zero."""
    dim, outputs = data.dim, data.outputs
    sets = tensors(module(model, like, outputs), data)

    def gradient(factors: Factors) -> Factors:
        weights = {name: np.zeros_like(array) for name, array in like.items()}
        for view, factor in zip(model.factors(weights, dim), factors, strict=True):
            view[...] = factor
        slopes = loss_and_slopes(module(model, weights, outputs), sets, like)[1]
        return model.factors(slopes, dim)

    return gradient
