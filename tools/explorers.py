"""Sphinx extension: puts the explorers' scripts beside the pages that show explorers.

A page from disk may import no module, so each explorer comes as one plain script. They are staged
before the pages are written, so that Sphinx puts a digest of each file into its address. A page that is
no notebook shows an explorer by the directive `explorer`, with the name of its class.
"""

import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from iclbook import explorers
from iclbook.explorers import bundle

SHOWN = re.compile(r'class="explorer" data-module="(\w+)"')
AT_ONCE = {"loading_method": "async", "fetchpriority": "high"}


class Explorer(SphinxDirective):
    """What a cell of a notebook would show: a picture, drawn now, that the page's script replaces."""

    required_arguments = 1

    def run(self):
        (name,) = self.arguments
        if name not in explorers.__all__:
            raise self.error(f"explorer takes one of {', '.join(explorers.__all__)}, not {name}")
        shown = getattr(explorers, name)()
        return [nodes.raw("", shown.html(shown.picture()), format="html")]


def scripts() -> dict[str, str]:
    """Each explorer's script by its name."""
    names = [getattr(explorers, name).name for name in explorers.__all__]
    return {name: bundle.script(name) for name in sorted(names)}


def stage(app):
    if app.builder.format == "html":
        folder = Path(app.outdir) / "_static" / "explorers"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("explorers.js", "explorers.css"):
            shutil.copy(bundle.FOLDER / name, folder.parent)
        for name, text in scripts().items():
            (folder / f"{name}.js").write_text(text)


def add_scripts(app, pagename, templatename, context, doctree):
    names = dict.fromkeys(SHOWN.findall(context.get("body", "")))
    if names:
        app.add_css_file("explorers.css")
        for name in ("explorers", *(f"explorers/{name}" for name in names)):
            app.add_js_file(f"{name}.js", **AT_ONCE)


def setup(app):
    app.connect("builder-inited", stage)
    app.add_directive("explorer", Explorer)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
