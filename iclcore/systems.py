"""What differs between systems: signals, a lock, and how much memory there is."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# What ends a process from outside. Windows has no SIGHUP.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
STOPS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


@contextmanager
def held(path: Path) -> Iterator[None]:
    """A file or folder for this process alone, until it ends, however that comes. Where another has it,
    BlockingIOError. Windows, where no folder can be opened, locks a file ``.lock`` in it."""
    try:
        import fcntl
    except ModuleNotFoundError:
        import msvcrt

        handle = os.open(path / ".lock" if path.is_dir() else path, os.O_RDWR | os.O_CREAT)

        def take() -> None:
            try:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            except OSError as error:
                raise BlockingIOError(*error.args) from None
    else:
        handle = os.open(path, os.O_RDONLY)

        def take() -> None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    try:
        take()
        yield
    finally:
        os.close(handle)


def memory() -> int:
    """Bytes of the machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except AttributeError:  # Windows
        from ctypes import byref, c_ulonglong, windll

        kilobytes = c_ulonglong()
        windll.kernel32.GetPhysicallyInstalledSystemMemory(byref(kilobytes))
        return 1024 * kilobytes.value


def address_space() -> int | None:
    """Bytes that ``ulimit -v`` allows this process, where there is such a limit."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def address_space_taken() -> int:
    """Bytes of it, where that is to be read: elsewhere none."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
