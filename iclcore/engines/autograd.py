"""The engines that train the torch modules by autograd: a reference in float64, and the published operations.

Below the edge of stability every engine gives the published curve. Above it the last bit of a number decides
how a run ends, so that only the same float32 operations in the same order lead to the same end.
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
        # Plain gradient descent does not use torch.optim, because importing it takes a second.
        plain = self.optimizer == PLAIN
        self.rule = None if plain else _rule(self.optimizer, self.parameters, self.lr)

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the predictions, not yet divided by the divisor."""
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
    """Train with the operations of the first paper's code: float32, all tokens' outputs, head after head."""

    precision = torch.float32

    def predict(self, inputs: Tensor) -> Tensor:
        return self.net.predict_as_published(inputs)


def _rule(optimizer: Optimizer, parameters: list, lr: float) -> torch.optim.Optimizer:
    """Return the optimizer of torch.optim that corresponds to ``optimizer``."""
    decay = optimizer.weight_decay
    if isinstance(optimizer, Adam):
        betas = optimizer.beta1, optimizer.beta2
        return torch.optim.Adam(parameters, lr, betas, optimizer.eps, weight_decay=decay)
    return torch.optim.SGD(parameters, lr, momentum=optimizer.momentum, weight_decay=decay)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread in the with block, so that no bit of a result depends on the number of cores.

    If several threads shared the work on small matrices, they would also lose time waiting for one another.
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
