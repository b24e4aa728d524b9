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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
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

from iclcore.checks import (
    SINGLE,
    BadValue,
    enough_to_whiten,
    instance,
    positive,
    shown,
    switch,
    whole,
)
from iclcore.checks import seed as check_seed
from iclcore.engines import ENGINES, choose
from iclcore.extras import needs
from iclcore.files import DamagedFile, write_whole
from iclcore.history import History, describe
from iclcore.models import Model
from iclcore.optimisers import PLAIN, Adam, GradientDescent, Optimizer
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import delayed_interrupt, train
from iclcore.versions import PACKAGES, versions

MOST_PLANS = 100_000  # a grid of more is a slip of the finger
SUBMITTED = 1000  # runs that wait at an executor at a time: more than a cluster has workers
ANSWER_SECONDS = 2  # that a scheduler has to answer
LOOK_SECONDS = 0.2  # between looks at whether Ctrl-C was pressed
KEPT = ("finished", "diverged")  # how a run ends that is kept
# Classes of these packages are known by the packages' versions.
VERSIONED = {"iclcore", *PACKAGES, *sys.stdlib_module_names}


class ClusterLost(Exception):
    """The Dask scheduler went away during a sweep."""


@dataclass(frozen=True)
class Plan:
    """Everything that the numbers of a run depend on, apart from versions.

    data: a task, of which the published code's draw for ``seed`` is taken, or Sequences of one's own.
    sequences: how many are drawn; None for infinitely many, which linear models can be trained on.
    tests: sequences in each of the draw's test sets, "test_in_weight" and "test_in_context".
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
        instance("data", self.data, RegressionTask, Sequences)
        instance("model", self.model, Model)
        whole("steps", self.steps)
        positive("lr", self.lr, SINGLE)
        check_seed("seed", self.seed)
        switch("values", self.values)
        whole("tests", self.tests, least=0)
        if self.sequences is not None:
            whole("sequences", self.sequences)
        for field in fields(self):
            plain = _with_plain_numbers(getattr(self, field.name), field.type)
            object.__setattr__(self, field.name, plain)
        accepted = ENGINES[self.chosen_engine].data
        if self.own_data:
            for name in ("sequences", "tests"):
                if getattr(self, name) != getattr(Plan, name):
                    raise BadValue(name, "goes with a task, of which so many are drawn")
        elif self.sequences is None:
            if RegressionTask not in accepted:
                raise BadValue("sequences", f"takes a number with engine {self.chosen_engine}")
            if self.tests:
                raise BadValue("tests", "takes 0 with infinitely many sequences")
        else:
            enough_to_whiten("tests", self.tests, self.data.dim)
            if self.data.in_context == 1:
                enough_to_whiten("sequences", self.sequences, self.data.dim)

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
        """What the training sequences depend on: plans that agree in this share them."""
        own = (self.data,)
        return own if self.own_data else (*own, self.sequences, self.tests, self.seed)

    @property
    def settings(self) -> dict:
        """The settings of the plan's history: numbers by name, and parts by the name of their class."""
        names = ("sequences", "tests", "steps", "lr", "seed", "values", "engine")
        plain = {name: getattr(self, name) for name in names}
        if self.own_data:
            plain |= {"sequences": len(self.data), "data": self.data.digest}
        else:
            plain["draws"] = "population" if self.sequences is None else "published"
        return plain | describe(*filter(None, [self.task, self.model, self.optimizer]))

    @property
    def row(self) -> dict:
        """The settings as one row of a table."""
        plain = {name: v for name, v in self.settings.items() if not isinstance(v, dict)}
        if self.own_data:
            names = ("dim", "context", "outputs", "every_length")
            task = {name: getattr(self.data, name) for name in names}
        else:
            task = asdict(self.data)
            # The published draw has eigenvectors and a shared W of its own, whatever the task's seed.
            del task["seed"], plain["draws"]
            if not isinstance(task["spectrum"], str):
                task["spectrum"] = " ".join(f"{value:g}" for value in task["spectrum"])
        rule = {"optimizer": type(self.optimizer).__name__, **asdict(self.optimizer)}
        return {"model": type(self.model).__name__, **asdict(self.model), **task, **plain, **rule}

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
    if isinstance(value, Model | RegressionTask | GradientDescent | Adam):
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
    torch_module = modules and modules.KINDS.get(type(plan.model))
    classes = [type(plan.model), torch_module, type(plan.task), type(plan.optimizer)]
    bases = dict.fromkeys(base for each in classes if each for base in each.__mro__)
    return [_source(base) for base in bases if base.__module__.split(".")[0] not in VERSIONED]


