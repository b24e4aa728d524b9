"""Train many models, in threads of this process or on a Dask cluster, and keep every run in a folder.

    plan = Plan(RegressionTask(dim=4), SeparateAttention(heads=4), steps=2000, lr=0.02)
    swept = sweep(grid(plan, rank=(1, 2), seed=range(24)), "runs", jobs=2)

- ``Plan`` holds everything that a run depends on, and ``grid`` varies a plan over all combinations of values.
- ``carry_out(plan, callback=None)`` trains one plan and returns its History.
- ``sweep(plans, folder, jobs=None, scheduler=None)`` trains the plans whose runs are not in the folder yet,
  and returns a ``Swept``. It raises BadValue before any work if a value is wrong, ClusterLost if the
  scheduler is lost, and KeyboardInterrupt after Ctrl-C. The messages of the last two say in one line how many
  runs are kept.
- ``found(plans, folder)`` returns the runs that are already in the folder, also as a ``Swept``.
- ``executor(jobs, scheduler)`` yields the concurrent.futures executor that a sweep uses.
- ``distinct(plans)`` returns the plans as a dictionary by name.

The folder holds ``table.csv`` and a file ``runs/NAME.npz`` for each run. If pyarrow is installed, the folder
also holds ``table.parquet``. NAME is a hash of everything that the run depends on, so a second sweep trains
only the runs that are missing.
"""

import csv
import io
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from threading import Event

from iclcore.bars import Bar
from iclcore.checks import BadValue, instance, whole
from iclcore.extras import needs
from iclcore.files import DamagedFile, write_whole
from iclcore.history import History
from iclcore.models import MODELS
from iclcore.sweep_plan import Plan, carry_out, distinct, grid
from iclcore.trainer import delayed_interrupt
from iclcore.versions import versions

__all__ = [
    "ClusterLost", "Plan", "Swept", "carry_out", "distinct", "executor", "found", "grid", "sweep",
]  # fmt: skip

SUBMITTED = 1000  # most runs that an executor may hold at a time; a cluster has fewer workers
ANSWER_SECONDS = 2  # a scheduler has to answer within this time
LOOK_SECONDS = 0.2  # a sweep checks this often whether Ctrl-C was pressed


class ClusterLost(Exception):
    """The connection to the Dask scheduler was lost during a sweep."""


# -- where runs are carried out -------------------------------------------------------------------


@contextmanager
def executor(jobs: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """Yield a concurrent.futures executor: ``jobs`` threads, or the workers of a Dask scheduler.

    If no number is given, there are as many threads as the machine has cores. The numerical libraries start
    no threads of their own, so results do not depend on the number of cores. An error in the with block
    cancels all calls that have not started.
    """
    if scheduler is not None:
        with _client(scheduler) as client:
            yield client.get_executor(pure=False)
        return
    jobs = os.cpu_count() if jobs is None else whole("jobs", jobs)
    import scipy.linalg  # noqa: F401, because the limit holds only for loaded libraries
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), ThreadPoolExecutor(jobs) as threads:
        try:
            yield threads
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _client(scheduler: str):
    """Return a Dask client that is connected to a scheduler."""
    with needs("cluster"):
        from distributed import Client

    # Dask's loggers are silenced, because the sweep itself says in one line that the scheduler is gone.
    for part in ("client", "batched", "comm"):
        logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)
    try:
        return Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        takes = "takes the address of a Dask scheduler, such as tcp://HOST:PORT"
        raise BadValue("scheduler", f"{takes}: {error}") from None


def _on_worker(wanted: dict[str, str], plan: Plan) -> History:
    """Carry out a plan on a worker of a cluster. The result has the same bits as on this machine."""
    if versions() != wanted:
        raise RuntimeError(f"this worker has other versions, {versions()}")
    if (model := type(plan.model)) not in MODELS.values():
        raise RuntimeError(
            f"workers must be able to import the module that defines {model.__name__}"
        )
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)  # until the worker ends
    # Arrays arrive at unaligned addresses, where NumPy adds numbers in another order. Copies are aligned.
    return carry_out(deepcopy(plan))


