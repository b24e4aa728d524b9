"""Libraries that only some functions need. If a library is missing, one line says how to install it.

iclcore is not on any package index, so the command that installs an extra must be run in a clone.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtra(ModuleNotFoundError):
    """A library is not installed."""


@contextmanager
def needs(extra: str = "") -> Iterator[None]:
    """Turn a failed import in the with block into a MissingExtra, whose message says what to install.

    If the library belongs to an ``extra`` of iclcore, the message names that extra. Otherwise it names the
    library itself. pip always installs such a library with iclcore, but most of the core works without it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        install = f'".[{extra}]"' if extra else error.name
        line = f"needs {error.name}, which is not installed: pip install {install}"
        if extra in ("torch", "book"):
            line += " (on Linux, first install the CPU build, as README says)"
        raise MissingExtra(line, name=error.name) from None
