"""The engines that train the torch modules by autograd: the oracle in float64, and the published operations.

Below the edge of stability every engine gives the published curve. Past it the last bit of a number decides
how a run ends, so that only the same operations in the same order, in float32, end in the same place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from iclcore.engines.base import StepwiseEngine
from iclcore.extras import needs
from iclcore.modules import Network, module
from iclcore.optimisers import PLAIN, Adam, Optimizer
from iclcore.task import Sequences, divide_by

with needs("torch"):
    import torch
    from torch import Tensor
    from torch.nn.functional import mse_loss

Tensors = list[tuple[Tensor, Tensor, int]]  # for each length: input, answers, divisor


class AutogradEngine(StepwiseEngine):
    """Train any model on sequences by torch.optim in float64."""

    precision = torch.float64

    def prepare(self, train: Sequences, tests: list[Sequences]) -> None:
        self.net = module(self.model, self.weights, train.outputs, self.precision)
        self.matrices = [matrix for stack in self.weights.values() for matrix in stack]
        self.parameters = list(self.net.parameters())
        self.train, *self.tests = (tensors(self.net, data) for data in (train, *tests))
        # Plain steps do without torch.optim, because loading it takes a second.
        plain = self.optimizer == PLAIN
        self.rule = None if plain else _rule(self.optimizer, self.parameters, self.lr)

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the predictions before they are divided."""
        return self.net.predict(inputs)

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with one_torch_thread():
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
    """Let torch compute on one thread inside, so that no bit depends on the number of cores.

    Threads that share small matrices would also wait for each other.
    """
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
