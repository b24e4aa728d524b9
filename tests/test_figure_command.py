"""``python -m iclbook figure NAME`` draws a figure of the book with the cells of its chapter."""

from pathlib import Path

import nbformat
import pytest
from chapters import chapters
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from iclbook import chapter
from iclbook.__main__ import main

CHAPTERS = chapters()
# A cell that begins with <!-- is a caption. All others are code.
ONE_CHAPTER = [
    "size: int = 3  # at most 100%",
    "import numpy as np\n\nfrom iclbook import plot",
    'plot.figure(plot.matrix(np.eye(size), f"the unit matrix of {size}"))',
    "<!--caption fig:one-unit-->\nA matrix $D$.",
    "two = [plot.matrix(np.eye(size), 'M')] * 2\nplot.animation([two], 'One frame.')",
    "raise SystemExit('this cell is below the figures')",
]


@pytest.fixture
def one_chapter(in_folder):
    """Write a folder with one chapter, and return the flag that names the folder."""
    Path("book").mkdir()
    make = (new_markdown_cell if s.startswith("<!--") else new_code_cell for s in ONE_CHAPTER)
    cells = [cell(source) for cell, source in zip(make, ONE_CHAPTER, strict=True)]
    cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(new_notebook(cells=cells), Path("book", "one.ipynb"))
    return ["--book", "book"]


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_picture_of_a_chapter_has_a_name(name):
    cells = chapter.read(CHAPTERS[name])
    shown = [
        place
        for place, cell in enumerate(cells)
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
        or 'class="animation"' in "".join(output.get("data", {}).get("text/html", ""))
    ]
    found = chapter.figures(name, cells).values()
    assert [figure.place for figure in found] == shown
    assert all(len(figure.plain) > 5 and "<!--" not in figure.says for figure in found)


def test_a_figure_is_drawn_with_the_chapters_settings_as_flags(in_folder, one_chapter, capsys):
    assert main(["figure", *one_chapter]) == 0
    assert capsys.readouterr().out.startswith(f"{'one.unit':<36} A matrix D.\n")
    for flags, size, file in (
        ([], 3, "one.unit.png"),
        (["--size", "4"], 4, "one.unit-2.png"),
        (["--size", "5", "--save", "five.svg"], 5, "five.svg"),
    ):
        assert main(["figure", "one.unit", *flags, *one_chapter]) == 0
        said = capsys.readouterr()
        assert said.out == f"{file}: the unit matrix of {size}, as a heat map.\n" and not said.err
        assert Path(file).stat().st_size > 1000
    assert main(["figure", "one.animation", *one_chapter]) == 0
    assert Path("one.animation.webp").read_bytes()[8:12] == b"WEBP"
