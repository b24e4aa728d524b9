"""Files that are either written completely or not at all, and the reading of npz files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import numpy as np


class DamagedFile(ValueError):
    """A file does not have the expected content. The message is one line: the file, and what is wrong."""


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Turn every exception in the with block, which reads the content of a file, into a DamagedFile.

    If bytes are damaged, zipfile, zlib, json and NumPy raise a dozen different kinds of exceptions.
    """
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__} {error}".splitlines()[0][:200]
        raise DamagedFile(f"{path}: is no {what}, or is damaged: {reason}") from None


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """Return all arrays of an npz file, or raise DamagedFile. Pickled objects are never loaded."""
    with open(path, "rb") as file, reading(path, "npz file of arrays"):
        stored = np.load(file, allow_pickle=False)
        return {name: np.asarray(stored[name]) for name in stored.files}


def write_whole(path: str | Path, write: Callable) -> None:
    """Call ``write`` with a temporary file beside ``path``, and rename it to ``path`` when it is complete.

    If ``path`` is a symbolic link, the file that the link points to is written.
    """
    path = Path(path)
    target = path.resolve()
    partial = target.with_name(f"{target.name}.{token_hex(4)}.partial")
    try:
        with open(partial, "xb") as file:
            write(file)
        partial.replace(target)
    except OSError as error:  # its message names the temporary file or no file
        raise OSError(error.errno, f"could not write: {error.strerror}", str(path)) from None
    finally:
        partial.unlink(missing_ok=True)
