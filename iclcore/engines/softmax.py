"""Full-batch gradient descent for softmax attention: one fused pass over the query's row.

Softmax has no finite moments, so a step must visit the data. It need not form values or the other
rows: Σ_m p_m V token_m = V (Σ_m p_m token_m). The pass is compiled, in ``query_row``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import numpy as np
from numba import get_num_threads

from iclcore.engines.base import Engine
from iclcore.engines.lanes import WIDTH
from iclcore.engines.query_row import ENDED, aligned, share
from iclcore.models import Factors, Model, scoring, scoring_gradients
from iclcore.task import Sequences, divide_by

PART = 16  # blocks a thread takes at once: 256 sequences, of which the sum is float32


class SoftmaxEngine(Engine):
    """Plain gradient descent of a softmax model on sequences."""

    engine = "softmax"

    def prepare(self, train: Sequences, tests: list[Sequences]) -> None:
        self.row = QueryRow(self.model, [train, *tests], self.views[-1].shape[0])

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        errors = np.empty((steps, len(self.row.count)))
        values = np.empty((steps, len(self.views[-1])))
        # a diverging run ends by its loss, not by a warning
        with self.row.assisted(), np.errstate(all="ignore"):
            for step in range(steps):
                values[step] = self.views[-1][:, -1, -1]
                errors[step], slopes = self.row.of_factors(self.views)
                if not np.isfinite(errors[step, 0]):
                    steps = step + 1
                    break
                for view, slope in zip(self.views, slopes, strict=True):
                    view -= self.lr * slope
        return errors[:steps, 0], errors[:steps, 1:], values[:steps]


class QueryRow:
    """Mean squared errors of sets of sequences, and the gradient of the first one's.

    All sets, and all lengths of each, stand in one line of blocks, so that a step is one pass.
    """

    def __init__(self, model: Model, sets: list[Sequences], heads: int):
        dim, outputs = sets[0].dim, sets[0].outputs
        blocks = [-(-len(each) // WIDTH) for each in sets]
        lengths = np.concatenate(
            [np.repeat(each.lengths, b) for each, b in zip(sets, blocks, strict=True)]
        )
        starts = np.concatenate([[0], np.cumsum(lengths)])
        tokens = aligned((starts[-1], dim + outputs, WIDTH))
        answers = aligned((len(lengths), outputs + 1, WIDTH))
        place, parts, self.first, self.count = 0, [], [], []
        for each, count in zip(sets, blocks, strict=True):
            self.first.append(len(parts))
            self.count.append(len(each) * len(each.lengths) * outputs)
            parts.extend(range(place, place + count * len(each.lengths), PART))
            for numbers, target in each.prefixes():
                here = tokens[starts[place] : starts[place + count]]
                # the last row weighs a sequence: 0 for those that only fill the last block
                weighed = np.concatenate([target, np.ones((len(target), 1))], axis=1)
                with np.errstate(over="ignore"):  # inf in float32: a loss that is not finite
                    here[...] = _across(numbers).reshape(here.shape)
                    answers[place : place + count] = _across(weighed)
                place += count
        scales = np.array([1 / divide_by(model.divisor, int(n)) for n in lengths], dtype=np.float32)
        self.threads = min(get_num_threads(), len(parts))
        self.w = np.zeros((heads, dim, dim + outputs), dtype=np.float32)
        self.v = np.zeros((heads, outputs, dim + outputs), dtype=np.float32)
        self.losses = np.empty(len(parts))
        of_first = [*self.first[1:], len(parts)][0]
        self.slopes = [np.empty((of_first, *factor.shape)) for factor in (self.w, self.v)]
        self.counts = np.zeros(3, dtype=np.int64)
        data = tokens, starts, answers, scales, np.array([*parts, place])
        axes = tuple(range(dim + outputs))
        self.given = self.w, self.v, data, self.losses, *self.slopes, axes, self.counts
        # compiles, or loads what was compiled
        share(True, *self.given[:3], self.losses[:0], *self.given[4:])

    @contextmanager
    def assisted(self) -> Iterator[None]:
        """Inside, other threads take their share of each pass."""
        self.counts[:] = len(self.losses), 0, 0
        others = [Thread(target=share, args=(False, *self.given)) for _ in range(self.threads - 1)]
        try:
            for other in others:
                other.start()
            yield
        finally:
            self.counts[ENDED] = 1
            for other in others:
                if other.ident:
                    other.join()

    def of_factors(self, factors: Factors) -> tuple[np.ndarray, Factors]:
        """Each set's error, and the first one's gradients in the factors (W, v) or (K, Q, v)."""
        errors, dw, dv = self.gradient(scoring(factors), factors[-1])
        return errors, (*scoring_gradients(factors, dw), dv)

    def gradient(self, w: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each set's error, and the first one's gradients in W (H, D, E) and v (H, O, E)."""
        self.w[...], self.v[...] = w, v
        share(True, *self.given)
        errors = np.add.reduceat(self.losses, self.first) / self.count
        return errors, *(2 / self.count[0] * slope.sum(axis=0) for slope in self.slopes)


def _across(numbers: np.ndarray) -> np.ndarray:
    """Sequences (P, …) in blocks (P / WIDTH, …, WIDTH), the last one filled with zeros."""
    fill = (-len(numbers) % WIDTH, *numbers.shape[1:])
    numbers = np.concatenate([numbers, np.zeros(fill, dtype=numbers.dtype)])
    return np.moveaxis(numbers.reshape(-1, WIDTH, *numbers.shape[1:]), 1, -1)
