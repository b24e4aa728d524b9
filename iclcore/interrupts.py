"""Ctrl-C that waits: it is noted, and acted on where nothing is half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from iclcore.systems import STOPS

_here = SimpleNamespace(heard=(signal.SIGINT,), last=None, noting=None)


def listen() -> None:
    """In a process of our own SIGTERM and SIGHUP end what runs as Ctrl-C does. Whoever ignores a signal
    (nohup, a shell in the background) goes on ignoring it."""
    _here.heard = _not_ignored(*STOPS)
    for number in _here.heard:
        signal.signal(number, _interrupt)


def came() -> bool:
    """Whether a signal did."""
    return _here.last is not None


def status() -> int:
    """The exit status of a process that was interrupted: 128 and the number of the signal."""
    return 128 + (_here.last or signal.SIGINT)


def deaf() -> None:
    """All is written: nothing is left but to exit."""
    for number in _here.heard:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def noted() -> Iterator[threading.Event]:
    """Inside, a signal only sets the event. Compiled code would turn it into an error, a step would be
    taken and not recorded, a file would not be written. Within another ``noted`` the event is that one's.
    Elsewhere than in the main thread, where Python sees no signals, it stays unset.
    """
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()
        return
    if _here.noting:
        yield _here.noting
        return
    event = _here.noting = threading.Event()

    def note(number: int, _frame) -> None:
        _here.last = number
        event.set()

    before = {n: signal.signal(n, note) for n in _not_ignored(*_here.heard)}
    try:
        yield event
    finally:
        _here.noting = None
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def put_off() -> Iterator[None]:
    """What is inside is done to its end; a signal that came meanwhile interrupts after it."""
    with noted() as interrupted:
        yield
    if interrupted.is_set():
        raise KeyboardInterrupt


def _interrupt(number: int, _frame) -> None:
    _here.last = number
    raise KeyboardInterrupt


def _not_ignored(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    return tuple(n for n in numbers if signal.getsignal(n) not in (signal.SIG_IGN, None))
