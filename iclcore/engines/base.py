"""The base class of the engines, and two helpers that turn weights into one vector and back."""

from collections.abc import Iterable, Sequence

import numpy as np

from iclcore.models import Model, Weights
from iclcore.optimisers import PLAIN


class Engine:
    """An engine moves the arrays of ``weights`` in place, one step of the optimizer after another.

    ``train`` is the data to train on, and ``tests`` are further data on which the error is measured.
    ``views`` are the factors (W, v) or (K, Q, v) of the model, which are views of the weights that reach the
    prediction. ``floor`` is the least loss that can be reached, if the engine knows it.
    """

    floor: float | None = None

    def __init__(
        self, model: Model, weights: Weights, train, tests: list, lr: float, optimizer=PLAIN
    ):
        self.model, self.given, self.lr, self.optimizer = model, weights, lr, optimizer
        self.views = model.factors(weights, train.dim)
        for view in self.views:
            if not any(np.shares_memory(view, array) for array in weights.values()):
                raise TypeError(f"{type(model).__name__}.factors must return views of the weights")
        self.prepare(train, tests)

    def prepare(self, train, tests: list) -> None:
        """Compute what the steps need from the data."""

    def load(self) -> None:
        """Compile the loop, or load it from numba's cache, by taking zero steps."""
        self.advance(0)

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Take ``steps`` steps; return losses (steps,), test errors (steps, tests) and values (steps, H).

        Each row holds the values before a step. The engine stops at the first loss that is not finite, which
        is the last one that it returns.
        """

    @property
    def weights(self) -> Weights:
        """The current weights. An engine that works in a rotated basis rotates them back here."""
        return self.given


class StepwiseEngine(Engine):
    """An engine that takes its steps one by one in Python. A subclass sets ``tests`` in ``prepare``."""

    def error(self, test) -> float:
        """Return the error on one of the tests."""

    def gradient(self) -> tuple[float, Sequence]:
        """Return the loss and its gradient."""

    def move(self, slopes: Sequence[np.ndarray]) -> None:
        """Change the weights by one step along the gradient."""
        for view, slope in zip(self.views, slopes, strict=True):
            view -= self.lr * slope

    @np.errstate(all="ignore")  # no warnings, because a loss that is not finite ends the run
    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        losses, errors = np.empty(steps), np.empty((steps, len(self.tests)))
        values = np.empty((steps, len(self.views[-1])))
        for step in range(steps):
            values[step] = self.views[-1][:, -1, -1]
            errors[step] = [self.error(test) for test in self.tests]
            losses[step], slopes = self.gradient()
            if not np.isfinite(losses[step]):
                return losses[: step + 1], errors[: step + 1], values[: step + 1]
            self.move(slopes)
        return losses, errors, values


def flat(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return all numbers of some arrays as one vector."""
    return np.concatenate([np.ravel(part) for part in parts], dtype=float)


def parted(vector: np.ndarray, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return consecutive parts of a vector, as views in the shapes of the arrays ``like``."""
    ends = np.cumsum([array.size for array in like])
    parts = np.split(vector[: ends[-1]], ends[:-1])
    return [part.reshape(array.shape) for part, array in zip(parts, like, strict=True)]
