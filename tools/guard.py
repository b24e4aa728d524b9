"""End what a build started and remove its folder, once the build itself has ended in any way.

    python tools/guard.py FOLDER

Standard input is a pipe whose other end only the build holds: the system closes it even when the
build is killed. A kernel is in a session of its own and outlives a killed parent, so neither a
process group nor the tree of processes finds all: they are known by their environment, which
each inherits and which names the folder.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "JUPYTER_RUNTIME_DIR"  # where a kernel's connection file is: it goes with the folder


def started_in(folder: str) -> Iterator[int]:
    mark = os.fsencode(f"{MARK}={folder}")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found = mark in (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended, or is not ours
            continue
        if found:
            yield int(process.name)


def end_all(folder: str) -> None:
    while found := list(started_in(folder)):  # again, for what they started meanwhile
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.read()
    end_all(sys.argv[1])
