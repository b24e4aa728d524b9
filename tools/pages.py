"""Sphinx extension of the book: marks, alt text, times, and pages that ask no other host for anything."""

import importlib.util
import json
import re
from functools import cache
from pathlib import Path

import install_cell
import marks
import nbformat
from chapters import recorded
from docutils import nodes
from sphinx.domains.std import StandardDomain
from sphinx.util import logging
from sphinx.util.fileutil import copy_asset

WORDS_A_MINUTE = 200
MATHJAX = ("tex-svg-full.js", "a11y", "sre")  # SVG output needs no fonts
# "name":[width, height, [aliases], "code point", "path" or ["paths"]],
ICON = re.compile(
    r'"?(?P<name>[\w-]+)"?:\[\d+,\d+,\[(?P<aliases>[^\]]*)\],"[0-9a-f]+",(?:"[^"]*"|\[[^\]]*\])\],?'
)
ICONS = 2000  # at least so many are in the theme's file
logger = logging.getLogger(__name__)


def read_marks(app, docname, content):
    """Give Sphinx figures with captions, tables and targets where a chapter's text marks them."""
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = nbformat.reads(content[0], as_version=4)
        try:
            marks.resolve(notebook)
        except marks.Mark as problem:
            logger.warning(str(problem), location=(docname, None))
        content[0] = nbformat.writes(notebook)


def add_alt_texts(app, doctree):
    """Give each picture that a cell made the alt text it was made with.

    Output metadata {"image/png": {"alt": ...}} is what IPython's `Image(alt=...)` writes too; the
    notebook reader drops it.
    """
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix != ".ipynb":
        return
    cells = nbformat.read(path, as_version=4).cells
    for block in doctree.findall(nodes.container):
        if block.get("nb_element") != "cell_code":
            continue
        cell = cells[block["cell_index"]]
        alts = [
            output.metadata.get("image/png", {}).get("alt")
            for output in cell.outputs
            if "image/png" in output.get("data", {})
        ]
        pictures = list(block.findall(nodes.image))
        for picture, alt in zip(pictures, alts, strict=True):
            if alt:
                picture["alt"] = alt
            else:
                logger.warning("a picture has no alt text", location=(app.env.docname, None))


def add_times(app, doctree):
    """Say under a chapter's title how long it takes to read, and how long it took to execute."""
    path = Path(app.env.doc2path(app.env.docname))
    title = next(doctree.findall(nodes.title), None)
    if path.suffix != ".ipynb" or title is None:
        return
    words = sum(len(node.astext().split()) for node in doctree.findall(nodes.paragraph))
    text = f"{max(1, round(words / WORDS_A_MINUTE))} min to read"
    took = recorded().get(path.stem)
    if took:
        text += f" · {took['together']:.0f} s to compute everything on it"
    line = nodes.paragraph("", text, classes=["chapter-times"])
    title.parent.insert(title.parent.index(title) + 1, line)


def repository_buttons(app, config):
    """Launch and source buttons, all by one setting: the repository's address in _config.yml.

    Colab opens a chapter as it is committed, which names what it needs by that address alone.
    """
    options = config.html_theme_options
    known = options.get("repository_url", "")
    options["use_repository_button"] = options["use_issues_button"] = bool(known)
    if not known:
        options["launch_buttons"] = {}
    elif known != install_cell.address(Path(app.srcdir)) or "github.com/" not in known:
        options["launch_buttons"].pop("colab_url", None)


def drop_scripts(app, pagename, templatename, context, doctree):
    """Without thebe, which would load itself from another host, and MathJax where it has nothing to set."""
    unwanted = ["thebe"]
    if 'class="math' not in context.get("body", ""):
        unwanted.append("mathjax")

    def wanted(script):
        text = f"{script.filename} {script.attributes.get('body')}".lower()
        return not any(name in text for name in unwanted)

    context["script_files"] = [script for script in context["script_files"] if wanted(script)]


def plain_citations(app, pagename, templatename, context, doctree):
    """Sphinx calls them a list, and puts links between its items, which a list may not have."""
    for role in (' role="list"', ' role="doc-biblioentry"'):
        context["body"] = context.get("body", "").replace(role, "")


def read_as_plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: |v| is a norm, * a product, an indented block a formula."""
    plain = []
    for line in lines:
        starts_block = line.startswith("    ") and plain and not plain[-1]
        if starts_block and not next(filter(None, reversed(plain)), "").startswith(" "):
            plain += ["::", ""]
        if not line.startswith(" "):
            parts = re.split("(``.*?``)", line)
            parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
            line = "".join(parts)
        plain.append(line)
    lines[:] = plain


def stage_mathjax(app, error):
    if error is None and app.builder.format == "html":
        wheel = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent
        for name in MATHJAX:
            source = wheel / "static" / "mathjax" / name
            target = Path(app.outdir) / "_static" / "mathjax" / (name if source.is_dir() else "")
            copy_asset(str(source), str(target))


def subset_icons(app, error):
    """Keep of the theme's 2,045 icons those that a page or a script names: a third of a page's weight."""
    if error is not None or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    icons = static / "scripts" / "fontawesome.js"
    naming = {*Path(app.outdir).rglob("*.html"), *static.rglob("*.js")} - {icons}
    named = {name for path in naming for name in re.findall(r"\bfa-([a-z-]+)", path.read_text())}

    def keep(icon):
        names = {icon["name"], *re.findall(r'"([a-z-]+)"', icon["aliases"])}
        return icon[0] if names & named else ""

    text, found = ICON.subn(keep, icons.read_text())
    if found < ICONS:
        logger.warning(f"fontawesome.js has another form: {found} icons found in it")
    icons.write_text(text)


def stage_downloads(app, error):
    """Each notebook says first what it needs; beside it is a script that saves it, see book.js for why."""
    address = app.config.html_theme_options.get("repository_url", "")
    for path in Path(app.outdir, "_sources").rglob("*.ipynb"):
        notebook = install_cell.downloaded(nbformat.read(path, as_version=4), address)
        nbformat.write(notebook, path)
        call = f"saveNotebook({json.dumps(path.name)}, {json.dumps(path.read_text())});\n"
        path.with_name(path.name + ".js").write_text(call)


class Numbered(StandardDomain):
    """For each numbered reference Sphinx loads the page that it leads to, a sixth of a build; here once."""

    def _resolve_numref_xref(self, env, *reference):
        if not hasattr(self, "load"):
            self.load = cache(env.get_doctree)
        env.get_doctree = self.load
        try:
            return super()._resolve_numref_xref(env, *reference)
        finally:
            del env.get_doctree  # of whoever else asks, a page is changed


def setup(app):
    app.add_domain(Numbered, override=True)
    app.connect("config-inited", repository_buttons, priority=900)
    app.connect("source-read", read_marks)
    app.connect("doctree-read", add_alt_texts)
    app.connect("doctree-read", add_times)
    app.connect("autodoc-process-docstring", read_as_plain_text)
    app.connect("html-page-context", drop_scripts, priority=900)
    app.connect("html-page-context", plain_citations)
    app.connect("build-finished", stage_mathjax)
    app.connect("build-finished", stage_downloads)
    app.connect("build-finished", subset_icons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
