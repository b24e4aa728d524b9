"""Numbers in the text, captions and tables: marked, recorded, filled in; the chapters as committed."""

import re
from pathlib import Path

import marks
import nbformat
import numpy as np
import pytest
from chapters import notebooks
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from iclbook import quote

CHAPTERS = notebooks()
# what only Sphinx would show as it is meant
FOREIGN = re.compile(r"\{(?:glue|include|math|exercise|solution|table|figure|admonition)\b.*")


def notebook_of(*sources):
    """Text where a source begins with a capital, a mark or an emphasis, else code."""
    text = re.compile(r"[A-Z<*|-]")
    cells = [(new_markdown_cell if text.match(s) else new_code_cell)(s) for s in sources]
    return new_notebook(cells=cells)


@pytest.mark.parametrize(
    "value, form, text",
    [
        (0.37741, ".4f", "0.3774"),
        (0.37741, "", "0.377"),
        (1234567, "", "1,234,567"),
        (np.int64(1800), "", "1,800"),
        (np.float64(-1.8e-5), "", "−1.8e−05"),
        (0.123, ".0%", "12%"),
        ("merged", "", "merged"),
        ([1.0, 0.64, 0.3774], ".2f", "1.00, 0.64 and 0.38"),
        (np.array([3, 4]), "", "3 and 4"),
        ([0.5], ".1f", "0.5"),
        ([], ".1f", "–"),
        (float("nan"), ".0%", "–"),
        ([1.5, float("nan")], "", "1.5 and –"),
    ],
)
def test_a_value_is_written_as_its_format_says(value, form, text):
    assert quote.text(value, form) == text
    assert quote.are_numbers(text) == (text != "merged")


def test_a_cell_says_numbers_by_name(capsys):
    quote.say(
        level2=(0.37741, ".4f"), times=np.array([900, 1800]), none=(None, ".1f"), who="merged"
    )
    assert (
        capsys.readouterr().out
        == "level2 = 0.3774\ntimes = 900 and 1,800\nnone = –\nwho = merged\n"
    )
    with pytest.raises(ValueError, match=r"level2: '\.4' is no format"):
        quote.say(level2=(0.4, ".4"))


def saying(text, output="a = 1\nb = 0.5 and −2.0\n"):
    """A chapter with a parameter, a cell that says numbers, and a text."""
    notebook = notebook_of("dim: int = 4  # D; 2 to 8", "quote.say(a=1, b=b)", text)
    notebook.cells[0].metadata["tags"] = ["parameters"]
    notebook.cells[1].outputs = [new_output("stream", text=output)]
    return notebook


def test_the_text_is_filled_with_what_the_cells_said():
    notebook = saying(
        "Of <!--a-->?<!--/-->, <!--b-->old<!--/-->, <!--b[1]-->?<!--/--> <!--dim--><!--/-->."
    )
    marks.fill(notebook)
    text = "Of <!--a-->1<!--/-->, <!--b-->0.5 and −2.0<!--/-->, <!--b[1]-->−2.0<!--/--> <!--dim-->4<!--/-->."
    assert notebook.cells[2].source == text
    shorter = saying(text, "a = 1\nb = 0.5\n")
    marks.fill(shorter)
    assert "<!--b[1]-->–<!--/-->" in shorter.cells[2].source
    marks.resolve(notebook)
    assert notebook.cells[2].source == "Of 1, 0.5 and −2.0, −2.0 4."
    assert not notebook.cells[1].outputs  # what is printed for the text alone is not on the page


