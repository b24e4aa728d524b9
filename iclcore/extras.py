"""Libraries that only some runs take. Where one is missing, a line says what brings it."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtra(ModuleNotFoundError):
    """A library that none of the installed extras brought."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """What is imported inside comes with an extra of this package; the outermost one is named."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = f'takes {error.name}, which is not installed: pip install "iclcore[{extra}]"'
        raise MissingExtra(line, name=error.name) from None
