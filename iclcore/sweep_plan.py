"""Plans for training runs. A plan holds everything that a run depends on.

This module also makes grids of plans, and can train a single plan.
"""

import hashlib
import inspect
import json
import secrets
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, lru_cache
from itertools import product
from math import prod
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np

from iclcore import checks, published
from iclcore.checks import BadValue
from iclcore.engines import ENGINES, choose
from iclcore.history import History, describe
from iclcore.models import Model, trainable
from iclcore.optimisers import PLAIN, Optimizer
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import Callback, check_data, test_sets, train
from iclcore.versions import PACKAGES, versions

MOST_PLANS = 100_000  # a larger grid is almost certainly a typing error
# Every run records the versions of these packages, which determine the code of their classes.
VERSIONED = {"iclcore", *PACKAGES, *sys.stdlib_module_names}


@dataclass(frozen=True)
class Plan:
    """Everything that the numbers of a run depend on, except for versions.

    - ``data``: a task, or the user's own Sequences. Sequences of a task are drawn as in the published code.
      With the engine "published", PyTorch itself draws them, so that they equal those of the published code
      in every bit. The errors on the test sets of the user's own Sequences are recorded as "test_NAME".
    - ``sequences``: the number of sequences that are drawn. With None, the run is on infinitely many
      sequences, which only linear models can be trained on.
    - ``tests``: the number of sequences in each of the two test sets that are also drawn. The errors on them
      are recorded as "test_in_weight" and "test_in_context".
    - ``seed``: the seed of the sequences and of the initial weights. If no sequences are drawn, it is the
      seed of the weights only.
    - ``values``: whether the history keeps the value weight of each head at every step. (``train`` itself
      always records it.)
    - ``model``, ``steps``, ``lr``, ``engine`` and ``optimizer``: as for ``train``.
    """

    data: RegressionTask | Sequences
    model: Model
    sequences: int | None = 5000
    tests: int = 0
    steps: int = 6001
    lr: float = 1e-3
    seed: int = 10
    values: bool = False
    engine: str = "auto"
    optimizer: Optimizer = PLAIN

    def __post_init__(self) -> None:
        checks.instance("data", self.data, RegressionTask, Sequences)
        trainable("model", self.model)
        checks.whole("steps", self.steps)
        checks.positive("lr", self.lr)
        checks.seed("seed", self.seed)
        checks.whole("tests", self.tests, least=0)
        if self.sequences is not None:
            checks.whole("sequences", self.sequences)
        for field in fields(self):
            plain = _with_plain_numbers(getattr(self, field.name), field.type)
            object.__setattr__(self, field.name, plain)
        task = None if self.own_data or self.drawn else self.data
        sizes = self.data.dim, self.data.outputs
        engine = choose(self.model, self.engine, sizes, task, self.optimizer)
        if self.drawn:
            checks.enough_to_whiten("tests", self.tests, self.data.dim)
            if self.data.in_context == 1:
                checks.enough_to_whiten("sequences", self.sequences, self.data.dim)
        elif self.tests:
            raise BadValue("tests", "takes 0 if no sequences are drawn from a task")
        elif self.own_data and self.sequences != Plan.sequences:
            raise BadValue("sequences", "is only for a task; these data have a fixed number")
        elif self.own_data:
            check_data(self.model, self.data, test_sets(self.data), engine)
        elif task and RegressionTask not in ENGINES[engine].data:
            raise BadValue("sequences", f"takes a number with engine {engine}")

    @property
    def own_data(self) -> bool:
        """True if ``data`` are sequences, False if it is a task."""
        return isinstance(self.data, Sequences)

    @property
    def task(self) -> RegressionTask | None:
        """The task that the sequences are drawn from, if it is known."""
        return self.data.task if self.own_data else self.data

    @property
    def drawn(self) -> bool:
        """True if the training sequences are drawn as the published code draws them."""
        return not self.own_data and self.sequences is not None

    @property
    def draw(self) -> tuple:
        """Everything that the drawn sequences depend on. Plans with equal values share one draw."""
        torch_bits = self.engine == "published"
        return self.data, self.sequences, self.seed, self.tests, torch_bits

    @property
    def settings(self) -> dict:
        """The settings in the history: task, model and optimizer by class name, numbers by their names."""
        names = ("sequences", "tests", "steps", "lr", "seed", "values", "engine")
        numbers = {name: getattr(self, name) for name in names}
        if self.own_data:
            tests = {name: data.digest for name, data in self.data.tests.items()}
            numbers |= {"sequences": len(self.data), "data": self.data.digest, "tests": tests}
            if not self.task:
                numbers |= {"dim": self.data.dim, "outputs": self.data.outputs}
        return describe(*filter(None, [self.task, self.model, self.optimizer])) | numbers

    @property
    def row(self) -> dict:
        """The settings as one row of a table. Its ``seed`` is that of the plan, not that of the task.

        For the user's own sequences, the column ``data`` holds their name or, without a name, their digest.
        """
        row = {"model": type(self.model).__name__, "optimizer": type(self.optimizer).__name__}
        settings = self.settings
        if self.own_data:
            digest, tests = settings.pop("data"), settings.pop("tests")
            row |= {"data": self.data.name or digest, "digest": digest}
            row |= {f"digest_{name}": digest for name, digest in tests.items()}
        for name, value in settings.items():
            row |= value if isinstance(value, dict) else {name: value}
        return {name: str(v) if isinstance(v, list) else v for name, v in row.items()}

    @cached_property
    def name(self) -> str:
        """A hash of the settings, the versions, and the code of those classes that no version covers."""
        made_by = {name: version for name, version in versions().items() if name != "python"}
        text = json.dumps([self.settings, made_by, _foreign_code(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_plain_numbers(value: Any, declared: Any) -> Any:
    """Return the value with Python's numbers instead of NumPy's, also in the fields of a dataclass.

    If a field is declared as a float, a whole number becomes a float, so that lr=1 and lr=1.0 are the same
    run.
    """
    if isinstance(value, Model | RegressionTask | Optimizer):
        plain = {f.name: _with_plain_numbers(getattr(value, f.name), f.type) for f in fields(value)}
        return replace(value, **plain)
    if isinstance(value, np.generic):
        value = value.item()
    return float(value) if declared is float and isinstance(value, int) else value


def _foreign_code(plan: Plan) -> list[str]:
    """Return the source code of the plan's classes and their bases, as far as no version covers them.

    The torch module of the model is one of these classes. A module can be registered only after
    ``iclcore.modules`` has been imported.
    """
    modules = sys.modules.get("iclcore.modules")
    classes = [type(plan.model), type(plan.task), modules and modules.MODULES.get(type(plan.model))]
    bases = dict.fromkeys(base for each in classes if each for base in each.__mro__)
    return [_source(base) for base in bases if base.__module__.split(".")[0] not in VERSIONED]


@cache  # editing a file does not change a loaded class, and reloading the file makes a new class
def _source(foreign: type) -> str:
    """Return the source of a class. If it cannot be read, a random text prevents that a run is reused."""
    try:
        return inspect.getsource(foreign)
    except (OSError, TypeError):
        return secrets.token_hex()


def grid(plan: Plan, **axes: Collection) -> list[Plan]:
    """Return a copy of a plan for every combination of values. The last name varies fastest.

    - ``plan``: the plan that is copied.
    - ``axes``: lists of values by name, such as ``seed=range(8)``. Each name is looked up first in the fields
      of the plan, then in those of its model, then in those of its task.
    """
    checks.instance("plan", plan, Plan)
    parts = {"plan": plan, "model": plan.model} | ({} if plan.own_data else {"data": plan.data})
    owners = {}
    for name, values in axes.items():
        found = [owner for owner, part in parts.items() if name in part.__dataclass_fields__]
        if not found:
            names = ", ".join(type(part).__name__ for part in parts.values())
            raise BadValue(name, f"is not a parameter of {names}")
        owners[name] = found[0]
        if found[0] in axes:
            raise BadValue(name, f"is part of {found[0]}, which varies already")
        if isinstance(values, str) or not isinstance(values, Collection) or not len(values):
            raise BadValue(name, f"takes a list of values in a grid, not {checks.shown(values)}")
    if (count := prod(map(len, axes.values()))) > MOST_PLANS:
        raise BadValue("grid", f"takes at most {MOST_PLANS:,} runs, not {count:,}")
    plans = []
    for combination in product(*axes.values()):
        changed: dict[str, dict] = {"model": {}, "data": {}, "plan": {}}
        for (name, owner), value in zip(owners.items(), combination, strict=True):
            changed[owner][name] = value
        new = changed.pop("plan")
        new |= {part: replace(parts[part], **own) for part, own in changed.items() if own}
        plans.append(replace(plan, **new))
    return plans


def distinct(plans: Sequence[Plan]) -> dict[str, Plan]:
    """Return the plans by name. Raise BadValue if there are none or if two have the same name."""
    checks.instance("plans", plans, list, tuple)
    by_name = {plan.name: plan for plan in plans}
    if len(by_name) < len(plans) or not plans:
        raise BadValue("plans", "takes at least one run, and each run once")
    return by_name


def training_data(plan: Plan) -> Sequences | RegressionTask:
    """Return the data that a plan trains on: its own data, or sequences drawn as in the published code."""
    return _published_draw(plan.draw) if plan.drawn else plan.data


def carry_out(plan: Plan, callback: Callback | None = None) -> History:
    """Train a plan and return its history, which holds the plan's settings and the floor of the loss.

    ``callback`` is the parameter of ``train``.
    """
    data = training_data(plan)
    seed = None if plan.drawn else plan.seed
    history = train(
        plan.model, data, plan.steps, plan.lr, optimizer=plan.optimizer, seed=seed,
        engine=plan.engine, callback=callback,
    )  # fmt: skip
    series = {name: a for name, a in history.series.items() if plan.values or name != "value"}
    floor = history.floor
    return replace(history, settings=plan.settings, series=series, moments=None, floor_found=floor)


_lock = Lock()


def _published_draw(draw: tuple) -> Sequences:
    """Return the published draw for ``Plan.draw``. Plans that share a draw do not draw it again.

    If several threads need the same draw, one makes it and the others wait. Different draws can be made at
    the same time.
    """
    with _lock:
        shared = _shared_draw(draw)
    with shared.lock:
        if shared.sequences is None:
            shared.sequences = published.sample(*draw)
    return shared.sequences


@lru_cache(maxsize=2)  # two draws are enough, because a sweep starts all runs of one draw in a row
def _shared_draw(draw: tuple) -> SimpleNamespace:
    return SimpleNamespace(lock=Lock(), sequences=None)
