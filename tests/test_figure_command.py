"""Every figure can be drawn by its name, by the cells of its chapter, and says which it is."""

import re
from pathlib import Path

import figure_table
import nbformat
import prose
import pytest
from chapters import chapters
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from iclbook import chapter
from iclbook.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = chapters()
DRAWN = 'plot.figure(plot.matrix(np.eye(size), f"the unit matrix of {size}"))'
ONE_CHAPTER = [
    "size: int = 3  # at most 100%",
    "import numpy as np\n\nfrom iclbook import plot",
    "if size > 9:\n    raise ValueError('size takes at most 9')",
    "if size == 6:\n    import os, signal\n\n    os.kill(os.getpid(), signal.SIGINT)",
    "if size == 7:\n    import not_there",
    DRAWN,
    "<!--caption fig:one-unit-->\nA matrix of $D =$ <!--q size-->3<!--/q--> lines. More of it.",
    "raise SystemExit('this cell is below the figure')",
]


def notebook_of(*sources):
    """A caption begins with a mark, all else is code; the first cell has the parameters."""
    make = (new_markdown_cell if s.startswith("<!--") else new_code_cell for s in sources)
    cells = [of(s) for of, s in zip(make, sources, strict=True)]
    cells[0].metadata["tags"] = ["parameters"]
    return new_notebook(cells=cells)


@pytest.fixture
def one_chapter(in_folder):
    """A folder with one chapter, as one was downloaded, and the flag that names it."""
    (in_folder / "book").mkdir()
    nbformat.write(notebook_of(*ONE_CHAPTER), in_folder / "book" / "one.ipynb")
    return ["--book", str(in_folder / "book")]


def refused(capsys, *arguments):
    """Its exit status, and the one line that says why."""
    with pytest.raises(SystemExit) as stop:
        main(["figure", *arguments])
    (line,) = capsys.readouterr().err.splitlines()
    return stop.value.code, line.partition("figure: ")[2]


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_picture_of_a_chapter_has_a_name(name):
    cells = chapter.read(CHAPTERS[name])
    found = chapter.figures(name, cells).values()
    shown = [
        place
        for place, cell in enumerate(cells)
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
        or 'class="animation"' in "".join(output.get("data", {}).get("text/html", ""))
    ]
    assert [figure.place for figure in found] == shown
    assert all(len(figure.plain) > 5 and "<!--" not in figure.says for figure in found)


def test_a_figure_is_drawn_with_the_chapters_settings_as_flags(in_folder, one_chapter, capsys):
    assert main(["figure", *one_chapter]) == 0
    assert capsys.readouterr().out == f"{'one.unit':<36} A matrix of D = 3 lines.\n"
    kept = []
    for given, size, file in [
        ([], 3, "one.unit.png"),
        (["--size", "4"], 4, "one.unit-2.png"),
        (["--save", "one.unit.png"], 3, "one.unit.png"),  # whoever names a file means it
        (["--size", "5", "--save", "five.png"], 5, "five.png"),
        ([], 3, "one.unit-3.png"),
    ]:
        assert main(["figure", "one.unit", *one_chapter, *given]) == 0
        assert capsys.readouterr().out.startswith(f"{file}: the unit matrix of {size}, ")
        kept.append((in_folder / file).read_bytes())
        assert kept[-1].startswith(b"\x89PNG")
    assert (in_folder / "one.unit-2.png").read_bytes() == kept[1] != kept[0]


