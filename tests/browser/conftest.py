"""Fixtures: a Chromium, a page for each explorer, a host, and visits that fail if a page logs an error."""

import os
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import browsers
import pytest
from playwright.sync_api import sync_playwright

from browser.seen import LAID_OUT, frames
from iclbook import explorers
from iclbook.explorers import bundle
from iclbook.explorers.base import Explorer
from iclbook.plot.style import Figure, canvas

collect_ignore = [] if "BROWSERS" in os.environ else ["test_other_browsers.py"]
BUILT = Path(__file__).resolve().parents[2] / "_build" / "html"
# If a search asks for all pages at once, Python's server drops some of the requests.
DROPPED = ("net::ERR_CONNECTION_RESET", "Failed to fetch")
AHEAD = 60_000  # ms, more than passes until the clock is paused
DRAWN = ".ex svg .ex-axis, .ex svg .ex-cell, .ex-still img"
# The rules by which a page's policy refuses a picture on another host and a script that is put into the page.
REFUSED = """async () => {
    const rules = [], make = (tag) => document.createElement(tag);
    const put = (tag, properties) => document.head.append(Object.assign(make(tag), properties));
    addEventListener("securitypolicyviolation", (event) => rules.push(event.effectiveDirective));
    put("img", { src: "http://localhost/picture.png" });
    put("script", { textContent: "window.attacked = true;" });
    while (rules.length < 2) await new Promise((done) => setTimeout(done, 20));
    return window.attacked ? [] : rules.sort(); }"""
PAGE = """<!doctype html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="explorers.css">
<style>body {{ margin: 16px; max-width: 880px; background: #fff }} img {{ max-width: 100% }}
html[data-theme="dark"] body {{ background: #14171c; color: #eee }}</style>
<script async src="explorers.js"></script>{scripts}</head>
<body><main><h1>{title}</h1>{body}</main></body></html>
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Host(ThreadingHTTPServer):
    request_queue_size = 128  # a search asks for all pages at once


@contextmanager
def host(folder: Path):
    """Serve a folder, and yield its address."""
    with Host(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def page_of(title: str, *shown: Explorer) -> str:
    """Write a page of explorers with blank pictures: scripts replace these, and drawing them takes long."""
    blank = Figure(canvas()[0], "To be replaced.")
    names = dict.fromkeys(each.name for each in shown)
    scripts = "".join(f'<script async src="explorers/{name}.js"></script>' for name in names)
    body = "\n".join(each.html(blank) for each in shown)
    return PAGE.format(title=title, scripts=scripts, body=body)


def unfold(page):
    """Show all controls and pictures of the explorers."""
    page.evaluate(
        """document.querySelectorAll(".ex-fold[aria-expanded=false]").forEach((each) => each.click())"""
    )


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = browsers.chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """Write a page for each explorer; ``two.html`` has three."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "explorers").mkdir()
    (folder / "explorers.css").write_text(bundle.style())
    shutil.copy(bundle.FOLDER / "explorers.js", folder)
    for each in (getattr(explorers, name)() for name in explorers.__all__):
        (folder / "explorers" / f"{each.name}.js").write_text(bundle.script(each.name))
        (folder / f"{each.name}.html").write_text(page_of(each.heading, each))
    three = [explorers.RankOne(), explorers.RankOne(seed=5), explorers.Speed()]
    (folder / "two.html").write_text(page_of("Three explorers", *three))
    return folder


@pytest.fixture(scope="session")
def served(site):
    with host(site) as address:
        yield address


@pytest.fixture(scope="session")
def context(browser):
    """A browser context for each choice of settings. Making one takes longer than opening a page in it."""
    made = {}

    def context(**settings):
        key = repr(sorted(settings.items()))
        if key not in made:
            made[key] = browser.new_context(**settings)
        return made[key]

    return context


@pytest.fixture
def visit(browser, context):
    """Open an address. The test fails if a page logs an error or a warning, or asks another host."""
    opened, complaints, foreign = [], [], []

    def complain(text):
        if not any(each in text for each in DROPPED):
            complaints.append(text)

    def note(message):
        if message.type in {"error", "warning"}:
            complain(message.text)

    def check(request):
        if not request.url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            foreign.append(request.url)

    def visit(address, ready=DRAWN, clock=False, whole=True, **settings):
        if clock:  # a clock that a test moves is that of a whole context
            opened.append(browser.new_context(**settings))
            page = opened[-1].new_page()
            page.clock.install()
        else:
            page = context(**settings).new_page()
            opened.append(page)
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.on("request", check)
        page.on("console", note)
        page.on("pageerror", lambda error: complain(str(error)))
        page.goto(address)
        if ready:
            page.wait_for_selector(ready, state="attached")
            if whole:
                unfold(page)
            if clock:  # from now on only the test moves it
                page.wait_for_load_state()
                page.evaluate(LAID_OUT)
                page.clock.pause_at((page.evaluate("Date.now()") + AHEAD) / 1000)
            elif settings.get("java_script_enabled", True):
                frames(page)
        return page

    yield visit
    for each in opened:
        each.close()
    assert not complaints
    assert not foreign
