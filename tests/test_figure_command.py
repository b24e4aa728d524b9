"""Every figure can be drawn by its name, by the cells of its chapter, and says which it is."""

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import figure_table
import nbformat
import prose
import pytest
import yaml
from chapters import chapters
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from iclbook import CITE, chapter, plot
from iclbook.__main__ import main
from iclcore import __version__
from iclcore.versions import versions

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = chapters()
DRAWN = 'plot.figure(plot.matrix(np.eye(size), f"the unit matrix of {size}"))'
ONE_CHAPTER = [
    "size: int = 3  # at most 100%",
    "import numpy as np\n\nfrom iclbook import plot",
    "if size > 9:\n    raise ValueError('size takes at most 9')",
    "if size == 6:\n    import os, signal\n\n    os.kill(os.getpid(), signal.SIGINT)",
    "if size == 7:\n    import not_there",
    "if size == 8:\n    import warnings\n\n    warnings.warn('too large: \\n  no run ends')",
    DRAWN,
    "<!--caption fig:one-unit-->\nA matrix of $D =$ <!--q size-->3<!--/q--> lines, "
    "and <!--q two-->none<!--/q-->. More of it.",
    "two = [plot.matrix(np.eye(size), 'M')] * 2\nplot.animation([two], 'One frame.')",
    "plot.rank_one_network()",
    "<!--caption fig:one-network-->\nA network.",
    "shown = plot.rank_one_network()\nshown",
    "<!--caption fig:one-kept-->\nThe same network.",
    "raise SystemExit('this cell is below the figures')",
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


def read_table(path):
    """A CSV's head, and its rows by the names of its columns."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("#"))
    return {name: json.loads(text) for name, text in head.items()}, list(
        csv.DictReader(lines[len(head) :])
    )


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


@pytest.mark.parametrize("name", CHAPTERS)
def test_under_each_figure_a_link_leads_to_the_command_that_writes_its_data(name):
    """On the built pages; a drawing has none."""
    pages = ROOT / "_build" / "html" / "book"
    page, table = ((pages / f"{each}.html").read_text() for each in (name, "reproduce"))
    link = r'href="reproduce.html#(data-\S+)" title="python -m iclbook figure (\S+) --save F.csv">'
    linked = re.findall(link, page)
    found = chapter.figures(name, chapter.read(CHAPTERS[name])).values()
    assert [own for _, own in linked] == [
        each.name for each in found if figure_table.has_data(each)
    ]
    for row, own in linked:
        _, _, after = table.partition(f'id="{row}"')
        assert own in after.partition("</tr>")[0]


def test_a_figure_is_drawn_with_the_chapters_settings_as_flags(in_folder, one_chapter, capsys):
    assert main(["figure", *one_chapter]) == 0
    assert capsys.readouterr().out.startswith(
        f"{'one.unit':<36} A matrix of D = 3 lines, and none.\n"
    )
    kept = []
    for given, size, file in [
        ([], 3, "one.unit.png"),
        (["--size", "4"], 4, "one.unit-2.png"),
        (["--save", "one.unit.png", "--force"], 3, "one.unit.png"),
        (["--size", "5", "--save", "five.png"], 5, "five.png"),
        ([], 3, "one.unit-3.png"),
    ]:
        assert main(["figure", "one.unit", *one_chapter, *given]) == 0
        assert capsys.readouterr().out.startswith(f"{file}: the unit matrix of {size}, ")
        kept.append((in_folder / file).read_bytes())
        assert kept[-1].startswith(b"\x89PNG")
    assert (in_folder / "one.unit-2.png").read_bytes() == kept[1] != kept[0]


def test_a_file_is_overwritten_only_with_force(in_folder, one_chapter, capsys):
    for figure, file in (
        ("unit", "a.png"),
        ("unit", "a.svg"),
        ("unit", "a.csv"),
        ("animation", "a.webp"),
    ):
        (in_folder / file).write_text("mine")
        given = [f"one.{figure}", "--save", file, *one_chapter]
        told = f"argument --save: would overwrite '{file}'; --force allows it"
        assert refused(capsys, *given) == (2, told)
        assert (in_folder / file).read_text() == "mine"
        assert main(["figure", *given, "--force"]) == 0
        assert (in_folder / file).stat().st_size > 100


@pytest.mark.parametrize(
    "given, said",
    [
        (["nonsense"], "argument NAME: 'nonsense' is no figure; without a name all are listed"),
        (["two.two"], "argument NAME: 'two.two' is no figure; without a name all are listed"),
        (["one.netwrok"], "argument NAME: 'one.netwrok' is no figure; did you mean one.network?"),
        (["netw"], "argument NAME: 'netw' is no figure; did you mean one.network?"),
        (["eno.unit"], "argument NAME: 'eno.unit' is no figure; did you mean one.unit?"),
        (["one"], "argument NAME: 'one' is no figure; this chapter has one.unit, one.animation, "
         "one.network, one.kept"),
        (["one.unit", "--size", "x"], "argument --size: takes a whole number, not 'x'"),
        (["one.unit", "--dim", "2"], "no --dim; NAME stands first, and NAME --help lists its flags"),
        (["one.unit", "--save", "."], "argument --save: takes a file in a writable folder, not '.'"),
        (["one.unit", "--save", "a.pdf"], "argument --save: one.unit is a figure: takes a file in "
         ".png, .svg or .csv, not 'a.pdf'"),
        (["one.network", "--save", "a.csv"], "argument --save: one.network is a drawing, without "
         "numbers: takes a file in .png or .svg, not 'a.csv'"),
        (["one.animation", "--save", "a.csv"], "argument --save: one.animation is an animation: "
         "takes a file in .webp, not 'a.csv'"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_at_once(one_chapter, monkeypatch, capsys, given, said):
    monkeypatch.setattr(chapter, "draw", lambda *_: pytest.fail("drawn"))
    assert refused(capsys, *given, *one_chapter) == (2, said)


@pytest.mark.parametrize(
    "rows, given",
    [([3], "int"), ([["one.unit"]], "str"), ([[[]]], "list"), ([[]], "none"), ([], "none")],
)
def test_what_is_no_panel_is_refused_with_one_that_is(rows, given):
    said = "figure takes panels, as plot.losses([run]) and plot.values(run) are, not"
    with pytest.raises(TypeError, match=f"^{re.escape(said)} {given}$"):
        plot.figure(*rows)


def test_a_folder_without_chapters_and_a_broken_one_are_named(in_folder, monkeypatch, capsys):
    said = "argument --book: takes a folder with chapters (*.ipynb), not 'empty'"
    (in_folder / "empty").mkdir()
    for given in ([], ["one.unit"]):
        assert refused(capsys, *given, "--book", "empty") == (2, said)
    monkeypatch.setattr("iclbook.__main__.BOOK", Path())  # what it is outside of the clone
    said = "no chapters here: run this in the clone, or give --book CLONE/book"
    assert refused(capsys, "one.unit", "--book", ".") == (2, said)
    with pytest.raises(SystemExit, match="2"):
        main(["fig", "one.unit"])
    assert "invalid choice: 'fig' (choose from 'figure')" in capsys.readouterr().err
    (in_folder / "one.ipynb").write_text('{"cells": [')
    assert refused(capsys, "--book", ".") == (2, "one.ipynb is not a whole notebook")


def test_a_kind_of_file_that_only_the_drawn_picture_refuses_is_not_written(
    in_folder, one_chapter, capsys
):
    said = "one.kept: argument --save: one.kept is a drawing, without numbers: takes a file in .png or .svg, "
    assert refused(capsys, "one.kept", "--save", "a.csv", *one_chapter) == (1, f"{said}not 'a.csv'")
    assert main(["figure", "one.kept", "--save", "a.SVG", *one_chapter]) == 0
    assert [path.name for path in in_folder.iterdir()] == ["book", "a.SVG"]
    assert main(["figure", "one.animation", *one_chapter]) == 0
    assert (in_folder / "one.animation.webp").read_bytes()[8:12] == b"WEBP"


def test_a_picture_of_lines_has_the_alt_text_and_the_same_bytes_each_time(in_folder, one_chapter):
    for file in ("a.svg", "b.svg", "c.svg"):
        given = ["--size", "4"] if file == "c.svg" else []
        assert main(["figure", "one.unit", *one_chapter, *given, "--save", file]) == 0
    first, again, other = ((in_folder / f"{name}.svg").read_bytes() for name in "abc")
    assert first == again != other
    root = ElementTree.fromstring(other)
    told = {each.tag.partition("}")[2]: "".join(each.itertext()) for each in root}
    assert root.get("role") == "img" and told["title"] == "one.unit"
    assert told["desc"] == "the unit matrix of 4, as a heat map."
    assert "{'size': 4}" in told["metadata"] and CITE in told["metadata"]


def test_a_files_head_says_what_was_set_and_how_it_is_cited(in_folder, one_chapter):
    assert main(["figure", "one.unit", *one_chapter, "--size", "2", "--save", "a.csv"]) == 0
    head, numbers = read_table(in_folder / "a.csv")
    assert head == {
        "figure": "one.unit",
        "shows": "A matrix of D = 2 lines, and –.",
        "settings": {"size": 2},
        "set by flags": {"size": 2},
        "iclcore": versions()["iclcore"],
        "cite": f"{CITE}, figure one.unit.",
        "panels": {"1": {"title": "the unit matrix of 2"}},
    }
    name, cell = "the unit matrix of 2", "cell"
    assert [(row["series"], row["drawn"]) for row in numbers] == [(name, cell)] * 4
    assert [[row[at] for at in ("x", "y", "value")] for row in numbers] == [
        ["0", "0", "1.0"], ["1", "0", "0.0"], ["0", "1", "0.0"], ["1", "1", "1.0"]
    ]  # fmt: skip
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    facts = cited["authors"][0]["name"], cited["title"], cited["date-released"].year
    assert ". ".join(map(str, facts)).lower() + f". version {__version__}" == CITE.lower()


def test_what_a_cell_refuses_lacks_or_a_key_stops_leaves_no_picture(in_folder, one_chapter, capsys):
    said = "one.unit: size takes at most 9"
    assert refused(capsys, "one.unit", "--size", "12", *one_chapter) == (1, said)
    code, said = refused(capsys, "one.unit", "--size", "7", *one_chapter)
    assert code == 2
    assert said.startswith('needs not_there, which is not installed: pip install ".[book]"')
    assert main(["figure", "one.unit", "--size", "6", *one_chapter]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert [path.name for path in in_folder.iterdir()] == ["book"]


@pytest.mark.filterwarnings("default")
def test_a_warning_is_a_line_and_the_figure_is_drawn(one_chapter, capsys):
    """Python shows where it came from, and the line of code there."""
    assert main(["figure", "one.unit", "--size", "8", *one_chapter]) == 0
    said = capsys.readouterr()
    assert said.err == "warning: too large: no run ends\n" and said.out.startswith("one.unit.png: ")


def test_a_place_that_cannot_be_written_is_told_before_anything_is_drawn(
    in_folder, one_chapter, monkeypatch, capsys
):
    monkeypatch.setattr(chapter, "draw", lambda *_: pytest.fail("drawn"))
    monkeypatch.chdir("/proc")
    said = "argument --save: takes a file in a writable folder, not 'one.unit.png'"
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
