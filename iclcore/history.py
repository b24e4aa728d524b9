"""What a training run leaves behind, and how it travels to CSV and npz and back."""

import errno
import json
from collections.abc import Callable
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from secrets import token_hex
from shutil import copymode

import numpy as np

from iclcore.versions import versions

if TYPE_CHECKING:
    from iclcore.moments import Moments

SERIES = "series"
WEIGHTS = ("snapshots", "final")


@dataclass
class History:
    """One run: ``series`` a row a step (``loss`` and whatever else was recorded, each (steps,) or
    (steps, H)), every row from before its step; weights at the chosen steps and at the end.

    ``steps`` numbers the rows; ``snapshots[name][i]`` are the weights before step ``snapshot_steps[i]``.
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
    snapshot_steps: np.ndarray = field(default_factory=lambda: np.arange(0))
    snapshots: dict[str, np.ndarray] = field(default_factory=dict)
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
        columns = self.columns()
        lines = [f"# {name}: {json.dumps(value)}" for name, value in self.record().items()]
        lines.append(",".join(columns))
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        lines += [",".join(map(repr, row)) for row in rows]
        write_whole(path, lambda file: file.write(("\n".join(lines) + "\n").encode()))

    @classmethod
    def from_csv(cls, path: str | Path) -> "History":
        record, rest = {}, []
        for line in Path(path).read_text().splitlines():
            if line.startswith("#"):
                name, value = line[1:].split(":", 1)
                record[name.strip()] = json.loads(value)
            else:
                rest.append(line.split(","))
        if len(rest) < 2 or rest[0][0] != "step":
            raise ValueError(
                f"{path} takes the CSV of a run, with a header step,… and a row a step"
            )
        names, rows = rest[0], np.array(rest[1:], dtype=float)
        series: dict[str, list[np.ndarray]] = {}
        for name, column in zip(names[1:], rows.T[1:], strict=True):
            stem, _, number = name.rpartition("_")
            series.setdefault(stem if number.isdigit() else name, []).append(column)
        stacked = {
            name: parts[0] if f"{name}_1" not in names else np.stack(parts, axis=1)
            for name, parts in series.items()
        }
        record["floor_found"] = record.pop("floor")
        return cls(series=stacked, steps=rows[:, 0].astype(int), **record)

    def to_npz(self, path: str | Path) -> None:
        """Everything, weights included."""
        arrays = {f"{SERIES}/{name}": array for name, array in self.series.items()}
        for kind in WEIGHTS:
            arrays |= {f"{kind}/{name}": array for name, array in getattr(self, kind).items()}
        arrays |= {"steps": self.steps, "snapshot_steps": self.snapshot_steps}
        record = np.array(json.dumps(self.record()))
        write_whole(path, lambda file: np.savez_compressed(file, record=record, **arrays))

    @classmethod
    def from_npz(cls, path: str | Path) -> "History":
        with np.load(path) as stored:
            groups: dict[str, dict[str, np.ndarray]] = {SERIES: {}, **{k: {} for k in WEIGHTS}}
            for key in stored.files:
                if "/" in key:
                    kind, name = key.split("/", 1)
                    groups[kind][name] = stored[key]
            record = json.loads(str(stored["record"]))
            record["floor_found"] = record.pop("floor")
            plain = {name: stored[name] for name in ("steps", "snapshot_steps")}
        return cls(**groups, **plain, **record)


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
