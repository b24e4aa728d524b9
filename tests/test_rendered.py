"""The built pages: nothing on them stands as it was typed, and no heading is lost in a box of code."""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "_build" / "html" / "book"  # `make test` builds it
SOURCES = [p for p in sorted((ROOT / "book").iterdir()) if p.suffix in {".md", ".ipynb"}]
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}

# What only the source of a page has: fences, roles, options, formulas, emphasis and links.
IN_TEXT = re.compile(
    r"`|:::|(?<![\w^_])\{[a-z][\w:-]*\}|(?<!\S):[a-z]+:(?!\S)|\$|\\[a-zA-Z]+|\*\*|\]\("
)
IN_CODE = re.compile(r"^ *(?:```|~~~|:::)|\{[a-z][\w:-]*\}`|^:[a-z]+: |\$\$", re.MULTILINE)


class Page(HTMLParser):
    """The article's text without signatures, the text of its boxes of code, and its headings."""

    def __init__(self, source):
        super().__init__()
        self.within, self.text, self.code, self.headings = [], [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            classes = (dict(attributes).get("class") or "").split()
            self.within.append((tag, classes))
        if tag in HEADINGS and ("article", ["bd-article"]) in self.within:
            self.headings.append("")

    def handle_endtag(self, tag):
        if any(tag == open_tag for open_tag, _ in self.within):
            while self.within.pop()[0] != tag:
                pass

    def handle_data(self, data):
        tags = {tag for tag, _ in self.within}
        classes = {name for _, names in self.within for name in names}
        if "bd-article" not in classes or "sig" in classes or tags & {"script", "style"}:
            return
        if tags & HEADINGS and not classes & {"section-number", "headerlink"}:
            self.headings[-1] += data
        if "math" not in classes:
            (self.code if tags & {"pre", "code"} else self.text).append(data)


def markdown(path):
    if path.suffix == ".md":
        return path.read_text()
    cells = nbformat.read(path, as_version=4).cells
    shown = (c for c in cells if "remove-cell" not in c.metadata.get("tags", []))
    return "\n\n".join(cell.source for cell in shown if cell.cell_type == "markdown")


def headings(source):
    """Lines that begin with #, outside fences: as their author sees them."""
    fence = ""
    for line in source.splitlines():
        mark = re.match(r" *(`{3,}|:{3,}|~{3,})(.*)", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
        elif not fence and re.match("#{1,6} ", line):
            yield line.lstrip("#")


def letters(heading):
    return re.sub(r"[\W_]|\\[()]", "", heading)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_page_shows_nothing_of_its_source(path):
    page = Page((BUILT / f"{path.stem}.html").read_text())
    for text, typed in (page.text, IN_TEXT), (page.code, IN_CODE):
        whole = "".join(text)
        found = [whole[max(0, m.start() - 40) : m.end() + 40] for m in typed.finditer(whole)]
        assert not found, f"as it was typed: {found}"
    shown = [letters(each) for each in page.headings]
    assert shown == [letters(each) for each in headings(markdown(path))]
