"""Train many models, in threads of this process or on a Dask cluster, and keep every run in a folder.

    plan = Plan(RegressionTask(dim=4), SeparateAttention(heads=4), steps=2000, lr=0.02)
    swept = sweep(grid(plan, rank=(1, 2), seed=range(24)), "runs", jobs=2)

``Plan``: everything that a run depends on. ``grid``: a plan with every combination of values.
``carry_out(plan, progress=None)``: train one plan and return its History.
``sweep(plans, folder, jobs=None, scheduler=None)``: train what the folder does not have yet and return a
``Swept``. It raises BadValue before any work, ClusterLost if the scheduler goes away, and KeyboardInterrupt
after Ctrl-C; the last two say in one line how many runs are kept.
``executor(jobs, scheduler)``: the concurrent.futures executor that a sweep uses. ``distinct``: plans by name.

The folder has ``runs/NAME.npz`` for each run, where the name is a hash of all that the run depends on, so
that a second sweep trains only what is missing; and ``table.csv`` and ``table.parquet``.
"""

import asyncio
import hashlib
import inspect
import json
import logging
import os
import secrets
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, lru_cache, partial
from itertools import islice, product
from math import prod
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from iclcore import checks
from iclcore.checks import BadValue
from iclcore.engines import ENGINES, choose
from iclcore.extras import needs
from iclcore.files import DamagedFile, write_whole
from iclcore.history import History, describe
from iclcore.models import Model, trainable
from iclcore.optimisers import PLAIN, Optimizer
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import Progress, delayed_interrupt, train
from iclcore.versions import PACKAGES, versions

MOST_RUNS = 100_000  # a grid of more is a slip of the finger
SUBMITTED = 1000  # runs that wait at an executor at a time: more than a cluster has workers
ANSWER_SECONDS = 2  # that a scheduler has to answer
LOOK_SECONDS = 0.2  # between looks at whether Ctrl-C was pressed
# The code of classes from these packages is known by the packages' versions.
VERSIONED = {"iclcore", *PACKAGES, *sys.stdlib_module_names}


class ClusterLost(Exception):
    """The Dask scheduler went away during a sweep."""


