"""Sphinx extension of the book: what the text's marks stand for, alt texts, times, buttons and staged files.

Pages ask no other host for anything: MathJax and all icons lie beside them.
"""

import importlib.util
import re
from pathlib import Path

import install_cell
import marks
import nbformat
from chapters import recorded
from docutils import nodes
from PIL import Image, ImageChops
from sphinx.util import logging
from sphinx.util.fileutil import copy_asset

WORDS_A_MINUTE = 200
MATHJAX = ("tex-svg-full.js", "a11y", "sre")  # SVG output needs no fonts
# One icon of the theme's file: "name":[width, height, [aliases], "code point", "path" or ["paths"]],
ICON = re.compile(
    r'"?(?P<name>[\w-]+)"?:\[\d+,\d+,\[(?P<aliases>[^\]]*)\],"[0-9a-f]+",(?:"[^"]*"|\[[^\]]*\])\],?'
)
ICONS = 2000  # the theme's file has at least this many
VISIBLE = 16  # of 255 levels of a colour
logger = logging.getLogger(__name__)


def read_marks(app, docname, content):
    """Give Sphinx the figures, captions, tables and targets that the marks in a chapter's text stand for."""
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = nbformat.reads(content[0], as_version=4)
        try:
            marks.resolve(notebook)
        except marks.Mark as problem:
            logger.warning(str(problem), location=(docname, None))
        content[0] = nbformat.writes(notebook)


def add_alt_texts(app, doctree):
    """Give each picture that a cell drew the alt text in the cell's output.

    It stands in the output's metadata as {"image/png": {"alt": ...}}, where IPython's `Image(alt=...)`
    writes it too. MyST-NB does not read it.
    """
    path = Path(app.env.doc2path(app.env.docname))
    if path.suffix != ".ipynb":
        return
    cells = nbformat.read(path, as_version=4).cells
    for block in doctree.findall(nodes.container):
        if block.get("nb_element") != "cell_code":
            continue
        alts = [
            output.metadata.get("image/png", {}).get("alt")
            for output in cells[block["cell_index"]].outputs
            if "image/png" in output.get("data", {})
        ]
        for picture, alt in zip(block.findall(nodes.image), alts, strict=True):
            if alt:
                picture["alt"] = alt
            else:
                logger.warning("a picture has no alt text", location=(app.env.docname, None))


def add_times(app, doctree):
    """Say under a chapter's title how long it takes to read and how long it took to execute."""
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


def set_buttons(app, config):
    """Show the buttons for source and launch if _config.yml names the repository.

    Colab opens a chapter as it is committed. Such a chapter installs the package from the address in
    _config.yml; so without that address, or elsewhere than on GitHub, there is no button for Colab.
    """
    options = config.html_theme_options
    repository = options.get("repository_url", "")
    options["use_repository_button"] = options["use_issues_button"] = bool(repository)
    if not repository:
        options["launch_buttons"] = {}
    elif repository != install_cell.address(Path(app.srcdir)) or "github.com/" not in repository:
        options["launch_buttons"].pop("colab_url", None)


def drop_scripts(app, pagename, templatename, context, doctree):
    """Drop thebe, which loads itself from another host, and MathJax from pages without formulas."""
    unwanted = ["thebe"]
    if 'class="math' not in context.get("body", ""):
        unwanted.append("mathjax")

    def wanted(script):
        text = f"{script.filename} {script.attributes.get('body')}".lower()
        return not any(name in text for name in unwanted)

    context["script_files"] = [script for script in context["script_files"] if wanted(script)]


def repair_lists(app, pagename, templatename, context, doctree):
    """Repair two lists of Sphinx that screen readers cannot read.

    The bibliography has links between its items, and a signature on several lines is a list of
    descriptions without terms.
    """
    body = re.sub(' role="(?:list|doc-biblioentry)"', "", context.get("body", ""))
    signature = re.compile(r"<dl>\n((?:<dd>.*?</dd>\n)+)</dl>")
    rows = signature.sub(r'<div class="sig-lines">\n\1</div>', body)
    context["body"] = re.sub(r'<dd>(<em class="sig-param".*)</dd>', r"<div>\1</div>", rows)


def read_as_plain_text(app, what, name, obj, options, lines):
    """Read docstrings as plain text: |v| is a norm, * a product, and an indented block a formula."""
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


def copy_mathjax(app):
    wheel = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent
    for name in MATHJAX:
        source = wheel / "static" / "mathjax" / name
        target = Path(app.outdir) / "_static" / "mathjax" / (name if source.is_dir() else "")
        copy_asset(str(source), str(target))


def subset_icons(app):
    """Keep only the icons that a page or a script names: 20 KB, compressed, of the theme's 543."""
    static = Path(app.outdir, "_static")
    icons = static / "scripts" / "fontawesome.js"
    others = {*Path(app.outdir).rglob("*.html"), *static.rglob("*.js")} - {icons}
    used = {name for path in others for name in re.findall(r"\bfa-([a-z-]+)", path.read_text())}

    def keep(icon):
        names = {icon["name"], *re.findall(r'"([a-z-]+)"', icon["aliases"])}
        return icon[0] if names & used else ""

    text, found = ICON.subn(keep, icons.read_text())
    if found < ICONS:
        logger.warning(f"fontawesome.js has another form: only {found} icons were found in it")
    icons.write_text(text)


def lighten_pictures(app):
    """Reduce pictures to 256 colours, a third of the bytes, if no colour moves by more than can be seen."""
    for path in Path(app.outdir, "_images").glob("*.png"):
        with Image.open(path) as picture:
            opaque = picture.convert("RGBA").getextrema()[3] == (255, 255)
            colours = picture.convert("RGB")
        few = colours.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        changes = ImageChops.difference(colours, few.convert("RGB")).getextrema()
        if opaque and max(most for _, most in changes) <= VISIBLE:
            few.save(path)


def add_install_cells(app):
    """Let each notebook that a reader can download say first which package it needs."""
    address = app.config.html_theme_options.get("repository_url", "")
    for path in Path(app.outdir, "_sources").rglob("*.ipynb"):
        notebook = install_cell.downloaded(nbformat.read(path, as_version=4), address)
        nbformat.write(notebook, path)


def finish(app, error):
    if error is None and app.builder.format == "html":
        copy_mathjax(app)
        add_install_cells(app)
        subset_icons(app)
        lighten_pictures(app)


def setup(app):
    app.connect("config-inited", set_buttons, priority=900)
    app.connect("source-read", read_marks)
    app.connect("doctree-read", add_alt_texts)
    app.connect("doctree-read", add_times)
    app.connect("autodoc-process-docstring", read_as_plain_text)
    app.connect("html-page-context", drop_scripts, priority=900)
    app.connect("html-page-context", repair_lists)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