@cache  # what was imported does not change with its file, but a class that was reloaded is another one
def _source(foreign: type) -> str:
    """Return the source of a class, or a random text if it cannot be read: then no old run is reused."""
    try:
        return inspect.getsource(foreign)
    except (OSError, TypeError):
        return secrets.token_hex()


def grid(plan: Plan, **axes: Iterable[Any]) -> list[Plan]:
    """Return ``plan`` with every combination of values; the last name changes fastest.

    A name is a parameter of the plan, else of its model, else of its task.
    """
    owners = {name: _owner(plan, name) for name in axes}
    for name, owner in owners.items():
        if owner in axes:
            raise BadValue(name, f"is a part of {owner}, which has values of its own in this grid")
    values = {name: _values(name, given) for name, given in axes.items()}
    if prod(map(len, values.values())) > MOST_PLANS:
        raise BadValue("grid", f"takes at most {MOST_PLANS:,} runs; these values make more")
    plans = []
    for combination in product(*values.values()):
        changed: dict[str, dict] = {"plan": {}, "model": {}, "data": {}}
        for (name, owner), value in zip(owners.items(), combination, strict=True):
            changed[owner][name] = value
        own = changed.pop("plan")
        own |= {part: replace(getattr(plan, part), **new) for part, new in changed.items() if new}
        plans.append(replace(plan, **own))
    return plans


def _owner(plan: Plan, name: str) -> str:
    """Return which part of a plan has a parameter: "plan", "model" or "data"."""
    parts = {"plan": plan, "model": plan.model} | ({} if plan.own_data else {"data": plan.data})
    for owner, part in parts.items():
        if name in {field.name for field in fields(part)}:
            return owner
    names = ", ".join(type(part).__name__ for part in parts.values())
    raise BadValue(name, f"is no parameter of {names}")


def _values(name: str, given: Iterable[Any]) -> list:
    try:
        if isinstance(given, str):
            raise TypeError
        values = list(islice(iter(given), MOST_PLANS + 1))  # an iterator may have no end
    except TypeError:
        raise BadValue(name, f"takes a list of values in a grid, not {shown(given)}") from None
    if not values:
        raise BadValue(name, "takes at least one value in a grid")
    return values


def distinct(plans: Sequence[Plan]) -> dict[str, Plan]:
    """Return the plans by their names; two of one name are refused."""
    by_name = {plan.name: plan for plan in plans}
    if len(by_name) < len(plans) or not plans:
        raise BadValue("plans", "takes at least one run, and each run once")
    return by_name


# -- one run --------------------------------------------------------------------------------------


def carry_out(plan: Plan, progress: Callable[[int], object] | None = None) -> History:
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

    task, sequences, tests, seed = draw
    with _lock:
        shared = _shared_draw(draw)
    with shared.lock:
        if shared.sequences is None:
            shared.sequences = published.sample(task, sequences, seed, tests)
    return shared.sequences


@lru_cache(maxsize=2)  # a sweep begins runs of one draw one after the other
def _shared_draw(draw: tuple) -> SimpleNamespace:
    return SimpleNamespace(lock=Lock(), sequences=None)


def _on_worker(plan: Plan) -> History:
    """Carry out a plan on a worker of a cluster, to the same bits as in a sweep on this machine."""
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
    jobs = os.cpu_count() if jobs is None else whole("jobs", jobs)
    _load_libraries()
    with threadpool_limits(1), ThreadPoolExecutor(jobs, initializer=_one_torch_thread) as threads:
        try:
            yield threads
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _load_libraries() -> None:
    """Load all libraries that have threads of their own: a limit holds for those that are loaded."""
    import scipy.linalg  # noqa: F401

    with suppress(ModuleNotFoundError):
        import torch  # noqa: F401


def _client(scheduler: str):
    """Return a Dask client that is connected to a scheduler."""
    with needs("cluster"):
        from distributed import Client

    if not _is_scheduler(scheduler):
        takes = "takes the address of a Dask scheduler, as tcp://HOST:PORT"
        raise BadValue("scheduler", f"{takes}; none answers at {shown(scheduler)}")
    # That the connection was lost is told in one line, by the sweep.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)


