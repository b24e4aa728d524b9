"""The cell by which a chapter says what it needs where the book's package is missing.

A chapter that was downloaded comes alone, and Colab opens the one that is committed, alone too. The build
puts this cell into downloads. The executor puts it into the chapters once _config.yml has the address of
the repository: only then can one command install the package. On Colab the cell gives that command itself.
"""

from pathlib import Path

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

CELL = "needed"  # its id
BY_ADDRESS = """\
import importlib.util
import sys

if importlib.util.find_spec("iclbook") is None:
    needed = 'install "iclcore[book] @ git+{address}"'
    if "google.colab" not in sys.modules:
        raise ModuleNotFoundError(f"this chapter needs: %pip {{needed}}")
    get_ipython().run_line_magic("pip", needed)"""
FROM_CLONE = """\
import importlib.util

if importlib.util.find_spec("iclbook") is None:
    needed = 'pip install ".[book]", in a clone of the book'
    raise ModuleNotFoundError(f"this chapter needs: {needed}")"""


def address(root: Path) -> str:
    """Of the repository, as the tree says it, or nothing."""
    path = root / "_config.yml"
    known = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return known.get("repository", {}).get("url", "")


def put(notebook: NotebookNode, source: str) -> NotebookNode:
    """The notebook with this cell as its first of code, in the place of another; of no source, without."""
    notebook.cells = [cell for cell in notebook.cells if cell.get("id") != CELL]
    if source:
        first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        cell = new_code_cell(source, id=CELL, metadata={"tags": ["remove-cell"]})
        notebook.cells.insert(first, cell)
    return notebook


def committed(notebook: NotebookNode, address: str) -> NotebookNode:
    return put(notebook, BY_ADDRESS.format(address=address) if address else "")


def downloaded(notebook: NotebookNode, address: str) -> NotebookNode:
    return put(notebook, BY_ADDRESS.format(address=address) if address else FROM_CLONE)
