"""The training of planned runs, and what those of one draw share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iclcore.edge import past_edge
from iclcore.history import History
from iclcore.interrupts import noted
from iclcore.models import CubicMLP, Weights
from iclcore.moments import Moments, of_sequences
from iclcore.sweep.plan import Plan
from iclcore.task import Sequences
from iclcore.trainer import descend, load
from iclcore.versions import here

Sets = dict[str, Sequences | Moments]
AFFORDABLE, AT_ONCE = 5e9, 3e7  # scores in all and a step: published, about 20 s and a gigabyte


@dataclass(frozen=True)
class Start:
    """What a run starts from. Runs of one draw have the same sets, not copies."""

    sets: Sets  # ``train`` and the tests
    weights: Weights
    seconds: dict[str, float]


def prepare(runs: Sequence[Plan]) -> dict[Plan, Start]:
    """The starts of runs that share a draw: sequences are drawn once, moments taken once."""
    first, clock = runs[0], time.perf_counter()
    from iclcore import reference  # loads torch

    loading, clock = time.perf_counter() - clock, time.perf_counter()
    draw = reference.sample(first.task, first.sequences, first.seed, first.tests)
    drawn: Sets = {"train": draw} | {f"test_{name}": s for name, s in draw.tests.items()}
    seconds = {"loading": loading, "data": time.perf_counter() - clock, "moments": 0.0}
    sets: dict[Any, tuple[Sets, dict[str, float]]] = {None: (drawn, seconds)}
    starts = {}
    for run in runs:
        kind, clock = None, time.perf_counter()
        if run.kind == "moments":
            kind = isinstance(run.model, CubicMLP), run.model.divisor
        if kind not in sets:
            load(drawn.values(), run.model)
            loading, clock = loading + time.perf_counter() - clock, time.perf_counter()
            taken = {name: of_sequences(data, run.model) for name, data in drawn.items()}
            spent = {"loading": loading, "moments": time.perf_counter() - clock}
            sets[kind] = taken, seconds | spent
        starts[run] = Start(sets[kind][0], draw.start(run.model), sets[kind][1])
    return starts


def carry_out(
    starts: dict[Plan, Start], run: Plan, progress: Callable[[int], object] | None = None
) -> History:
    """Train, and tell ``progress`` of steps that were taken.

    A softmax run that passes the edge of stability follows the published operations if that is
    affordable, so that it ends where the authors' code does. A linear one does not: that would turn
    milliseconds into half a minute. Both say where they passed it.
    """
    start = starts[run]
    tests = dict(start.sets)
    data = tests.pop("train")

    def by(engine: str) -> History:
        return descend(
            run.model, data, run.steps, run.lr, start=start.weights, tests=tests,
            seed=run.seed, engine=engine, progress=progress,
        )  # fmt: skip

    with noted() as interrupted:

        def heed() -> None:
            if progress:
                progress(0)
            if interrupted.is_set():
                raise KeyboardInterrupt

        history = by(run.engine)
        seconds = start.seconds | {"descent": history.seconds["descent"]}
        seconds["loading"] += history.seconds["loading"]
        floor = None
        try:
            heed()
            clock = time.perf_counter()
            edge = past_edge(run.model, data, start.weights, run.lr, history, heed)
            history = replace(history, past_edge=edge)
            seconds["edge"] = time.perf_counter() - clock
            affordable = run.scores < AT_ONCE and run.scores * run.steps < AFFORDABLE
            if run.engine == "auto" and run.model.softmax and edge is not None and affordable:
                followed = by("published")
                if followed.ended == "interrupted":
                    history = replace(history, ended="interrupted")
                else:
                    seconds["published"] = followed.seconds["descent"]
                    history = replace(followed, past_edge=edge)
            heed()
            clock = time.perf_counter()
            floor = history.floor
            seconds["floor"] = time.perf_counter() - clock
        except KeyboardInterrupt:  # of what is looked at after the run: the run itself is there
            if progress:  # a sweep does it again, and whole
                history = replace(history, ended="interrupted")
        if not run.values:
            del history.series["value"]
        made = {"settings": run.settings, "versions": here(), "seconds": seconds}
        return replace(history, moments=None, floor_found=floor, **made)
