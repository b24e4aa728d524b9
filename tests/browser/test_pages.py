"""The built pages in a browser, opened from the disk as a reader without a network would."""

import gzip
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

import install_cell
import nbformat
import pytest
from pace import mostly_slow, slow

from browser.seen import frames

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "_build" / "html"  # `make test` builds it, with warnings as errors
SOURCES = [p for p in sorted((ROOT / "book").iterdir()) if p.suffix in {".md", ".ipynb"}]
PAGES = [path.stem for path in SOURCES]
COLUMNS = tomllib.loads((ROOT / "book" / "ruff.toml").read_text())["line-length"]
CHAPTERS = [path.stem for path in SOURCES if path.suffix == ".ipynb"]
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
# the rules that a theme decides, and that take axe longest
OF_COLOURS = ["color-contrast", "link-in-text-block"]


# What is wrong with the formulas as they are set. One may be wider than what holds it only on a narrow
# screen, where that scrolls, for a keyboard too; a formula in a line breaks into several instead.
# Nothing that touches a formula, a comma or a bracket, may be left on another line.
FORMULAS = r"""narrow => [...MathJax.startup.document.math].flatMap(({ math, display, typesetRoot }) => {
  const wrong = (what) => [`${what}: ${math}`];
  const svg = typesetRoot.querySelector("svg"), set = svg.getBoundingClientRect();
  if (!typesetRoot.closest("article")) return [];  // in the contents beside the page
  if (!set.width) return wrong("not to be seen");
  for (let box = set, holder = svg; (holder = holder.parentElement).tagName !== "ARTICLE"; ) {
    const style = getComputedStyle(holder), outer = holder.getBoundingClientRect();
    const left = outer.left + holder.clientLeft, right = left + holder.clientWidth;
    if (style.display === "inline" || (box.left > left - 0.5 && box.right < right + 0.5)) continue;
    if (!narrow || !["auto", "scroll"].includes(style.overflowX)) {
      return wrong(`${Math.round(box.width)} px in ${holder.clientWidth}`);
    }
    if (holder.tabIndex < 0) return wrong("scrolls, but not for a keyboard");
    if (holder === typesetRoot && !style.backgroundAttachment.includes("local")) {
      return wrong("scrolls, but does not show it");
    }
    box = outer;
  }
  if (display) return [];
  const { previousSibling: before, nextSibling: after } = typesetRoot.closest("span.math");
  const letter = (text, at) => {
    const range = new Range();
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getBoundingClientRect();
  };
  if (/\S$/.test(before?.data ?? "") && letter(before, before.length - 1).right > set.left + 1) {
    return wrong(`torn from "${before.data}"`);
  }
  if (/^\S/.test(after?.data ?? "") && letter(after, 0).left < set.right - 1) {
    return wrong(`torn from "${after.data}"`);
  }
  return [];
})"""

# Captions that do not end on the screen, and numbers in a table that are parted from their unit.
TABLES = """() => [
  ...[...document.querySelectorAll("article caption")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth),
  ...[...document.querySelectorAll("article td.text-right p")].filter((each) => {
    const range = new Range();
    range.selectNodeContents(each);
    return new Set([...range.getClientRects()].map((line) => line.top)).size > 1;
  }),
].map((each) => each.textContent)"""


# How large pictures are, of the size they were made for, in which letters have 13 px.
SCALES = """() => [...document.querySelectorAll("article .cell_output figure > a > img")]
  .map((each) => each.getBoundingClientRect().width / parseFloat(each.style.width))"""


# Boxes of code that a chapter's longest line would scroll in.
CODE = """columns => [...document.querySelectorAll("article .cell_input pre")].filter((each) => {
  const probe = document.createElement("span"), style = getComputedStyle(each);
  probe.textContent = "0".repeat(columns);
  each.append(probe);
  const needs = probe.getBoundingClientRect().width;
  probe.remove();
  const inside = each.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return !each.closest("details") && needs > inside;  // what is folded has shorter lines
}).map((each) => each.textContent)"""


