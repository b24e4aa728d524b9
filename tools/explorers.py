"""Sphinx extension: stage the scripts of the explorers and load them on the pages that show one.

A page from disk may not import a module, so each explorer comes as one plain script. The scripts are
staged before the pages are written, because Sphinx puts a digest of each file into its address.
A page that is not a notebook shows an explorer by the directive `explorer` with the name of its class.
"""

import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from iclbook import explorers
from iclbook.explorers import bundle

SHOWN = re.compile(r'class="explorer" data-module="(\w+)"')
EARLY = {"loading_method": "async", "fetchpriority": "high"}


class Explorer(SphinxDirective):
    """Show what a cell of a notebook would show: a picture that the explorer's script replaces."""

    required_arguments = 1

    def run(self):
        (name,) = self.arguments
        if name not in explorers.__all__:
            raise self.error(f"explorer takes one of {', '.join(explorers.__all__)}, not {name}")
        explorer = getattr(explorers, name)()
        return [nodes.raw("", explorer.html(explorer.picture()), format="html")]


def stage_scripts(app):
    if app.builder.format == "html":
        folder = Path(app.outdir) / "_static" / "explorers"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("explorers.js", "explorers.css"):
            shutil.copy(bundle.FOLDER / name, folder.parent)
        for explorer in (getattr(explorers, name) for name in explorers.__all__):
            (folder / f"{explorer.name}.js").write_text(bundle.script(explorer.name))


def add_scripts(app, pagename, templatename, context, doctree):
    names = dict.fromkeys(SHOWN.findall(context.get("body", "")))
    if names:
        app.add_css_file("explorers.css")
        for name in ("explorers", *(f"explorers/{name}" for name in names)):
            app.add_js_file(f"{name}.js", **EARLY)


def setup(app):
    app.connect("builder-inited", stage_scripts)
    app.add_directive("explorer", Explorer)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
