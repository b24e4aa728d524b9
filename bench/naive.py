"""The step that others are compared with: one as the published code computes it.

It forms all N + 1 rows of attention for every head, although the loss reads the last row only.
"""

import time
from collections.abc import Callable

from iclcore.engines.autograd import PublishedEngine
from iclcore.models import Model, Weights
from iclcore.task import Sequences


def step_seconds(
    model: Model, weights: Weights, data: Sequences, lr: float, times: int = 3
) -> float:
    """Return the seconds of one full-batch step: the best of ``times``, after a first one."""
    descent = PublishedEngine(model, weights, data, [], lr)
    return best_seconds(lambda: descent.advance(1), times)


def best_seconds(action: Callable, times: int) -> float:
    """Return the shortest time of an action, after a first one that does not count."""
    taken = []
    for _ in range(times + 1):
        clock = time.perf_counter()
        action()
        taken.append(time.perf_counter() - clock)
    return min(taken[1:])
