"""Numbers in the text, captions and tables: marked, recorded, filled in; the chapters as committed."""

import re

import nbformat
import numpy as np
import prose
import pytest
from chapters import chapters
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from iclbook import quote

CHAPTERS = chapters()
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


@pytest.mark.parametrize(
    "mark, parts",
    [
        ("levels[2] .4f", ("levels[2]", ".4f")),
        ("times ,d", ("times", ",d")),
        ("a + b .1%", ("a + b", ".1%")),
        ("a + b", ("a + b", "")),
        ("a if b else d", ("a if b else d", "")),
        ("len(runs)", ("len(runs)", "")),
        ("f(a, 3) +.1e", ("f(a, 3)", "+.1e")),
    ],
)
def test_the_last_word_of_a_mark_is_its_format(mark, parts):
    assert quote.split(mark) == parts


def test_what_other_settings_do_not_have_is_a_dash_and_a_mistake_is_named(capsys):
    names = {"levels": [1.0, 0.64], "facts": {"a": 1}}
    quote.record(names, '\nlevels[1] .1f\nlevels[7] .1f\nfacts["b"]\n')
    said = capsys.readouterr().out
    assert said == 'levels[1] .1f = 0.6\nlevels[7] .1f = –\nfacts["b"] = –\n'
    for wrong in ("level[1] .1f", "levels[1] .4", "levels +"):
        with pytest.raises(ValueError) as refused:
            quote.record(names, wrong)
        assert str(refused.value).startswith(f"<!--q {wrong}-->: ")


def test_the_last_cell_prints_what_the_text_quotes_and_the_text_is_filled_from_it():
    text = "Of <!--q a-->?<!--/q-->, <!--q b .1f-->old<!--/q--> and <!--q a--><!--/q-->."
    notebook = prose.with_record(notebook_of("a = 1", text))
    assert prose.with_record(notebook) == notebook
    record = notebook.cells[-1]
    assert [cell.id for cell in notebook.cells].count(prose.RECORD) == 1
    assert record.metadata.tags == ["remove-cell"]
    assert "\na\nb .1f\n" in record.source
    record.outputs = [new_output("stream", text="a = 1\nb .1f = 0.5 and −2.0\n")]
    prose.fill(notebook)
    filled = (
        "Of <!--q a-->1<!--/q-->, <!--q b .1f-->0.5 and −2.0<!--/q--> and <!--q a-->1<!--/q-->."
    )
    assert notebook.cells[1].source == filled
    assert prose.with_record(notebook_of("a = 1", "No number.")).cells[-1].source == "No number."


@pytest.mark.parametrize(
    "text",
    [
        "A mark <!--q a-->1 that does not end.",
        "A mark that ends twice <!--q a-->1<!--/q--><!--/q-->.",
        "Over two <!--q a\n.1f-->1<!--/q--> lines.",
        "Of\n<!--q a-->1<!--/q--> *at the beginning of a line*, which no reader would show so.",
        "- <!--q a-->1<!--/q--> is the first of an item.",
    ],
)
def test_a_mark_that_a_reader_would_stumble_over_is_refused(text):
    with pytest.raises(prose.Mark, match=r"^want <!--q "):
        prose.marks(notebook_of("a = 1", text))


def test_sphinx_is_given_figures_tables_and_targets():
    notebook = notebook_of(
        "draw()",
        "<!--caption fig:one-->\nOne of <!--q n-->3<!--/q-->, {eq}`eq:one`.",
        "Text.\n\n<!--caption tab:two-->\nTwo\nwords.\n\n| a |\n|---|\n| 1 |\n\nMore.",
        "<!--name ex-three-->\n**Exercise.** Do it.",
    )
    prose.resolve(notebook)
    figure, empty, table, exercise = notebook.cells
    said = {"name": "fig:one", "caption": "One of 3, {eq}`eq:one`."}
    assert figure.metadata.mystnb.figure == said
    assert empty.source == ""  # and not gone: outputs are found by the number of their cell
    fenced = "```{table} Two words.\n:name: tab:two\n\n| a |\n|---|\n| 1 |\n```"
    assert table.source == f"Text.\n\n{fenced}\n\nMore."
    assert exercise.source == "(ex-three)=\n**Exercise.** Do it."


@pytest.mark.parametrize("place", ["A text.", "<!--caption fig:one-->\nOf another."])
def test_a_caption_that_stands_under_no_figure_is_named(place):
    with pytest.raises(prose.Mark, match="marks nothing: <!--caption fig:two-->"):
        prose.resolve(notebook_of("draw()", place, "<!--caption fig:two-->\nLost."))


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapters_text_says_what_its_run_said(name):
    notebook = nbformat.read(CHAPTERS[name], as_version=4)
    again = prose.with_record(nbformat.read(CHAPTERS[name], as_version=4))
    assert [c.source for c in again.cells] == [c.source for c in notebook.cells], "run make book"
    said = prose.recorded_numbers(notebook)
    lines = "".join(output.text for output in notebook.cells[-1].outputs).splitlines()
    assert lines == [f"{mark} = {text}" for mark, text in said.items()]
    for cell in prose.texts(notebook):
        for found in prose.QUOTED.finditer(cell.source):
            assert found["said"] == said.get(found["mark"]), "run make book"
    absent = [mark for mark, text in said.items() if quote.ABSENT in text]
    assert not absent, "a run at the published setting has all that the text quotes"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_reads_as_a_notebook_too(name):
    notebook = nbformat.read(CHAPTERS[name], as_version=4)
    foreign = [found[0] for c in prose.texts(notebook) for found in FOREIGN.finditer(c.source)]
    assert not foreign
    for cell in notebook.cells:
        assert "mystnb" not in cell.metadata, "a caption that only Sphinx shows"
        assert "glue" not in cell.source
