"""What Windows lacks is taken away, and the parts that would touch it run; locks, memory, encodings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pace import slow

from iclcore import interrupts, systems
from iclcore.__main__ import enter
from iclcore.cli.memory import memory

ROOT = Path(__file__).resolve().parent.parent

# As Windows: no fcntl, resource, os.sysconf, SIGHUP, /proc, fork; a folder cannot be opened; text is
# written in the encoding that is named, and an unnamed one is an error. Its own calls are played here. What
# Python itself imports for its system is imported before.
WINDOWS = """
import asyncio, ctypes, fcntl, multiprocessing, os, pathlib, signal, subprocess, sys, tempfile, types

flock, opened = fcntl.flock, os.open
def open_no_folder(path, *flags):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, *flags)
def locking(handle, mode, count):
    assert (mode, count) == (2, 1) and os.fstat(handle)
    flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError is an OSError, as Windows raises
def installed(reference):
    reference._obj.value = 8_000_000
os.open = open_no_folder
sys.modules |= {"fcntl": None, "resource": None}
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
kernel32 = types.SimpleNamespace(GetPhysicallyInstalledSystemMemory=installed)
ctypes.windll = types.SimpleNamespace(kernel32=kernel32)
for module, names in {os: "sysconf fork getuid geteuid sched_getaffinity killpg openpty setsid",
                      signal: "SIGHUP SIGKILL SIGSTOP SIGALRM"}.items():
    for name in names.split():
        delattr(module, name)
"""


def as_on_windows(script, folder, *flags):
    command = [sys.executable, "-X", "warn_default_encoding", *flags, "-c", WINDOWS + script]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "book", ROOT / "tools")))
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr
    own = [line for line in done.stderr.splitlines() if "EncodingWarning" in line]
    assert not [line for line in own if str(ROOT) in line and ".venv" not in line], own
    return done.stdout


@slow
def test_the_command_line_runs_with_what_windows_has(tmp_path):
    script = """
from iclcore.__main__ import hopeless
from iclcore.cli import main
from iclcore.cli.memory import LOADED, memory
from iclcore import interrupts
assert hopeless() is None and memory() == 8_000_000 * 1024 - LOADED
interrupts.listen()
assert main("theory --save theory.csv".split()) == 0
run = "train --model multihead --engine spectral --lr 0.01 --epoch 3 --save run.csv"
assert main(run.split()) == 0
lines = "--lr 0.01 --epoch 3 --trainset_size 20 --grid seed=0:2 --out swept --jobs 1"
assert main(["sweep", *lines.split()]) == 0
assert main(["sweep", *lines.split()]) == 0  # all are found
"""
    as_on_windows(script, tmp_path)
    assert len(list((tmp_path / "swept" / "runs").glob("*.npz"))) == 2
    assert (tmp_path / "run.csv").exists() and (tmp_path / "theory.csv").exists()


@slow
def test_the_books_tools_run_with_what_windows_has(tmp_path):
    script = """
import build, execute, guard, workplace
from iclcore.systems import held
here = pathlib.Path.cwd()
with workplace.alone(here), workplace.stoppable("nothing"):
    try:
        with held(here / "_build" / ".lock"):
            raise AssertionError("two have it")
    except BlockingIOError:
        print("taken")
with held(here), workplace.guarded() as (folder, _):
    (folder / "file").touch()
with held(here):
    print("free", (here / ".lock").exists(), folder.exists())
from iclbook import explorers, plot
from iclbook.data import plateaus, speed
print(len(explorers.RankOne()._repr_mimebundle_()[0]["text/html"]) > 1000)
"""
    assert as_on_windows(script, tmp_path).split() == ["taken", "free", "True", "False", "True"]


def test_a_lock_is_one_processs_and_ends_with_it(tmp_path):
    script = "import sys; from pathlib import Path; from iclcore.systems import held\n"
    script += "with held(Path(sys.argv[1])): print('mine', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, tmp_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(BlockingIOError), systems.held(tmp_path):
            pass
        other.kill()
        assert other.wait()
    with systems.held(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_memory_is_what_a_limit_leaves(monkeypatch):
    whole = memory()
    assert 0 < whole < systems.memory()
    monkeypatch.setattr(systems, "address_space", lambda: 10**9)
    monkeypatch.setattr(systems, "address_space_taken", lambda: 4 * 10**8)
    assert memory() == 6 * 10**8
    monkeypatch.setattr(systems, "address_space_taken", lambda: 2 * 10**9)
    assert memory() == 0


def test_what_a_library_makes_of_a_signal_leaves_no_trace(capsys, monkeypatch):
    """NumPy, interrupted as it loads, says by an ImportError that the installation is bad."""

    def loading():
        raise ImportError("bad install")

    monkeypatch.setattr(interrupts, "listen", lambda: None)
    monkeypatch.setattr(interrupts, "deaf", lambda: None)
    monkeypatch.setattr(interrupts, "came", lambda: True)
    monkeypatch.setattr(interrupts, "status", lambda: 143)
    with pytest.raises(SystemExit, match="143"):
        enter("iclcore", loading)
    monkeypatch.setattr(interrupts, "came", lambda: False)
    with pytest.raises(ImportError):
        enter("iclcore", loading)
