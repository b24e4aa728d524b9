"""Sphinx directive `figure-table`: every figure of the chapters with its command, seconds and numbers.

All of it is read from the notebooks: what a figure shows from its caption, the numbers from those that the
text quotes, the seconds from the last execution.
"""

import ast
import re
from collections import defaultdict

import nbformat
import prose
from chapters import chapters, recorded
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from iclbook import quote
from iclbook.chapter import Figure, binds, figures, parameters, uses


class FigureTable(SphinxDirective):
    """One table for each chapter."""

    def run(self):
        lines = []
        for chapter, path in chapters().items():
            rows = list(figures_of(path))
            if rows:
                self.env.note_dependency(str(path))
                lines += ["", f"**{{doc}}`{chapter}`**", "", *table(rows)]
        holder = nodes.container(classes=["figure-table"])
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, holder)
        return [holder]


def figures_of(path):
    """(figure, seconds, numbers) of each figure of a notebook: the seconds of all cells that its command
    executes, the numbers that these cells compute and that no figure above has."""
    took = recorded().get(path.stem, {}).get("cells", {})
    notebook = nbformat.read(path, as_version=4)
    found = figures(path.stem, notebook.cells)
    quoted = numbers(notebook, list(found.values()))
    for name, figure in found.items():
        executed = notebook.cells[: figure.place + 1]
        yield figure, sum(took.get(cell.id, 0) for cell in executed), quoted[name]


def numbers(notebook: nbformat.NotebookNode, found: list[Figure]) -> dict[str, str]:
    """By figure what the text quotes of the cells that it is drawn by, each number with its name."""
    bound, said = {}, defaultdict(list)
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            bound |= dict.fromkeys(binds(ast.parse(cell.source)), place)
    for name in parameters(notebook.cells):
        bound.pop(name, None)
    for mark, text in prose.recorded_numbers(notebook).items():
        if not quote.are_numbers(text):
            continue  # a word that goes with a number
        expression, _ = quote.split(mark)
        places = [bound[name] for name in uses(ast.parse(expression)) & bound.keys()]
        drawn = [figure for figure in found if figure.place >= max(places)] if places else []
        if drawn:
            key = re.fullmatch(r"\w+(?:\.\w+)?\[\"(\w+)\"\]", expression)
            name = key[1].replace("_", " ") if key else f"`{expression}`"
            said[drawn[0].name].append(f"{name} **{text}**")
    return defaultdict(str, {name: f"*{'; '.join(each)}*" for name, each in said.items()})


def table(rows):
    yield "| figure | what it shows, its command, the numbers it computes |"
    yield "|---|---|"
    for figure, seconds, quoted in rows:
        label = f"{{numref}}`{figure.label}`" if figure.label else "animation"
        took = f", {seconds:.1f}\u00a0s" if seconds else ""
        command = f"`python -m iclbook figure {figure.name}`{took}"
        cell = " <br> ".join(filter(None, (figure.says, command, quoted))).replace("|", r"\|")
        yield f"| {label} | {cell} |"


def setup(app):
    app.add_directive("figure-table", FigureTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
