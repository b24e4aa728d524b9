"""``python -m iclcore`` and the command ``iclcore``; and how every command starts, those of the book too:
what no library would survive is said in a line, and signals end what runs without a trace."""

import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from iclcore.systems import address_space

# what it takes to load torch and numba, measured: 1.1 GB, and threads by 0.08 each
SPACE = 1_500_000_000 + 100_000_000 * (os.cpu_count() or 1)


def hopeless() -> str | None:
    """Where libraries do not even load, or crash: of that there would be no line."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return "takes a working directory, and this one is gone"
    limit = address_space()
    if limit is not None and limit < SPACE:
        return (
            f"takes {SPACE / 1e9:.1f} GB of address space, and ulimit -v leaves {limit / 1e9:.1f}"
        )
    return None


def enter(name: str, main: Callable[[], int]) -> NoReturn:
    """Do ``main``, which imports what it needs by itself, and leave with its exit status."""
    if why := hopeless():
        print(f"{name}: {why}", file=sys.stderr)
        sys.exit(2)
    try:
        from iclcore import interrupts

        interrupts.listen()
    except KeyboardInterrupt:
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters: question marks
    try:
        code = main()
    except KeyboardInterrupt:  # while it is still loading
        code = 130
    except OSError:
        if not interrupts.came():
            raise
        sys.stdout = sys.stderr = None  # the terminal is gone: nothing can be said
        code = 130
    except Exception:  # a library that a signal found loading may say so by an error of its own
        if not interrupts.came():
            raise
        code = 130
    interrupts.deaf()
    sys.exit(interrupts.status() if code == 130 else code)


def main() -> int:
    from iclcore.cli import main

    return main()


def start() -> None:
    enter("iclcore", main)


if __name__ == "__main__":
    start()
