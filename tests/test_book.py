"""The executor: canonical outputs, all or none; and the notebooks as they are committed."""

import re

import execute
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

CHAPTERS = execute.chapters()

WIDGET = """\
import sys

import ipywidgets

print("out", flush=True)
print("more", flush=True)
ipywidgets.VBox([ipywidgets.IntSlider(3)])"""


def write_book(root, **chapters):
    """A small book: one notebook for each keyword, a list of code cells."""
    (root / "book").mkdir()
    toc = "format: jb-book\nroot: book/index\nchapters:\n"
    for name, cells in chapters.items():
        toc += f"- file: book/{name}\n"
        notebook = new_notebook(cells=[new_code_cell(text, id=f"c{n}") for n, text in cells])
        notebook.cells[0].metadata["tags"] = ["parameters"]
        nbformat.write(notebook, root / "book" / f"{name}.ipynb")
    (root / "_toc.yml").write_text(toc)


def contents(root):
    return {path.name: path.read_bytes() for path in (root / "book").glob("*")}


def test_executing_again_gives_the_same_bytes(tmp_path):
    write_book(tmp_path, one=enumerate(['scale = "paper"', WIDGET, "scale"]))
    assert execute.main([], tmp_path) == 0
    first = contents(tmp_path)
    assert execute.main([], tmp_path) == 0
    assert contents(tmp_path) == first
    notebook = nbformat.reads(first["one.ipynb"].decode(), as_version=4)
    stream, widget = notebook.cells[1].outputs
    assert stream.text == "out\nmore\n"
    assert list(widget.data) == ["text/plain"]
    assert "'paper'" in notebook.cells[2].outputs[0].data["text/plain"]


def test_the_quick_scale_is_injected_and_marked(tmp_path):
    write_book(tmp_path, one=enumerate(['scale = "paper"', "scale"]))
    assert execute.main(["--scale", "quick"], tmp_path) == 0
    notebook = nbformat.read(tmp_path / "book" / "one.ipynb", as_version=4)
    assert [cell.source for cell in notebook.cells] == ['scale = "paper"', "scale"]
    assert "'quick'" in notebook.cells[1].outputs[0].data["text/plain"]
    assert notebook.metadata["scale"] == "quick"


def test_one_failing_cell_leaves_every_notebook_as_it_was(tmp_path, capsys):
    write_book(tmp_path, good=enumerate(["1 + 1"]), bad=enumerate(["a = 0", "b = 1\nb / a"]))
    before = contents(tmp_path)
    assert execute.main([], tmp_path) == 1
    assert contents(tmp_path) == before
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "bad: cell 2 failed: ZeroDivisionError: division by zero"
    assert any("b / a" in line for line in lines[1:])


def test_an_unknown_chapter_is_answered_with_the_known_ones(capsys):
    assert execute.main(["nonsense"]) == 2
    message = capsys.readouterr().err
    assert message == f"no chapter 'nonsense'; the chapters are: {', '.join(CHAPTERS)}\n"


@pytest.mark.parametrize("name", CHAPTERS)
def test_committed_outputs_are_whole_and_the_same_everywhere(name):
    text = CHAPTERS[name].read_text()
    notebook = nbformat.reads(text, as_version=4)
    assert "scale" not in notebook.metadata, "executed at the quick scale: run make book"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(code) + 1)), "not executed in order: run make book"
    for cell in code:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", f"a warning is shown: {output.text}"
            shown = output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
            assert not re.search(r"\b0x[0-9a-f]{6,}", shown), f"a memory address: {shown}"
            if "image/png" in output.get("data", {}):
                alt = output.metadata.get("image/png", {}).get("alt", "")
                assert len(alt.split()) > 5, "a picture whose alt text says nothing"
    again = nbformat.reads(text, as_version=4)
    assert execute.canonical(again, notebook) == text, "saved by an editor: run make book"
