"""What a training run leaves behind, and how it travels to CSV and npz and back."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from iclcore.files import Arrays, DamagedFile, read_csv, read_npz, reading, write_csv, write_npz
from iclcore.models import MODELS, Model, predictor
from iclcore.optimisers import OPTIMIZERS, PLAIN, Optimizer
from iclcore.task import RegressionTask
from iclcore.versions import versions

if TYPE_CHECKING:
    from iclcore.heads.theory import MultiTask
    from iclcore.moments import Moments

SERIES = "series"
WEIGHTS = ("start", "snapshots", "final")
# A rise of the loss below this, relative to the largest loss so far, may be rounding.
FLOAT64_ROUNDING, FLOAT32_ROUNDING = 1e-11, 1e-6
FLOAT32_ENGINES = ("softmax", "rows", "published")
ENDS = ("finished", "interrupted", "diverged")


def short(value: object) -> str:
    """As it is read: 17 digits of each number of a basis are a wall."""
    if isinstance(value, list):
        return f"[{', '.join(map(short, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


@dataclass(repr=False)
class History:
    """One run: ``series`` a row a step (``loss`` and whatever else was recorded, each (steps,) or
    (steps, H)), every row from before its step; weights at the chosen steps and at the end.

    ``steps`` numbers the rows; ``snapshots[name][i]`` are the weights before step ``kept[i]``, ``start`` and
    ``final`` the first and the last.
    ``ended`` is ``finished``, ``interrupted`` or ``diverged``: then the last loss is not finite.
    ``past_edge``: of a run whose loss rises, the step from which learning rate × sharpness exceeds 2, as
    sweeps and the command line look it up; in Python ``iclcore.edge.past_edge`` does.
    """

    series: dict[str, np.ndarray]
    settings: dict = field(default_factory=dict)
    ended: str = "finished"
    engine: str = ""
    floor_found: float | None = None
    past_edge: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    kept: np.ndarray = field(default_factory=lambda: np.arange(0))
    snapshots: dict[str, np.ndarray] = field(default_factory=dict)
    start: dict[str, np.ndarray] = field(default_factory=dict)
    final: dict[str, np.ndarray] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    steps: np.ndarray | None = None
    moments: "Moments | None" = field(default=None, repr=False)  # what it was trained on, not kept

    def __post_init__(self) -> None:
        if self.steps is None:
            self.steps = np.arange(len(self.loss))

    def __repr__(self) -> str:
        """What was run and how it ended, on a line; a rise of the loss is what one would not see."""
        known = ", ".join(
            f"{name}({', '.join(f'{k}={short(v)}' for k, v in value.items())})"
            if isinstance(value, dict)
            else f"{name} {value}"
            for name, value in self.settings.items()
        )
        rises = np.flatnonzero(self.loss[1:] > self.loss[:-1] * (1 + 1e-6))  # by no rounding
        return (
            f"History({known}; {self.ended} at step {self.steps[-1]:,}, loss {self.loss[0]:.4g} to "
            f"{self.loss[-1]:.4g}{f', first rising at step {self.steps[rises[0]]:,}' if len(rises) else ''})"
        )

    @property
    def first_rise(self) -> int | None:
        """The first step at which the loss rose by more than rounding, or None if it never did.

        Full-batch gradient descent lowers the loss at every step while the learning rate is below
        2/sharpness, so a rise says that the run left that range. Other optimisers, minibatches and runs of
        the second paper raise their loss anyway: for them it is None.
        """
        if "batch" in self.settings or self.settings.get("GradientDescent") != asdict(PLAIN):
            return None
        rounding = FLOAT32_ROUNDING if self.engine in FLOAT32_ENGINES else FLOAT64_ROUNDING
        with np.errstate(invalid="ignore"):  # the last loss of a run that diverged is not finite
            largest_so_far = np.maximum.accumulate(self.loss)[:-1]
            fell = np.diff(self.loss) <= rounding * largest_so_far
        rises = np.flatnonzero(~fell)
        return int(self.steps[rises[0]]) if len(rises) else None

    @property
    def loss(self) -> np.ndarray:
        return self.series["loss"]

    @property
    def floor(self) -> float | None:
        """The least loss that any linear attention can reach on the training data; found when first asked."""
        if self.floor_found is None and self.moments is not None:
            self.floor_found = self.moments.floor()
        return self.floor_found

    @property
    def seed(self) -> int | None:
        return self.settings.get("seed")

    @property
    def task(self) -> "RegressionTask | MultiTask | None":
        """What its sequences were drawn from; of arrays of one's own there is none."""
        if "MultiTask" in self.settings:
            from iclcore.heads.theory import MultiTask  # with scipy's integrators

            return MultiTask(**self.settings["MultiTask"])
        known = self.settings.get("RegressionTask")
        return known and RegressionTask(**known)

    @property
    def model(self) -> Model:
        (name,) = MODELS.keys() & self.settings
        return MODELS[name](**self.settings[name])

    @property
    def optimizer(self) -> Optimizer:
        (name,) = OPTIMIZERS.keys() & self.settings
        return OPTIMIZERS[name](**self.settings[name])

    @property
    def lr(self) -> float:
        return self.settings["lr"]

    @property
    def time(self) -> np.ndarray:
        """Learning rate times step: in it runs at any rate lie on the same curve."""
        return self.series.get("time", self.settings.get("lr", np.nan) * self.steps)

    @property
    def value(self) -> np.ndarray:
        """Each head's value weight v_h, (steps, H)."""
        return self.series["value"]

    @property
    def predictors(self) -> np.ndarray:
        """M of ŷ = βᵀ M x_q at each kept step, (kept, D, D)."""
        model = self.model
        if not model.linear:
            raise ValueError("predictors takes a linear run: with softmax there is no such M")
        if self.task:
            dim = self.task.dim
        elif model.cubic:
            dim = int(self.snapshots["first"].shape[-1] ** 0.5)
        else:
            dim = self.snapshots["value"].shape[-1] - 1
        return predictor(model.factors(self.snapshots, dim))

    def record(self) -> dict:
        """All but the arrays."""
        return {
            "settings": self.settings,
            "versions": self.versions,
            "engine": self.engine,
            "ended": self.ended,
            "floor": self.floor,
            "past_edge": self.past_edge,
            "seconds": self.seconds,
        }

    def columns(self) -> dict[str, np.ndarray]:
        """The series by name, one column a head where there are several: value_1 … value_H."""
        columns = {"step": self.steps}
        for name in sorted(self.series, key=lambda name: (name != "loss", name == "value")):
            array = self.series[name]
            if array.ndim == 1:
                columns[name] = array
            else:
                columns |= {f"{name}_{h + 1}": array[:, h] for h in range(array.shape[1])}
        return columns

    def to_csv(self, path: str | Path) -> None:
        """A row a step in full precision; the record in comment lines; no weights."""
        write_csv(path, self.record(), self.columns())

    @classmethod
    def from_csv(cls, path: str | Path) -> "History":
        """What ``to_csv`` wrote, else DamagedFile. A CSV from elsewhere needs no comment lines; one that was
        changed on purpose is read again without its first line."""
        with reading(path) as content:
            record, columns = read_csv(content)
            steps = columns.pop("step")
            return _checked(_grouped(columns), record, steps)

    def to_npz(self, path: str | Path) -> None:
        """Everything, weights included."""
        arrays = {"steps": self.steps, "kept": self.kept}
        for kind in (SERIES, *WEIGHTS):
            arrays |= {f"{kind}/{name}": array for name, array in getattr(self, kind).items()}
        write_npz(path, self.record(), arrays)

    @classmethod
    def from_npz(cls, path: str | Path) -> "History":
        """What ``to_npz`` wrote, else DamagedFile."""
        with reading(path) as content:
            record, arrays = read_npz(content)
            groups: dict[str, Arrays] = {kind: {} for kind in (SERIES, *WEIGHTS)}
            for key in [key for key in arrays if "/" in key]:
                kind, name = key.split("/", 1)
                groups[kind][name] = arrays.pop(key)
            return _checked(groups.pop(SERIES), record, **groups, **arrays)


