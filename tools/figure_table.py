"""Sphinx directive `figure-table`: every figure of the chapters with its command and its seconds,
and under each figure a link to it.

All of it is read from the notebooks: what a figure shows comes from its caption, the seconds from the last
execution.
"""

from pathlib import Path

import nbformat
from chapters import chapters, recorded
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from iclbook.__main__ import result_class
from iclbook.chapter import Figure, figures

PAGE = "book/reproduce"  # which has the directive


class FigureTable(SphinxDirective):
    """One table for each chapter."""

    def run(self):
        lines, names = [], []
        for chapter, path in chapters().items():
            rows = list(figures_of(path))
            if rows:
                self.env.note_dependency(str(path))
                lines += ["", f"**{{doc}}`{chapter}`**", "", *table(rows)]
                names += [figure.name for figure, _ in rows]
        holder = nodes.container(classes=["figure-table"])
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, holder)
        shown = [row for body in holder.findall(nodes.tbody) for row in body.findall(nodes.row)]
        for name, row in zip(names, shown, strict=True):
            row["ids"].append(place(name))
        return [holder]


def place(name: str) -> str:
    """The id of a figure's row."""
    return f"data-{nodes.make_id(name)}"


def figures_of(path):
    """(figure, seconds) of each figure of a notebook: the seconds of all cells that its command executes."""
    took = recorded().get(path.stem, {}).get("cells", {})
    notebook = nbformat.read(path, as_version=4)
    found = figures(path.stem, notebook.cells)
    for figure in found.values():
        executed = notebook.cells[: figure.place + 1]
        yield figure, sum(took.get(cell.id, 0) for cell in executed)


def table(rows):
    yield "| figure | what it shows, and its command |"
    yield "|---|---|"
    for figure, seconds in rows:
        label = f"{{numref}}`{figure.label}`" if figure.label else "animation"
        took = f", {seconds:.1f}\u00a0s" if seconds else ""
        command = f"`python -m iclbook figure {figure.name}`{took}"
        cell = " <br> ".join(filter(None, (figure.says, command))).replace("|", r"\|")
        yield f"| {label} | {cell} |"


def lead_here(app, doctree):
    """From under each figure that draws numbers to its row, whose command writes them."""
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix != ".ipynb":
        return
    table = app.builder.get_relative_uri(app.env.docname, PAGE)
    found = figures(path.stem, nbformat.read(path, as_version=4).cells).values()
    named = {nodes.make_id(each.label): each.name for each in found if has_data(each)}
    for block in doctree.findall(nodes.figure):
        for name in (named[each] for each in block["ids"] if each in named):
            row = nodes.reference("", "Data", refuri=f"{table}#{place(name)}", internal=True)
            row["reftitle"] = f"python -m iclbook figure {name} --save F.csv"
            row["classes"].append("figure-data")
            next(block.findall(nodes.caption)).extend([nodes.Text(" "), row])


def has_data(figure: Figure) -> bool:
    """Whether it has a caption, and is no drawing."""
    return bool(figure.label) and ".csv" in getattr(result_class(figure), "suffixes", ())


def setup(app):
    app.connect("doctree-read", lead_here)
    app.add_directive("figure-table", FigureTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
