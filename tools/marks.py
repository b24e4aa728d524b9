"""What the text of a chapter marks for these tools, in comments that no reader of a notebook shows.

    <!--level2-->0.3774<!--/-->      a number that a cell says by this name: see iclbook/quote.py
    <!--caption fig:staircase-->     the first line of the cell below a figure: its label, then its caption
    <!--caption tab:both-->          the line above the caption of a table
    <!--name ex-long-->              the line above a place that links lead to

`fill` writes the numbers into the text; `resolve` turns the marks into what Sphinx reads.
"""

import difflib
import re

from nbformat import NotebookNode

from iclbook import quote
from iclbook.chapter import CAPTION, values
from iclbook.quote import QUOTED

# Markdown is not parsed in a line that begins with a comment.
BEGINS = re.compile(
    r"^[ >]*(?:[-*+] +|\d+[.)] +)?<!--(?:/|[A-Za-z]\w*(?:\[-?\d+\])?)-->.*", re.MULTILINE
)
BROKEN = re.compile(r"<!--/?(?:q\b.{,40}|(?:[A-Za-z][^\s>]*)?-->)")
TABLE = re.compile(
    r"^<!--caption (?P<label>\S+)-->\n(?P<caption>(?:(?!\||\n).+\n)+)\n(?P<rows>(?:\|.*(?:\n|\Z))+)",
    re.MULTILINE,
)
NAME = re.compile(r"^<!--name (\S+)-->$", re.MULTILINE)


class Mark(ValueError):
    """What is wrong with a mark, in one line."""


def texts(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the Markdown cells."""
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def says(cell: NotebookNode) -> bool:
    """Return whether a cell names numbers for the text."""
    return cell.cell_type == "code" and "quote.say(" in cell.source


def numbers(notebook: NotebookNode) -> dict[str, str]:
    """Return all numbers that the text may quote, by name: the parameters, and what the cells printed."""
    found = {name: quote.text(value) for name, value in values(notebook.cells, {}).items()}
    for cell in filter(says, notebook.cells):
        output = "".join(each.get("text", "") for each in cell.outputs)
        for name, said in quote.printed(output):
            if name in found:
                raise Mark(f"two numbers are called {name}: give one of them another name")
            found[name] = said
    return found


def fill(notebook: NotebookNode) -> None:
    """Write the numbers between their marks."""
    known = numbers(notebook)

    def filled(mark: re.Match) -> str:
        try:
            number = quote.find(known, mark)
        except KeyError as missing:
            name = missing.args[0]
            near = difflib.get_close_matches(name, known, 1, 0)
            raise Mark(f"the text quotes {name}, which no cell says; nearest is {near}") from None
        return mark[0].replace(f"-->{mark['said']}<!--", f"-->{number}<!--")

    check(notebook)
    for cell in texts(notebook):
        cell.source = QUOTED.sub(filled, cell.source)


def check(notebook: NotebookNode) -> None:
    """Refuse a mark that is broken, or that Markdown would not show as it is meant."""
    for cell in texts(notebook):
        wrong = BEGINS.search(cell.source) or BROKEN.search(QUOTED.sub("", cell.source))
        if wrong:
            raise Mark(
                f"want <!--NAME-->number<!--/-->, on one line and not at the beginning of it: {wrong[0]}"
            )


def resolve(notebook: NotebookNode) -> None:
    """Replace the marks by what Sphinx reads, and hide what cells print for the text alone."""
    before = None
    for cell in notebook.cells:
        if says(cell):
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stdout"]
        if cell.cell_type == "markdown":
            cell.source = QUOTED.sub(lambda found: found["said"], cell.source)
            caption = CAPTION.fullmatch(cell.source)
            if caption and before is not None and before.cell_type == "code":
                figure = {"name": caption["label"], "caption": caption["caption"]}
                before.metadata["mystnb"] = {"figure": figure}
                cell.source = ""
            cell.source = TABLE.sub(as_table, NAME.sub(r"(\1)=", cell.source))
            lost = re.search(r"<!--(?:caption|name)\b.*", cell.source) or BROKEN.search(cell.source)
            if lost:
                raise Mark(f"a mark that marks nothing: {lost[0]}")
        before = cell


def as_table(found: re.Match) -> str:
    """Return a table with its caption in MyST's form."""
    caption = " ".join(found["caption"].split())
    return f"```{{table}} {caption}\n:name: {found['label']}\n\n{found['rows'].rstrip()}\n```\n"
