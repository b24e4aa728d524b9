"""A task that computes on one thread, whatever runs beside it in its process.

Numba's and torch's numbers of threads are each thread's own. BLAS has one for the process: whoever
comes first takes it, and whoever goes last gives it back.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

from threadpoolctl import ThreadpoolController

_lock, _holders, _limits = Lock(), 0, None


@contextmanager
def alone() -> Iterator[None]:
    """All that this thread computes in here, it computes by itself: no sum of floats depends on how
    many cores there are, and no core is asked for help that has a task of its own."""
    import numba

    threads = numba.get_num_threads()  # at its first call numba sets torch's number, too
    numba.set_num_threads(1)
    try:
        with _one_blas_thread(), one_torch_thread():
            yield
    finally:
        numba.set_num_threads(threads)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """For matrices too small to share: where the cores have other work, threads that wait for each
    other cost up to tenfold."""
    threads = _torch_threads(1)
    try:
        yield
    finally:
        _torch_threads(threads)


def _torch_threads(number: int) -> int:
    """Give this thread so many, and say how many it had.

    Torch takes the number for threads to come as well; those keep theirs.
    """
    torch = torch_if_any()
    if not torch:
        return number
    with _lock:
        before, usual = torch.get_num_threads(), _elsewhere(torch.get_num_threads)
        torch.set_num_threads(number)
        _elsewhere(torch.set_num_threads, usual)
    return before


def torch_if_any() -> ModuleType | None:
    """Torch, if this installation has it."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    return torch


def _elsewhere(function: Callable, *arguments: Any) -> Any:
    """In a thread of its own, which starts as threads to come will."""
    with ThreadPoolExecutor(1) as new:
        return new.submit(function, *arguments).result()


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    global _holders, _limits
    with _lock:
        if not _holders:
            _limits = _libraries().limit(limits=1)
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders:
                _limits.restore_original_limits()


def blas() -> ThreadpoolController:
    """The BLAS libraries of this process."""
    with _lock:
        return _libraries()


@cache
def _libraries() -> ThreadpoolController:
    """Looked for once: to look while another thread loads a library can lock both for ever. So what a
    task computes with is loaded here, not by the first task that needs it."""
    import scipy.linalg  # noqa: F401  with a BLAS of its own beside numpy's

    torch_if_any()
    return ThreadpoolController().select(user_api="blas")
