"""The same sweep on a Dask cluster: a scheduler and two workers, processes of this machine."""

import asyncio
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import KilledWorker
from distributed.comm import CommClosedError
from pace import slow
from test_sweep import files

from iclcore import MergedAttention, RegressionTask, SeparateAttention, Sequences, versions
from iclcore.cli import main
from iclcore.sweep import Plan, grid, sweep, workers
from iclcore.sweep.chunks import sampled_moments
from iclcore.sweep.workers import Cluster, NoCluster, WorkersDied

BASE = Plan(RegressionTask(), SeparateAttention(4), sequences=100, steps=60_000, lr=0.01)
RUNS = grid(BASE, rank=(1, 2), seed=range(4))
FLAGS = (
    "--grid 'rank=1,2 seed=0:4' --model attnS --head 4 --trainset_size 100 --epoch 60000 --lr 0.01"
)


class LocalCluster:
    """Processes that can be killed one by one; told apart by their process ids."""

    def __init__(self, folder):
        self.processes, self.folder, self.file = [], folder, folder / "scheduler.log"
        self.file.touch()
        self.scheduler = self.start("scheduler --port 0 --no-show")
        self.address = self.said(r"Scheduler at: +(tcp://\S+)")
        for _ in range(2):
            self.worker()
        self.said(r"Register worker[^¶]*Register worker")

    def worker(self) -> subprocess.Popen:
        folder = f"--local-directory {self.folder}"
        return self.start(f"worker {self.address} --nthreads 1 --no-nanny {folder}")

    def start(self, line) -> subprocess.Popen:
        name, *flags = shlex.split(f"{line} --host 127.0.0.1 --no-dashboard")
        command = [sys.executable, "-m", f"distributed.cli.dask_{name}", *flags]
        with open(self.file, "a") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        return self.processes[-1]

    def said(self, pattern):
        while not (found := re.search(pattern, self.file.read_text())):
            assert all(process.poll() is None for process in self.processes), self.file.read_text()
            time.sleep(0.02)
        return found[found.lastindex or 0]

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def started():
    clusters = []
    yield clusters
    for each in clusters:
        each.stop()


@pytest.fixture
def cluster(started, tmp_path_factory):
    """One for all tests, until its scheduler is killed."""
    if not started or started[-1].scheduler.poll() is not None:
        started.append(LocalCluster(tmp_path_factory.mktemp("cluster")))
    return started[-1]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    sweep(RUNS, folder)
    return folder


def kill_at(process, folder, count):
    """Kill a process as soon as so many runs are done."""

    def watch():
        while len(list(folder.glob("runs/*.npz"))) < count:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    return thread


def same(one, other):
    assert files(one) == files(other)
    for table in ("table.csv", "table.parquet"):
        assert (one / table).read_bytes() == (other / table).read_bytes()


@slow
def test_moments_of_a_tree_are_the_same_bytes(cluster):
    task, model = RegressionTask(dim=3, in_context=0.5), MergedAttention()

    def moments(scheduler):
        return sampled_moments(task, model, 5000, seed=1, chunk=700, scheduler=scheduler)

    async def cell():  # a notebook's code is called by a loop that runs
        return moments(cluster.address)

    with ThreadPoolExecutor(1) as notebook:
        here, there = moments(None), notebook.submit(asyncio.run, cell()).result()
    for name in ("gram", "cross", "power"):
        assert (
            np.asarray(getattr(here, name)).tobytes() == np.asarray(getattr(there, name)).tobytes()
        )


def test_a_worker_dies_and_nothing_is_lost_or_twice(cluster, local, in_folder):
    """Whoever computed a run, and whatever was computed again: the bytes are those of this machine."""
    watcher = kill_at(cluster.processes[2], in_folder / "there", 2)
    swept = sweep(RUNS, "there", scheduler=cluster.address)
    watcher.join()
    assert cluster.processes[2].wait() == -signal.SIGKILL and cluster.processes[1].poll() is None
    assert len(swept.ended("finished")) == len(RUNS)
    same(in_folder / "there", local)


def test_a_sweep_of_the_population_is_like_any_other(cluster, in_folder):
    """No draw goes to the workers, and no averages: the engine of many dimensions, and that of averages."""
    line = "--grid 'in_dim=2,40 seed=0:2' --model attnS --trainset_size inf --epoch 30"
    for where in ("--out here", f"--out there --scheduler {cluster.address}"):
        assert main(["sweep", *shlex.split(f"{line} {where}")]) == 0
    same(in_folder / "here", in_folder / "there")
    assert len(files(in_folder / "there")) == 4


def test_own_sequences_go_to_the_workers(cluster, in_folder):
    """13 MB of them, of which no library complains."""
    data = RegressionTask().sample(10_000)
    runs = grid(Plan(Sequences(data.x, data.y), SeparateAttention(4), steps=40), seed=range(3))
    for folder, scheduler in (("here", None), ("there", cluster.address)):
        assert len(sweep(runs, folder, scheduler=scheduler).ended("finished")) == 3
    same(in_folder / "here", in_folder / "there")


def test_a_failing_run_on_a_worker_is_reported(cluster, in_folder, capsys):
    line = "--model attnS --epoch 40 --grid trainset_size=60,1000000000000 --out out --scheduler"
    assert main(["sweep", *line.split(), cluster.address]) == 3
    said = capsys.readouterr()
    assert "1 finished, 1 failed" in said.out
    assert said.err.count("\n") == 1 and "sequences=1000000000000) failed: " in said.err


