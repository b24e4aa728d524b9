"""The chapters' files: which there are, their notebooks, and how long each took to execute."""

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).resolve().parent.parent
SECONDS = Path("_build", "seconds.json")


class Problem(Exception):
    """What is wrong, in one line that names the file."""


def chapters(root: Path = ROOT) -> dict[str, Path]:
    """The notebooks of _toc.yml by their short names, in the order of the book."""

    def files(entry) -> Iterator[str]:
        for key, value in entry.items():
            if key in ("root", "file"):
                yield value
            elif isinstance(value, list):
                for part in value:
                    yield from files(part)

    toc = yaml.safe_load(read(root / "_toc.yml"))
    paths = [root / f"{name}.ipynb" for name in files(toc)]
    return {path.stem: path for path in paths if path.exists()}


def notebooks(root: Path = ROOT) -> dict[str, Path]:
    """The chapters, and the template that a new chapter is copied from."""
    template = root / "book" / "_template.ipynb"
    return chapters(root) | ({template.stem: template} if template.exists() else {})


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def parse(text: str, name: str) -> nbformat.NotebookNode:
    try:
        return nbformat.reads(text, as_version=4)
    except Exception as error:  # nbformat raises errors of many kinds
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise Problem(f"{name} is not a complete notebook: {reason}") from None


def recorded(root: Path = ROOT) -> dict[str, dict]:
    """The seconds that each chapter took, ``together`` and for each of its ``cells``."""
    path = root / SECONDS
    return json.loads(read(path)) if path.exists() else {}
