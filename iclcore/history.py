"""The result of a training run, and its files: npz with everything, or CSV without the weights."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from iclcore.files import read_npz, reading, write_whole
from iclcore.models import MODELS, Model, predictor
from iclcore.optimisers import OPTIMIZERS, PLAIN, Optimizer
from iclcore.shapes import Int
from iclcore.task import RegressionTask
from iclcore.versions import versions

Arrays = dict[str, np.ndarray]
GROUPS = ("series", "start", "snapshots", "final")  # the fields that are dicts of arrays
# A rise of the loss counts as rounding if it is below this fraction of the largest loss so far.
FLOAT64_ROUNDING, FLOAT32_ROUNDING = 1e-11, 1e-6
FLOAT32_ENGINES = ("softmax", "published")


@dataclass(repr=False)
class History:
    """One training run.

    ``series`` holds the quantities recorded at every step by name: ``loss``, of shape (steps,), and others of
    shape (steps,), (steps, H) or (steps, H, I). Each row holds the values before a step, and ``steps`` holds
    the step numbers of the rows. ``snapshots[name][i]`` are the weights before step ``kept[i]``;
    ``start`` and ``final`` are the first and the last weights. ``settings`` says what was run, in JSON's
    types.

    ``ended`` is "finished", "interrupted" by Ctrl-C, "stopped" by the callback of ``train``, or "diverged" if
    the last loss is not finite. ``seconds`` says how long each part took. ``moments`` are the averages that
    the run was trained on; they are not saved.
    """

    series: Arrays
    settings: dict = field(default_factory=dict)
    ended: str = "finished"
    engine: str = ""
    floor_found: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    kept: np.ndarray = field(default_factory=lambda: np.arange(0))
    snapshots: Arrays = field(default_factory=dict)
    start: Arrays = field(default_factory=dict)
    final: Arrays = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    steps: np.ndarray | None = None
    moments: Any = None

    def __post_init__(self) -> None:
        if self.steps is None:
            self.steps = np.arange(len(self.loss))

    def __repr__(self) -> str:
        """Return on one line what was run, how it ended, and where its loss first rose."""
        parts = self.settings.items()
        what = ", ".join(n if isinstance(value, dict) else f"{n}={value}" for n, value in parts)
        end = f"{self.ended} at step {self.steps[-1]:,}"
        loss = f"loss {self.loss[0]:.4g} to {self.loss[-1]:.4g}"
        rise = "" if self.first_rise is None else f", first rising at step {self.first_rise:,}"
        return f"History({what}; {end}, {loss}{rise})"

    @property
    def first_rise(self) -> int | None:
        """The first step at which the loss rose by more than rounding, or None if it never did.

        Full-batch gradient descent lowers the loss at every step as long as the learning rate is below
        2/sharpness, so a rise means that the learning rate was too large. With other optimisers, with
        minibatches and in runs of the second paper the loss may rise for other reasons, and the result is
        None.
        """
        if "batch" in self.settings or self.settings.get("GradientDescent") != asdict(PLAIN):
            return None
        rounding = FLOAT32_ROUNDING if self.engine in FLOAT32_ENGINES else FLOAT64_ROUNDING
        with np.errstate(invalid="ignore"):  # the last loss of a run that diverged is not finite
            fell = np.diff(self.loss) <= rounding * np.maximum.accumulate(self.loss)[:-1]
        rises = np.flatnonzero(~fell)
        return int(self.steps[rises[0]]) if len(rises) else None

    @property
    def loss(self) -> np.ndarray:
        """The loss before every step."""
        return self.series["loss"]

    @property
    def floor(self) -> float | None:
        """The least loss that any linear attention can reach on the training data, or None if unknown."""
        if self.floor_found is None and self.moments is not None:
            self.floor_found = self.moments.floor()
        return self.floor_found

    @property
    def task(self) -> Any:
        """The task that the sequences were drawn from, or None if they were the user's own arrays."""
        if "MultiTask" in self.settings:
            from iclcore.heads.theory import MultiTask  # only runs of the second paper need it

            return MultiTask(**self.settings["MultiTask"])
        settings = self.settings.get("RegressionTask")
        return settings and RegressionTask(**settings)

    @property
    def model(self) -> Model:
        """The model that was trained."""
        return self._of_class("model", MODELS)

    @property
    def optimizer(self) -> Optimizer:
        """The optimiser that trained it."""
        return self._of_class("optimizer", OPTIMIZERS)

    def _of_class(self, what: str, classes: dict[str, type]) -> Any:
        """Return the object that the settings describe and whose class is one of ``classes``."""
        for name in classes.keys() & self.settings:
            return classes[name](**self.settings[name])
        raise ValueError(f"{what}: this run has none that is known, but only {list(self.settings)}")

    @property
    def lr(self) -> float:
        """The learning rate."""
        if "lr" not in self.settings:
            raise ValueError("lr: this run has none; its settings have a schedule instead")
        return self.settings["lr"]

    @property
    def time(self) -> np.ndarray:
        """The learning rate times the step. Over this time, runs with different rates have the same curve."""
        return self.series.get("time", self.settings.get("lr", np.nan) * self.steps)

    @property
    def value(self) -> np.ndarray:
        """The value weight v_h of each head, (steps, H)."""
        if "value" not in self.series:
            raise ValueError("value: this run did not record it; a sweep does with values=True")
        return self.series["value"]

    @property
    def predictors(self) -> np.ndarray:
        """The matrix M of the prediction ŷ = βᵀ M x_q at each kept step, (kept, D, D)."""
        model = self.model
        if not model.linear:
            raise ValueError("predictors: a model with softmax has no such M")
        if not self.snapshots:
            raise ValueError("predictors: this run kept no weights; train(..., snapshots=10) does")
        # without a task we assume one output, because M is defined only for one
        dim = self.task.dim if self.task else self.snapshots["value"].shape[-1] - 1
        return predictor(model.factors(self.snapshots, dim))

    def record(self) -> dict:
        """Return everything except the arrays, in types that JSON can store."""
        names = ("settings", "versions", "engine", "ended", "floor", "seconds")
        return {name: getattr(self, name) for name in names}

    def columns(self) -> Arrays:
        """Return the series column by column: loss, …, value_1, value_2, …, omega_1_1, omega_1_2, …"""
        columns = {"step": self.steps}
        for name in sorted(self.series, key=lambda name: (name != "loss", name == "value")):
            array = self.series[name]
            for index in np.ndindex(array.shape[1:]):
                columns[_column(name, index)] = array[:, *index]
        return columns

    def to_csv(self, path: str | Path) -> None:
        """Write the record in comment lines and one row per step, in full precision but without weights."""
        columns = self.columns()
        shapes = {name: array.shape[1:] for name, array in self.series.items() if array.ndim > 1}
        record = self.record() | {"shapes": shapes}
        lines = [f"# {name}: {json.dumps(value)}\n" for name, value in record.items()]

        def write(file) -> None:
            file.write("".join([*lines, ",".join(columns), "\n"]).encode())
            rows = zip(*(column.tolist() for column in columns.values()), strict=True)
            file.writelines((",".join(map(repr, row)) + "\n").encode() for row in rows)

        write_whole(path, write)

    @classmethod
    def from_csv(cls, path: str | Path) -> "History":
        """Return the run that a CSV file holds, or raise DamagedFile. The comment lines are optional."""
        content = Path(path).read_bytes()
        with reading(path, "CSV file of a run"):
            record, lines = {}, []
            for line in content.decode().splitlines():
                name, _, value = line.removeprefix("#").partition(":")
                if line.startswith("#"):
                    record[name.strip()] = json.loads(value)
                else:
                    lines.append(line)
            rows = np.loadtxt(lines[1:], delimiter=",", ndmin=2)
            columns = dict(zip(lines[0].split(","), rows.T, strict=True))
            steps = columns.pop("step").astype(int)
            for name, shape in record.pop("shapes", {}).items():
                parts = [columns.pop(_column(name, index)) for index in np.ndindex(*shape)]
                columns[name] = np.stack(parts, axis=1).reshape(-1, *shape)
            return cls._read(record, steps=steps, series=columns)

    def to_npz(self, path: str | Path) -> None:
        """Write the whole run, including the weights but not the moments."""
        arrays = {"steps": self.steps, "kept": self.kept}
        for group in GROUPS:
            arrays |= {f"{group}/{name}": array for name, array in getattr(self, group).items()}
        # the record lists the arrays, because a zip has a checksum for each file but none for its directory
        record = json.dumps(self.record() | {"arrays": list(arrays)})
        write_whole(path, lambda file: np.savez_compressed(file, record=record, **arrays))

    @classmethod
    def from_npz(cls, path: str | Path) -> "History":
        """Return the run that an npz file holds, or raise DamagedFile."""
        arrays = read_npz(path)
        with reading(path, "npz file of a run"):
            record = json.loads(arrays["record"].item())
            expected = record.pop("arrays")
            fields: dict[str, Any] = {name: arrays[name] for name in ("steps", "kept")}
            for group in GROUPS:
                names = [name for name in expected if name.startswith(f"{group}/")]
                fields[group] = {name.partition("/")[2]: arrays[name] for name in names}
            return cls._read(record, **fields)

    @classmethod
    def _read(cls, record: dict, **arrays: Any) -> "History":
        """Return the run that consists of a record and of arrays, both read from a file."""
        if not len(arrays["series"]["loss"]):
            raise ValueError("there is no loss")
        fields = {"versions": {}, **record}
        return cls(floor_found=fields.pop("floor", None), **fields, **arrays)


def thin(count: int, points: int = 2000) -> Int[np.ndarray, " n"]:
    """Return at most ``points`` evenly spaced indices of ``count`` rows, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, points).astype(int))


def describe(*parts: object) -> dict:
    """Return dataclasses as settings: a dict from class name to fields, in types that JSON can store."""
    settings = {type(part).__name__: asdict(part) for part in parts}
    return json.loads(json.dumps(settings, default=lambda number: number.item()))  # NumPy's numbers


def _column(name: str, index: tuple[int, ...]) -> str:
    return "_".join([name, *(str(i + 1) for i in index)])
