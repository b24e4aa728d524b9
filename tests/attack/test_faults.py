"""Killed sweeps, workers and schedulers, full disks, broken pipes: what was finished is kept, to the byte."""

import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import lock
import pytest
from test_cluster import LocalCluster

from attack.conftest import share
from iclcore import History

LINE = "--model attnS --head 4 --trainset_size 100 --epoch 40000 --lr 0.01"
GRID = f"--grid 'rank=1,2,4 seed=0:8' {LINE}"
COMMAND = [sys.executable, "-m", "iclcore"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}


def started(line: str, folder: Path, **more) -> subprocess.Popen:
    options = {
        "cwd": folder,
        "env": ENVIRONMENT,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    return subprocess.Popen([*COMMAND, *shlex.split(line)], text=True, **options | more)


def done(line: str, folder: Path, **more) -> subprocess.CompletedProcess:
    process = started(line, folder, **more)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(line, process.returncode, out, err)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The sweep that nothing disturbs."""
    folder = tmp_path_factory.mktemp("reference")
    assert done(f"sweep {GRID} --out out", folder).returncode == 0
    return folder / "out"


def same(out: Path, reference: Path, complete: bool) -> int:
    """Check that each run has the bytes of the undisturbed sweep, and return how many runs there are."""
    files, expected = (
        {path.name: path.read_bytes() for path in (folder / "runs").glob("*.npz")}
        for folder in (out, reference)
    )
    assert files.items() <= expected.items()
    if complete:
        assert files == expected
        for table in ("table.csv", "table.parquet"):
            assert (out / table).read_bytes() == (reference / table).read_bytes()
    return len(files)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_sweeps(number, reference, tmp_path):
    """A sweep is killed at random moments, again and again in one folder, until a last start ends it."""
    rng = random.Random(int(number))
    for _ in range(share(20)):
        process = started(f"sweep {GRID} --out out", tmp_path)
        time.sleep(rng.uniform(0.0, 6.0))
        before = same(tmp_path / "out", reference, complete=False)
        process.send_signal(number)
        process.communicate(timeout=120)
        assert same(tmp_path / "out", reference, complete=False) >= before
    assert done(f"sweep {GRID} --out out", tmp_path).returncode == 0
    same(tmp_path / "out", reference, complete=True)


def test_killed_workers(reference, tmp_path):
    """One of two workers is killed at random moments, and another one takes its place each time."""
    rng, cluster = random.Random(0), LocalCluster(tmp_path)
    try:
        process = started(f"sweep {GRID} --out out --scheduler {cluster.address}", tmp_path)
        for _ in range(share(20)):
            time.sleep(rng.uniform(0.5, 4.0))
            if process.poll() is not None:
                break
            worker = rng.choice([each for each in cluster.processes[1:] if each.poll() is None])
            worker.kill()
            worker.wait(timeout=120)
            cluster.worker()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0 or "KilledWorker" in err, err
        assert done(f"sweep {GRID} --out out", tmp_path).returncode == 0
        same(tmp_path / "out", reference, complete=True)
    finally:
        cluster.stop()


def test_killed_schedulers(reference, tmp_path):
    """A sweep says in one line that its scheduler is gone; under the next one it goes on."""
    rng = random.Random(0)
    for turn in range(share(10)):
        (tmp_path / str(turn)).mkdir()
        cluster = LocalCluster(tmp_path / str(turn))
        try:
            process = started(f"sweep {GRID} --out out --scheduler {cluster.address}", tmp_path)
            time.sleep(rng.uniform(0.0, 6.0))
            before = same(tmp_path / "out", reference, complete=False)
            cluster.scheduler.kill()
            _, err = process.communicate(timeout=120)
        finally:
            cluster.stop()
        told = "is gone: " in err or "none answers at" in err
        assert process.returncode == 0 or (told and err.count("\n") == 1), err
        assert same(tmp_path / "out", reference, complete=False) >= before
    assert done(f"sweep {GRID} --out out", tmp_path).returncode == 0
    same(tmp_path / "out", reference, complete=True)


def test_stopped_trainings(tmp_path):
    """A run that is stopped by Ctrl-C keeps what it recorded, or nothing if it had not begun."""
    rng = random.Random(0)
    for _ in range(share(20)):
        (tmp_path / "run.npz").unlink(missing_ok=True)
        process = started(f"train {LINE.replace('40000', '4000000')} --save run.npz", tmp_path)
        time.sleep(rng.uniform(0.0, 8.0))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        if (tmp_path / "run.npz").exists():
            assert History.from_npz(tmp_path / "run.npz").ended in ("interrupted", "finished")
        assert {path.name for path in tmp_path.iterdir()} <= {"run.npz"}


def test_full_disks(tmp_path):
    """A file may have so many bytes and no more: what was there stays, and one line says why."""
    rng = random.Random(0)
    for _ in range(share(20)):
        (tmp_path / "run.csv").write_text("mine")
        most = rng.randrange(0, 3000)
        process = done(
            "train --trainset_size 20 --epoch 400 --save run.csv --force", tmp_path,
            preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        )  # fmt: skip
        assert process.returncode == 1 and "could not write" in process.stderr, process.stderr
        assert process.stderr.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]
        assert (tmp_path / "run.csv").read_text() == "mine"


def test_two_sweeps_in_one_folder(reference, tmp_path):
    """Both write the same bytes, and every file is renamed into its place."""
    for pair in range(share(5)):
        folder = tmp_path / str(pair)
        folder.mkdir()
        both = [started(f"sweep {GRID} --out out", folder) for _ in range(2)]
        for process in both:
            _, err = process.communicate(timeout=600)
            assert process.returncode == 0, err
        same(folder / "out", reference, complete=True)


PLACES = {
    "one thread": {"NUMBA_NUM_THREADS": "1"},
    "sixty-four threads": {"OMP_NUM_THREADS": "64", "NUMBA_NUM_THREADS": "64", "OPENBLAS_NUM_THREADS": "64"},
    "no cache": {"NUMBA_CACHE_DIR": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "HOME": "/proc/none",
                 "MPLCONFIGDIR": "/proc/none"},
    "another locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "TZ": "Asia/Kolkata"},
    "another hash": {"PYTHONHASHSEED": "7", "PYTHONOPTIMIZE": "2"},
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_places(place, reference, tmp_path):
    """In other surroundings a sweep writes the same bytes."""
    process = done(f"sweep {GRID} --out out", tmp_path, env=ENVIRONMENT | PLACES[place])
    assert process.returncode == 0, process.stderr
    same(tmp_path / "out", reference, complete=True)


@pytest.mark.parametrize("line", ["theory", "train -h"])
def test_broken_pipes(line, tmp_path):
    rng = random.Random(0)
    for _ in range(share(10)):
        process = started(line, tmp_path)
        process.stdout.read(rng.randrange(0, 2000))
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(timeout=120) in (0, 1), err
        process.stderr.close()


def test_systems():
    """Every locked package has a wheel for each Python on each system, and resolving changes nothing."""
    before = lock.LOCK.read_text()
    try:
        command = [sys.executable, lock.__file__]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert lock.LOCK.read_text() == before
    finally:
        lock.LOCK.write_text(before)
    pairs = [line for line in told.splitlines() if line.endswith(": all have wheels")]
    assert len(pairs) == len(lock.PAIRS)
