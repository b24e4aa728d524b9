"""Ctrl-C that waits: it is noted, and acted on where nothing is half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted() -> Iterator[threading.Event]:
    """Inside, SIGINT only sets the event. Compiled code would turn it into an error, a step would be
    taken and not recorded, a file would not be written. Elsewhere than in the main thread, where Python
    sees no signals, the event stays unset.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.signal(signal.SIGINT, lambda *_: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