# -- many runs ------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Swept:
    """The runs that a sweep left in its folder.

    - ``folder``: the path of the folder.
    - ``runs``: the plans by name.
    - ``rows``: the rows of the table by name of the plan, in the same order.
    - ``reused``: the number of runs that were in the folder before the sweep.
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
        return self.folder / "runs" / f"{instance('plan', plan, Plan).name}.npz"

    def history(self, plan: Plan) -> History:
        """Read the history of the run of ``plan`` from its file."""
        return History.from_npz(self.file(plan))

    def table(self) -> dict[str, list]:
        """Return the columns of the table by name, as ``pandas.DataFrame`` takes them.

        The table has a row for each run, with its settings, how it ended and its last errors.
        """
        names = dict.fromkeys(column for row in self.rows.values() for column in row)
        return {name: [row.get(name) for row in self.rows.values()] for name in names}


def found(plans: Sequence[Plan], folder: str | Path) -> Swept:
    """Return the runs of the plans that are already in ``folder``. Nothing is trained or written."""
    swept = Swept(Path(folder), distinct(plans), {}, 0)
    for name, plan in swept.runs.items():
        with suppress(FileNotFoundError, NotADirectoryError, DamagedFile):
            swept.rows[name] = _row(plan, swept.history(plan))
    return replace(swept, reused=len(swept.rows))


def sweep(
    plans: Sequence[Plan],
    folder: str | Path,
    *,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Swept:
    """Train the plans whose runs are not in ``folder`` yet, and write the table of all plans.

    - ``plans``: a list of plans, such as ``grid`` returns.
    - ``folder``: the path of a folder for the table and the runs. It is created if it does not exist.
    - ``jobs``: the number of threads, by default the number of cores.
    - ``scheduler``: the address of a Dask scheduler, such as ``tcp://HOST:PORT``. The sweep then uses the
      workers of the scheduler instead of threads. The files have the same bytes in both cases.

    If a run fails or diverges, one line on stderr says so, and the other runs continue. If a sweep ends early
    for any reason, the finished runs are kept, and the next call trains the others.
    """
    swept = found(plans, folder)
    for leftover in swept.folder.rglob("*.????????.partial"):  # from a sweep that was killed
        leftover.unlink(missing_ok=True)
    if missing := [plan for name, plan in swept.runs.items() if name not in swept.rows]:
        _train(missing, swept, jobs, scheduler)
    swept = replace(swept, rows={name: swept.rows[name] for name in swept.runs})
    _write_table(swept)
    return swept


def _write_table(swept: Swept) -> None:
    """Write table.csv and, if pyarrow is installed, table.parquet."""
    columns, text = swept.table(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_whole(swept.folder / "table.csv", lambda file: file.write(text.getvalue().encode()))
    path = swept.folder / "table.parquet"
    try:
        from pyarrow import parquet, table
    except ModuleNotFoundError:
        path.unlink(missing_ok=True)  # an old file would hold the table of an earlier sweep
    else:
        write_whole(path, lambda file: parquet.write_table(table(columns), file))


def _train(plans: list[Plan], swept: Swept, jobs: int | None, scheduler: str | None) -> None:
    """Train the plans. When a run is done, write its file and add its row to ``swept.rows``."""
    order = {draw: i for i, draw in enumerate(dict.fromkeys(plan.draw for plan in plans))}
    waiting = iter(sorted(plans, key=lambda plan: order[plan.draw]))
    pending: dict[Future, Plan] = {}
    stopping = Event()
    task = partial(carry_out, callback=lambda step, loss: stopping.is_set())
    if scheduler is not None:
        task = partial(_on_worker, versions())
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.filterwarnings("ignore", module="iclcore.sweep")  # the table says the same
        warnings.filterwarnings("ignore", "Sending large graph")  # a plan may hold arrays
        pool = stack.enter_context(executor(jobs, scheduler))
        interrupted = stack.enter_context(delayed_interrupt())
        (swept.folder / "runs").mkdir(parents=True, exist_ok=True)
        bar = stack.enter_context(Bar(len(swept.runs), "runs"))
        stack.callback(stopping.set)
        try:
            while not interrupted.is_set():
                for plan in islice(waiting, SUBMITTED - len(pending)):
                    pending[pool.submit(task, plan)] = plan
                if not pending:
                    return
                done, _ = futures.wait(pending, LOOK_SECONDS, futures.FIRST_COMPLETED)
                for future in done:
                    if line := _keep(pending.pop(future), future, swept):
                        bar.write(line)
                losses = [row["loss"] for row in swept.rows.values() if "loss" in row]
                bar.show(len(swept.rows), f"last loss {losses[-1]:.4g}" if losses else "")
            raise KeyboardInterrupt
        except (KeyboardInterrupt, CancelledError) as error:
            kept = len(swept.rows) - len(swept.ended("failed"))
            of_all = f"{kept} of {len(swept.runs)} runs are kept in {swept.folder}"
            line = f"{of_all}; sweep again to continue"
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(line) from None
            raise ClusterLost(f"the Dask scheduler at {scheduler} is gone: {line}") from None


def _keep(plan: Plan, future: Future, swept: Swept) -> str:
    """Write the run of a future and add its row. If the run failed or diverged, return a line about it."""
    if error := future.exception():
        row = {"run": plan.name, **plan.row, "ended": "failed"}
        end = f"failed: {type(error).__name__}: {error}"
    else:
        history = future.result()
        replace(history, seconds={}).to_npz(swept.file(plan))  # equal runs give equal files
        row, end = _row(plan, history), f"diverged at step {history.steps[-1]}"
    swept.rows[plan.name] = row
    if row["ended"] == "finished":
        return ""
    shown = ", ".join(f"{name}={row.get(name)}" for name in swept.axes)
    return f"run {plan.name} ({shown}) {end}".splitlines()[0]


def _row(plan: Plan, history: History) -> dict:
    """Return a run's row of the table: its settings, how it ended, and the last errors recorded."""
    errors = {name: float(a[-1]) for name, a in history.series.items() if a.ndim == 1}
    end = {"ended": history.ended, "recorded": len(history.loss), "floor": history.floor}
    return {"run": plan.name, **plan.row, **end, "first_rise": history.first_rise, **errors}