# Whatever changes slowly, at its end.
SETTLED = "document.getAnimations().forEach((each) => each.finish())"


# What axe need not look at again and again: a word of code for each of its colours, of which a page has
# thousands; and the strokes of formulas, which no text is in, and their MathML, of which axe knows no
# more than its letters.
ONE_OF_EACH = """() => {
  document.querySelectorAll("mjx-container svg").forEach((each) => each.replaceChildren());
  document.querySelectorAll("mjx-container math").forEach((each) => {
    each.textContent = each.textContent;
  });
  const seen = new Set();
  for (const each of document.querySelectorAll("article pre span[class]")) {
    if (seen.has(each.className)) each.replaceWith(each.textContent);
    else if (each.children.length === 0) seen.add(each.className);
  } }"""


# Of each kind of text the first piece and the last: all of a kind stand in the same elements, and each of
# these looks the same.
KINDS_OF_TEXT = """() => {
  const main = document.querySelector("main"), known = new Map([[main.parentElement, ""]]);
  const kind = (each) => {
    if (!known.has(each)) {
      const style = getComputedStyle(each);
      const looks = ["color", "background", "opacity", "fontSize", "fontWeight"].map((it) => style[it]);
      const own = [each.tagName, each.getAttribute("class"), ...looks];
      known.set(each, [kind(each.parentElement), ...own].join());
    }
    return known.get(each);
  };
  const texts = [...main.querySelectorAll("*")].filter((each) => each.checkVisibility() &&
    [...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
  const last = new Map(texts.map((each) => [kind(each), each]));
  const first = new Map(texts.reverse().map((each) => [kind(each), each]));
  return [...new Set([...first.values(), ...last.values()])]; }"""


@pytest.fixture
def open_page(visit):
    """Open a built page, its formulas set."""

    def opened(name, query="", **settings):
        page = visit((BUILT / "book" / f"{name}.html").as_uri() + query, ready=None, **settings)
        page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
        page.evaluate("window.MathJax && MathJax.startup.promise")
        return page

    return opened


@pytest.mark.parametrize("name", mostly_slow(PAGES, "index", "rank_one", "notation"))
def test_a_page_is_whole_on_any_screen_and_for_anyone(open_page, name):
    """One visit: it takes longer to set a page's formulas than to look at it."""
    page = open_page(name, viewport={"width": 320, "height": 700}, color_scheme="dark")
    weighs_little(page)
    is_whole_on_any_screen(page)
    assert page.locator(".ex").count() == page.locator(".explorer").count()
    has_nothing_serious_for_axe(page)
    if name in CHAPTERS:
        downloads_as_the_notebook_it_is(page, name)


@cache
def weight(file: Path) -> int:
    packed = file.suffix in {".png", ".webp", ".woff2"}
    return len(file.read_bytes() if packed else gzip.compress(file.read_bytes(), 6))


def weighs_little(page):
    """At most 2 MB over the wire, compressed as a host would; a page asks only for what it needs."""
    files = {Path(unquote(urlsplit(each).path)) for each in page.requested}
    weights = {file.name: weight(file) for file in files if file.is_file()}
    assert sum(weights.values()) < 2_000_000, weights
    assert ("tex-svg-full.js" in weights) == (page.locator("article .math").count() > 0)
    assert (
        page.locator("svg[data-icon='question'], i[class*='fa-']").count() == 0
    )  # no icon is missing
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids)), sorted(each for each in set(ids) if ids.count(each) > 1)
    own = [each for each in page.requested if "/explorers" in each]
    assert all("?v=" in each for each in own), own


