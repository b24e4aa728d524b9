"""What a chapter says, and does on Colab, where the book's package is missing."""

import subprocess
import sys
from types import SimpleNamespace

import execute
import nbformat
import needed
import pages
import pytest
from chapters import chapters
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ADDRESS = "https://github.com/someone/book"
COLAB = """\
import sys
sys.modules["google.colab"] = sys
class Shell:
    def run_line_magic(self, name, line):
        print(f"%{name} {line}")
get_ipython = Shell
"""


def run(source):
    """By a Python without any packages."""
    alone = [sys.executable, "-I", "-S", "-c", source]
    return subprocess.run(alone, capture_output=True, text=True)


@pytest.mark.parametrize("address", ["", ADDRESS])
def test_a_chapter_that_was_downloaded_says_first_what_it_needs(address):
    for path in chapters().values():
        notebook = needed.downloaded(nbformat.read(path, as_version=4), address)
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert first.id == needed.CELL
    done = run(first.source)
    *_, last = done.stderr.splitlines()
    says = (
        f'%pip install "iclcore[book] @ git+{ADDRESS}"'
        if address
        else 'pip install ".[book]", in a'
    )
    assert last.startswith(f"ModuleNotFoundError: this chapter needs: {says}")
    here = subprocess.run([sys.executable, "-c", first.source], capture_output=True, text=True)
    assert (here.returncode, here.stdout, here.stderr) == (0, "", "")  # where the package is


def test_colab_installs_it():
    notebook = needed.committed(new_notebook(cells=[new_code_cell("")]), ADDRESS)
    done = run(COLAB + notebook.cells[0].source)
    assert done.stdout == f'%pip install "iclcore[book] @ git+{ADDRESS}"\n', done.stderr


def test_the_executor_writes_the_address_of_the_tree(tmp_path):
    """And takes it away: a chapter names what its tree names."""
    (tmp_path / "book").mkdir()
    path = tmp_path / "book" / "one.ipynb"
    cells = [new_markdown_cell("# One", id="a"), new_code_cell("size: int = 5", id="b")]
    cells[1].metadata["tags"] = ["parameters"]
    nbformat.write(new_notebook(cells=cells), path)
    for address, ids in ((ADDRESS, ["a", needed.CELL, "b"]), ("", ["a", "b"])):
        (tmp_path / "_config.yml").write_text(f'repository: {{url: "{address}"}}\n')
        text = path.read_text()
        source = execute.whole(path, text, [], needed.address(tmp_path))
        assert [cell.id for cell in source.notebook.cells] == ids
        nbformat.write(source.notebook, path)


@pytest.mark.parametrize(
    "known, committed, offered",
    [
        (ADDRESS, ADDRESS, {"binderhub_url", "colab_url"}),
        (ADDRESS, "", {"binderhub_url"}),  # a workflow's: the chapters as committed have no address
        ("https://gitlab.com/a/b", "https://gitlab.com/a/b", {"binderhub_url"}),
        ("", "", set()),
    ],
)
def test_colab_is_offered_where_it_can_start(tmp_path, known, committed, offered):
    (tmp_path / "_config.yml").write_text(f'repository: {{url: "{committed}"}}\n')
    buttons = {"binderhub_url": "https://mybinder.org", "colab_url": "https://colab"}
    options = {"repository_url": known, "launch_buttons": buttons}
    config = SimpleNamespace(html_theme_options=options)
    pages.set_buttons(SimpleNamespace(srcdir=str(tmp_path)), config)
    assert set(options["launch_buttons"]) == offered
    assert options["use_repository_button"] == bool(known)
