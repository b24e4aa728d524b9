"""The cell by which a chapter says what to install if the book's package is missing.

A chapter that was downloaded comes alone, and Colab opens a committed chapter alone. The build puts this
cell into downloads. The executor puts it into the chapters if _config.yml has the address of the repository,
because only then one command can install the package. On Colab the cell runs that command itself.
"""

from pathlib import Path

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

ID = "needed"
WITH_ADDRESS = """\
import importlib.util
import sys

if importlib.util.find_spec("iclbook") is None:
    needed = 'install "iclcore[book] @ git+{address}"'
    if "google.colab" not in sys.modules:
        raise ModuleNotFoundError(f"this chapter needs: %pip {{needed}}")
    get_ipython().run_line_magic("pip", needed)"""
WITHOUT_ADDRESS = """\
import importlib.util

if importlib.util.find_spec("iclbook") is None:
    needed = 'pip install ".[book]", in a clone of the book'
    raise ModuleNotFoundError(f"this chapter needs: {needed}")"""


def address(root: Path) -> str:
    """The address of the repository in _config.yml, or an empty string."""
    path = root / "_config.yml"
    config = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    return config.get("repository", {}).get("url", "")


def put(notebook: NotebookNode, source: str) -> NotebookNode:
    """Make this cell the first code cell of the notebook; without a source, only remove an old one."""
    notebook.cells = [cell for cell in notebook.cells if cell.get("id") != ID]
    if source:
        first = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
        cell = new_code_cell(source, id=ID, metadata={"tags": ["remove-cell"]})
        notebook.cells.insert(first, cell)
    return notebook


def committed(notebook: NotebookNode, address: str) -> NotebookNode:
    return put(notebook, WITH_ADDRESS.format(address=address) if address else "")


def downloaded(notebook: NotebookNode, address: str) -> NotebookNode:
    return put(notebook, WITH_ADDRESS.format(address=address) if address else WITHOUT_ADDRESS)
