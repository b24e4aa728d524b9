"""The built pages show nothing as it was typed, have all headings, and link to what exists."""

import re
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import install_cell
import nbformat
import pytest
from bs4 import BeautifulSoup, SoupStrainer

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "_build" / "html" / "book"  # `make test` builds it
BOOK = ROOT / "book"
SOURCES = sorted([*BOOK.glob("[a-z]*.md"), *BOOK.glob("[a-z]*.ipynb")])  # without the template

# What only the source of a page has: fences, roles, options, formulas, emphasis and links.
IN_TEXT = re.compile(
    r"`|:::|(?<![\w^_])\{[a-z][\w:-]*\}|(?<!\S):[a-z]+:(?!\S)|\$|\\[a-zA-Z]+|\*\*|\]\("
)
IN_CODE = re.compile(r"^ *(?:```|~~~|:::)|\{[a-z][\w:-]*\}`|^:[a-z]+: |\$\$", re.MULTILINE)


@cache
def ids(path):
    return set(re.findall(r'\sid="([^"]+)"', path.read_text()))


def take(article, selector):
    """Remove elements from an article, and return their text."""
    return "".join(element.extract().get_text() for element in article.select(selector))


def markdown(path):
    if path.suffix == ".md":
        return path.read_text()
    cells = nbformat.read(path, as_version=4).cells
    shown = (c for c in cells if "remove-cell" not in c.metadata.get("tags", []))
    return "\n\n".join(cell.source for cell in shown if cell.cell_type == "markdown")


def headings(source):
    """Return the lines that begin with # outside fences, as their author sees them."""
    fenced = re.compile(r"^ *(`{3,}|:{3,}|~{3,}).*?^ *\1[`:~]*\s*?$", re.MULTILINE | re.DOTALL)
    return re.findall("^#{1,6} (.*)", fenced.sub("", source), re.MULTILINE)


def letters(heading):
    return re.sub(r"[\W_]|\\[()]", "", heading)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_page_shows_nothing_of_its_source(path):
    page = (BUILT / f"{path.stem}.html").read_text()
    article = BeautifulSoup(page, "html.parser", parse_only=SoupStrainer("article"))
    take(article, "script, style, .sig, .section-number, .headerlink")
    shown = [letters(each.get_text()) for each in article.select("h1, h2, h3, h4, h5, h6")]
    assert shown == [letters(each) for each in headings(markdown(path))]
    take(article, ".math")
    code, text = take(article, "pre, code"), article.get_text()
    for shown, typed in (text, IN_TEXT), (code, IN_CODE):
        found = [shown[max(0, m.start() - 40) : m.end() + 40] for m in typed.finditer(shown)]
        assert not found, f"as it was typed: {found}"


@pytest.mark.parametrize("name", [path.stem for path in SOURCES])
def test_every_link_leads_to_a_file_and_a_place_on_it(name):
    """The links of explorers, with their settings after ?, are tested with the explorers."""
    path = BUILT / f"{name}.html"
    for link in re.findall(r'<a [^>]*href="([^"]*)"', path.read_text()):
        address = urlsplit(unescape(link))
        if not address.scheme and "?" not in address.fragment:
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            assert target.is_file(), link
            assert not address.fragment or unquote(address.fragment) in ids(target), link


@pytest.mark.parametrize("path", [p for p in SOURCES if p.suffix == ".ipynb"], ids=lambda p: p.stem)
def test_a_downloaded_notebook_is_the_chapter_and_says_what_it_needs(path):
    notebook = install_cell.downloaded(
        nbformat.read(path, as_version=4), install_cell.address(ROOT)
    )
    on_page = nbformat.read(BUILT.parent / "_sources" / "book" / path.name, as_version=4)
    assert on_page == notebook, "the pages are older than the notebook: run make book"