@pytest.mark.parametrize(
    "text, output, wrong",
    [
        ("Of <!--c-->1<!--/-->.", "a = 1\n", r"quotes c, which no cell says; nearest is"),
        ("Of <!--a-->1<!--/-->.", "a = 1\na = 2\n", "two numbers are called a"),
        ("Of <!--dim-->1<!--/-->.", "dim = 5\n", "two numbers are called dim"),
        ("A mark <!--a-->1 that does not end.", "a = 1\n", "want <!--NAME-->"),
        ("A mark that ends twice <!--a-->1<!--/--><!--/-->.", "a = 1\n", "want <!--NAME-->"),
        ("Over two <!--a-->\n1<!--/--> lines.", "a = 1\n", "want <!--NAME-->"),
        ("Of\n<!--a-->1<!--/--> *which no reader would show so.*", "a = 1\n", "want <!--NAME-->"),
        ("- <!--a-->1<!--/--> is the first of an item.", "a = 1\n", "want <!--NAME-->"),
    ],
)
def test_a_wrong_mark_is_named(text, output, wrong):
    with pytest.raises(marks.Mark, match=wrong):
        marks.fill(saying(text, output))


def test_sphinx_is_given_figures_tables_and_targets():
    notebook = notebook_of(
        "draw()",
        "<!--caption fig:one-->\nOne of <!--n-->3<!--/-->, {eq}`eq:one`.",
        "Text.\n\n<!--caption tab:two-->\nTwo\nwords.\n\n| a |\n|---|\n| 1 |\n\nMore.",
        "<!--name ex-three-->\n**Exercise.** Do it.",
    )
    marks.resolve(notebook)
    figure, empty, table, exercise = notebook.cells
    said = {"name": "fig:one", "caption": "One of 3, {eq}`eq:one`."}
    assert figure.metadata.mystnb.figure == said
    assert empty.source == ""  # and not gone: outputs are found by the number of their cell
    fenced = "```{table} Two words.\n:name: tab:two\n\n| a |\n|---|\n| 1 |\n```"
    assert table.source == f"Text.\n\n{fenced}\n\nMore."
    assert exercise.source == "(ex-three)=\n**Exercise.** Do it."


@pytest.mark.parametrize("place", ["A text.", "<!--caption fig:one-->\nOf another."])
def test_a_caption_that_stands_under_no_figure_is_named(place):
    with pytest.raises(marks.Mark, match="marks nothing: <!--caption fig:two-->"):
        marks.resolve(notebook_of("draw()", place, "<!--caption fig:two-->\nLost."))


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapters_text_says_what_its_cells_said(name):
    notebook, again = (nbformat.read(CHAPTERS[name], as_version=4) for _ in range(2))
    marks.fill(again)
    assert [c.source for c in again.cells] == [c.source for c in notebook.cells], "run make text"
    absent = [name for name, said in marks.numbers(notebook).items() if quote.ABSENT in said]
    assert not absent, "a run at the chapter's own settings has all numbers"


def test_every_number_that_a_cell_says_is_used():
    """In the text of its chapter, on another page or in a test of its chapter."""
    folder = Path(__file__).resolve().parent
    pages = "".join(page.read_text() for page in (folder.parent / "book").glob("*.md"))
    for chapter, path in CHAPTERS.items():
        notebook = nbformat.read(path, as_version=4)
        text = "".join(cell.source for cell in marks.texts(notebook))
        tests = "".join(test.read_text() for test in folder.glob(f"test_chapter_{chapter}.py"))
        for cell in filter(marks.says, notebook.cells):
            for name, _ in quote.printed("".join(each.get("text", "") for each in cell.outputs)):
                quoted = re.search(rf"<!--{name}(?:\[|-->)", text) or f"{chapter}.{name}" in pages
                assert quoted or re.search(rf"\.{name}\b", tests), f"{chapter}: nothing uses {name}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_reads_as_a_notebook_too(name):
    notebook = nbformat.read(CHAPTERS[name], as_version=4)
    foreign = [found[0] for c in marks.texts(notebook) for found in FOREIGN.finditer(c.source)]
    assert not foreign
    for cell in notebook.cells:
        assert "mystnb" not in cell.metadata, "a caption that only Sphinx shows"
        assert "glue" not in cell.source
