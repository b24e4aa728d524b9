"""Sphinx directive `figure-table`: every figure of the chapters with its command, seconds and numbers.

All of it is read from the notebooks: what a figure shows from its function, the numbers from what its
study's cell printed, the seconds from the last execution.
"""

import re

import execute
import nbformat
from docutils import nodes
from docutils.statemachine import StringList
from pages import seconds_of
from sphinx.util.docutils import SphinxDirective

from iclcore import gallery

CALL = re.compile(r"^figures\.(?P<name>\w+\.\w+)\((?P<study>\w*)")


class FigureTable(SphinxDirective):
    """One table for each chapter."""

    def run(self):
        lines = []
        for chapter, path in execute.chapters().items():
            rows = list(figures_of(path))
            if rows:
                self.env.note_dependency(str(path))
                lines += ["", f"**{{doc}}`{chapter}`**", "", *table(rows)]
        holder = nodes.container(classes=["figure-table"])
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, holder)
        return [holder]


def figures_of(path):
    """(label, name, seconds, numbers) of each figure cell of a notebook."""
    took = seconds_of(path.stem).get("cells", {})
    made, said = {}, {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        for variable in re.findall(r"^(\w+) = ", cell.source, flags=re.M):
            made[variable] = took.get(cell.id, 0)
        for output in cell.outputs:
            if output.output_type == "stream":
                for line in output.text.splitlines():
                    study, _, numbers = line.partition(": ")
                    said[study] = numbers
        call = CALL.match(cell.source)
        if call:
            label = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
            study = call["study"]
            seconds = took.get(cell.id, 0) + made.get(study, 0)
            yield label, call["name"], seconds, said.get(study, "")


def table(rows):
    yield "| figure | what it shows; the numbers its study computes | seconds |"
    yield "|---|---|---|"
    for label, name, seconds, numbers in rows:
        figure = f"{{numref}}`{label}`" if label else "animation"
        shows = gallery.title(name).rstrip(".") + "."
        command = f"`python -m iclcore figure {name}`"
        text = f"{shows} {command}"
        if numbers:
            text += f" <br> *{numbers.replace('_', ' ').replace('|', '/')}*"
        yield f"| {figure} | {text} | {seconds:.1f} |" if seconds else f"| {figure} | {text} | |"


def setup(app):
    app.add_directive("figure-table", FigureTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
