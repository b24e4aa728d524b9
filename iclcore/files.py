"""Files that are there whole or not at all: a record in JSON with columns of numbers, or with arrays."""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from math import prod
from pathlib import Path
from secrets import token_hex
from shutil import copymode
from zipfile import ZipFile

import numpy as np

WHOLE = "whole"  # the CSV line that says what follows it
PART = 10_000  # rows that are text at a time
# what is at the head of the files that commands write: what is there without it is somebody's own
RUN_CSV, RUN_NPZ, PICTURE = f"# {WHOLE}: ".encode(), b"record.npy", b"Software\0iclcore"

Arrays = dict[str, np.ndarray]


class DamagedFile(ValueError):
    """A file that is not, or no longer, what was written: which, and what is wrong with it."""


@contextmanager
def reading(path: str | Path, kind: str = "run's") -> Iterator[bytes]:
    """A file's bytes. What is wrong with them, zip, zlib, JSON and numpy say by a dozen kinds of
    exception: here they become one. That a file is not there remains an OSError, and that it is too
    large for the memory a MemoryError."""
    if Path(path).is_char_device():  # some have no end
        raise DamagedFile(f"{path}: is a device, no {kind} file")
    content = Path(path).read_bytes()
    try:
        yield content
    except DamagedFile as error:
        raise DamagedFile(f"{path}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:
        said = f"{type(error).__name__} {error}".splitlines()[0]
        raise DamagedFile(f"{path}: is no {kind} file, or damaged: {said[:200]}") from None


# -- CSV ------------------------------------------------------------------------------------------


def write_csv(path: str | Path, record: dict, columns: Arrays) -> None:
    """A row a step in full precision; the record in comment lines.

    The first line, ``# whole: …``, has the number of rows and the SHA-256 of all bytes after it.
    """
    digest = sha256()
    for part in _csv(record, columns):
        digest.update(part)
    whole = {"rows": len(columns["step"]), "sha256": digest.hexdigest()}

    def write(file):
        file.write(f"# {WHOLE}: {json.dumps(whole)}\n".encode())
        file.writelines(_csv(record, columns))

    write_whole(path, write)


def _csv(record: dict, columns: Arrays) -> Iterator[bytes]:
    """All but the first line, in parts: as text a long run takes ten times its memory."""
    lines = [f"# {name}: {json.dumps(value)}" for name, value in record.items()]
    yield ("\n".join([*lines, ",".join(columns)]) + "\n").encode()
    for first in range(0, len(columns["step"]), PART):
        parts = (column[first : first + PART].tolist() for column in columns.values())
        rows = zip(*parts, strict=True)
        yield "".join(",".join(map(repr, row)) + "\n" for row in rows).encode()


def read_csv(content: bytes) -> tuple[dict, Arrays]:
    """The record and the columns, ``step`` first, as integers."""
    record, rest = {}, []
    for number, line in enumerate(content.decode().splitlines(), start=1):
        if line.startswith("#"):
            name, colon, value = line[1:].partition(":")
            if not colon:
                raise DamagedFile(f"line {number} takes # NAME: VALUE in JSON")
            record[name.strip()] = json.loads(value)
        else:
            rest.append(line.split(","))
    if len(rest) < 2 or rest[0][0] != "step":
        raise DamagedFile("takes the CSV of a run, with a header step,… and a row a step")
    names, *rows = rest
    if WHOLE in record:
        wanted = record.pop(WHOLE)
        if len(rows) != wanted["rows"]:
            raise DamagedFile(f"has {len(rows)} rows, {wanted['rows']} were written")
        if sha256(content.partition(b"\n")[2]).hexdigest() != wanted["sha256"]:
            raise DamagedFile("is not what was written: its SHA-256 is another")
    if len(set(names)) < len(names) or any(len(row) != len(names) for row in rows):
        raise DamagedFile("takes columns of names that differ, and as many numbers in each row")
    steps = np.array([int(row[0]) for row in rows], dtype=np.int64)
    numbers = np.array([row[1:] for row in rows], dtype=float)
    return record, dict(zip(names, [steps, *numbers.T], strict=True))


# -- npz ------------------------------------------------------------------------------------------


def write_npz(path: str | Path, record: dict, arrays: Arrays) -> None:
    """The arrays, and their names with the record: the zip's own directory has no checksum, and a bit
    flipped there can drop one."""
    said = np.array(json.dumps(record | {"arrays": sorted(arrays)}))
    write_whole(path, lambda file: np.savez_compressed(file, record=said, **arrays))


def read_npz(content: bytes) -> tuple[dict, Arrays]:
    """The record and the arrays."""
    arrays = _arrays(content)
    record = json.loads(arrays.pop("record").item())
    if record.pop("arrays") != sorted(arrays):
        raise DamagedFile("has other arrays than were written")
    return record, arrays


def read_arrays(path: str | Path, most: int) -> Arrays:
    """The arrays of an npz file from anywhere, if these have at most so many bytes."""
    size = Path(path).stat().st_size
    if size <= most:
        with reading(path, "npz") as content:
            if content[:2] != b"PK":  # as a zip begins
                raise DamagedFile("is no npz file: numpy.savez(file, x=x, y=y) writes one")
            with ZipFile(BytesIO(content)) as stored:
                size = sum(member.file_size for member in stored.infolist())
            if size <= most:
                return _arrays(content)
    raise DamagedFile(f"{path}: has {size / 1e9:.3g} GB, and there is memory for {most / 1e9:.3g}")


def _arrays(content: bytes) -> Arrays:
    """Nothing pickled is loaded. Each member is read whole, so that its CRC is checked: np.load reads as far
    as the member's own header says."""
    arrays: Arrays = {}
    with ZipFile(BytesIO(content)) as stored:
        for member in stored.namelist():
            name = member.removesuffix(".npy")
            if name in arrays:
                raise DamagedFile(f"has {name} twice")
            arrays[name] = _array(name, stored.read(member))
    return arrays


def _array(name: str, content: bytes) -> np.ndarray:
    """Made only if it has as many bytes as its shape says: a damaged shape must not take all memory."""
    data = BytesIO(content)
    np.lib.format.read_magic(data)
    shape, _, kind = np.lib.format.read_array_header_1_0(data)
    if kind.hasobject:
        raise DamagedFile(f"{name} is an array of Python objects: save it as one of numbers")
    if prod(shape) * kind.itemsize != len(content) - data.tell():
        raise DamagedFile(f"{name} has more or less bytes than its shape says")
    data.seek(0)
    return np.lib.format.read_array(data, allow_pickle=False)


# -- writing --------------------------------------------------------------------------------------


def write_whole(path: str | Path, write: Callable) -> None:
    """Write beside and rename: a file is there whole or not at all. A link is followed, the permissions
    of a file that was there are kept; what is no file, as a pipe or a device, is written to directly."""
    path = Path(path)
    try:
        if is_stream(path):
            with open(path, "wb") as file:
                write(file)
            return
        real = target(path)
        with beside(real) as partial:
            with open(partial, "wb") as file:
                write(file)
            if real.exists():
                copymode(real, partial)
            partial.replace(real)
    except OSError as error:  # of the file that was asked for; an open one's does not name it
        why = f"could not write: {error.strerror or error}"
        raise OSError(error.errno or errno.EIO, why, str(path)) from None


def is_stream(path: Path) -> bool:
    """Something is there that is no regular file. A standard stream that is a pipe has no path of
    its own: what its link in /proc says is nowhere."""
    return path.exists() and not Path(os.path.realpath(path)).is_file()


def foreign(path: Path, mark: bytes) -> bool:
    """Whether something is there that was not written here, and so is not to be replaced."""
    if not path.exists() or is_stream(path):
        return False
    with open(path, "rb") as file:
        head = file.read(500)
    return bool(head) and mark not in head


def target(path: Path) -> Path:
    """Where links lead to."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():  # it leads back to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return real


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new file in the folder of ``path``, NAME.xxxxxxxx.partial with eight random digits: no file
    that was there is touched. If it still has that name at the end, it is removed."""
    partial = path.with_name(f"{path.name}.{token_hex(4)}.partial")
    partial.touch(exist_ok=False)
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)
