"""Linear attention: when the loss drops, which head owns what, what theory says of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from iclbook.measure.curves import crossing
from iclcore import History, RegressionTask, theory
from iclcore.history import thin
from iclcore.optimisers import PLAIN
from iclcore.theory import Drop


def drop_times(run: History, levels: Float[np.ndarray, " levels"]) -> Float[np.ndarray, " drops"]:
    """When the loss is half way from each level to the next; nan for those that it does not reach."""
    halves = (levels[1:] + levels[:-1]) / 2
    return np.array([crossing(run.time, run.loss, half) for half in halves])


def plateaus(run: History, levels: Float[np.ndarray, " levels"]) -> list[int]:
    """Which of the kept steps is in the middle of each plateau that the run came to."""
    times = drop_times(run, levels)
    edges = [0.0, *times[np.isfinite(times)], run.time[-1]]
    kept = run.lr * run.kept
    return [int(np.argmin(np.abs(kept - (a + b) / 2))) for a, b in pairwise(edges)]


def known_task(run: History) -> RegressionTask:
    """What the run was trained on; of arrays of one's own theory knows nothing without it."""
    if run.task is None:
        raise ValueError("run takes one whose task is known: give it to Sequences(x, y, task=…)")
    return run.task


def owners(run: History) -> Int[np.ndarray, " H"]:
    """Which eigenvector (1 has the largest eigenvalue) each rank-one head has learned; 0 is none.

    Learned is: its value weight has come to half of what the scalar ODE ends at. Which one is said at the
    first kept step after that: on the last plateau only M is fixed, and keys may go on turning.
    """
    task = known_task(run)
    if "key" not in run.final or run.final["key"].shape[1] != 1:
        raise ValueError(
            "run takes rank-one heads: only these have one eigenvector and its equation"
        )
    last = {name: run.final[name][None] for name in ("key", "value")}
    keys, values = (
        np.concatenate([run.snapshots[name], last[name]]) if name in run.snapshots else last[name]
        for name in ("key", "value")
    )
    nearest = np.argmax(np.abs(keys[:, :, 0, : task.dim] @ task.eigenvectors), axis=2)
    grown = np.abs(values[:, :, -1, -1]) > theory.head_limit(task, run.model.divisor)[nearest] / 2
    first = np.argmax(grown, axis=0)
    heads = np.arange(grown.shape[1])
    return np.where(grown[-1], nearest[first, heads] + 1, 0)


@dataclass(frozen=True)
class Course:
    """What the scalar ODE says of one head: it is placed where the simulated one is half grown."""

    head: int
    component: int
    time: Float[np.ndarray, " t"]
    value: Float[np.ndarray, " t"]


def courses(run: History) -> list[Course]:
    """Of every head that has learned an eigenvector; the others have no course."""
    time, found = run.time[thin(len(run.time))], []
    limits = theory.head_limit(known_task(run), run.model.divisor)
    if run.optimizer != PLAIN:  # which the ODE does not describe
        raise ValueError(f"courses takes a run of plain gradient descent, not of {run.optimizer}")
    for head, component in enumerate(owners(run).tolist()):
        if component:
            value = run.value[:, head]
            half = crossing(run.time, np.abs(value), limits[component - 1] / 2)
            course = theory.head_course(
                run.task, component, time, divisor=run.model.divisor, half_at=half
            )
            found.append(Course(head, component, time, np.sign(value[-1]) * course))
    return found


@dataclass(frozen=True)
class Compared:
    """One drop, as it came and as it was predicted from the start."""

    component: int
    simulated: float
    predicted: float
    head_right: bool

    @property
    def ratio(self) -> float:
        return self.predicted / self.simulated


def compared(
    run: History, stairs: Sequence[Drop], levels: Float[np.ndarray, " levels"]
) -> list[Compared]:
    """The n-th drop of a run beside the n-th predicted one, for those that the run comes to."""
    own, times = owners(run), drop_times(run, levels)
    return [
        Compared(drop.component, time, drop.time, bool(own[drop.head] == drop.component))
        for drop, time in zip(stairs, times, strict=False)
        if np.isfinite(time)
    ]


def level_gap(run: History, levels: Float[np.ndarray, " levels"]) -> float:
    """How far the loss is from its level in the middle of the plateaus, at most."""
    at = np.minimum(run.kept[plateaus(run, levels)], len(run.loss) - 1)
    return float(np.abs(run.loss[at] - levels[: len(at)]).max())


def frames(run: History) -> list[int]:
    """Kept steps for an animation, at most 40: even in the distance travelled, half in loss, half in time."""
    at = np.minimum(run.kept, len(run.loss) - 1)
    travelled = run.loss[0] - run.loss[at]
    place = travelled / travelled[-1] + at / at[-1]
    chosen = np.searchsorted(place, np.linspace(0, place[-1], 40).clip(0, place[-1]))
    return np.unique(np.minimum(chosen, len(at) - 1)).tolist()
