"""The built pages in a browser, opened from the disk as a reader without a network would."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "_build" / "html"  # `make test` builds it, with warnings as errors
SOURCES = [p for p in sorted((ROOT / "book").iterdir()) if p.suffix in {".md", ".ipynb"}]
PAGES = [path.stem for path in SOURCES]
CHAPTERS = [path.stem for path in SOURCES if path.suffix == ".ipynb"]
NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, NAMES)), None)
    assert path, f"none of {', '.join(NAMES)} is on the PATH: run make browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET.split())
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open a page; at the end of the test it must have asked no other host and made no complaint."""
    requests, complaints, contexts = [], [], []

    def note(message):
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    def visit(name, query="", **settings):
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((BUILT / "book" / f"{name}.html").as_uri() + query)
        page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
        page.evaluate("window.MathJax && MathJax.startup.promise")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not complaints
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_on_a_small_screen(visit, name):
    page = visit(name, viewport={"width": 320, "height": 700}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    formulas = page.locator(".math").count()
    assert page.locator(".math mjx-container").count() == formulas
    assert page.locator("[data-mml-node=merror]").count() == 0
    assert page.locator("article img:not([alt]), article img[alt='']").count() == 0


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_downloads_as_the_notebook_it_is(visit, name):
    page = visit(name)
    assert "min to read" in page.locator(".chapter-times").inner_text()
    page.locator(".dropdown-download-buttons > button").click()
    with page.expect_download() as download:
        page.locator(".btn-download-source-button").click()
    assert download.value.suggested_filename == f"{name}.ipynb"
    assert download.value.path().read_text() == (ROOT / "book" / f"{name}.ipynb").read_text()


def test_search_finds_a_word_of_the_notation(visit):
    page = visit("../search", query="?q=eigenvectors")
    page.locator("#search-results a", has_text="Notation").wait_for()
