"""Training of the second paper's model along a schedule of learning rates, one fresh batch at each step."""

import time as clock
from collections.abc import Callable, Sequence

import numpy as np

from iclcore.bars import Bar
from iclcore.checks import BadValue, positive
from iclcore.heads.theory import MultiTask
from iclcore.history import History, describe
from iclcore.models import Weights, copied
from iclcore.shapes import Float
from iclcore.trainer import delayed_interrupt

Schedule = Sequence[tuple[float, float]]  # pairs (end time, learning rate until then)

# The schedule of Figure 1: the steps become smaller once the noise of SGD dominates the loss.
FIGURE_1 = ((4.0, 0.02), (8.0, 0.01), (12.0, 0.004))


def learning_rates(schedule: Schedule) -> Float[np.ndarray, " steps"]:
    """Return the learning rate of every step of a schedule."""
    rates, now = [], 0.0
    for until, rate in schedule:
        positive("schedule", rate)
        if not until > now:
            raise BadValue("schedule", f"takes increasing times, not {until!r} after {now:g}")
        rates += [rate] * round((until - now) / rate)
        now = until
    if not rates:
        raise BadValue("schedule", "takes at least one (time, rate)")
    return np.array(rates)


def walk_schedule(
    engine: str,
    task: MultiTask,
    schedule: Schedule,
    settings: dict,
    weights: Weights,
    read: Callable[[], dict[str, np.ndarray | float]],
    step: Callable[[float], float],
) -> History:
    """Train by ``step`` along ``schedule`` and return the History, with one row for each step.

    ``step(rate)`` changes ``weights`` in place and returns the loss of its batch at the weights before the
    step. ``read()`` is called before each step and returns what else to record. ``settings`` are added to
    the settings of the History. Training ends after a step whose loss is not finite, or during which Ctrl-C
    was pressed. This step is still recorded.
    """
    rates = learning_rates(schedule)
    before = clock.perf_counter()
    rows, ended = [], "finished"
    with delayed_interrupt() as interrupted, Bar(len(rates), "steps") as bar:
        for rate in rates:
            row = read()
            with np.errstate(over="ignore", invalid="ignore"):
                loss = step(rate)
            rows.append({"loss": loss} | row)
            bar.show(len(rows), f"loss {loss:.4g}")
            if not np.isfinite(loss):
                ended = "diverged"
                break
            if interrupted.is_set():
                ended = "interrupted"
                break
    series = {"time": np.concatenate([[0.0], rates.cumsum()])[: len(rows)]}
    series |= {name: np.array([row[name] for row in rows]) for name in rows[0]}
    common = {
        "schedule": [list(map(float, part)) for part in schedule],
        "loss": "sum over tasks, mean over contexts",
        "loss_scale": 1.0,
    }
    return History(
        series,
        describe(task) | common | settings,
        ended=ended,
        engine=engine,
        seconds={"training": clock.perf_counter() - before},
        final=copied(weights),
    )
