"""Sphinx extension: puts the explorers' scripts beside the pages that show explorers.

A page from disk may import no module, so each explorer comes as one plain script. A page that is no
notebook shows an explorer by the directive `explorer`, with the name of its class.
"""

from hashlib import sha256
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.fileutil import copy_asset

from iclbook import explorers
from iclbook.explorers import bundle


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


def add_loader(app, pagename, templatename, context, doctree):
    if 'class="explorer"' in context.get("body", ""):
        app.add_js_file("explorers.js")
        app.add_css_file("explorers.css")


def stage(app, error):
    if error is None and app.builder.format == "html":
        static = Path(app.outdir) / "_static"
        copy_asset(str(bundle.FOLDER / "explorers.js"), str(static))
        copy_asset(str(bundle.FOLDER / "explorers.css"), str(static))
        (static / "explorers").mkdir(exist_ok=True)
        for name, text in scripts().items():
            (static / "explorers" / f"{name}.js").write_text(text)


def setup(app):
    # pages carry the modules' addresses only; they are written anew when a module changes
    parts = [*scripts().values(), bundle.style(), (bundle.FOLDER / "explorers.js").read_text()]
    app.add_config_value("explorers", sha256("".join(parts).encode()).hexdigest(), "html")
    app.add_directive("explorer", Explorer)
    app.connect("html-page-context", add_loader)
    app.connect("build-finished", stage)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
