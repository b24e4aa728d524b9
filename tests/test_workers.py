"""Where tasks run: on one thread each."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numba
import pytest
import torch

from iclcore.threads import blas
from iclcore.workers import Cores, _settled


def threads():
    """What this thread has, and what BLAS has."""
    of_blas = {library.num_threads for library in blas().lib_controllers}
    return torch.get_num_threads(), of_blas, numba.get_num_threads()


def in_new_thread(function):
    with ThreadPoolExecutor(1) as new:
        return new.submit(function).result()


@pytest.fixture
def several_threads():
    numba.get_num_threads()  # at its first call numba sets torch's number
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    with blas().limit(limits=2):
        yield
    torch.set_num_threads(before)


def test_tasks_have_one_thread_and_the_process_gets_its_own_back(several_threads):
    """Of two pools that overlap the first to come is the first to go."""
    here, there = threads(), in_new_thread(threads)
    started, go = [Event(), Event()], [Event(), Event()]

    def task(number):
        started[number].set()
        assert go[number].wait(60)
        return threads()

    pools, futures, found = [Cores(1), Cores(1)], [], []
    for number, pool in enumerate(pools):
        pool.__enter__()
        futures.append(pool.submit(task, number))
        assert started[number].wait(60)
    for pool, future, event in zip(pools, futures, go, strict=True):
        event.set()
        found.append(future.result())
        pool.__exit__()
    assert found == [(1, {1}, 1)] * 2
    assert (threads(), in_new_thread(threads)) == (here, there) == ((3, {2}, here[2]),) * 2


def test_a_cluster_in_this_process_gives_its_threads_back_too(several_threads):
    before = threads()
    assert _settled(threads) == (1, {1}, 1)
    assert threads() == before
