"""The built pages in a browser, opened from the disk as a reader without a network would."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "_build" / "html"  # `make test` builds it, with warnings as errors
SOURCES = [p for p in sorted((ROOT / "book").iterdir()) if p.suffix in {".md", ".ipynb"}]
PAGES = [path.stem for path in SOURCES]
CHAPTERS = [path.stem for path in SOURCES if path.suffix == ".ipynb"]


@pytest.fixture
def open_page(visit):
    """Open a built page, its formulas set."""

    def opened(name, query="", **settings):
        page = visit((BUILT / "book" / f"{name}.html").as_uri() + query, ready=None, **settings)
        page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
        page.evaluate("window.MathJax && MathJax.startup.promise")
        return page

    return opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_on_a_small_screen(open_page, name):
    page = open_page(name, viewport={"width": 320, "height": 700}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    formulas = page.locator(".math").count()
    assert page.locator(".math mjx-container").count() == formulas
    assert page.locator("[data-mml-node=merror]").count() == 0
    assert page.locator("article img:not([alt]), article img[alt='']").count() == 0
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 700})
        for part in page.locator(".ex").all():
            part.locator("svg .ex-axis, svg .ex-cell").first.wait_for(state="attached")
            page.wait_for_timeout(100)  # drawn anew at this width
            # its holder scrolls what stands outside, so that it is cut off
            assert not part.evaluate(
                """ex => { const whole = ex.getBoundingClientRect();
                     return [...ex.querySelectorAll("svg text, button, input, select")].filter((each) => {
                       const box = each.getBoundingClientRect();
                       return box.left < whole.left - 0.5 || box.right > whole.right + 0.5;
                     }).map((each) => each.textContent || each.outerHTML); }"""
            )


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_downloads_as_the_notebook_it_is(open_page, name):
    page = open_page(name)
    assert "min to read" in page.locator(".chapter-times").inner_text()
    page.locator(".dropdown-download-buttons > button").click()
    with page.expect_download() as download:
        page.locator(".btn-download-source-button").click()
    assert download.value.suggested_filename == f"{name}.ipynb"
    assert download.value.path().read_text() == (ROOT / "book" / f"{name}.ipynb").read_text()


def test_search_finds_a_word_of_the_notation(open_page):
    page = open_page("../search", query="?q=eigenvectors")
    page.locator("#search-results a", has_text="Notation").wait_for()
