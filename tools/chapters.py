"""The chapters' files: which there are, whole or not, replaced all or none, and their seconds."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import nbformat
import yaml
from make import ROOT

SECONDS = Path("_build", "seconds.json")


class Problem(Exception):
    """What is wrong, in one line that names the file."""


def chapters(root: Path = ROOT) -> dict[str, Path]:
    """The notebooks of _toc.yml by their short names, in the order of the book."""
    try:
        toc = yaml.safe_load(read(root / "_toc.yml"))
    except yaml.YAMLError as error:
        raise Problem(f"_toc.yml is not YAML: {' '.join(str(error).split())}") from None

    def files(entry):
        if isinstance(entry, dict):
            for key, value in entry.items():
                if key in ("root", "file"):
                    yield value
                else:
                    yield from files(value)
        elif isinstance(entry, list):
            for item in entry:
                yield from files(item)

    paths = [root / f"{str(name).removesuffix('.ipynb')}.ipynb" for name in files(toc)]
    found = {path.stem: path for path in paths if path.exists()}
    if not found:
        raise Problem("_toc.yml names no notebook")
    return found


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Problem(f"{path.name} is not UTF-8: {error}") from None


def parse(text: str, name: str) -> nbformat.NotebookNode:
    try:
        return nbformat.reads(text, as_version=4)
    except Exception as error:  # of any kind: the reader trusts what it is given
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise Problem(f"{name} is not a whole notebook: {why}") from None


def recorded(root: Path = ROOT) -> dict[str, dict]:
    """By chapter the seconds `together` and of its `cells`; nothing if the record is broken."""
    try:
        record = json.loads((root / SECONDS).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


@contextmanager
def written_beside(texts: dict[Path, str]) -> Iterator[dict[Path, Path]]:
    """Each text in a file beside its place, where it only has to be renamed; none is left."""
    new = {path: path.with_name(path.name + ".new") for path in texts}
    try:
        for path, text in texts.items():
            try:
                path.parent.mkdir(exist_ok=True)
                new[path].write_text(text, encoding="utf-8")
            except OSError as error:
                reason = f"{new[path]} cannot be written: {error.strerror}"
                raise Problem(f"{reason}; no notebook was changed") from None
        yield new
    finally:
        for beside in new.values():
            with suppress(OSError):
                beside.unlink()
