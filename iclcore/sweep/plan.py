"""A run that is to be: its settings, the name that they give it, grids of them; and its training."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

from iclcore.checks import SINGLE, enough_to_whiten, instance, positive, seed, switch, whole
from iclcore.edge import past_edge
from iclcore.history import History, describe
from iclcore.interrupts import noted
from iclcore.models import Model, Weights, trainable
from iclcore.moments import Data
from iclcore.optimisers import PLAIN, Optimizer
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import AVERAGED, averaged, choose, descend
from iclcore.versions import PACKAGES, here, versions

Sets = dict[str, Data]
AFFORDABLE, AT_ONCE = 5e9, 3e7  # scores in all and a step: published, about 20 s and a gigabyte

# python has no say in a training run; the processor has, in its last digits: results of another one
# are kept
MATTER = ("iclcore", *PACKAGES)


@dataclass(frozen=True)
class Plan:
    """A model to be trained: everything that its numbers depend on, but versions.

    ``data`` is a task, of which the published draw is taken, or sequences of one's own, known by a digest
    of their content; on these ``seed`` is that of the start alone. With None for the ``sequences`` of a
    task they are infinitely many: there is no draw either.
    """

    data: RegressionTask | Sequences
    model: Model
    sequences: int | None = 5000
    tests: int = 0
    steps: int = 6001
    lr: float = 1e-3
    seed: int = 10
    values: bool = False  # record each head's value weight
    engine: str = "auto"
    optimizer: Optimizer = PLAIN

    def __post_init__(self) -> None:
        whole("steps", self.steps)
        seed("seed", self.seed)
        positive("lr", self.lr, SINGLE)
        switch("values", self.values)
        if self.sequences is not None:
            whole("sequences", self.sequences)
        whole("tests", self.tests, least=0)
        instance("data", self.data, RegressionTask, Sequences)
        trainable("model", self.model)
        kind = self.kind  # refuses an engine that cannot
        if self.own:
            for name in ("sequences", "tests"):
                if getattr(self, name) != getattr(Plan, name):
                    raise ValueError(f"{name} goes with a task, of which so many are drawn")
            if not self.data.finite:
                raise ValueError("data takes finite numbers; there is one that is not")
            return
        enough_to_whiten("tests", self.tests, self.data.dim)
        if self.sequences is None:
            if kind not in AVERAGED:
                raise ValueError(
                    f"sequences takes a number with engine {kind}, not infinitely many"
                )
            if self.tests:
                raise ValueError(f"tests takes 0 with infinitely many sequences, not {self.tests}")
            return
        if self.data.in_context == 1:
            enough_to_whiten("sequences", self.sequences, self.data.dim)

    @property
    def own(self) -> bool:
        """Whether its data is one's own, not a published draw."""
        return isinstance(self.data, Sequences)

    @property
    def task(self) -> RegressionTask | None:
        """What the sequences are drawn from; None of arrays of one's own."""
        return self.data.task if self.own else self.data

    @property
    def count(self) -> int | None:
        """Training sequences; None of infinitely many."""
        return len(self.data) if self.own else self.sequences

    @property
    def settings(self) -> dict:
        """As its history has them."""
        names = [f.name for f in fields(self) if f.name not in ("data", "model", "optimizer")]
        plain = {name: getattr(self, name) for name in names} | {"sequences": self.count}
        if self.own:
            source = {"data": self.data.digest}
        else:
            source = {"draws": "reference" if self.sequences else "population"}
        parts = describe(*filter(None, [self.task, self.model, self.optimizer]))
        return plain | parts | source

    @property
    def row(self) -> dict:
        """The same in one level, for a table."""
        plain = {name: v for name, v in self.settings.items() if not isinstance(v, dict)}
        if self.own:
            names = ("dim", "context", "outputs", "every_length")
            task = {name: getattr(self.data, name) for name in names}
        else:
            task = asdict(self.data)
            del task["seed"], plain["draws"]  # a published draw has eigenvectors of its own
            if not isinstance(task["spectrum"], str):
                task["spectrum"] = " ".join(f"{value:g}" for value in task["spectrum"])
        rule = {"optimizer": type(self.optimizer).__name__, **asdict(self.optimizer)}
        return {"model": type(self.model).__name__, **asdict(self.model), **task, **plain, **rule}

    @cached_property
    def name(self) -> str:
        return name_of(self.settings, versions())

    @cached_property
    def kind(self) -> str:
        """The engine that ``engine`` stands for."""
        sizes, drawn = (self.data.dim, self.data.outputs), self.own or self.sequences
        return choose(self.model, self.engine, sizes, None if drawn else self.data, self.optimizer)

    @property
    def scores(self) -> float:
        """Scores of a token against a token that the published operations compute at each step."""
        sequences = (self.count or 0) + 2 * self.tests
        return sequences * self.model.heads * sum(n**2 for n in self.data.lengths)

    @property
    def draw(self) -> tuple:
        """What its sequences depend on: runs that have this in common share them."""
        return (self.data,) if self.own else (self.data, self.sequences, self.tests, self.seed)


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
        parts: dict[str, dict] = {"run": {}, "model": {}, "data": {}}
        for (name, home), value in zip(homes.items(), values, strict=True):
            parts[home][name] = value
        changed = {home: parts[home] for home in ("model", "data") if parts[home]}
        inner = {home: replace(getattr(run, home), **given) for home, given in changed.items()}
        runs.append(replace(run, **inner, **parts["run"]))
    return runs


