"""The built pages in a browser, opened from the disk, as a reader without a network opens them."""

import gzip
from functools import cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from pace import mostly_slow, slow

from browser.conftest import BUILT
from browser.seen import frames

BOOK = BUILT.parents[1] / "book"
PAGES = sorted(path.stem for end in ("md", "ipynb") for path in BOOK.glob(f"[a-z]*.{end}"))
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
OF_COLOURS = ["color-contrast", "link-in-text-block"]  # the rules that depend on the theme


# Formulas that cannot be read. On a narrow screen one by itself may be wider than what contains it if that
# scrolls, with the keyboard too. One within a line breaks into several lines.
FORMULAS = r"""narrow => [...MathJax.startup.document.math].flatMap(({ math, typesetRoot }) => {
  const wrong = (what) => [`${what}: ${math}`];
  const svg = typesetRoot.querySelector("svg");
  let box = svg.getBoundingClientRect();
  if (!typesetRoot.closest("article")) return [];  // it is in the contents beside the page
  if (!box.width) return wrong("invisible");
  for (let holder = svg; (holder = holder.parentElement).tagName !== "ARTICLE"; ) {
    const style = getComputedStyle(holder), outer = holder.getBoundingClientRect();
    const left = outer.left + holder.clientLeft, right = left + holder.clientWidth;
    if (style.display === "inline" || (box.left > left - 0.5 && box.right < right + 0.5)) continue;
    if (!narrow || !["auto", "scroll"].includes(style.overflowX)) {
      return wrong(`${Math.round(box.width)} px in ${holder.clientWidth}`);
    }
    if (holder.tabIndex < 0) return wrong("scrolls, but not with the keyboard");
    box = outer;
  }
  return [];
})"""

# Captions that end outside the screen, and numbers in a table that are on another line than their unit.
TABLES = """() => [
  ...[...document.querySelectorAll("article caption")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth),
  ...[...document.querySelectorAll("article td.text-right p")].filter((each) => {
    const range = new Range();
    range.selectNodeContents(each);
    return new Set([...range.getClientRects()].map((line) => line.top)).size > 1;
  }),
].map((each) => each.textContent)"""


# The scales of pictures. At scale 1 their letters have 13 px.
SCALES = """() => [...document.querySelectorAll("article .cell_output figure > a > img")]
  .map((each) => each.getBoundingClientRect().width / parseFloat(each.style.width))"""


# Visible code that scrolls.
CODE = """() => [...document.querySelectorAll("article .cell_input pre")]
  .filter((each) => !each.closest("details") && each.scrollWidth > each.clientWidth)
  .map((each) => each.textContent)"""


# Text and controls of an explorer that are cut off at its sides.
OUTSIDE = """ex => {
  const outer = ex.getBoundingClientRect();
  return [...ex.querySelectorAll("svg text, button, input, select")].filter((each) => {
    const box = each.getBoundingClientRect();
    const outside = box.left < outer.left - 0.5 || box.right > outer.right + 0.5;
    return outside && each.checkVisibility();
  }).map((each) => each.textContent || each.outerHTML); }"""


# End all transitions, for instance of colours.
SETTLED = "document.getAnimations().forEach((each) => each.finish())"


# What axe takes long for without finding more: the inside of formulas, and all pieces of highlighted code but
# the first of each kind.
FEWER_ELEMENTS = """() => {
  document.querySelectorAll("mjx-container svg").forEach((each) => each.replaceChildren());
  document.querySelectorAll("mjx-container math").forEach((each) => {
    each.textContent = each.textContent;
  });
  const seen = new Set();
  for (const each of document.querySelectorAll("article pre span[class]")) {
    if (seen.has(each.className)) each.replaceWith(each.textContent);
    else if (each.children.length === 0) seen.add(each.className);
  } }"""


