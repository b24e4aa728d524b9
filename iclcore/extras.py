"""Libraries that only some functions take: if one is missing, one line says how to install it."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtra(ModuleNotFoundError):
    """A library is not installed."""


@contextmanager
def needs(extra: str = "") -> Iterator[None]:
    """Turn a failed import in the with block into a MissingExtra, which says what to install.

    That is the ``extra`` of iclcore. Without one it is the library itself: ``pip install iclcore`` brings it,
    but NumPy alone is enough for the rest of the core.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        install = f'"iclcore[{extra}]"' if extra else error.name
        line = f"takes {error.name}, which is not installed: pip install {install}"
        raise MissingExtra(line, name=error.name) from None
