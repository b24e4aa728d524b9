"""Many runs, each written whole or not at all: a sweep that was killed continues where it was.

The folder holds ``runs/NAME.npz``, a file for each run, named by the hash of its settings, and the
sweep's ``table.csv`` and ``table.parquet``. What is no run of these versions is set aside, never read.
"""

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from tqdm import tqdm

from iclcore.extras import needs
from iclcore.files import PICTURE, DamagedFile, foreign, write_whole
from iclcore.history import History
from iclcore.interrupts import put_off
from iclcore.sweep.plan import MATTER, Plan, carry_out, name_of, prepare
from iclcore.sweep.workers import Cluster, ClusterLost, Cores, say
from iclcore.systems import held
from iclcore.versions import difference, versions

ENDS = ("finished", "diverged")  # what is kept
MADE = {"table.csv": b'"run",', "table.parquet": b"PAR1", "figure.png": PICTURE}  # and their heads


@dataclass(frozen=True)
class Swept:
    """What a sweep left in its folder: ``rows`` of the table in the order of the runs."""

    folder: Path
    runs: dict[str, Plan]
    rows: dict[str, dict]
    found: int  # runs that were there before

    def ended(self, how: str) -> list[Plan]:
        """The runs that ``finished``, ``diverged`` or ``failed``."""
        return [self.runs[name] for name, row in self.rows.items() if row["ended"] == how]

    @property
    def axes(self) -> list[str]:
        """The settings in which the runs differ."""
        rows = [run.row for run in self.runs.values()]
        names = dict.fromkeys(name for row in rows for name in row)
        return [name for name in names if len({row.get(name) for row in rows}) > 1]

    def file(self, run: Plan) -> Path:
        return self.folder / "runs" / f"{run.name}.npz"

    def history(self, run: Plan) -> History:
        return History.from_npz(self.file(run))

    def table(self):
        """As a pyarrow table: settings, how the run ended, its last errors."""
        import pyarrow as pa

        names = list(dict.fromkeys(column for row in self.rows.values() for column in row))
        return pa.table({n: [row.get(n) for row in self.rows.values()] for n in names})