def _home(run: Plan, name: str) -> str:
    parts = {"run": run, "model": run.model} | ({} if run.own else {"data": run.data})
    for home, part in parts.items():
        if name in {f.name for f in fields(part)}:
            return home
    raise ValueError(f"{name} is no setting of a run, of {type(run.model).__name__} or of the task")


# -- training -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """What a run starts from. Runs of one draw have the same sets, not copies."""

    run: Plan
    sets: Sets  # ``loss``, to be descended on, and the tests
    weights: Weights
    seconds: dict[str, float]


def prepare(runs: Sequence[Plan]) -> dict[str, Start]:
    """The starts of runs that share a draw, by the names of the runs: sequences are drawn once, moments
    taken once."""
    first, clock = runs[0], time.perf_counter()
    draw, sets = None, {"loss": first.data}
    drawn = not first.own and first.sequences is not None
    if drawn:
        from iclcore import published  # loads torch
    loaded = time.perf_counter()
    if drawn:
        draw = published.sample(first.data, first.sequences, first.seed, first.tests)
        sets = {"loss": draw} | {f"test_{name}": s for name, s in draw.tests.items()}
    seconds = {"loading": loaded - clock, "data": time.perf_counter() - loaded}
    starts = {}
    for run in runs:
        taken, spent = averaged(sets, run.model, run.kind)
        if draw:
            weights = draw.starts(run.model)
        else:
            sizes, whole = (run.data.dim, run.data.outputs), run.kind != "population"
            weights = run.model.start(*sizes, run.seed, answer_rows_only=not whole)
        loading = {"loading": seconds["loading"] + spent["loading"]}
        starts[run.name] = Start(run, taken, weights, seconds | spent | loading)
    return starts


def carry_out(
    starts: dict[str, Start], name: str, progress: Callable[[int], object] | None = None
) -> History:
    """Train, and tell ``progress`` of steps that were taken.

    A softmax run that passes the edge of stability follows the published operations if that is
    affordable, so that it ends where the authors' code does. A linear one does not: that would turn
    milliseconds into half a minute. Both say where they passed it.
    """
    start = starts[name]
    run, data = start.run, start.sets["loss"]

    def by(kind: str) -> History:
        return descend(
            kind, run.model, start.weights, start.sets, run.steps, run.lr, optimizer=run.optimizer,
            settings=run.settings, seconds=start.seconds, progress=progress,
        )  # fmt: skip

    with noted() as interrupted:

        def heed() -> None:
            if progress:
                progress(0)
            if interrupted.is_set():
                raise KeyboardInterrupt

        history = by(run.kind)
        seconds, floor = history.seconds, None
        try:
            heed()
            clock = time.perf_counter()
            edge = None  # of other optimisers a loss that rises is no sign, and 2 not their edge
            if run.optimizer == PLAIN:
                edge = past_edge(run.model, data, start.weights, run.lr, history, heed)
            history = replace(history, past_edge=edge)
            seconds["edge"] = time.perf_counter() - clock
            affordable = run.scores < AT_ONCE and run.scores * run.steps < AFFORDABLE
            auto = run.engine == "auto" and run.model.softmax and not run.own
            if auto and edge is not None and affordable:
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
        made = {"versions": here(), "seconds": seconds}
        return replace(history, moments=None, floor_found=floor, **made)
