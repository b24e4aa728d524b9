"""What a build needs around it: it can be stopped, it is alone, and nothing outlives it.

    python tools/workplace.py COMMAND ...

runs a command of which nothing is left when it has ended, or was ended.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from guard import MARK

# the signals that end a process from outside; Windows has no SIGHUP
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
GUARD = Path(__file__).with_name("guard.py")


class Stopped(BaseException):
    """By a signal. As KeyboardInterrupt no Exception: `except Exception` must not hold it up."""


@contextmanager
def stoppable(consequence: str) -> Iterator[Callable[[], None]]:
    """A signal ends what is inside at once, with one line and the exit code that shells give.

    The function it yields has them ignored from there on, before what must not be cut in two.
    """

    def stop(number, _frame):
        raise Stopped(number)

    # what is ignored stays ignored: by nohup, or by a shell in its background
    usual = {each: signal.getsignal(each) for each in STOPS}
    usual = {each: handler for each, handler in usual.items() if handler != signal.SIG_IGN}

    def handle_by(handler) -> None:
        for each in usual:
            signal.signal(each, handler)

    try:
        handle_by(stop)
        yield lambda: handle_by(signal.SIG_IGN)
    except Stopped as stopped:
        (number,) = stopped.args
        print(f"stopped by {signal.Signals(number).name}: {consequence}", file=sys.stderr)
        sys.exit(128 + number)
    finally:
        for each, handler in usual.items():
            signal.signal(each, handler)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """One build of a book at a time: a second one waits, and says so."""
    path = root / "_build" / ".lock"
    path.parent.mkdir(exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        print("waiting for another build of this book to end", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def guarded() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder, and an environment: what is started with it ends with this, as the folder does."""
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        guard = [sys.executable, str(GUARD), folder]
        with subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True):
            yield Path(folder), os.environ | {"TMPDIR": folder, MARK: folder}


def run(command: list[str], inside: Callable | None = None, **options) -> int:
    """Its exit code. In a session of its own: it need not say in its own way that it was stopped. A context
    ``inside`` the workplace, of its folder and environment, gives the environment of the command."""
    with guarded() as (folder, environment), ExitStack() as ends:
        if inside:
            environment = ends.enter_context(inside(folder, environment))
        options |= {"env": environment, "start_new_session": True}
        return subprocess.run(command, **options).returncode


if __name__ == "__main__":
    with stoppable("the command did not finish"):
        sys.exit(run(sys.argv[1:]))