@pytest.mark.parametrize("name", ["iclcore", "processor"])
def test_a_worker_of_another_kind_is_refused(name, cluster, in_folder, capsys, monkeypatch):
    """Before any work; and one that comes later, to which no task is done."""
    there = versions.here()
    other, own = there | {name: "of another kind"}, re.escape(there[name])
    monkeypatch.setattr(versions, "_versions", lambda: other)
    monkeypatch.setattr(versions, "_processor", lambda: other["processor"])
    line = ["sweep", *shlex.split(FLAGS), "--out", "there", "--scheduler", cluster.address]
    has = rf"worker tcp://\S+ has {name} {own}, not of another kind"
    with pytest.raises(SystemExit, match="2"):
        main(line)
    said = capsys.readouterr().err
    assert re.fullmatch(rf"iclcore sweep: argument --scheduler: {has}\n", said)
    monkeypatch.setattr(Cluster, "_check_workers", lambda _: None)
    assert main(line) == 3
    said = capsys.readouterr().err
    assert re.fullmatch(rf"{has}: 0 of 8 runs are kept in there; run again to go on\n", said)
    assert not list(in_folder.glob("there/runs/*"))


def test_the_scheduler_goes_while_it_is_asked(cluster, in_folder, capsys, monkeypatch):
    """No error of a file, whatever kind of error it is."""

    def gone(_):
        raise OSError("in <TCP (closed)>: Stream is closed")

    monkeypatch.setattr("distributed.Client.nthreads", gone)
    line = f"sweep {FLAGS} --out there --scheduler {cluster.address}"
    assert main(shlex.split(line)) == 3
    gone = f"the Dask scheduler at {cluster.address} is gone"
    said = f"{gone}: 0 of 8 runs are kept in there; run again to go on\n"
    assert capsys.readouterr().err == said


class Stub:
    """What a Cluster asks of its client and of a future, without a scheduler."""

    def __init__(self, counts=(), outcome=None):
        self.counts, self.outcome, self.looks = list(counts), outcome, 0

    @property
    def status(self):
        self.looks += 1
        return "running" if self.looks < 100 else "closed"

    def nthreads(self):
        count = self.counts.pop()
        if not self.counts:
            self.done(self)
        return {"worker": count} if count else {}

    def add_done_callback(self, done):
        self.done = done

    def exception(self):
        return self.outcome


def test_a_cluster_without_workers_is_said_each_minute(monkeypatch, capsys):
    for name, value in {"LOOK": 0.001, "PATIENCE": 3}.items():
        monkeypatch.setattr(workers, name, value)
    cluster, stub = Cluster("tcp://here"), Stub([1, 0, 0], ValueError())
    cluster._client = stub
    assert list(cluster.outcomes([stub])) == [(stub, stub.outcome)]
    line = "the scheduler at tcp://here has no workers; waiting for one\n"
    assert capsys.readouterr().err == 2 * line and not stub.counts


def test_a_worker_that_leaves_while_it_is_asked_is_not_missed():
    cluster = Cluster("tcp://here")
    answers = {"tcp://gone": CommClosedError("in <TCP (closed)>"), "tcp://there": versions.here()}
    cluster._client = SimpleNamespace(run=lambda *_, **__: answers)
    cluster._check_workers()
    answers["tcp://gone"] = ModuleNotFoundError("No module named 'iclcore'")
    with pytest.raises(NoCluster, match="tcp://gone cannot take part: ModuleNotFoundError"):
        cluster._check_workers()


def test_a_task_that_no_worker_outlives_asks_for_memory():
    found = Cluster("tcp://here")._outcome(Stub(outcome=KilledWorker("task", None, 3)))
    assert isinstance(found, WorkersDied)
    assert str(found) == "4 workers died at it; are their memories large enough?"


@slow
def test_the_scheduler_goes_and_what_was_done_is_kept(cluster, local, in_folder):
    line = f"sweep {FLAGS} --out there --scheduler {cluster.address}"
    kill_at(cluster.scheduler, in_folder / "there", 2)
    done = subprocess.run(
        [sys.executable, "-m", "iclcore", *shlex.split(line)], capture_output=True, text=True
    )
    kept = len(list(in_folder.glob("there/runs/*.npz")))
    assert done.returncode == 3 and not done.stdout and 2 <= kept < len(RUNS)
    assert done.stderr == (
        f"the Dask scheduler at {cluster.address} is gone: "
        f"{kept} of 8 runs are kept in there; run again to go on\n"
    )
    assert sweep(RUNS, "there").found == kept
    same(in_folder / "there", local)


def reply(server, answer):
    with server.accept()[0] as caller:
        caller.sendall(answer)


@slow
@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9])
def test_an_address_where_no_scheduler_answers(answer, in_folder, capsys):
    """Nobody there, somebody silent, somebody else."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "tcp://{}:{}".format(*server.getsockname())
        if answer is None:
            server.close()
        elif answer:
            Thread(target=reply, args=(server, answer), daemon=True).start()
        with pytest.raises(SystemExit) as stop:
            main(["sweep", *shlex.split(FLAGS), "--out", "there", "--scheduler", address])
    assert stop.value.code == 2 and not list(in_folder.iterdir())
    said = f"iclcore sweep: argument --scheduler: no Dask scheduler answers at {address}\n"
    assert capsys.readouterr().err == said