def is_whole_on_any_screen(page):
    formulas = page.locator(".math").count()
    assert page.locator(".math mjx-container").count() == formulas
    assert page.locator("[data-mml-node=merror]").count() == 0
    assert page.locator("article img:not([alt]), article img[alt='']").count() == 0
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate("document.querySelectorAll('.ex-fold').forEach((each) => each.click())")
    # no screen from 720 px on has a narrower column than that of 1200; one of 768 has no margins
    for width in (320, 768, 1200):
        page.set_viewport_size({"width": width, "height": 700})
        page.evaluate(SETTLED)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 768:
            continue
        assert width > 320 or min(page.evaluate(SCALES), default=1) > 0.74
        wrong = page.evaluate(FORMULAS, width == 320) if formulas else []
        assert not wrong, "\n".join(wrong)
        assert page.evaluate(TABLES) == []
        assert width == 320 or page.evaluate(CODE, COLUMNS) == []
        for part in page.locator(".ex").all():
            part.locator("svg .ex-axis, svg .ex-cell, .ex-still img").first.wait_for(
                state="attached"
            )
            frames(page)  # drawn anew at this width
            # its holder scrolls what stands outside, so that it is cut off
            assert not part.evaluate(
                """ex => { const whole = ex.getBoundingClientRect();
                     return [...ex.querySelectorAll("svg text, button, input, select")].filter((each) => {
                       const box = each.getBoundingClientRect();
                       const out = box.left < whole.left - 0.5 || box.right > whole.right + 0.5;
                       return out && each.checkVisibility();
                     }).map((each) => each.textContent || each.outerHTML); }"""
            )


def has_nothing_serious_for_axe(page):
    page.evaluate(ONE_OF_EACH)
    page.evaluate(AXE)
    others = {"rules": {rule: {"enabled": False} for rule in OF_COLOURS}}
    colours = {"runOnly": OF_COLOURS}
    for theme, rules in ("light", others), ("light", colours), ("dark", colours):
        page.emulate_media(color_scheme=theme)
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        page.evaluate(SETTLED)
        found = page.evaluate(
            f"""rules => axe.run(rules.runOnly ? {{ include: ({KINDS_OF_TEXT})() }} : "main", {{
                  preload: false, resultTypes: ["violations"], ...rules }})""",
            rules,
        )
        serious = [v for v in found["violations"] if v["impact"] in {"serious", "critical"}]
        assert not [(theme, v["id"], [n["html"][:120] for n in v["nodes"]]) for v in serious]


def downloads_as_the_notebook_it_is(page, name):
    assert "min to read" in page.locator(".chapter-times").inner_text()
    page.locator(".dropdown-download-buttons > button").click()
    with page.expect_download() as download:
        page.locator(".btn-download-source-button").click()
    assert download.value.suggested_filename == f"{name}.ipynb"
    notebook = nbformat.read(ROOT / "book" / f"{name}.ipynb", as_version=4)
    asked = install_cell.downloaded(notebook, install_cell.address(ROOT))
    assert download.value.path().read_text() == nbformat.writes(asked) + "\n"


def test_the_index_is_whole_on_a_small_screen_and_no_bar_covers_a_low_one(open_page):
    page = open_page("../genindex", viewport={"width": 320, "height": 256})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.evaluate("scrollTo({ top: 500, behavior: 'instant' })")
    assert page.locator(".bd-header-article").bounding_box()["y"] < -400
    page.evaluate(
        "scrollBy({ top: -50, behavior: 'instant' })"
    )  # on its way up the theme offers a button
    page.wait_for_timeout(100)
    assert page.locator("#pst-back-to-top").is_hidden()


def test_search_finds_a_word_of_the_notation(open_page):
    page = open_page("../search", query="?q=eigenvectors")
    page.locator("#search-results a", has_text="Notation").wait_for()


@slow
def test_an_animation_can_be_stopped_and_played(visit):
    """It stands still from the start where the reader's system asks for that."""
    for motion, names in (("no-preference", ["Stop", "Play"]), ("reduce", ["Play", "Stop"])):
        page = visit((BUILT / "book" / "rank_one.html").as_uri(), ready=None, reduced_motion=motion)
        picture, seen = page.locator("figure img.animation"), {}
        button = page.locator("figure .animation-button")
        for name in names:
            assert button.get_attribute("aria-label") == f"{name} the animation"
            seen[name] = picture.get_attribute("src")
            button.press("Enter")
        assert button.get_attribute("aria-label") == f"{names[0]} the animation"
        assert len(seen["Stop"]) > 4 * len(seen["Play"])  # all frames, or the last
