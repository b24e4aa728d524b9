"""Optional libraries: if one is missing, the error says in one line which extra of iclcore installs it.

iclcore is on no package index, so the command in that line is for the folder of a clone.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtra(ModuleNotFoundError):
    """An optional library is not installed."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failed import in the with block into a MissingExtra that names ``extra``."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = f'takes {error.name}, which is not installed: pip install ".[{extra}]"'
        raise MissingExtra(line, name=error.name) from None
