"""The executor: what it writes is canonical, and if anything fails it changes no notebook."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import execute
import install_cell
import nbformat
import pytest
from chapters import Problem, chapters, recorded
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pace import slow

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = chapters()
TIMEOUT = 120

WIDGET = """\
import ipywidgets

print("λ", flush=True)
print("more", flush=True)
ipywidgets.VBox([ipywidgets.IntSlider(3)])"""

SAY = """\
from iclbook import quote

quote.say(half=(size / 2, ".2f"))"""


def write_book(root, **notebooks):
    """Write a small book, with one chapter for each list of cells. A text in [] is Markdown."""
    (root / "book").mkdir()
    toc = "format: jb-book\nroot: book/index\nchapters:\n"
    for name, sources in notebooks.items():
        toc += f"- file: book/{name}\n"
        cells = [
            new_markdown_cell(source[0], id=f"c{number}")
            if isinstance(source, list)
            else new_code_cell(source, id=f"c{number}")
            for number, source in enumerate(sources)
        ]
        cells[0].metadata["tags"] = ["parameters"]
        nbformat.write(new_notebook(cells=cells), root / "book" / f"{name}.ipynb")
    (root / "_toc.yml").write_text(toc)


def contents(root):
    return {path.name: path.read_bytes() for path in (root / "book").glob("*")}


def read(root, name):
    return nbformat.read(root / "book" / f"{name}.ipynb", as_version=4)


def test_executing_again_gives_the_same_bytes(tmp_path):
    write_book(tmp_path, one=['name = "λ"  # λ', WIDGET, "name"])
    assert execute.main([], tmp_path) == 0
    first = contents(tmp_path)
    assert execute.main([], tmp_path) == 0
    assert contents(tmp_path) == first
    _, shown, named = read(tmp_path, "one").cells
    stream, widget = shown.outputs
    assert stream.text == "λ\nmore\n"
    assert list(widget.data) == ["text/plain"]
    assert "'λ'" in named.outputs[0].data["text/plain"]
    assert recorded(tmp_path)["one"]["cells"].keys() == {"c0", "c1", "c2"}


def test_the_text_is_given_the_numbers_of_the_run(tmp_path, capsys):
    write_book(tmp_path, one=["size: int = 5", SAY, ["Half is <!--half-->?<!--/-->."]])
    assert execute.main([], tmp_path) == 0
    *_, text = read(tmp_path, "one").cells
    assert text.source == "Half is <!--half-->2.50<!--/-->."
    before = contents(tmp_path)

    (path,) = (tmp_path / "book").iterdir()
    notebook = read(tmp_path, "one")
    notebook.cells[-1].source = "Half is <!--haf-->2.50<!--/-->."
    nbformat.write(notebook, path)
    wrong = contents(tmp_path)
    assert execute.main(["--text"], tmp_path) == 1
    assert "one.ipynb: the text quotes haf" in capsys.readouterr().err
    assert contents(tmp_path) == wrong != before


def test_text_restores_a_notebook_that_an_editor_saved(tmp_path):
    write_book(tmp_path, one=["size: int = 5", WIDGET, SAY, ["It is <!--half-->?<!--/-->."]])
    assert execute.main([], tmp_path) == 0
    before = contents(tmp_path)
    notebook = read(tmp_path, "one")
    notebook.metadata |= {"widgets": {"state": {}}, "kernelspec": {"name": "python3", "env": "x"}}
    notebook.metadata.language_info = {"name": "python", "version": "3.12.1"}
    notebook.cells[0].metadata |= {"execution": {"iopub.status.busy": "now"}, "scrolled": True}
    notebook.cells[1].outputs[1].data[execute.WIDGET_VIEW] = {"model_id": "random"}
    notebook.cells[3].source = "It is <!--half-->3.14<!--/-->."
    nbformat.write(notebook, tmp_path / "book" / "one.ipynb")
    assert contents(tmp_path) != before
    assert execute.main(["--text"], tmp_path) == 0
    assert contents(tmp_path) == before


@slow
def test_other_settings_give_other_numbers_and_are_marked(tmp_path):
    settings = "size: int = 5  # of what\nrate: float = 0.5"
    half = "from iclbook import quote\n\nquote.say(half=size * rate)"
    write_book(tmp_path, one=[settings, half, ["Half is <!--half-->?<!--/-->."]])
    assert execute.main(["--set", "size=7", "rate=1"], tmp_path) == 0
    before, notebook = contents(tmp_path), read(tmp_path, "one")
    injected = f"{execute.NOT_TO_COMMIT}\nsize = 7\nrate = 1.0"
    said = "Half is <!--half-->7<!--/-->."
    assert [cell.source for cell in notebook.cells] == [settings, injected, half, said]
    assert notebook.metadata["settings"] == {"size": 7, "rate": 1.0}
    assert not recorded(tmp_path)
    assert execute.main(["--text"], tmp_path) == 0
    assert contents(tmp_path) == before  # so it does not pass for the chapter's own numbers
    with pytest.raises(AssertionError, match="other settings"):
        assert_committable((tmp_path / "book" / "one.ipynb").read_text())

    assert execute.main([], tmp_path) == 0
    notebook = read(tmp_path, "one")
    assert [cell.source for cell in notebook.cells] == [settings, half, said.replace("7", "2.5")]
    assert "settings" not in notebook.metadata and recorded(tmp_path)


@pytest.mark.parametrize(
    "given, said",
    [
        (["size=x"], "one: size takes a whole number, not 'x'"),
        (["size=2.0"], "one: size takes a whole number, not '2.0'"),
        (["rate=a"], "one: rate takes a number, not 'a'"),
        (["ranks=1,x"], "one: ranks takes the like of (1, 2), not '1,x'"),
        (["size"], "want NAME=VALUE, not 'size'"),
        (["size=3", "scale=quick"], "one has no parameter 'scale'; it has size, rate, kind, ranks"),
    ],
)
def test_a_setting_that_a_chapter_does_not_take_is_refused_before_any_run(
    tmp_path, monkeypatch, capsys, given, said
):
    write_book(tmp_path, one=["size: int = 5\nrate = 0.5\nkind = 'a'\nranks = (1, 2)"])
    monkeypatch.setattr(execute, "execute", None)
    assert execute.main(["one", "--set", *given], tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [f"--set: {said}", "No notebook was changed."]


def test_one_failing_cell_is_named_and_leaves_every_notebook_as_it_was(tmp_path, capsys):
    write_book(tmp_path, good=["1 + 1"], bad=["a = 0", ["Some text."], "b = 1\nb / a"])
    before = contents(tmp_path)
    assert execute.main([], tmp_path) == 1
    assert contents(tmp_path) == before
    first, *traceback, last = capsys.readouterr().err.splitlines()
    assert first == "bad: cell 3 failed: ZeroDivisionError: division by zero"
    assert any("b / a" in line for line in traceback)
    assert last == "No notebook was changed."
    assert not recorded(tmp_path)


def test_what_an_author_saved_during_the_run_is_kept(tmp_path, capsys):
    path = tmp_path / "book" / "one.ipynb"
    write_book(tmp_path, one=[f"open({str(path)!r}, 'a').write(' ')"])
    assert execute.main([], tmp_path) == 1
    assert "one: the notebook was changed while it ran" in capsys.readouterr().err
    assert path.read_text().endswith("\n ")


def test_an_unknown_chapter_is_answered_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        execute.main(["nonsense"])
    known = ", ".join(execute.notebooks())
    assert f"no chapter 'nonsense' in _toc.yml, which names {known}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", '{"cells": [', "[]", "<<<<<<< HEAD\n{}"])
def test_a_broken_notebook_is_named(text):
    with pytest.raises(Problem, match=r"^one\.ipynb is not a complete notebook: .+$"):
        execute.parse(text, "one.ipynb")


def has_ended(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def wait_until(condition):
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "this does not happen"
        time.sleep(0.01)


def test_ctrl_c_ends_the_kernels_and_changes_no_notebook(tmp_path):
    """Two chapters run and a third one waits. A shell sends the signal to the process and its children."""
    busy = "import os, pathlib\n\npathlib.Path({!r}).write_text(f'{{os.getpid()}}.')\nwhile True:\n    pass"
    pids = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    write_book(tmp_path, **{path.name: [busy.format(str(path))] for path in pids})
    before = contents(tmp_path)
    code = "import execute, pathlib, signal, sys\nsignal.signal(2, signal.default_int_handler)\n"
    code += "sys.exit(execute.main([], pathlib.Path.cwd()))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tools")}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as executor:  # fmt: skip
        try:
            wait_until(lambda: sum(p.exists() and p.read_text().endswith(".") for p in pids) == 2)
            os.killpg(executor.pid, signal.SIGINT)
            _, said = executor.communicate(timeout=TIMEOUT)
        finally:
            executor.kill()
    assert executor.returncode == 130
    assert said == "\nstopped: no notebook was changed\n"
    kernels = [int(path.read_text().strip(".")) for path in pids if path.exists()]
    assert len(kernels) == 2
    wait_until(lambda: all(map(has_ended, kernels)))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_committed_chapter_is_complete_and_the_same_everywhere(name):
    assert_committable(CHAPTERS[name].read_text())


def assert_committable(text):
    notebook = nbformat.reads(text, as_version=4)
    assert "settings" not in notebook.metadata, "executed with other settings: run make book"
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
                assert len(alt.split()) > 5, "a picture whose alternative text says nothing"
    again = nbformat.reads(text, as_version=4)
    assert execute.canonical(again, notebook) == text, "saved by an editor: run make text"
    says = install_cell.committed(again, install_cell.address(ROOT))
    assert nbformat.writes(says) + "\n" == text, "_config.yml has another address: run make book"
