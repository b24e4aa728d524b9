"""What a training run leaves behind, and how it travels to CSV and npz and back."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from shutil import copymode
from typing import TYPE_CHECKING
from zipfile import ZipFile

import numpy as np

from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention, predictor
from iclcore.task import RegressionTask
from iclcore.versions import versions

if TYPE_CHECKING:
    from iclcore.moments import Moments
    from iclcore.theory.multihead import MultiTask

SERIES = "series"
WEIGHTS = ("start", "snapshots", "final")
MODELS = {kind.__name__: kind for kind in (MergedAttention, SeparateAttention, CubicMLP)}
ENDS = ("finished", "interrupted", "diverged")
WHOLE = "whole"  # the CSV line that says what follows it
PART = 10_000  # rows that are text at a time


class Damaged(ValueError):
    """A file that is not, or no longer, what a run left: which, and what is wrong with it."""


@dataclass
class History:
    """One run: ``series`` a row a step (``loss`` and whatever else was recorded, each (steps,) or
    (steps, H)), every row from before its step; weights at the chosen steps and at the end.

    ``steps`` numbers the rows; ``snapshots[name][i]`` are the weights before step ``kept[i]``, ``start`` and
    ``final`` the first and the last.
    ``ended`` is ``finished``, ``interrupted`` or ``diverged``: then the last loss is not finite.
    ``past_edge``: of a run whose loss rises, the step from which learning rate × sharpness exceeds 2.
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
            from iclcore.theory.multihead import MultiTask  # with scipy's integrators

            return MultiTask(**self.settings["MultiTask"])
        known = self.settings.get("RegressionTask")
        return known and RegressionTask(**known)

    @property
    def model(self) -> Model:
        (name,) = MODELS.keys() & self.settings
        return MODELS[name](**self.settings[name])

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
        if model.softmax:
            raise ValueError("predictors takes a linear run: with softmax there is no such M")
        size = self.snapshots["value"].shape[-1] if "value" in self.snapshots else None
        dim = int(self.snapshots["first"].shape[-1] ** 0.5) if size is None else size - 1
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
        """A row a step in full precision; the record in comment lines; no weights.

        The first line, ``# whole: …``, has the number of rows and the SHA-256 of all bytes after it.
        """
        digest = sha256()
        for part in self._csv():
            digest.update(part)
        whole = {"rows": len(self.steps), "sha256": digest.hexdigest()}

        def write(file):
            file.write(f"# {WHOLE}: {json.dumps(whole)}\n".encode())
            file.writelines(self._csv())

        write_whole(path, write)

    def _csv(self) -> Iterator[bytes]:
        """All but the first line, in parts: as text a long run takes ten times its memory."""
        columns = self.columns()
        lines = [f"# {name}: {json.dumps(value)}" for name, value in self.record().items()]
        yield ("\n".join([*lines, ",".join(columns)]) + "\n").encode()
        for first in range(0, len(self.steps), PART):
            parts = (column[first : first + PART].tolist() for column in columns.values())
            rows = zip(*parts, strict=True)
            yield "".join(",".join(map(repr, row)) + "\n" for row in rows).encode()

    @classmethod
    def from_csv(cls, path: str | Path) -> "History":
        """What ``to_csv`` wrote, else Damaged. A CSV from elsewhere needs no comment lines; one that was
        changed on purpose is read again without its first line."""
        with _reading(path) as content:
            record, rest = {}, []
            for number, line in enumerate(content.decode().splitlines(), start=1):
                if line.startswith("#"):
                    name, colon, value = line[1:].partition(":")
                    if not colon:
                        raise Damaged(f"line {number} takes # NAME: VALUE in JSON")
                    record[name.strip()] = json.loads(value)
                else:
                    rest.append(line.split(","))
            if len(rest) < 2 or rest[0][0] != "step":
                raise Damaged("takes the CSV of a run, with a header step,… and a row a step")
            (_, *names), rows = rest[0], rest[1:]
            if WHOLE in record:
                wanted = record.pop(WHOLE)
                if len(rows) != wanted["rows"]:
                    raise Damaged(f"has {len(rows)} rows, {wanted['rows']} were written")
                if sha256(content.partition(b"\n")[2]).hexdigest() != wanted["sha256"]:
                    raise Damaged("is not what was written: its SHA-256 is another")
            if len(set(names)) < len(names) or any(len(row) != len(rest[0]) for row in rows):
                raise Damaged("takes columns of names that differ, and as many numbers in each row")
            steps = np.array([int(row[0]) for row in rows], dtype=np.int64)
            numbers = np.array([row[1:] for row in rows], dtype=float)
            return _checked(_grouped(names, numbers.T), record, steps)

    def to_npz(self, path: str | Path) -> None:
        """Everything, weights included."""
        arrays = {f"{SERIES}/{name}": array for name, array in self.series.items()}
        for kind in WEIGHTS:
            arrays |= {f"{kind}/{name}": array for name, array in getattr(self, kind).items()}
        arrays |= {"steps": self.steps, "kept": self.kept}
        # by name, for the zip's own directory has no checksum: a flipped bit there can drop one
        record = np.array(json.dumps(self.record() | {"arrays": sorted(arrays)}))
        write_whole(path, lambda file: np.savez_compressed(file, record=record, **arrays))

    @classmethod
    def from_npz(cls, path: str | Path) -> "History":
        """What ``to_npz`` wrote, else Damaged. Nothing pickled is loaded."""
        with _reading(path) as content:
            arrays = _arrays(content)
            record = json.loads(arrays.pop("record").item())
            if record.pop("arrays") != sorted(arrays):
                raise Damaged("has other arrays than were written")
            groups: dict[str, dict[str, np.ndarray]] = {SERIES: {}, **{k: {} for k in WEIGHTS}}
            for key in [key for key in arrays if "/" in key]:
                kind, name = key.split("/", 1)
                groups[kind][name] = arrays.pop(key)
            return _checked(groups.pop(SERIES), record, **groups, **arrays)


