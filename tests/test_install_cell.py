"""What a chapter says, or does on Colab, if the book's package is missing."""

import subprocess
import sys
from types import SimpleNamespace

import install_cell
import nbformat
import pages
import pytest
from chapters import chapters
from nbformat.v4 import new_code_cell, new_notebook

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
    """Run it with a Python that has no packages."""
    command = [sys.executable, "-I", "-S", "-c", source]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    "address, says",
    [
        ("", 'pip install ".[book]", in a'),
        (ADDRESS, f'%pip install "iclcore[book] @ git+{ADDRESS}"'),
    ],
)
def test_a_downloaded_chapter_says_first_what_it_needs(address, says):
    for path in chapters().values():
        notebook = install_cell.downloaded(nbformat.read(path, as_version=4), address)
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert first.id == install_cell.ID
    *_, last = run(first.source).stderr.splitlines()
    assert last.startswith(f"ModuleNotFoundError: this chapter needs: {says}")
    here = subprocess.run([sys.executable, "-c", first.source], capture_output=True, text=True)
    assert (here.returncode, here.stdout, here.stderr) == (0, "", "")  # the package is installed


def test_colab_installs_the_package():
    notebook = install_cell.committed(new_notebook(cells=[new_code_cell("")]), ADDRESS)
    done = run(COLAB + notebook.cells[0].source)
    assert done.stdout == f'%pip install "iclcore[book] @ git+{ADDRESS}"\n', done.stderr
    assert len(install_cell.committed(notebook, "").cells) == 1  # the cell goes with the address


@pytest.mark.parametrize(
    "known, committed, offered",
    [
        (ADDRESS, ADDRESS, {"binderhub_url", "colab_url"}),
        (
            ADDRESS,
            "",
            {"binderhub_url"},
        ),  # the workflow knows an address that the chapters do not have
        ("https://gitlab.com/a/b", "https://gitlab.com/a/b", {"binderhub_url"}),
        ("", "", set()),
    ],
)
def test_colab_is_offered_if_it_can_start(tmp_path, known, committed, offered):
    (tmp_path / "_config.yml").write_text(f'repository: {{url: "{committed}"}}\n')
    buttons = {"binderhub_url": "https://mybinder.org", "colab_url": "https://colab"}
    options = {"repository_url": known, "launch_buttons": buttons}
    config = SimpleNamespace(html_theme_options=options)
    pages.set_buttons(SimpleNamespace(srcdir=str(tmp_path)), config)
    assert set(options["launch_buttons"]) == offered