def sweep(
    runs: Sequence[Plan],
    folder: str | Path,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Swept:
    """Carry out what the folder does not have yet, and write its table.

    On ``jobs`` cores of this machine, or on the workers of a Dask ``scheduler``: to the same bytes, for
    workers with other versions or another kind of processor are refused. A run that fails or diverges
    is said in a line, and the others go on. Interrupted or without its scheduler, a sweep keeps the runs
    that were done.
    """
    named = distinct(runs)
    folder = Path(folder)
    with needs("cluster"):  # before the first run what its draw and, at the end, its table take
        import pyarrow  # noqa: F401

        from iclcore import published  # noqa: F401
    for name, mark in MADE.items():
        if foreign(folder / name, mark):
            raise FolderInUse(f"{folder / name} is there, and no sweep's: give another folder")
    with _held(folder):
        rows = dict(_kept(folder, named))
        if others := sum(path.stem not in named for path in (folder / "runs").glob("*.npz")):
            say(
                f"{others} other runs lie in {folder}; they are kept, and are not in this sweep's table"
            )
        swept = Swept(folder, named, rows, len(rows))
        missing = [run for name, run in named.items() if name not in rows]
        if missing:
            try:
                with Cluster(scheduler) if scheduler else Cores(jobs) as workers:
                    (folder / "runs").mkdir(exist_ok=True)
                    _carry_out(missing, workers, swept)
            except (ClusterLost, KeyboardInterrupt) as error:
                why = "interrupted" if isinstance(error, KeyboardInterrupt) else error
                kept = len(rows) - len(swept.ended("failed"))
                told = f"{kept} of {len(runs)} runs are kept in {folder}; run again to go on"
                raise type(error)(f"{why}: {told}") from None
        swept = replace(swept, rows={name: rows[name] for name in named})
        with put_off():
            _write_table(swept)
    return swept


def distinct(runs: Sequence[Plan]) -> dict[str, Plan]:
    """The runs by their names, each of them once."""
    named = {run.name: run for run in runs}
    if len(named) < len(runs):
        raise ValueError("a sweep takes each run once")
    if not runs:
        raise ValueError("a sweep takes at least one run")
    return named


class FolderInUse(Exception):
    """Another sweep writes there, or something is there that a sweep would write over."""


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder for this sweep alone, to its end or to the end of its process, however that comes."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        try:
            ends.enter_context(held(folder))
        except BlockingIOError:
            raise FolderInUse(f"{folder} is in use by another sweep") from None
        try:
            yield
        finally:
            if new and not any(folder.iterdir()):
                folder.rmdir()


def _carry_out(runs: Sequence[Plan], workers: Cores | Cluster, swept: Swept) -> None:
    """Submit all, a group that shares its draw after the other, and write what comes back."""
    groups: dict[tuple, list[Plan]] = {}
    for run in runs:
        groups.setdefault(run.draw, []).append(run)
    pending = {}
    order, starts = list(groups.values()), deque()
    # draws are ahead of the runs that wait for them by as many as there are workers at the start
    ahead = max(1, workers.jobs)
    for i in range(len(order) + ahead):
        if i < len(order):
            starts.append(workers.submit(prepare, order[i]))
        if i >= ahead:
            ready = starts.popleft()
            for run in order[i - ahead]:
                pending[workers.submit(carry_out, ready, run.name, workers.heed)] = run
            del ready  # so that sequences are let go when their last run is done
    total, differing = len(swept.runs), swept.axes

    def told(run: Plan) -> str:
        axes = " ".join(f"{name}={run.row[name]}" for name in differing if name in run.row)
        return f"run {run.name} ({axes})"

    with tqdm(total=total, initial=swept.found, unit=" runs", disable=None) as bar:
        for future, outcome in workers.outcomes(list(pending)):
            run = pending.pop(future)
            if isinstance(outcome, History) and outcome.ended not in ENDS:
                outcome = Unfinished(f"{outcome.ended} at step {len(outcome.loss)}")
            if isinstance(outcome, Exception):
                swept.rows[run.name] = {"run": run.name, **run.row, "ended": "failed"}
                say(f"{told(run)} failed: {type(outcome).__name__}: {outcome}".splitlines()[0])
            else:
                with put_off():
                    # without its seconds, so that the same run is the same file
                    replace(outcome, seconds={}).to_npz(swept.file(run))
                    swept.rows[run.name] = _row(run, outcome)
                if outcome.ended == "diverged":
                    say(f"{told(run)} diverged at step {outcome.steps[-1]}")
            bar.update()


class Unfinished(Exception):
    """A run that something ended before its time."""


# -- what a folder holds --------------------------------------------------------------------------

# by a sweep that was killed
HALF_WRITTEN = re.compile(
    r"([0-9a-f]{16}\.npz|table\.csv|table\.parquet|figure\.png)\.[0-9a-f]{8}\.partial"
)


def _kept(folder: Path, wanted: dict[str, Plan]) -> Iterator[tuple[str, dict]]:
    """The rows of wanted runs that are there, whole and of these versions; what is neither is set aside."""
    for path in [*folder.glob("*.partial"), *(folder / "runs").glob("*.partial")]:
        if HALF_WRITTEN.fullmatch(path.name) and path.is_file():
            path.unlink()
    for path in sorted((folder / "runs").glob("*")):
        if path.suffix == ".aside" or (path.is_dir() and path.suffix != ".npz"):
            continue
        try:
            if row := _read(path, wanted.get(path.stem)):
                yield path.stem, row
        except DamagedFile as error:
            say(f"{error}; set aside as {_set_aside(path).name}")


def _read(path: Path, run: Plan | None) -> dict | None:
    """The row of a run if it is one that is wanted."""
    if path.suffix != ".npz" or not path.is_file():  # to open a pipe would wait for ever
        raise DamagedFile(f"{path}: no {'file' if path.suffix == '.npz' else 'run'}")
    try:
        history = History.from_npz(path)
    except OSError as error:
        raise DamagedFile(f"{path}: {error.strerror}") from None
    made_by = {name: history.versions.get(name) for name in MATTER}
    if other := difference(made_by, {name: versions()[name] for name in MATTER}):
        raise DamagedFile(f"{path}: made by {other}")
    if (name := name_of(history.settings, made_by)) != path.stem:
        raise DamagedFile(f"{path}: holds run {name}, another than its name says")
    if history.ended not in ENDS:
        raise DamagedFile(f"{path}: {history.ended}, not finished")
    return run and _row(run, history)


def _set_aside(path: Path) -> Path:
    """Renamed, over nothing that was set aside before."""
    numbers = chain([""], (f".{n}" for n in count(1)))
    names = (path.with_name(f"{path.name}{number}.aside") for number in numbers)
    return path.rename(next(aside for aside in names if not os.path.lexists(aside)))


# -- the table ------------------------------------------------------------------------------------


def _row(run: Plan, history: History) -> dict:
    """Settings by their own names, then what came out: errors before the last recorded step."""
    errors = {name: float(a[-1]) for name, a in history.series.items() if a.ndim == 1}
    seen = {"ended": history.ended, "recorded": len(history.loss)}
    seen |= {"floor": history.floor, "past_edge": history.past_edge}
    return {"run": run.name, **run.row, **seen, **errors}


def _write_table(swept: Swept) -> None:
    from pyarrow import csv, parquet

    table = swept.table()
    write_whole(swept.folder / "table.csv", lambda file: csv.write_csv(table, file))
    write_whole(swept.folder / "table.parquet", lambda file: parquet.write_table(table, file))
