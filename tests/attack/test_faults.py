"""Kills, full disks, pipes that break, other threads: nothing finished is lost, nothing half done is kept."""

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


def traced(err: str) -> bool:
    """Whether an error left a trace: one of Python's own start is not ours, before a line of which a signal
    may come."""
    return "Traceback" in err and not err.startswith("Fatal Python error: init_")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The sweep that nothing disturbs."""
    folder = tmp_path_factory.mktemp("reference")
    assert done(f"sweep {GRID} --out out", folder).returncode == 0
    return folder / "out"


def same(out: Path, reference: Path, whole: bool) -> int:
    """How many runs are there; each is to the byte what it is undisturbed."""
    files = {path.name: path.read_bytes() for path in (out / "runs").glob("*.npz")}
    expected = {path.name: path.read_bytes() for path in (reference / "runs").glob("*.npz")}
    assert files.items() <= expected.items()
    if whole:
        assert files == expected
        for table in ("table.csv", "table.parquet"):
            assert (out / table).read_bytes() == (reference / table).read_bytes()
    return len(files)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_sweeps(number, reference, tmp_path, tally):
    """At random moments, again and again in one folder, until a last start ends it."""
    rng = random.Random(int(number))
    for _ in range(60):
        process = started(f"sweep {GRID} --out out", tmp_path)
        time.sleep(rng.uniform(0.0, 6.0))
        before = same(tmp_path / "out", reference, whole=False)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        assert not traced(err), err
        assert same(tmp_path / "out", reference, whole=False) >= before
        tally(f"{number.name} to a sweep")
        if before == 24:  # from anew: there is nothing left to lose
            for path in (tmp_path / "out" / "runs").glob("*.npz"):
                path.unlink()
    assert done(f"sweep {GRID} --out out", tmp_path).returncode == 0
    same(tmp_path / "out", reference, whole=True)
    assert not list((tmp_path / "out").rglob("*.partial"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_workers(number, reference, tmp_path, tally):
    """At random moments, another one in its place each time: who did a run does not show."""
    rng, cluster = random.Random(int(number)), LocalCluster(tmp_path)
    try:
        kills = sweeps = 0
        while kills < 60:
            folder = tmp_path / str(sweeps)
            folder.mkdir()
            sweeps += 1
            line = f"sweep {GRID} --out out --scheduler {cluster.address}"
            process = started(line, folder)
            while process.poll() is None:
                time.sleep(rng.uniform(0.5, 4.0))
                one = rng.choice([each for each in cluster.processes[1:] if each.poll() is None])
                one.send_signal(number)
                one.wait(timeout=120)
                cluster.worker()
                kills += 1
                tally(f"{number.name} to a worker")
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0 or "4 workers died at it" in err, err
            assert not traced(err), err
            same(folder / "out", reference, whole=False)
            assert done(f"sweep {GRID} --out out", folder).returncode == 0  # what is missing, here
            same(folder / "out", reference, whole=True)
    finally:
        cluster.stop()


def test_killed_schedulers(reference, tmp_path, tally):
    """One line each time; the next scheduler goes on where that one ended."""
    rng = random.Random(0)
    for turn in range(20):
        (tmp_path / str(turn)).mkdir()
        cluster = LocalCluster(tmp_path / str(turn))
        try:
            process = started(f"sweep {GRID} --out out --scheduler {cluster.address}", tmp_path)
            time.sleep(rng.uniform(0.0, 6.0))
            before = same(tmp_path / "out", reference, whole=False)
            cluster.scheduler.kill()
            _, err = process.communicate(timeout=120)
        finally:
            cluster.stop()
        said = "is gone: " in err or "no Dask scheduler answers" in err
        assert process.returncode == 0 or (said and err.count("\n") == 1), err
        assert same(tmp_path / "out", reference, whole=False) >= before
        tally("SIGKILL to a scheduler")
        if before == 24:  # from anew: there is nothing left to lose
            for path in (tmp_path / "out" / "runs").glob("*.npz"):
                path.unlink()
    assert done(f"sweep {GRID} --out out", tmp_path).returncode == 0
    same(tmp_path / "out", reference, whole=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_trainings(number, tmp_path, tally):
    """A run that is stopped keeps a curve that is whole, or none."""
    rng = random.Random(int(number))
    for _ in range(60):
        (tmp_path / "run.npz").unlink(missing_ok=True)
        process = started(f"train {LINE.replace('40000', '4000000')} --save run.npz", tmp_path)
        time.sleep(rng.uniform(0.0, 8.0))
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        assert not traced(err), err
        if (tmp_path / "run.npz").exists():
            assert History.from_npz(tmp_path / "run.npz").ended in ("interrupted", "finished")
        assert {path.name for path in tmp_path.iterdir()} <= {"run.npz"}
        tally(f"{number.name} to a run")


def test_full_disks(tmp_path, tally):
    """A file may have so many bytes and no more: what was there stays, and a line says why."""
    rng = random.Random(0)
    for _ in range(40):
        (tmp_path / "run.csv").write_text("# whole: mine")
        most = rng.randrange(0, 3000)
        process = done(
            "train --trainset_size 20 --epoch 400 --save run.csv", tmp_path,
            preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        )  # fmt: skip
        assert process.returncode == 1 and "could not write" in process.stderr, process.stderr
        assert process.stderr.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]
        assert (tmp_path / "run.csv").read_text() == "# whole: mine"
        tally("full disks")


def test_two_sweeps_in_one_folder(reference, tmp_path, tally):
    for pair in range(20):
        folder = tmp_path / str(pair)
        folder.mkdir()
        both = [started(f"sweep {GRID} --out out", folder) for _ in range(2)]
        told = [process.communicate(timeout=600)[1] for process in both]
        codes = [process.returncode for process in both]
        assert 0 in codes and set(codes) <= {0, 2}, told  # a late second one finds all done
        for code, err in zip(codes, told, strict=True):
            assert code == 0 or "is in use by another sweep" in err
        same(folder / "out", reference, whole=True)
        tally("pairs of sweeps in one folder")


PLACES = {
    "one thread": {"NUMBA_NUM_THREADS": "1"},
    "sixty-four threads": {"OMP_NUM_THREADS": "64", "NUMBA_NUM_THREADS": "64", "OPENBLAS_NUM_THREADS": "64"},
    "no cache": {"NUMBA_CACHE_DIR": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "HOME": "/proc/none",
                 "MPLCONFIGDIR": "/proc/none"},
    "another locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "TZ": "Asia/Kolkata"},
    "another hash": {"PYTHONHASHSEED": "7", "PYTHONOPTIMIZE": "2"},
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_places(place, reference, tmp_path, tally):
    """Other surroundings, the same bytes."""
    process = done(f"sweep {GRID} --out out", tmp_path, env=ENVIRONMENT | PLACES[place])
    assert process.returncode == 0, process.stderr
    same(tmp_path / "out", reference, whole=True)
    tally("sweeps in other surroundings")


@pytest.mark.parametrize(
    "line", ["theory", "train --trainset_size 20 --epoch 3000 --save /dev/stdout", "train -h"]
)
def test_broken_pipes(line, tmp_path, tally):
    rng = random.Random(0)
    for _ in range(10):
        process = started(line, tmp_path)
        process.stdout.read(rng.randrange(0, 2000))
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(timeout=120) in (0, 1) and not traced(err), err
        process.stderr.close()
        tally("broken pipes")


def test_systems(tally):
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
    tally("systems, with a Python, that the lock resolves for", len(pairs))