# -- reading --------------------------------------------------------------------------------------


@contextmanager
def _reading(path: str | Path) -> Iterator[bytes]:
    """A file's bytes. What is wrong with them, zip, zlib, JSON and numpy say by a dozen kinds of
    exception: here they become one. That a file is not there remains an OSError."""
    content = Path(path).read_bytes()
    try:
        yield content
    except Damaged as error:
        raise Damaged(f"{path}: {error}") from None
    except Exception as error:
        said = f"{type(error).__name__} {error}".splitlines()[0]
        raise Damaged(f"{path}: is no run's file, or damaged: {said[:200]}") from None


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    """The members of an npz, each read whole, so that its CRC is checked: np.load reads as far as the
    member's own header says."""
    arrays = {}
    with ZipFile(BytesIO(content)) as stored:
        for member in stored.namelist():
            data, name = BytesIO(stored.read(member)), member.removesuffix(".npy")
            if name in arrays:
                raise Damaged(f"has {name} twice")
            arrays[name] = np.lib.format.read_array(data, allow_pickle=False)
            if data.read(1):
                raise Damaged(f"{name} has more bytes than its shape says")
    return arrays


def _grouped(names: list[str], columns: np.ndarray) -> dict[str, np.ndarray]:
    """Series of their columns: value_1, value_2, … are one, if they are all there and in order."""
    series: dict[str, np.ndarray] = {}
    heads: dict[str, list[np.ndarray]] = {}
    for name, column in zip(names, columns, strict=True):
        stem, _, number = name.rpartition("_")
        if stem and number == str(len(heads.get(stem, [])) + 1):
            heads.setdefault(stem, []).append(column)
        else:
            series[name] = column
    if twice := heads.keys() & series:
        raise Damaged(f"has {min(twice)} as one column and as several")
    return series | {name: np.stack(parts, axis=1) for name, parts in heads.items()}


RECORDED = {
    "settings": dict, "versions": dict, "seconds": dict, "engine": str, "ended": str,
    "floor": float | int | None, "past_edge": int | None,
}  # fmt: skip


def _checked(series: dict, record: dict, steps: np.ndarray, **weights) -> History:
    """A history that is one, or what keeps it from being one."""
    for name, value in record.items():
        if not isinstance(value, RECORDED.get(name, ())):
            raise Damaged(f"{name} of its record is unknown, or of type {type(value).__name__}")
    record = {"versions": {}} | record  # another's run was not made by the versions that are here
    floor = record.pop("floor", None)
    history = History(series, steps=steps, floor_found=floor, **record, **weights)
    if history.ended not in ENDS:
        raise Damaged(f"ended takes one of {', '.join(ENDS)}, not {history.ended!r}")
    if "loss" not in series:
        raise Damaged("has no loss")
    if steps.dtype.kind != "i" or steps.ndim != 1 or not len(steps):
        raise Damaged("takes steps that are whole numbers, at least one")
    if not (steps[1:] > steps[:-1]).all():
        raise Damaged("takes steps that rise")
    for name, array in series.items():
        dimensions = (1,) if name == "loss" else (1, 2)
        if array.dtype.kind != "f" or array.ndim not in dimensions:
            raise Damaged(f"takes real numbers as {name}, of one axis: steps, not {array.dtype}")
        if len(array) != len(steps):
            raise Damaged(f"has {len(array)} rows of {name}, but {len(steps)} steps")
    finite = np.isfinite(history.loss)
    if not finite[:-1].all() or not (finite[-1] or history.ended == "diverged"):
        raise Damaged("takes a finite loss, but in the last row of a run that diverged")
    for name, stack in history.snapshots.items():
        if not stack.shape or len(stack) != history.kept.size:
            raise Damaged(f"has not one {name} for each of its snapshot steps")
    for name, array in [*history.snapshots.items(), *history.final.items()]:
        if array.dtype.kind != "f":
            raise Damaged(f"takes real numbers as {name}, not {array.dtype}")
    return history


# -- writing --------------------------------------------------------------------------------------


def describe(*parts: object) -> dict:
    """Dataclasses as settings: each under its class's name, in the types that JSON brings back."""
    return json.loads(
        json.dumps({type(part).__name__: asdict(part) for part in parts}, default=float)
    )


def write_whole(path: str | Path, write: Callable) -> None:
    """Write beside and rename: a file is there whole or not at all. A link is followed, the permissions
    of a file that was there are kept; what is no file, as a pipe or a device, is written to directly."""
    path = Path(path)
    if is_stream(path):
        with open(path, "wb") as file:
            write(file)
        return
    path = target(path)
    with beside(path) as partial:
        with open(partial, "wb") as file:
            write(file)
        if path.exists():
            copymode(path, partial)
        partial.replace(path)


def is_stream(path: Path) -> bool:
    """Something is there that is no regular file. A standard stream that is a pipe has no path of
    its own: what its link in /proc says is nowhere."""
    return path.exists() and not Path(os.path.realpath(path)).is_file()


def target(path: Path) -> Path:
    """Where links lead to."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():  # it leads back to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return real


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new file in the folder of ``path``, NAME.xxxxxxxx.partial with eight random digits: no file
    that was there is touched. If it still has that name at the end, it is removed."""
    partial = path.with_name(f"{path.name}.{token_hex(4)}.partial")
    partial.touch(exist_ok=False)
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)