# The first and the last piece of each kind of text. All of a kind have the same colours.
KINDS_OF_TEXT = """() => {
  const main = document.querySelector("main"), kinds = new Map([[main.parentElement, ""]]);
  const kind = (each) => {
    if (!kinds.has(each)) {
      const style = getComputedStyle(each);
      const colours = ["color", "background", "opacity", "fontSize", "fontWeight"].map((it) => style[it]);
      const own = [each.tagName, each.getAttribute("class"), ...colours];
      kinds.set(each, [kind(each.parentElement), ...own].join());
    }
    return kinds.get(each);
  };
  const texts = [...main.querySelectorAll("*")].filter((each) => each.checkVisibility() &&
    [...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
  const last = new Map(texts.map((each) => [kind(each), each]));
  const first = new Map(texts.reverse().map((each) => [kind(each), each]));
  return [...new Set([...first.values(), ...last.values()])]; }"""


@pytest.fixture
def open_page(visit):
    """Open a built page and wait for its formulas."""

    def opened(name, **settings):
        page = visit((BUILT / "book" / f"{name}.html").as_uri(), ready=None, **settings)
        page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
        page.evaluate("window.MathJax && MathJax.startup.promise")
        return page

    return opened


@pytest.mark.parametrize("name", mostly_slow(PAGES, "index", "rank_one", "notation"))
def test_a_page_can_be_read_on_any_screen_and_by_anyone(open_page, name):
    """All checks share one visit, because setting a page's formulas takes longer than the checks."""
    page = open_page(name, viewport={"width": 320, "height": 700}, color_scheme="dark")
    assert page.locator(".ex").count() == page.locator(".explorer").count()
    assert page.locator("article img:not([alt]), article img[alt='']").count() == 0
    assert page.locator("svg[data-icon='question'], i[class*='fa-']").count() == 0, "a missing icon"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids)), sorted(each for each in set(ids) if ids.count(each) > 1)
    weighs_little(page)
    fits_every_screen(page)
    has_nothing_serious_for_axe(page)


@cache
def weight(file: Path) -> int:
    packed = file.suffix in {".png", ".webp", ".woff2"}
    return len(file.read_bytes() if packed else gzip.compress(file.read_bytes(), 6))


def weighs_little(page):
    """A page loads at most 2 MB, compressed as a host does it, and MathJax only if it has formulas."""
    files = {Path(unquote(urlsplit(each).path)) for each in page.requested}
    weights = {file.name: weight(file) for file in files if file.is_file()}
    assert sum(weights.values()) < 2_000_000, weights
    assert ("tex-svg-full.js" in weights) == (page.locator("article .math").count() > 0)


def fits_every_screen(page):
    formulas = page.locator(".math").count()
    assert page.locator(".math mjx-container").count() == formulas
    assert page.locator("[data-mml-node=merror]").count() == 0
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
        assert width == 320 or page.evaluate(CODE) == []
        for part in page.locator(".ex").all():
            part.locator("svg .ex-axis, svg .ex-cell, .ex-still img").first.wait_for(
                state="attached"
            )
            frames(page)  # it is drawn anew at this width
            assert part.evaluate(OUTSIDE) == []


def has_nothing_serious_for_axe(page):
    page.evaluate(FEWER_ELEMENTS)
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


def test_the_index_fits_a_small_screen_and_no_bar_covers_a_low_one(open_page):
    page = open_page("../genindex", viewport={"width": 320, "height": 256})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.evaluate("scrollTo({ top: 500, behavior: 'instant' })")
    assert page.locator(".bd-header-article").bounding_box()["y"] < -400
    # on the way up the theme would show a button
    page.evaluate("scrollBy({ top: -50, behavior: 'instant' })")
    page.wait_for_timeout(100)
    assert page.locator("#pst-back-to-top").is_hidden()


@slow
def test_an_animation_can_be_stopped_and_played(visit):
    """It begins with a still picture if the reader's system asks for reduced motion."""
    for motion, names in (("no-preference", ["Stop", "Play"]), ("reduce", ["Play", "Stop"])):
        page = visit((BUILT / "book" / "rank_one.html").as_uri(), ready=None, reduced_motion=motion)
        picture, sources = page.locator("figure img.animation"), {}
        button = page.locator("figure .animation-button")
        for name in names:
            assert button.get_attribute("aria-label") == f"{name} the animation"
            sources[name] = picture.get_attribute("src")
            button.press("Enter")
        assert button.get_attribute("aria-label") == f"{names[0]} the animation"
        assert len(sources["Stop"]) > 4 * len(sources["Play"])  # all frames, and the last one