def thin(count: int, points: int = 2000) -> Int[np.ndarray, " n"]:
    """At most so many of ``count`` rows, evenly spread, the first and the last among them; left out, as
    many as a picture can show."""
    return np.unique(np.linspace(0, count - 1, points).astype(int))


def describe(*parts: object) -> dict:
    """Dataclasses as settings: each under its class's name, in the types that JSON brings back."""
    said = {type(part).__name__: asdict(part) for part in parts}
    return json.loads(json.dumps(said, default=float))


def _grouped(columns: Arrays) -> Arrays:
    """Series of their columns: value_1, value_2, … are one, if they are all there and in order."""
    series: Arrays = {}
    heads: dict[str, list[np.ndarray]] = {}
    for name, column in columns.items():
        stem, _, number = name.rpartition("_")
        if stem and number == str(len(heads.get(stem, [])) + 1):
            heads.setdefault(stem, []).append(column)
        else:
            series[name] = column
    if twice := heads.keys() & series:
        raise DamagedFile(f"has {min(twice)} as one column and as several")
    return series | {name: np.stack(parts, axis=1) for name, parts in heads.items()}


RECORDED = {
    "settings": dict, "versions": dict, "seconds": dict, "engine": str, "ended": str,
    "floor": float | int | None, "past_edge": int | None,
}  # fmt: skip


def _checked(series: dict, record: dict, steps: np.ndarray, **weights) -> History:
    """A history that is one, or what keeps it from being one."""
    for name, value in record.items():
        if not isinstance(value, RECORDED.get(name, ())):
            raise DamagedFile(f"{name} of its record is unknown, or of type {type(value).__name__}")
    record = {"versions": {}} | record  # another's run was not made by the versions that are here
    floor = record.pop("floor", None)
    history = History(series, steps=steps, floor_found=floor, **record, **weights)
    if history.ended not in ENDS:
        raise DamagedFile(f"ended takes one of {', '.join(ENDS)}, not {history.ended!r}")
    if "loss" not in series:
        raise DamagedFile("has no loss")
    if steps.dtype.kind != "i" or steps.ndim != 1 or not len(steps):
        raise DamagedFile("takes steps that are whole numbers, at least one")
    if not (steps[1:] > steps[:-1]).all():
        raise DamagedFile("takes steps that rise")
    for name, array in series.items():
        dimensions = (1,) if name == "loss" else (1, 2)
        if array.dtype.kind != "f" or array.ndim not in dimensions:
            raise DamagedFile(
                f"takes real numbers as {name}, of one axis: steps, not {array.dtype}"
            )
        if len(array) != len(steps):
            raise DamagedFile(f"has {len(array)} rows of {name}, but {len(steps)} steps")
    finite = np.isfinite(history.loss)
    if not finite[:-1].all() or not (finite[-1] or history.ended == "diverged"):
        raise DamagedFile("takes a finite loss, but in the last row of a run that diverged")
    for name, stack in history.snapshots.items():
        if not stack.shape or len(stack) != history.kept.size:
            raise DamagedFile(f"has not one {name} for each of its snapshot steps")
    for name, array in [*history.snapshots.items(), *history.final.items()]:
        if array.dtype.kind != "f":
            raise DamagedFile(f"takes real numbers as {name}, not {array.dtype}")
    return history
