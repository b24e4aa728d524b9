"""Training as the first paper's code does it: float32, every token's output, one head after another.

Slow on purpose. Below the edge of stability every engine gives its curve; past it the last bit of a
number decides how a run ends, and only the same operations in the same order end in the same place.
"""

from contextlib import nullcontext

import numpy as np

from iclcore.extras import needs
from iclcore.models import CubicMLP, MergedAttention, Model, Weights
from iclcore.task import Sequences, divide_by
from iclcore.threads import one_torch_thread

with needs("torch"):
    import torch
    from torch import Tensor
    from torch.nn.functional import linear, mse_loss

SMALL = 1e6  # scores of a head that one thread computes nearly as soon as two, and sooner on a busy machine


class PublishedDescent:
    """Gradient descent of one model from ``weights``, in place, recorded at every step."""

    engine = "published"

    def __init__(
        self, model: Model, weights: Weights, train: Sequences, tests: list[Sequences], lr: float
    ):
        self.model, self.weights, self.dim = model, weights, train.x.shape[2]
        self.sets = [self._inputs(data) for data in (train, *tests)]
        self.parameters = {
            name: [torch.tensor(matrix).float().requires_grad_() for matrix in stack]
            for name, stack in weights.items()
        }
        every = [matrix for stack in self.parameters.values() for matrix in stack]
        self.optimizer = torch.optim.SGD(every, lr=lr)
        scores = sum(len(given) * given.shape[1] ** 2 for given, _, _ in self.sets[0])
        self.threads = one_torch_thread if scores < SMALL else nullcontext

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As every engine: losses, test errors and values, each from before its step."""
        with self.threads():
            return self._advance(steps)

    def _advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        loss, errors = np.empty(steps), np.empty((steps, len(self.sets) - 1))
        values = np.empty((steps, self.model.heads))
        for step in range(steps):
            values[step] = self.model.factors(self.weights, self.dim)[-1][:, -1, -1]
            self.optimizer.zero_grad()
            total = self._loss(self.sets[0])
            loss[step] = total.item()
            with torch.no_grad():
                errors[step] = [self._loss(data).item() for data in self.sets[1:]]
            if not np.isfinite(loss[step]):
                return loss[: step + 1], errors[: step + 1], values[: step + 1]
            total.backward()
            self.optimizer.step()
            for name, stack in self.parameters.items():
                for held, matrix in zip(self.weights[name], stack, strict=True):
                    held[...] = matrix.detach().numpy()
        return loss, errors, values

    def _inputs(self, data: Sequences) -> list[tuple[Tensor, Tensor, int]]:
        """Per length: what the model is given, the answers, the divisor."""
        found = []
        for tokens, target in data.prefixes():
            given, answers = torch.tensor(tokens).float(), torch.tensor(target).float()
            if isinstance(self.model, CubicMLP):  # z = vec(β x_qᵀ)
                beta = torch.bmm(given.transpose(1, 2), given)[:, : self.dim, [-1]]
                given = torch.bmm(beta, given[:, [-1], : self.dim]).flatten(1)
            found.append((given, answers, divide_by(self.model.divisor, tokens.shape[1])))
        return found

    def _loss(self, lengths: list[tuple[Tensor, Tensor, int]]) -> Tensor:
        errors = [mse_loss(y, self._predict(given) / divisor) for given, y, divisor in lengths]
        return sum(errors) / len(errors)

    def _predict(self, given: Tensor) -> Tensor:
        parts = self.parameters
        if isinstance(self.model, CubicMLP):
            return linear(linear(given, parts["first"][0]), parts["second"][0])
        outputs = []
        for h in range(self.model.heads):
            if isinstance(self.model, MergedAttention):
                asking, asked = given, linear(given, parts["key_query"][h])
            else:
                asked, asking = linear(given, parts["key"][h]), linear(given, parts["query"][h])
            scores = torch.bmm(asking, asked.transpose(1, 2))
            if self.model.softmax:
                scores = scores.softmax(dim=2)
            outputs.append(torch.bmm(scores, linear(given, parts["value"][h])))
        return sum(outputs)[:, -1, self.dim :]
