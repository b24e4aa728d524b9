"""Where tasks run: on this machine's cores, or on a Dask cluster. One interface, the same numbers.

``submit(function, *arguments)`` takes results of earlier tasks, still to come, as arguments. A task
tells ``heed`` of its progress, which ends it where all are to end, and computes on one thread.
"""

import asyncio
import logging
import os
import queue
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from threading import Event
from typing import Any

from tqdm import tqdm

from iclcore.extras import needs
from iclcore.interrupts import noted
from iclcore.threads import alone, blas
from iclcore.versions import difference, here

ANSWER = 2  # seconds that a scheduler has to answer
LOOK = 1  # seconds between looks at whether the scheduler is still there
PATIENCE = 60  # looks between words on a cluster that has no workers


class NoCluster(Exception):
    """One line on why a sweep cannot start on a cluster."""


class ClusterLost(Exception):
    """The scheduler went away while tasks were out, or a worker of another kind came."""


class WorkersDied(Exception):
    """Of a task that outlived none of the workers that it was given to."""


class Cores:
    """Threads of this process: what is compiled, BLAS and torch run beside one another in them.

    Tasks start in the order of their submission, so one that waits for an earlier one always
    finds it done or running.
    """

    def __init__(self, jobs: int | None = None):
        self.jobs = jobs or os.cpu_count() or 1

    def __enter__(self) -> "Cores":
        blas()  # before any task runs
        self._stop, self._pool = Event(), ThreadPoolExecutor(self.jobs)
        return self

    def __exit__(self, kind: type | None = None, *_) -> None:
        self._stop.set()
        if kind is KeyboardInterrupt:
            say("stopping: what is under way ends first, which may take some seconds")
        with noted():  # an impatient second Ctrl-C must not leave threads behind
            self._pool.shutdown(cancel_futures=True)

    def heed(self, _steps: int) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt

    def submit(self, function: Callable, *arguments: Any) -> Future:
        return self._pool.submit(_resolved, function, arguments)

    def outcomes(self, futures: Iterable[Future]) -> Iterator[tuple[Future, Any]]:
        """Futures as they are done, each with its result, or with the exception it ended in."""
        done = as_completed(futures)
        del futures  # or every result would be held to the end
        for future in done:
            yield future, future.exception() or future.result()


def _resolved(function: Callable, arguments: tuple) -> Any:
    given = [a.result() if isinstance(a, Future) else a for a in arguments]
    with alone():
        return function(*given)


class Cluster:
    """Workers of a Dask scheduler. What a worker had done when it died is done again by another, until
    as many have died at one task as the scheduler allows: four, if nobody changed it."""

    def __init__(self, address: str):
        self.address = address

    def __enter__(self) -> "Cluster":
        with needs("cluster"):  # takes a second, which runs on the cores need not wait
            from distributed import Client

        with ThreadPoolExecutor(1) as aside:  # a notebook has a loop running in its own thread
            answers = aside.submit(asyncio.run, _answers(self.address)).result()
        if not answers:
            raise NoCluster(f"no Dask scheduler answers at {self.address}")
        # that a scheduler is gone is said in one line, by the sweep
        for part in ("batched", "client"):
            logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)
        with self._connected():
            self._client = Client(self.address, timeout=ANSWER, set_as_default=False)
        try:
            self._check_workers()
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(self, *error) -> None:
        with noted():
            self._client.close()

    @property
    def jobs(self) -> int:
        """How many tasks its workers do at a time, now: workers come and go."""
        with self._connected():
            return sum(self._client.nthreads().values())

    @staticmethod
    def heed(_steps: int) -> None:
        """A worker ends its task."""

    def submit(self, function: Callable, *arguments: Any):
        with self._connected(), warnings.catch_warnings():
            # one's own sequences: they go once, with what prepares all runs on them
            warnings.filterwarnings("ignore", "Sending large graph")
            return self._client.submit(_settled, here(), function, *arguments, pure=False)

    def outcomes(self, futures: Iterable) -> Iterator[tuple[Any, Any]]:
        done: queue.SimpleQueue = queue.SimpleQueue()
        waiting, looks = set(futures), 0
        del futures
        for future in waiting:
            future.add_done_callback(done.put)
        while waiting:
            try:
                future = done.get(timeout=LOOK)
            except queue.Empty:
                self._still_there()
                if looks % PATIENCE == 0 and not self.jobs:
                    say(f"the scheduler at {self.address} has no workers; waiting for one")
                looks += 1
                continue
            yield future, self._outcome(future)
            waiting.discard(future)

    def _outcome(self, future) -> Any:
        """Its result, or the exception that the task itself ended in."""
        from distributed import KilledWorker

        with self._connected():
            outcome = future.exception() or future.result()
        if isinstance(outcome, ClusterLost):
            raise outcome
        if isinstance(outcome, KilledWorker):
            died = f"{outcome.allowed_failures + 1} workers died at it"
            return WorkersDied(f"{died}; are their memories large enough?")
        return outcome

    def _still_there(self) -> None:
        if self._client.status != "running":
            raise ClusterLost(f"the Dask scheduler at {self.address} is gone")

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Whatever cannot be asked of it, it is gone."""
        from distributed.client import ClosedClientError

        try:
            yield
        except (CancelledError, ClosedClientError, OSError):
            raise ClusterLost(f"the Dask scheduler at {self.address} is gone") from None

    def _check_workers(self) -> None:
        from distributed.comm import CommClosedError

        with self._connected():
            kinds = self._client.run(here, on_error="return")
        for worker, there in kinds.items():
            if isinstance(there, CommClosedError):
                continue  # it left while it was asked; one that comes is asked with its first task
            if isinstance(there, Exception):
                raise NoCluster(f"worker {worker} cannot take part: {there!r}")
            if other := difference(there, here()):
                raise NoCluster(f"worker {worker} has {other}")


async def _answers(address: str) -> bool:
    """Whether it is a scheduler. Asked before a client is made: one that cannot connect takes long to end."""
    from distributed.core import rpc

    try:
        async with rpc(address) as there:
            return (await asyncio.wait_for(there.identity(), ANSWER))["type"] == "Scheduler"
    except Exception:  # whatever else may sit there and say
        return False


def _settled(wanted: dict[str, str], function: Callable, *arguments: Any) -> Any:
    """What a cluster's worker does, if it is of the kind that is wanted: it may have come later."""
    if other := difference(here(), wanted):
        from distributed import get_worker

        raise ClusterLost(f"worker {get_worker().address} has {other}")
    with alone():
        return function(*arguments)


def say(line: str) -> None:
    """On the terminal, above the bar if there is one."""
    tqdm.write(line, file=sys.stderr)