def _is_scheduler(address: str) -> bool:
    """Return whether a Dask scheduler answers at an address: a client would wait for long."""
    from distributed.core import rpc

    async def ask() -> dict:
        async with rpc(address) as there:
            return await asyncio.wait_for(there.identity(), ANSWER_SECONDS)

    with ThreadPoolExecutor(1) as other:  # a notebook's own thread has an event loop that runs
        try:
            return other.submit(asyncio.run, ask()).result()["type"] == "Scheduler"
        except Exception:  # whatever something else at that address may say
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
        counts = {how: len(self.ended(how)) for how in (*KEPT, "failed")}
        ends = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
        return f"Swept({len(self.runs)} runs in {self.folder}: {ends})"

    def ended(self, how: str) -> list[Plan]:
        """Return the plans whose runs "finished", "diverged" or "failed"."""
        return [self.runs[name] for name, row in self.rows.items() if row["ended"] == how]

    @property
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
    runs, folder = distinct(plans), Path(folder)
    with needs("cluster"):
        from pyarrow import csv, parquet
    rows: dict[str, dict] = {}
    swept = Swept(folder, runs, rows, 0)
    for name, plan in runs.items():
        try:
            history = swept.history(plan)
        except (FileNotFoundError, DamagedFile):
            continue
        if history.ended in KEPT:
            rows[name] = _row(plan, history)
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
    by_draw: dict[tuple, list[Plan]] = {}
    for plan in plans:
        by_draw.setdefault(plan.draw, []).append(plan)
    waiting = (plan for group in by_draw.values() for plan in group)
    differing, pending = swept.axes, {}
    with warnings.catch_warnings(), delayed_interrupt() as stop, executor(jobs, scheduler) as pool:
        # What train() warns of is in the table. Sequences of one's own go to a cluster with each run.
        warnings.filterwarnings("ignore", module="iclcore.sweep")
        warnings.filterwarnings("ignore", "Sending large graph")
        (swept.folder / "runs").mkdir(parents=True, exist_ok=True)

        def stop_run(_steps: int) -> None:
            if stop.is_set():
                raise KeyboardInterrupt

        task = _on_worker if scheduler else partial(carry_out, progress=stop_run)
        bar = tqdm(total=len(swept.runs), initial=swept.reused, unit=" runs", disable=None)
        try:
            while not stop.is_set():
                for plan in islice(waiting, SUBMITTED - len(pending)):
                    pending[pool.submit(task, plan)] = plan
                if not pending:
                    break
                for future in wait(pending, LOOK_SECONDS, FIRST_COMPLETED).done:
                    plan = pending.pop(future)
                    shown = ", ".join(f"{n}={plan.row[n]}" for n in differing if n in plan.row)
                    _keep(plan, future, swept, f"run {plan.name} ({shown})")
                    bar.update()
            if stop.is_set():
                raise KeyboardInterrupt
        except BaseException as error:
            stop.set()  # so that the runs under way end too
            kept = len(swept.rows) - len(swept.ended("failed"))
            line = (
                f"{kept} of {len(swept.runs)} runs are kept in {swept.folder}; run again to go on"
            )
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(line) from None
            if scheduler and isinstance(error, CancelledError | OSError):
                raise ClusterLost(f"the Dask scheduler at {scheduler} is gone: {line}") from None
            raise
        finally:
            bar.close()
            _shared_draw.cache_clear()


def _keep(plan: Plan, future: Any, swept: Swept, title: str) -> None:
    """Write the run that a future holds and add its row, or tell why it failed."""
    error = future.exception()
    if error is None:
        history = future.result()
        if history.ended == "interrupted":
            return
        if history.versions == versions():
            # Without its seconds the same run is the same file.
            replace(history, seconds={}).to_npz(swept.file(plan))
            swept.rows[plan.name] = _row(plan, history)
            if history.ended == "diverged":
                _tell(f"{title} diverged at step {history.steps[-1]}")
            return
        error = RuntimeError("the worker has other versions than this process")
    swept.rows[plan.name] = {"run": plan.name, **plan.row, "ended": "failed"}
    _tell(f"{title} failed: {type(error).__name__}: {error}".splitlines()[0])


def _row(plan: Plan, history: History) -> dict:
    """Return a run's row of the table: its settings, how it ended, the errors before its last step."""
    errors = {name: float(a[-1]) for name, a in history.series.items() if a.ndim == 1}
    seen = {"ended": history.ended, "recorded": len(history.loss)}
    seen |= {"floor": history.floor, "first_rise": history.first_rise}
    return {"run": plan.name, **plan.row, **seen, **errors}


def _tell(line: str) -> None:
    """Write a line to the terminal, above the bar if there is one."""
    tqdm.write(line, file=sys.stderr)
