"""A run that is to be: its settings, the name that they give it, grids of them; and its training."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

from iclcore.checks import enough_to_whiten, positive, seed, whole
from iclcore.edge import past_edge
from iclcore.history import History, describe
from iclcore.interrupts import noted
from iclcore.models import CubicMLP, Model, Weights
from iclcore.moments import Data, averages, of_sequences
from iclcore.task import RegressionTask
from iclcore.trainer import AVERAGED, choose, descend, load
from iclcore.versions import here, versions

Sets = dict[str, Data]
AFFORDABLE, AT_ONCE = 5e9, 3e7  # scores in all and a step: published, about 20 s and a gigabyte

# python has no say in a training run; the processor has, in its last digits: results of another one
# are kept
MATTER = ("iclcore", "numpy", "numba", "scipy", "torch")


@dataclass(frozen=True)
class Plan:
    """A model to be trained on a published draw: everything that its numbers depend on, but versions.

    With None for its ``sequences`` they are infinitely many: there is no draw, and ``seed`` is the weights'.
    """

    task: RegressionTask
    model: Model
    sequences: int | None = 5000
    tests: int = 0
    steps: int = 6001
    lr: float = 1e-3
    seed: int = 10
    values: bool = False  # record each head's value weight
    engine: str = "auto"

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        seed("seed", self.seed)
        positive("lr", self.lr)
        enough_to_whiten("tests", whole("tests", self.tests, least=0), self.task.dim)
        kind = self.kind  # refuses an engine that cannot
        if self.sequences is None:
            if kind not in AVERAGED:
                raise ValueError(
                    f"sequences takes a number with engine {kind}, not infinitely many"
                )
            if self.tests:
                raise ValueError(f"tests takes 0 with infinitely many sequences, not {self.tests}")
            return
        whole("sequences", self.sequences)
        if self.task.in_context == 1:
            enough_to_whiten("sequences", self.sequences, self.task.dim)

    @property
    def settings(self) -> dict:
        """As its history has them."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        parts = describe(own.pop("task"), own.pop("model"))
        return {**own, **parts, "draws": "reference" if self.sequences else "population"}

    @property
    def row(self) -> dict:
        """The same in one level, for a table."""
        own, task, model = self.settings, asdict(self.task), asdict(self.model)
        for part in (self.task, self.model):
            del own[type(part).__name__]
        del task["seed"], own["draws"]  # a published draw has eigenvectors of its own
        if not isinstance(task["spectrum"], str):
            task["spectrum"] = " ".join(f"{value:g}" for value in task["spectrum"])
        return {"model": type(self.model).__name__, **model, **task, **own}

    @cached_property
    def name(self) -> str:
        return name_of(self.settings, versions())

    @cached_property
    def kind(self) -> str:
        """The engine that ``engine`` stands for."""
        sizes = self.task.dim, self.task.outputs
        return choose(self.model, self.engine, sizes, None if self.sequences else self.task)

    @property
    def scores(self) -> float:
        """Scores of a token against a token that the published operations compute at each step."""
        sequences = (self.sequences or 0) + 2 * self.tests
        return sequences * self.model.heads * sum(n**2 for n in self.task.lengths)

    @property
    def draw(self) -> tuple:
        """What its sequences depend on: runs that have this in common share them."""
        return self.task, self.sequences, self.tests, self.seed


def name_of(settings: dict, made_by: dict[str, str]) -> str:
    """Equal settings, equal versions of what matters, equal names."""
    text = json.dumps([settings, {name: made_by[name] for name in MATTER}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def grid(run: Plan, **axes: Sequence[Any]) -> list[Plan]:
    """``run`` with every combination of values; the last name changes fastest.

    A name is one of the run's own, else its model's, else its task's.
    """
    homes = {name: _home(run, name) for name in axes}
    for name, values in axes.items():
        if len(values) == 0:
            raise ValueError(f"{name} has no values")
    runs = []
    for values in product(*axes.values()):
        parts: dict[str, dict] = {"run": {}, "model": {}, "task": {}}
        for (name, home), value in zip(homes.items(), values, strict=True):
            parts[home][name] = value
        inner = {part: replace(getattr(run, part), **parts[part]) for part in ("model", "task")}
        runs.append(replace(run, **inner, **parts["run"]))
    return runs


def _home(run: Plan, name: str) -> str:
    for home, part in {"run": run, "model": run.model, "task": run.task}.items():
        if name in {f.name for f in fields(part)}:
            return home
    raise ValueError(f"{name} is no setting of a run, of {type(run.model).__name__} or of the task")


# -- training -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """What a run starts from. Runs of one draw have the same sets, not copies."""

    sets: Sets  # ``train`` and the tests
    weights: Weights
    seconds: dict[str, float]


def prepare(runs: Sequence[Plan]) -> dict[Plan, Start]:
    """The starts of runs that share a draw: sequences are drawn once, moments taken once."""
    first, clock = runs[0], time.perf_counter()
    if first.sequences is None:
        return {run: _undrawn(run) for run in runs}
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


def _undrawn(run: Plan) -> Start:
    clock, task, closed = time.perf_counter(), run.task, run.kind == "population"
    data = task if closed else averages(task, run.model)
    weights = run.model.start(task.dim, task.outputs, run.seed, whole=not closed)
    seconds = {"loading": 0.0, "data": 0.0, "moments": time.perf_counter() - clock}
    return Start({"train": data}, weights, seconds)


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
