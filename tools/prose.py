"""What a chapter's text marks for these tools, in comments that no reader of notebooks shows.

    <!--q levels[2] .4f-->0.3774<!--/q-->    a number of the run: see iclbook/quote.py
    <!--caption fig:staircase-->             begins the cell under a figure's: its label and caption
    <!--caption tab:both-->                  the line above a table's caption
    <!--name ex-long-->                      the line above what a link leads to

The executor writes the numbers into the text; Sphinx is given what it reads in the others' place.
"""

import re

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from iclbook.chapter import CAPTION
from iclbook.quote import QUOTED

# what begins a line as a comment ends only with the line: no reader would see Markdown in it
BEGINS = re.compile(r"^[ >]*(?:[-*+] +|\d+[.)] +)?<!--/?q\b.*", re.MULTILINE)
TABLE = re.compile(
    r"^<!--caption (?P<label>\S+)-->\n(?P<caption>(?:(?!\||\n).+\n)+)\n(?P<rows>(?:\|.*(?:\n|\Z))+)",
    re.MULTILINE,
)
NAME = re.compile(r"^<!--name (\S+)-->$", re.MULTILINE)

RECORD = "record"  # the id of the cell that prints the numbers
CALL = '''\
from iclbook import quote

quote.record(
    globals(),
    r"""
{marks}
""",
)'''


class Mark(ValueError):
    """What is wrong with a mark, in one line."""


def marks(notebook: NotebookNode) -> list[str]:
    """What the text quotes, in its order, each once."""
    found = []
    for cell in texts(notebook):
        left = QUOTED.sub("", cell.source)
        broken = BEGINS.search(cell.source) or re.search(r"<!--/?q\b.{,40}", left)
        if broken:
            raise Mark(
                f"want <!--q EXPRESSION FORMAT-->number<!--/q--> on one line, and not as the first of "
                f"that line: {broken[0]}"
            )
        found += [match["mark"].strip() for match in QUOTED.finditer(cell.source)]
    return list(dict.fromkeys(found))


def texts(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def with_record(notebook: NotebookNode) -> NotebookNode:
    """The notebook whose last cell prints all that its text quotes; without one if there is nothing."""
    notebook.cells = [cell for cell in notebook.cells if cell.get("id") != RECORD]
    asked = marks(notebook)
    if asked:
        folded = {"source_hidden": True, "outputs_hidden": True}
        metadata = {"tags": ["remove-cell"], "jupyter": folded}
        code = CALL.format(marks="\n".join(asked))
        notebook.cells.append(new_code_cell(code, id=RECORD, metadata=metadata))
    return notebook


def recorded_numbers(notebook: NotebookNode) -> dict[str, str]:
    """The text of each mark, as the last cell printed it when the notebook was executed."""
    outputs = notebook.cells[-1].get("outputs", []) if notebook.cells else []
    lines = "".join(output.get("text", "") for output in outputs).splitlines()
    said = {
        mark: [line for line in lines if line.startswith(f"{mark} = ")] for mark in marks(notebook)
    }
    return {mark: found[0].removeprefix(f"{mark} = ") for mark, found in said.items() if found}


def fill(notebook: NotebookNode) -> None:
    """Write the recorded numbers between their marks."""
    said = recorded_numbers(notebook)
    for cell in texts(notebook):
        cell.source = QUOTED.sub(
            lambda found: f"<!--q {found['mark']}-->{said[found['mark'].strip()]}<!--/q-->",
            cell.source,
        )


def resolve(notebook: NotebookNode) -> None:
    """Put what Sphinx reads in the place of the marks; cells keep their numbers."""
    before = None
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = QUOTED.sub(lambda found: found["said"], cell.source)
            caption = CAPTION.fullmatch(cell.source)
            if caption and before is not None and before.cell_type == "code":
                figure = {"name": caption["label"], "caption": caption["caption"]}
                before.metadata["mystnb"] = {"figure": figure}
                cell.source = ""
            cell.source = TABLE.sub(as_table, NAME.sub(r"(\1)=", cell.source))
            lost = re.search(r"<!--(?:q|/q|caption|name)\b.*", cell.source)
            if lost:
                raise Mark(f"a mark that marks nothing: {lost[0]}")
        before = cell


def as_table(found: re.Match) -> str:
    caption = " ".join(found["caption"].split())
    return f"```{{table}} {caption}\n:name: {found['label']}\n\n{found['rows'].rstrip()}\n```\n"
