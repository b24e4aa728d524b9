"""Training of linear models on moments, where a step costs one product gram·c, and on fresh batches.

The loops are in ``iclcore.loops``, which is compiled, and in ``iclcore.plain``, for where numba is not
installed.
"""

import numpy as np

from iclcore import plain
from iclcore.checks import BadValue
from iclcore.engines.base import Engine, flat, parted
from iclcore.models import Factors, scoring, scoring_gradients
from iclcore.moments import CHUNK, Moments, coefficients, featured, linear_loops


class MomentEngine(Engine):
    """Train a linear model on moments."""

    def prepare(self, train: Moments, tests: list[Moments]) -> None:
        self.features, self.rule, self.done = train.features, self.optimizer.rule, 0
        self._check_factors()
        # We train only the weights that reach the prediction. The others would only shrink by weight decay,
        # which changes neither the loss nor the prediction.
        theta = flat(self.views)
        # the weights, their gradient, and the optimizer's two running means
        self.vectors = theta, *np.zeros((3, len(theta)))
        self.factors, self.slopes = (self._named(vector) for vector in self.vectors[:2])
        self.measure([train, *tests])
        self.batches = np.empty((0, 0, self.features.size)), np.empty((0, 0, len(train.cross)))

    def _check_factors(self) -> None:
        """Check the shapes of the factors, because the compiled loop would read beyond a wrong array."""
        dim, (a, b) = self.features.dim, self.features.pair.shape
        shapes = [view.shape for view in self.views]
        heads, rank = self.model.heads, getattr(self.model, "rank", shapes[0][1])
        parts = [(heads, rank, a), (heads, rank, dim)] if len(shapes) == 3 else [(heads, dim, a)]
        if shapes != (expected := [*parts, (heads, self.features.outputs, b)]):
            name = type(self.model).__name__
            raise BadValue("model", f"takes factors of shapes {expected}; {name} has {shapes}")

    def measure(self, sets: list[Moments]) -> None:
        """Stack the moments of the data sets whose errors are recorded.

        The first set is trained on, unless there are batches.
        """
        size, outputs = self.features.size, self.views[-1].shape[1]
        self.averages = (
            np.array([m.gram for m in sets]).reshape(-1, size, size),
            np.array([m.cross for m in sets]).reshape(-1, outputs, size),
            np.array([m.power for m in sets]),
        )

    def _named(self, vector: np.ndarray) -> list[np.ndarray]:
        """Return [W, K, Q, v] as views of a vector.

        A model with W gets an empty K and Q. A model with K and Q gets a separate array in which to form W.
        """
        *parts, v = parted(vector, self.views)
        if len(parts) == 1:
            return [parts[0].reshape(len(v), -1), *np.empty((2, len(v), 0, 0)), v]
        key, query = parts
        return [np.empty((len(v), query.shape[2] * key.shape[2])), key, query, v]

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = len(self.averages[2]) + (len(self.batches[0]) > 0)
        errors = np.empty((steps, columns))
        values = np.empty((steps, len(self.views[-1])))
        done = linear_loops().train_linear(
            tuple(self.factors), tuple(self.slopes), self.vectors, self.averages, self.batches,
            self.features.rows, self.lr, self.rule, self.done, errors, values,
        )  # fmt: skip
        self.done += done
        for view, part in zip(self.views, parted(self.vectors[0], self.views), strict=True):
            view[...] = part
        return errors[:done, 0], errors[:done, 1:], values[:done]


class BatchEngine(MomentEngine):
    """Train a linear model on a fresh batch of a task's sequences at each step; record the batch's loss."""

    def __init__(self, *arguments, batch: int, seed: int = 0):
        self.batch, self.seed = batch, seed
        super().__init__(*arguments)

    def prepare(self, train: Moments, tests: list[Moments]) -> None:
        super().prepare(train, tests)
        self.measure(tests)
        self.draws = train.task.batches(self.batch, self.seed)
        self.at_a_time = max(1, CHUNK // self.batch)

    def load(self) -> None:
        """Do nothing: the loop is compiled with the first batch, because there is no batch before."""

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        blocks = []
        for first in range(0, steps, self.at_a_time):
            drawn = [next(self.draws) for _ in range(min(self.at_a_time, steps - first))]
            self.batches = self._stacked(drawn)
            blocks.append(super().advance(len(drawn)))
            if not np.isfinite(blocks[-1][0][-1]):
                break
        return tuple(map(np.concatenate, zip(*blocks, strict=True)))

    def _stacked(self, drawn: list) -> tuple[np.ndarray, np.ndarray]:
        """Return features (steps, rows, F) and targets (steps, rows, O). The rows include all lengths."""
        stacks = []
        for sequences in drawn:
            rows = featured(sequences, self.features, self.model.divisor)
            stacks.append([np.concatenate(part) for part in zip(*rows, strict=True)])
        phi, target = zip(*stacks, strict=True)
        return np.stack(phi), np.stack(target)


def gradient(factors: Factors, moments: Moments) -> Factors:
    """Return ∂L/∂factors, by the plain loops."""
    layout = moments.features
    c = coefficients(factors, layout)
    dc = 2 / len(c) * (c @ moments.gram - moments.cross)
    w = scoring(factors)
    dw, dv = plain.factor_gradients(w.reshape(len(w), -1), factors[-1], layout.rows, dc)
    return *scoring_gradients(factors, dw.reshape(w.shape)), dv
