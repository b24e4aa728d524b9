"""A run that is to be: its settings, the name that they give it, and grids of them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any

from iclcore.checks import enough_to_whiten, positive, seed, whole
from iclcore.history import describe
from iclcore.models import Model
from iclcore.task import RegressionTask
from iclcore.versions import versions

# python has no say in a training run; the processor has, in its last digits: results of another one
# are kept
MATTER = ("iclcore", "numpy", "numba", "scipy", "torch")


@dataclass(frozen=True)
class Plan:
    """A model to be trained on a published draw: everything that its numbers depend on, but versions."""

    task: RegressionTask
    model: Model
    sequences: int = 5000
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
        whole("sequences", self.sequences)
        if self.task.in_context == 1:
            enough_to_whiten("sequences", self.sequences, self.task.dim)
        _ = self.kind  # refuses an engine that cannot

    @property
    def settings(self) -> dict:
        """As its history has them."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        parts = describe(own.pop("task"), own.pop("model"))
        return {**own, **parts, "draws": "reference"}

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
        from iclcore.trainer import choose

        return choose(self.model, self.engine, (self.task.dim, self.task.outputs))

    @property
    def scores(self) -> float:
        """Scores of a token against a token that the published operations compute at each step."""
        sequences = self.sequences + 2 * self.tests
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
