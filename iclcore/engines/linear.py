"""Descent on moments: a step costs one symmetric product gram·c; and on fresh batches. The loops are in
``compiled``."""

import numpy as np

from iclcore.engines.base import Engine, flat, parted
from iclcore.loops import descend
from iclcore.models import Factors, scoring, unscored
from iclcore.moments import CHUNK, Features, Moments, coefficients, featured


class MomentEngine(Engine):
    """Descent of a linear model on averages."""

    engine = "moments"

    def prepare(self, train: Moments, tests: list[Moments]) -> None:
        self.kind, self.rule, self.taken = train.features, self.optimizer.rule, 0
        still = {name: np.ones(array.shape, dtype=bool) for name, array in self.weights.items()}
        for view in self.model.factors(still, self.kind.dim):
            view[...] = False
        # what no prediction depends on moves by its decay alone
        self.still = still if self.optimizer.weight_decay else {}
        rest = [self.weights[name][where] for name, where in self.still.items()]
        theta = flat((*self.views, *rest))
        self.flat = theta, *np.zeros((3, len(theta)))
        self.factors, self.slopes = (self._of(line) for line in self.flat[:2])
        self.measure([train, *tests])
        self.pair = _pair_rows(self.kind)
        self.batches = np.empty((0, 0, self.kind.size)), np.empty((0, 0, len(train.cross)))
        MomentEngine.advance(self, 0)  # compiles, or loads what was compiled

    def measure(self, every: list[Moments]) -> None:
        """The sets whose errors are recorded; of their moments the first is what is descended on."""
        size, outputs = self.kind.size, self.views[-1].shape[1]
        self.averages = (
            np.array([m.gram for m in every]).reshape(-1, size, size),
            np.array([m.cross for m in every]).reshape(-1, outputs, size),
            np.array([m.power for m in every]),
        )

    def _of(self, line: np.ndarray) -> list[np.ndarray]:
        """Views of a line of numbers, in the order (W, K, Q, v)."""
        *scoring, v = parted(line, self.views)
        if len(scoring) == 1:
            return [scoring[0].reshape(len(v), -1), *np.empty((2, len(v), 0, 0)), v]
        key, query = scoring
        return [np.empty((len(v), query.shape[2] * key.shape[2])), key, query, v]

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = len(self.averages[2]) + (len(self.batches[0]) > 0)
        errors = np.empty((steps, columns))
        values = np.empty((steps, self.views[-1].shape[0]))
        done = descend(
            tuple(self.factors), tuple(self.slopes), self.flat, self.averages, self.batches,
            self.pair, self.lr, self.rule, self.taken, errors, values,
        )  # fmt: skip
        self.taken += done
        for view, part in zip(self.views, parted(self.flat[0], self.views), strict=True):
            view[...] = part
        rest = self.flat[0][sum(view.size for view in self.views) :]
        for name, where in self.still.items():
            here, rest = np.split(rest, [where.sum()])
            self.weights[name][where] = here
        return errors[:done, 0], errors[:done, 1:], values[:done]


class BatchEngine(MomentEngine):
    """The same on a batch of fresh sequences of a task at each step: the loss is that of the batch."""

    engine = "batches"

    def __init__(self, *given, batch: int, seed: int = 0):
        self.batch, self.seed = batch, seed
        super().__init__(*given)

    def prepare(self, train: Moments, tests: list[Moments]) -> None:
        super().prepare(train, tests)
        self.measure(tests)
        self.draws = train.task.batches(self.batch, self.seed)
        self.at_a_time = max(1, CHUNK // self.batch)

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        blocks = []
        for first in range(0, steps, self.at_a_time):
            drawn = [next(self.draws) for _ in range(min(self.at_a_time, steps - first))]
            rows = [
                zip(*featured(each, self.kind, self.model.divisor), strict=True) for each in drawn
            ]
            batches = [map(np.concatenate, each) for each in rows]  # of all lengths
            self.batches = tuple(map(np.stack, zip(*batches, strict=True)))
            blocks.append(super().advance(len(drawn)))
            if not np.isfinite(blocks[-1][0][-1]):
                break
        return tuple(map(np.concatenate, zip(*blocks, strict=True)))


def gradient(factors: Factors, moments: Moments) -> Factors:
    """∂L/∂factors, written plainly: what the compiled step must agree with."""
    kind = moments.features
    c = coefficients(factors, kind)
    pull = 2 / len(c) * (c @ moments.gram - moments.cross)
    pull = pull.reshape(len(c), kind.dim, kind.pairs)[:, :, kind.pair]  # (O, D, A, B)
    dw = np.einsum("odab,hob->hda", pull, factors[-1])
    return *unscored(factors, dw), np.einsum("odab,hda->hob", pull, scoring(factors))


def _pair_rows(kind: Features) -> np.ndarray:
    """Where c[b, (d, a)] stands among the features: (B, D·A)."""
    a, b = kind.pair.shape
    place = np.arange(kind.dim)[:, None, None] * kind.pairs + kind.pair  # (D, A, B)
    return np.ascontiguousarray(place.reshape(kind.dim * a, b).T)
