"""The result of a training run. An npz file holds all of it, and a CSV file all but the weights."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclcore import prediction
from iclcore.checks import BadValue, shown
from iclcore.files import read_npz, reading, write_whole
from iclcore.models import MODELS, Model, predictor
from iclcore.optimisers import OPTIMIZERS, PLAIN, Optimizer
from iclcore.prediction import Sizes
from iclcore.shapes import Float, Int
from iclcore.task import RegressionTask, Sequences
from iclcore.versions import versions

Arrays = dict[str, np.ndarray]
GROUPS = ("series", "start", "snapshots", "final")  # the fields that are dicts of arrays
# A rise of the loss is taken for rounding if it is below this fraction of the largest loss so far.
FLOAT64_ROUNDING, FLOAT32_ROUNDING = 1e-11, 1e-6
FLOAT32_ENGINES = ("softmax", "published")


@dataclass(repr=False, eq=False)
class History:
    """The result of one training run.

    - ``series``: the recorded quantities by name: ``loss``, of shape (steps,), and others of shape (steps,),
      (steps, H) or (steps, H, I). Each row holds the values before a step.
    - ``settings``: the settings of the run, in types that JSON can store.
    - ``ended``: "finished", "interrupted" by Ctrl-C, "stopped" by the callback of ``train``, or "diverged" if
      the last loss is not finite.
    - ``engine``: the engine that carried the run out.
    - ``floor_found``: the value of ``floor``, if it has been calculated already.
    - ``seconds``: how long each part of the work took.
    - ``kept`` and ``snapshots``: ``snapshots[name][i]`` are the weights before step ``kept[i]``.
    - ``start`` and ``final``: the first and the last weights.
    - ``versions``: the versions of the package, of Python and of the libraries.
    - ``steps``: the step number of each row, by default 0, 1, 2, …
    - ``moments``: the averages that the run was trained on; they are not saved.
    """

    series: Arrays
    settings: dict[str, Any] = field(default_factory=dict)
    ended: str = "finished"
    engine: str = ""
    floor_found: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    kept: np.ndarray = field(default_factory=lambda: np.arange(0))
    snapshots: Arrays = field(default_factory=dict)
    start: Arrays = field(default_factory=dict)
    final: Arrays = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    steps: np.ndarray | Any = None
    moments: Any = None

    def __post_init__(self) -> None:
        if self.steps is None:
            self.steps = np.arange(len(self.loss))

    def __repr__(self) -> str:
        """Return one line: the settings, how the run ended, and the step at which its loss first rose."""
        parts = self.settings.items()
        what = ", ".join(n if isinstance(value, dict) else f"{n}={value}" for n, value in parts)
        end = f"{self.ended} at step {self.steps[-1]:,}"
        loss = f"loss {self.loss[0]:.4g} to {self.loss[-1]:.4g}"
        rise = "" if self.first_rise is None else f", first rising at step {self.first_rise:,}"
        return f"History({what}; {end}, {loss}{rise})"

    def __eq__(self, other: object) -> bool:
        """Return whether two runs have the same settings and numbers. The time that they took may differ."""
        if not isinstance(other, History):
            return NotImplemented
        one, two = self._arrays(), other._arrays()
        return (
            (self.settings, self.engine, self.ended) == (other.settings, other.engine, other.ended)
            and one.keys() == two.keys()
            and all(np.array_equal(one[name], two[name], equal_nan=True) for name in one)
        )

    @property
    def first_rise(self) -> int | None:
        """The first step at which the loss rose by more than rounding, or None if it never did.

        In full-batch gradient descent, a rise means that the learning rate was above 2/sharpness. With other
        optimisers, with fresh batches and in runs of the second paper, the loss may rise for other reasons,
        so the result is None.
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
    def task(self) -> RegressionTask | Any:
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
        """The optimiser that trained the model."""
        return self._of_class("optimizer", OPTIMIZERS)

    def _of_class(self, what: str, classes: dict[str, type]) -> Any:
        """Return the object that the settings describe and whose class is one of ``classes``."""
        for name in classes.keys() & self.settings:
            return classes[name](**self.settings[name])
        used = ", ".join(name for name, value in self.settings.items() if isinstance(value, dict))
        line = f"{what}: this run has none of {', '.join(classes)}, but {used or 'no settings'}"
        if what == "model":
            line += "; first import the module that adds your own model to iclcore.models.MODELS"
        raise ValueError(line)

    @property
    def lr(self) -> float:
        """The learning rate."""
        if "lr" not in self.settings:
            raise ValueError("lr: this run has none, because its learning rate followed a schedule")
        return self.settings["lr"]

    @property
    def time(self) -> np.ndarray:
        """The learning rate times the step. As functions of it, runs with different rates look alike."""
        return self.series.get("time", self.settings.get("lr", np.nan) * self.steps)

    @property
    def value(self) -> np.ndarray:
        """The value weight v_h of each head, (steps, H)."""
        if "value" not in self.series:
            raise ValueError("value: this run did not record it; use values=True in a sweep")
        return self.series["value"]

    @property
    def predictors(self) -> np.ndarray:
        """The matrix M of the prediction ŷ = βᵀ M x_q at each kept step, (kept, D, D)."""
        model = self.model
        if not model.linear:
            raise ValueError("predictors: only a linear model has a matrix M")
        if not self.snapshots:
            raise ValueError("predictors: this run kept no weights; use train(..., snapshots=10)")
        return predictor(model.factors(self.snapshots, self._sizes[0]))

    def predict(self, x: ArrayLike, y: ArrayLike) -> Float[np.ndarray, " P *O"]:
        """Return ŷ, the label that the trained model predicts for the query of each sequence.

        - ``x``: inputs of shape (P, T, D). The last input of each sequence is the query.
        - ``y``: the labels of the other inputs, of shape (P, T − 1) or (P, T − 1, O). There may also be T
          labels, as in Sequences; the last label is then not used.

        The result has the shape (P,), or (P, O) if ``y`` has an axis for outputs. T may differ from that of
        the training sequences.
        """
        return prediction.predict(self.model, self.final, self._sizes, x, y)

    def error(self, data: Sequences) -> float:
        """Return the mean squared error of the trained model on ``data``, defined as in ``train``."""
        return prediction.error(self.model, self.final, self._sizes, data)

    @property
    def _sizes(self) -> Sizes:
        """The numbers D of inputs and O of outputs."""
        sizes = self.settings.get("RegressionTask", self.settings)
        return sizes["dim"], sizes["outputs"]

    def record(self) -> dict[str, Any]:
        """Return everything except the arrays, in types that JSON can store."""
        names = ("settings", "versions", "engine", "ended", "floor", "seconds")
        return {name: getattr(self, name) for name in names}

    def columns(self) -> Arrays:
        """Return the series as columns: step, loss, …, omega_1_1, omega_1_2, …, value_1, value_2, …"""
        columns = {"step": self.steps}
        for name in sorted(self.series, key=lambda name: (name != "loss", name == "value")):
            array = self.series[name]
            for index in np.ndindex(array.shape[1:]):
                columns[_column(name, index)] = array[:, *index]
        return columns

    def to_csv(self, path: str | Path) -> None:
        """Write settings and series, but no weights, to a CSV file at ``path``, in full precision."""
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
        """Return the run in the CSV file at ``path``, also without its comments, or raise DamagedFile."""
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

    def _arrays(self) -> Arrays:
        """Return all arrays by the names that they have in an npz file."""
        arrays = {"steps": self.steps, "kept": self.kept}
        for group in GROUPS:
            arrays |= {f"{group}/{name}": array for name, array in getattr(self, group).items()}
        return arrays

    def to_npz(self, path: str | Path) -> None:
        """Write the whole run, including the weights but not the moments, to an npz file at ``path``."""
        arrays = self._arrays()
        # The record lists the arrays, because a zip has checksums for its files but not for its directory.
        record = json.dumps(self.record() | {"arrays": list(arrays)})
        write_whole(path, lambda file: np.savez_compressed(file, record=record, **arrays))

    @classmethod
    def from_npz(cls, path: str | Path) -> "History":
        """Return the run in the npz file at ``path``, or raise DamagedFile."""
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
        """Return the run that consists of a record and arrays, both of which were read from a file."""
        if not len(arrays["series"]["loss"]):
            raise ValueError("there is no loss")
        fields = {"versions": {}, **record}
        return cls(floor_found=fields.pop("floor", None), **fields, **arrays)


def thin(count: int, points: int = 2000) -> Int[np.ndarray, " n"]:
    """Return at most ``points`` evenly spaced indices of ``count`` rows, with the first and the last row."""
    return np.unique(np.linspace(0, count - 1, points).astype(int))


def describe(*parts: object) -> dict:
    """Return dataclasses as settings: a dict of fields by class name, in types that JSON can store."""

    def plain(value: object) -> Any:
        if not isinstance(value, np.generic):
            takes = "takes fields that a file can hold: numbers, texts and lists"
            raise BadValue("model", f"{takes}, not {shown(value)}")
        return value.item()

    settings = {type(part).__name__: asdict(part) for part in parts}
    return json.loads(json.dumps(settings, default=plain))


def _column(name: str, index: tuple[int, ...]) -> str:
    return "_".join([name, *(str(i + 1) for i in index)])
