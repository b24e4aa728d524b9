"""Optional libraries: where one is missing, one line says which extra of this package installs it."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtra(ModuleNotFoundError):
    """An optional library is not installed."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failing import inside into a MissingExtra that names this extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = f'takes {error.name}, which is not installed: pip install "iclcore[{extra}]"'
        raise MissingExtra(line, name=error.name) from None
