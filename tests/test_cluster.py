"""Sweeps on a Dask cluster of a scheduler and two workers, which are processes of this machine."""

import re
import shlex
import signal
import subprocess
import sys
import time
from threading import Thread

import pytest
from pace import slow
from test_sweep import files

from iclcore import RegressionTask, SeparateAttention
from iclcore.sweep import ClusterLost, Plan, grid, sweep

BASE = Plan(RegressionTask(), SeparateAttention(4), sequences=100, steps=60_000, lr=0.01)
PLANS = grid(BASE, rank=(1, 2), seed=range(4))


class LocalCluster:
    """A scheduler and two workers, which can be killed one by one."""

    def __init__(self, folder):
        self.processes, self.folder, self.file = [], folder, folder / "scheduler.log"
        self.file.touch()
        self.scheduler = self.start("scheduler --port 0 --no-show")
        self.address = self.wait_for(r"Scheduler at: +(tcp://\S+)")
        for _ in range(2):
            self.worker()
        self.wait_for(r"Register worker[^¶]*Register worker")

    def worker(self) -> subprocess.Popen:
        folder = f"--local-directory {self.folder}"
        return self.start(f"worker {self.address} --nthreads 1 --no-nanny {folder}")

    def start(self, line) -> subprocess.Popen:
        name, *flags = shlex.split(f"{line} --host 127.0.0.1 --no-dashboard")
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *flags]
        with open(self.file, "a") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        return self.processes[-1]

    def wait_for(self, pattern):
        """Return the first match in the log."""
        while not (found := re.search(pattern, self.file.read_text())):
            assert all(process.poll() is None for process in self.processes), self.file.read_text()
            time.sleep(0.02)
        return found[found.lastindex or 0]

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One cluster for all tests; the last test of this file kills its scheduler."""
    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    sweep(PLANS, folder)
    return folder


def kill_at(process, folder, count):
    """Kill a process as soon as so many runs are done."""

    def watch():
        while len(list(folder.glob("runs/*.npz"))) < count:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


def test_a_worker_dies_and_every_byte_is_that_of_a_local_sweep(cluster, local, in_folder):
    kill_at(cluster.processes[2], in_folder / "there", 2)
    swept = sweep(PLANS, "there", scheduler=cluster.address)
    assert cluster.processes[2].wait() == -signal.SIGKILL and cluster.processes[1].poll() is None
    assert len(swept.ended("finished")) == len(PLANS)
    assert files(in_folder / "there") == files(local)
    cluster.worker()


def test_a_run_that_fails_on_a_worker_is_reported_in_one_line(
    cluster, in_folder, monkeypatch, capsys
):
    wrong = RegressionTask(noise=0.1)  # the published labels have none
    swept = sweep([BASE, Plan(wrong, BASE.model)], "out", scheduler=cluster.address)
    assert repr(swept) == "Swept(2 runs in out: 1 finished, 1 failed)"
    (line,) = capsys.readouterr().err.splitlines()
    assert "noise=0.1" in line and "failed: BadValue: task takes no basis" in line
    monkeypatch.setattr("iclcore.sweep.versions", lambda: {"numpy": "1.0"})
    swept = sweep([Plan(BASE.data, BASE.model)], "out", scheduler=cluster.address)
    (line,) = capsys.readouterr().err.splitlines()
    assert swept.ended("failed") and "this worker has other versions, {'python': " in line


@slow
def test_what_was_done_is_kept_if_the_scheduler_dies(cluster, local, in_folder):
    kill_at(cluster.scheduler, in_folder / "there", 2)
    with pytest.raises(ClusterLost) as error:
        sweep(PLANS, "there", scheduler=cluster.address)
    done = len(list(in_folder.glob("there/runs/*.npz")))
    assert 2 <= done < len(PLANS)
    says = f"is gone: {done} of 8 runs are kept in there; sweep again to continue"
    assert str(error.value) == f"the Dask scheduler at {cluster.address} {says}"
    assert sweep(PLANS, "there").reused == done
    assert files(in_folder / "there") == files(local)