@dataclass(frozen=True)
class Plan:
    """Everything that the numbers of a run depend on, apart from versions.

    data: a task, of which the published code's draw for ``seed`` is taken, or Sequences of one's own.
    sequences: how many are drawn; None for infinitely many, which linear models can be trained on.
    tests: how many there are in each test set of the draw, "test_in_weight" and "test_in_context".
    seed: the seed of the draw and of the initial weights; on data that is not drawn, of the weights alone.
    values: whether each head's value weight is recorded at every step.
    The other fields are parameters of ``train``.
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
        checks.positive("lr", self.lr, checks.SINGLE)
        checks.seed("seed", self.seed)
        checks.switch("values", self.values)
        checks.whole("tests", self.tests, least=0)
        if self.sequences is not None:
            checks.whole("sequences", self.sequences)
        for field in fields(self):
            plain = _with_plain_numbers(getattr(self, field.name), field.type)
            object.__setattr__(self, field.name, plain)
        engine = self.chosen_engine
        if self.own_data:
            for name in ("sequences", "tests"):
                if getattr(self, name) != getattr(Plan, name):
                    raise BadValue(name, "goes with a task, of which so many are drawn")
        elif self.sequences is None:
            if RegressionTask not in ENGINES[engine].data:
                raise BadValue("sequences", f"takes a number with engine {engine}")
            if self.tests:
                raise BadValue("tests", "takes 0 with infinitely many sequences")
        else:
            checks.enough_to_whiten("tests", self.tests, self.data.dim)
            if self.data.in_context == 1:
                checks.enough_to_whiten("sequences", self.sequences, self.data.dim)

    @property
    def own_data(self) -> bool:
        """True if ``data`` are sequences, False if it is a task."""
        return isinstance(self.data, Sequences)

    @property
    def task(self) -> RegressionTask | None:
        """The task that the sequences are drawn from, if it is known."""
        return self.data.task if self.own_data else self.data

    @property
    def chosen_engine(self) -> str:
        """The engine that trains this plan, which "auto" leaves open."""
        infinite = not self.own_data and self.sequences is None
        sizes, task = (self.data.dim, self.data.outputs), self.data if infinite else None
        return choose(self.model, self.engine, sizes, task, self.optimizer)

    @property
    def draw(self) -> tuple:
        """What the published draw depends on: plans that agree in this are trained on one draw."""
        return self.data, self.sequences, self.seed, self.tests

    @property
    def settings(self) -> dict:
        """The settings of the plan's history: its parts by their class, and its numbers by their name."""
        names = ("sequences", "tests", "steps", "lr", "seed", "values", "engine")
        numbers = {name: getattr(self, name) for name in names}
        if self.own_data:
            numbers |= {"sequences": len(self.data), "data": self.data.digest}
        return describe(*filter(None, [self.task, self.model, self.optimizer])) | numbers

    @property
    def row(self) -> dict:
        """The settings as one row of a table. Of a task, the draw does not use the seed, but the plan's."""
        row = {"model": type(self.model).__name__, "optimizer": type(self.optimizer).__name__}
        for name, value in self.settings.items():
            row |= value if isinstance(value, dict) else {name: value}
        return {name: str(v) if isinstance(v, list) else v for name, v in row.items()}

    @cached_property
    def name(self) -> str:
        """A hash of the settings, of the versions and of the code of classes that no version covers."""
        made_by = {name: version for name, version in versions().items() if name != "python"}
        text = json.dumps([self.settings, made_by, _foreign_code(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_plain_numbers(value: Any, declared: Any) -> Any:
    """Return a value, or a dataclass with all its fields, with Python's numbers instead of NumPy's.

    A whole number becomes a float where a float is declared: lr=1 and lr=1.0 are one run.
    """
    if isinstance(value, Model | RegressionTask | Optimizer):
        plain = {f.name: _with_plain_numbers(getattr(value, f.name), f.type) for f in fields(value)}
        return replace(value, **plain)
    if isinstance(value, np.generic):
        value = value.item()
    return float(value) if declared is float and isinstance(value, int) else value


def _foreign_code(plan: Plan) -> list[str]:
    """Return the source of the plan's classes, and of their bases, that no version covers.

    A torch module can be registered for a model only where ``iclcore.modules`` was imported.
    """
    modules = sys.modules.get("iclcore.modules")
    classes = [type(plan.model), type(plan.task), modules and modules.KINDS.get(type(plan.model))]
    bases = dict.fromkeys(base for each in classes if each for base in each.__mro__)
    return [_source(base) for base in bases if base.__module__.split(".")[0] not in VERSIONED]


@cache  # a class does not change with its file, and after a reload it is another class
def _source(foreign: type) -> str:
    """Return the source of a class, or a random text if it cannot be read: then no old run is reused."""
    try:
        return inspect.getsource(foreign)
    except (OSError, TypeError):
        return secrets.token_hex()


def grid(plan: Plan, **axes: Collection) -> list[Plan]:
    """Return ``plan`` with every combination of values; the last name changes fastest.

    A name is a parameter of the plan, else of its model, else of its task.
    """
    parts = {"plan": plan, "model": plan.model} | ({} if plan.own_data else {"data": plan.data})
    owners = {}
    for name, values in axes.items():
        having = [owner for owner, part in parts.items() if name in part.__dataclass_fields__]
        if not having:
            names = ", ".join(type(part).__name__ for part in parts.values())
            raise BadValue(name, f"is no parameter of {names}")
        owners[name] = having[0]
        if having[0] in axes:
            raise BadValue(name, f"goes without {having[0]}, which it is a part of")
        if isinstance(values, str) or not isinstance(values, Collection) or not len(values):
            raise BadValue(name, f"takes a list of values in a grid, not {checks.shown(values)}")
    if (count := prod(map(len, axes.values()))) > MOST_RUNS:
        raise BadValue("grid", f"takes at most {MOST_RUNS:,} runs, not {count:,}")
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
    """Return the plans by their names; two of one name are refused."""
    by_name = {plan.name: plan for plan in plans}
    if len(by_name) < len(plans) or not plans:
        raise BadValue("plans", "takes at least one run, and each run once")
    return by_name


# -- one run --------------------------------------------------------------------------------------


def carry_out(plan: Plan, progress: Progress | None = None) -> History:
    """Train a plan and return its history, with the plan's settings and the floor of the loss.

    ``progress`` is called with the number of steps just done; it may raise KeyboardInterrupt.
    """
    data, tests, seed = plan.data, {}, plan.seed
    if not plan.own_data and plan.sequences is not None:
        data, seed = _published_draw(plan.draw), None
        tests = {f"test_{name}": sequences for name, sequences in data.tests.items()}
    if progress:
        progress(0)  # a draw may have taken a while
    history = train(
        plan.model, data, plan.steps, plan.lr, optimizer=plan.optimizer, seed=seed, tests=tests,
        engine=plan.engine, progress=progress,
    )  # fmt: skip
    series = {name: a for name, a in history.series.items() if plan.values or name != "value"}
    floor = history.floor
    return replace(history, settings=plan.settings, series=series, moments=None, floor_found=floor)


_lock = Lock()


def _published_draw(draw: tuple) -> Sequences:
    """Return the published draw that some plans share, drawn once in this process.

    Threads that need the same draw wait for the first of them; others draw at the same time.
    """
    from iclcore import published

    with _lock:
        shared = _shared_draw(draw)
    with shared.lock:
        if shared.sequences is None:
            shared.sequences = published.sample(*draw)
    return shared.sequences


@lru_cache(maxsize=2)  # a sweep begins runs of one draw one after the other
def _shared_draw(draw: tuple) -> SimpleNamespace:
    return SimpleNamespace(lock=Lock(), sequences=None)


# -- where runs are carried out -------------------------------------------------------------------


@contextmanager
def executor(jobs: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """Yield a concurrent.futures executor: ``jobs`` threads, or the workers of a Dask scheduler.

    Threads are as many as the machine has cores, if no number is given. What they call computes on one
    thread each, so that results do not depend on the number of cores. An error inside cancels what waits.
    """
    if scheduler is not None:
        with _client(scheduler) as client:
            yield client.get_executor(pure=False)
        return
    jobs = os.cpu_count() if jobs is None else checks.whole("jobs", jobs)
    _load_libraries()
    with threadpool_limits(1), ThreadPoolExecutor(jobs, initializer=_one_torch_thread) as threads:
        try:
            yield threads
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _on_worker(wanted: dict[str, str], plan: Plan) -> History:
    """Carry out a plan on a worker of a cluster, to the same bits as in a thread of this process."""
    if versions() != wanted:
        raise RuntimeError(f"this worker has other versions, {versions()}")
    with _lock:
        _one_blas_thread()
    _one_torch_thread()
    return carry_out(plan, lambda steps: None)


@cache
def _one_blas_thread() -> None:
    """Let BLAS use one thread in this process from now on: the order of its sums depends on their number."""
    _load_libraries()
    threadpool_limits(1, user_api="blas")


def _one_torch_thread() -> None:
    """Let torch use one thread for what this thread computes."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def _load_libraries() -> None:
    """Load the libraries that have threads of their own: a limit holds for those that are loaded."""
    import scipy.linalg  # noqa: F401

    with suppress(ModuleNotFoundError):
        import torch  # noqa: F401


def _client(scheduler: str):
    """Return a Dask client that is connected to a scheduler."""
    with needs("cluster"):
        from distributed import Client

    with ThreadPoolExecutor(1) as other:  # a notebook's own thread has an event loop that runs
        if not other.submit(asyncio.run, _is_scheduler(scheduler)).result():
            takes = "takes the address of a Dask scheduler, as tcp://HOST:PORT; none answers at"
            raise BadValue("scheduler", f"{takes} {scheduler}")
    for part in (
        "client",
        "batched",
    ):  # that the scheduler is gone is told in one line, by the sweep
        logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)
    return Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)


async def _is_scheduler(address: str) -> bool:
    """Return whether a Dask scheduler answers. A client would wait for ever for a server that is silent."""
    from distributed.core import rpc

    try:
        async with rpc(address) as there:
            answer = await asyncio.wait_for(there.identity(), ANSWER_SECONDS)
        return answer["type"] == "Scheduler"
    except Exception:  # whatever else may be at that address, and say
        return False


# -- many runs ------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Swept:
    """What a sweep left in its folder.

    runs: the plans by name. rows: their rows of the table, in the same order. reused: how many of them the
    folder had before.
    """

    folder: Path
    runs: dict[str, Plan]
    rows: dict[str, dict]
    reused: int

    def __repr__(self) -> str:
        counts = {how: len(self.ended(how)) for how in ("finished", "diverged", "failed")}
        ends = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
        return f"Swept({len(self.runs)} runs in {self.folder}: {ends})"

    def ended(self, how: str) -> list[Plan]:
        """Return the plans whose runs "finished", "diverged" or "failed"."""
        return [self.runs[name] for name, row in self.rows.items() if row["ended"] == how]

    @cached_property
    def axes(self) -> list[str]:
        """The settings in which the runs differ."""
        rows = [plan.row for plan in self.runs.values()]
        names = dict.fromkeys(name for row in rows for name in row)
        return [name for name in names if len({row.get(name) for row in rows}) > 1]

    def file(self, plan: Plan) -> Path:
        """Return the path of a run's file."""
        return self.folder / "runs" / f"{plan.name}.npz"

    def history(self, plan: Plan) -> History:
        """Read a run's history from its file."""
        return History.from_npz(self.file(plan))

    def table(self):
        """Return a pyarrow table with a row for each run: its settings, how it ended, its last errors."""
        import pyarrow as pa

        names = dict.fromkeys(column for row in self.rows.values() for column in row)
        return pa.table({n: [row.get(n) for row in self.rows.values()] for n in names})


def sweep(
    plans: Sequence[Plan],
    folder: str | Path,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Swept:
    """Train the plans of which ``folder`` has no finished run yet, and write the table of all of them.

    They are trained by ``jobs`` threads, or by the workers of a Dask ``scheduler``: to the same bytes. A run
    that fails or diverges is told in one line, and the others go on. A sweep that ends early, in whatever
    way, keeps the runs that were finished, and the next call goes on from there.
    """
    runs, rows, folder = distinct(plans), {}, Path(folder)
    with needs("cluster"):
        from pyarrow import csv, parquet
    swept = Swept(folder, runs, rows, 0)
    for name, plan in runs.items():
        with suppress(FileNotFoundError, NotADirectoryError, DamagedFile):
            rows[name] = _row(plan, swept.history(plan))
    swept = replace(swept, reused=len(rows))
    if missing := [plan for name, plan in runs.items() if name not in rows]:
        _train(missing, swept, jobs, scheduler)
    swept = replace(swept, rows={name: rows[name] for name in runs})
    table = swept.table()
    write_whole(folder / "table.csv", lambda file: csv.write_csv(table, file))
    write_whole(folder / "table.parquet", lambda file: parquet.write_table(table, file))
    return swept


def _train(plans: list[Plan], swept: Swept, jobs: int | None, scheduler: str | None) -> None:
    """Train the plans, write each run when it is done, and add its row to those of ``swept``."""
    groups: dict[tuple, list[Plan]] = {}
    for plan in plans:
        groups.setdefault(plan.draw, []).append(plan)
    waiting = (plan for group in groups.values() for plan in group)
    pending: dict[Future, Plan] = {}
    with warnings.catch_warnings(), delayed_interrupt() as stop, executor(jobs, scheduler) as pool:
        warnings.filterwarnings("ignore", module="iclcore.sweep")  # the table has what train says
        warnings.filterwarnings("ignore", "Sending large graph")  # sequences of one's own
        (swept.folder / "runs").mkdir(parents=True, exist_ok=True)

        def stop_run(_steps: int) -> None:
            if stop.is_set():
                raise KeyboardInterrupt

        task = partial(carry_out, progress=stop_run)
        if scheduler:
            task = partial(_on_worker, versions())
        bar = tqdm(total=len(swept.runs), initial=swept.reused, unit=" runs", disable=None)
        try:
            with bar:
                while not stop.is_set():
                    for plan in islice(waiting, SUBMITTED - len(pending)):
                        pending[pool.submit(task, plan)] = plan
                    if not pending:
                        return
                    for future in wait(pending, LOOK_SECONDS, FIRST_COMPLETED).done:
                        _keep(pending.pop(future), future, swept)
                        bar.update()
            raise KeyboardInterrupt
        except BaseException as error:
            stop.set()  # so that the runs under way end too
            kept = len(swept.rows) - len(swept.ended("failed"))
            line = (
                f"{kept} of {len(swept.runs)} runs are kept in {swept.folder}; run again to go on"
            )
            if isinstance(error, CancelledError):
                raise ClusterLost(f"the Dask scheduler at {scheduler} is gone: {line}") from None
            raise (
                KeyboardInterrupt(line) if isinstance(error, KeyboardInterrupt) else error
            ) from None
        finally:
            _shared_draw.cache_clear()


def _keep(plan: Plan, future: Future, swept: Swept) -> None:
    """Write the run of a future and add its row; tell in one line if it failed or diverged."""
    if error := future.exception():
        row = {"run": plan.name, **plan.row, "ended": "failed"}
        end = f"failed: {type(error).__name__}: {error}"
    else:
        history = future.result()
        if history.ended == "interrupted":
            return
        replace(history, seconds={}).to_npz(swept.file(plan))  # so the same run is the same file
        row, end = _row(plan, history), f"diverged at step {history.steps[-1]}"
    swept.rows[plan.name] = row
    if row["ended"] != "finished":
        shown = ", ".join(f"{name}={row.get(name)}" for name in swept.axes)
        tqdm.write(f"run {plan.name} ({shown}) {end}".splitlines()[0], file=sys.stderr)


def _row(plan: Plan, history: History) -> dict:
    """Return a run's row of the table: its settings, how it ended, the errors before its last step."""
    errors = {name: float(a[-1]) for name, a in history.series.items() if a.ndim == 1}
    end = {"ended": history.ended, "recorded": len(history.loss), "floor": history.floor}
    return {"run": plan.name, **plan.row, **end, "first_rise": history.first_rise, **errors}
