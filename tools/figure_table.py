"""Sphinx directive `figure-table`: every figure of the chapters with its command, seconds and numbers.

All of it is read from the notebooks: what a figure shows from its function, the numbers from those that
the text quotes of its study, the seconds from the last execution.
"""

import re

import nbformat
import prose
from chapters import chapters, recorded
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from iclbook import gallery, quote

CALL = re.compile(r"^figures\.(?P<name>\w+\.\w+)\((?P<study>\w*)")


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
    """(label, name, seconds, numbers) of each figure cell of a notebook; a study's numbers stand once."""
    took = recorded().get(path.stem, {}).get("cells", {})
    notebook = nbformat.read(path, as_version=4)
    said = prose.recorded_numbers(notebook)
    prose.resolve(notebook)
    made, first = {}, {}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        for variable in re.findall(r"^(\w+) = ", cell.source, flags=re.M):
            made[variable] = took.get(cell.id, 0)
        call = CALL.match(cell.source)
        if call:
            label = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
            study = call["study"]
            seconds = took.get(cell.id, 0) + made.get(study, 0)
            of_study = numbers(study, said)
            yield label, call["name"], seconds, first.get(study) or of_study
            if label and of_study:
                first.setdefault(study, f"The numbers are those of {{numref}}`{label}`.")


def numbers(study, said):
    """What the text quotes of a study, each number with its name there, or with its expression."""
    found = []
    for mark, text in said.items():
        expression, _ = quote.split(mark)
        name = re.fullmatch(r"\w+(?:\.\w+)?\[\"(\w+)\"\]", expression)
        if study and study in re.findall(r"\w+", expression):
            found.append(f"{name[1].replace('_', ' ') if name else f'`{expression}`'}: {text}")
    return f"*{'; '.join(found)}*" if found else ""


def table(rows):
    yield "| figure | what it shows, its command, the numbers of its study |"
    yield "|---|---|"
    for label, name, seconds, found in rows:
        figure = f"{{numref}}`{label}`" if label else "animation"
        shows = re.sub("^Figure", "The paper’s Figure", gallery.title(name)).rstrip(".") + "."
        took = f", {seconds:.1f}\u00a0s" if seconds else ""
        command = f"`python -m iclbook figure {name}`{took}"
        yield f"| {figure} | {' <br> '.join(filter(None, (shows, command, found)))} |"


def setup(app):
    app.add_directive("figure-table", FigureTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