@pytest.mark.parametrize(
    "given, said",
    [
        (["nonsense"], "argument NAME: 'nonsense' is no figure; without a name all are listed"),
        (["one.two"], "argument NAME: 'one.two' is no figure; without a name all are listed"),
        (["one.unit", "--size", "x"], "argument --size: takes a whole number, not 'x'"),
        (["one.unit", "--dim", "2"], "no --dim; NAME stands first, and NAME --help lists its flags"),
        (["one.unit", "--save", "."], "argument --save: takes a file in a folder to write in, not '.'"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_at_once(one_chapter, monkeypatch, capsys, given, said):
    monkeypatch.setattr(chapter, "draw", lambda *_: pytest.fail("drawn"))
    assert refused(capsys, *given, *one_chapter) == (2, said)


def test_a_folder_without_chapters_and_a_broken_one_are_named(in_folder, capsys):
    said = "argument --book: takes a folder with chapters (*.ipynb), not '.'"
    assert refused(capsys, "--book", ".") == refused(capsys, "one.unit", "--book", ".") == (2, said)
    (in_folder / "one.ipynb").write_text('{"cells": [')
    assert refused(capsys, "--book", ".") == (2, "one.ipynb is not a whole notebook")


def test_what_a_cell_refuses_lacks_or_a_key_stops_leaves_no_picture(in_folder, one_chapter, capsys):
    said = "one.unit: size takes at most 9"
    assert refused(capsys, "one.unit", "--size", "12", *one_chapter) == (1, said)
    said = 'takes not_there, which is not installed: pip install "iclcore[book]"'
    assert refused(capsys, "one.unit", "--size", "7", *one_chapter) == (2, said)
    assert main(["figure", "one.unit", "--size", "6", *one_chapter]) == 130
    assert capsys.readouterr() == ("", "interrupted: nothing is written\n")
    assert [path.name for path in in_folder.iterdir()] == ["book"]


def test_a_place_that_cannot_be_written_is_told_before_anything_is_drawn(
    in_folder, one_chapter, monkeypatch, capsys
):
    monkeypatch.setattr(chapter, "draw", lambda *_: pytest.fail("drawn"))
    monkeypatch.chdir("/proc")
    said = "takes a file in a folder to write in, not 'one.unit.png'"
    assert refused(capsys, "one.unit", *one_chapter) == (2, said)


def test_two_figures_of_one_name_are_told():
    labels = ("one-unit", "a-unit")
    cells = [cell for label in labels for cell in (DRAWN, f"<!--caption fig:{label}-->\nA.")]
    with pytest.raises(ValueError, match=r"^two figures are called one\.unit: "):
        chapter.figures("one", notebook_of(*cells).cells)


def test_in_the_table_a_number_has_a_name_and_stands_with_the_figure_that_computes_it(tmp_path):
    said = 'runs.facts["end_1"] = 1,800\nsum(run for run in runs.gaps) .1f = −0.5\nsize = 2\nlate = 9\n'
    said += "runs.end = the end\n"
    notebook = notebook_of(
        "size = 2",
        "runs = study(size)",
        "plot.figure(runs)",
        "<!--caption fig:one-->\nOf 2.",
        "def gap(late):\n    run = late\n\n\nplot.figure(runs)",
        "<!--caption fig:one-two-->\nThe *same*, {eq}`eq:a`. And "
        '<!--q runs.facts["end_1"]-->?<!--/q--> <!--q sum(run for run in runs.gaps) .1f-->?<!--/q--> '
        "<!--q size-->?<!--/q--> <!--q late-->?<!--/q--> <!--q runs.end-->?<!--/q-->",
        "run, late = 3, 9\nplot.animation(run)",
    )
    notebook.cells[-1].outputs = [new_output("execute_result", {"text/plain": "It |moves|."})]
    notebook = prose.with_record(notebook)
    notebook.cells[-1].outputs = [new_output("stream", text=said)]
    path = tmp_path / "one.ipynb"
    nbformat.write(notebook, path)
    rows = [(f.name, f.label, quoted) for f, _, quoted in figure_table.figures_of(path)]
    assert rows == [
        ("one.one", "fig:one", "*end 1 **1,800**; `sum(run for run in runs.gaps)` **−0.5***"),
        ("one.two", "fig:one-two", ""),
        ("one.animation", "", "*`late` **9***"),
    ]
    *_, same, moves = figure_table.table(figure_table.figures_of(path))
    assert same.endswith("| The *same*, {eq}`eq:a`. <br> `python -m iclbook figure one.two` |")
    assert moves.startswith(r"| animation | It \|moves\|. <br> ")


def test_the_readme_draws_a_run_on_an_own_covariance(in_folder):
    names = {}
    for block in re.findall(
        r"```py(?:thon)?\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    ):
        exec(block, names)
    assert (in_folder / "values.png").read_bytes().startswith(b"\x89PNG")
    assert "2 leave zero" in names["picture"].alt  # each to its eigenvector
    assert names["on_arrays"].task is None and names["on_arrays"].ended == "finished"
