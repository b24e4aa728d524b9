"""Where tasks run: on one thread each, told apart from one another; what they are made by; signals."""

import ast
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from threading import Event

import numba
import numpy as np
import pytest
import torch
from test_sweep import BASE

import iclcore
from iclcore import History, versions
from iclcore.sweep.workers import Cluster, Cores, _settled
from iclcore.threads import blas


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
    assert _settled(versions.here(), threads) == (1, {1}, 1)
    assert threads() == before


def test_the_end_of_a_pool_is_its_own():
    """Tasks of another pool, of one to come and of a cluster go on."""

    def ended(pool):
        try:
            pool.heed(1)
        except KeyboardInterrupt:
            return True

    with Cores(1) as later:
        with Cores(1) as first:
            assert not ended(first)
        assert ended(first) and not ended(later) and not ended(Cluster("tcp://nowhere"))


# -- versions -------------------------------------------------------------------------------------


@pytest.fixture
def asked_anew():
    versions._versions.cache_clear()
    yield
    versions._versions.cache_clear()


def test_versions_are_looked_up_once_and_torch_may_be_missing(asked_anew, monkeypatch):
    own, asked = metadata.version, []

    def version(name):
        asked.append(name)
        if name == "torch":
            raise metadata.PackageNotFoundError(name)
        return own(name)

    monkeypatch.setattr(metadata, "version", version)
    one, other = (History({"loss": np.zeros(1)}).versions for _ in range(2))
    assert one == other and one["torch"] == "none" and one["numpy"] == np.__version__
    assert sorted(asked) == sorted(set(asked)) and one is not other


def test_a_light_process_has_the_same_versions_and_names_without_torch():
    script = (
        "import sys\n"
        "from iclcore import RegressionTask, SeparateAttention, train\n"
        "from iclcore.moments import of_population\n"
        "from iclcore.optimisers import GradientDescent\n"
        "from iclcore.sweep import Plan\n"
        f"run = {BASE!r}\n"
        "history = train(run.model, of_population(run.task, run.model), 3, 0.01)\n"
        "print(run.name, history.versions, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == f"{BASE.name} {versions.versions()} False\n", done.stderr


def test_the_digest_has_every_module_that_a_number_goes_through():
    folder, found, left = Path(iclcore.__file__).parent, set(), ["sweep/plan"]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("iclcore."):
                left.append(node.module.removeprefix("iclcore.").replace(".", "/"))
            elif isinstance(node, ast.ImportFrom) and node.module == "iclcore":
                names = [alias.name for alias in node.names]
                left += [name for name in names if name != "__version__"]
    silent = {
        "checks",
        "extras",
        "files",
        "history",
        "interrupts",
        "systems",
        "heads/theory",  # by history, which names a run's task
        "versions",
    }  # no number changes with them
    assert found == silent | set(versions.SOURCES)


def test_other_code_has_another_digest(tmp_path, monkeypatch):
    folder = Path(versions.__file__).parent
    for name in versions.SOURCES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_bytes((folder / f"{name}.py").read_bytes())
    here = versions._digest()
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "versions.py"))
    assert versions._digest() == here
    run = tmp_path / "sweep" / "plan.py"
    run.write_text(run.read_text().replace("run.lr", "run.lr * 1.01"))
    assert versions._digest() != here


# -- signals --------------------------------------------------------------------------------------


def test_signals_that_end_a_process_are_ctrl_c_unless_it_ignores_them():
    script = (
        "import signal as s\n"
        "from iclcore import interrupts\n"
        "s.signal(s.SIGHUP, s.SIG_IGN)\n"  # nohup
        "s.signal(s.SIGTERM, s.SIG_DFL)\n"  # whatever runs these tests ignores
        "s.signal(s.SIGINT, s.default_int_handler)\n"
        "interrupts.listen()\n"
        "with interrupts.noted() as outer, interrupts.noted() as inner:\n"
        "    s.raise_signal(s.SIGHUP)\n"
        "    assert not inner.is_set()\n"
        "    s.raise_signal(s.SIGTERM)\n"
        "assert inner.is_set() and interrupts.status() == 143\n"
        "try:\n"
        "    s.raise_signal(s.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    raise SystemExit(interrupts.status())\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 130


def test_a_library_leaves_the_signals_of_others_alone():
    before = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGHUP)}
    with iclcore.interrupts.noted():
        assert {s: signal.getsignal(s) for s in before} == before
    with pytest.raises(KeyboardInterrupt), iclcore.interrupts.put_off():
        signal.raise_signal(signal.SIGINT)
        done = True
    assert done
