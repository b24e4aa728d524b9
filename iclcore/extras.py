"""Libraries that only some functions take: if one is missing, one line says how to install it.

iclcore is on no package index, so the command for an extra is for the folder of a clone.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtra(ModuleNotFoundError):
    """A library is not installed."""


@contextmanager
def needs(extra: str = "") -> Iterator[None]:
    """Turn a failed import in the with block into a MissingExtra, which says what to install.

    If the library belongs to an ``extra`` of iclcore, the line names that extra. Otherwise it names the
    library, which every installation with pip has, but of which most of the core makes no use.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        install = f'".[{extra}]"' if extra else error.name
        line = f"takes {error.name}, which is not installed: pip install {install}"
        raise MissingExtra(line, name=error.name) from None
