"""The pages work under their policy, and it keeps other hosts out: on a host, and opened from disk."""

import re

import pytest
from pace import slow
from playwright.sync_api import expect

from browser.conftest import BUILT, REFUSED, host

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
WORKER = """(address) => new Promise((done) => {
    const text = `fetch("${address}", { mode: "no-cors" })
      .then(() => postMessage("loaded"), () => postMessage("refused"))`;
    const worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
    worker.onmessage = ({ data }) => done(data); })"""


@pytest.fixture(params=["host", "disk"])
def base(request):
    with host(BUILT) as address:
        yield address if request.param == "host" else BUILT.as_uri()


def test_every_page_states_a_policy_before_its_scripts():
    pages = {path for path in BUILT.rglob("*.html") if "_static" not in path.parts}
    assert {"index.html", "404.html", "search.html", "api.html"} <= {path.name for path in pages}
    for path in pages:
        page = path.read_text()
        found = POLICY.search(page)
        assert found and "<script" not in page[: found.start()], path.name
        rules = dict(rule.split(" ", 1) for rule in found[1].split("; "))
        assert rules["default-src"] == "'self'" and "unsafe-inline" not in rules["script-src"], path
        assert not re.search(r"https?:|\*|unsafe-eval", found[1]), path.name


def test_other_hosts_and_other_scripts_are_refused(browser, base, served):
    page = browser.new_page()
    page.goto(f"{base}/book/index.html")
    assert page.evaluate(REFUSED) == ["img-src", "script-src-elem"]
    assert page.evaluate(WORKER, f"{served}/explorers.js") == "refused"
    page.close()


@slow
def test_what_a_reader_does_works_under_the_policy(visit, base):
    page = visit(f"{base}/book/softmax.html", viewport={"width": 1280, "height": 900})
    page.evaluate("MathJax.startup.promise")
    formulas = page.locator("article .math")
    assert formulas.count() == page.locator("article .math mjx-container").count() > 0
    explorer = page.locator(".ex").first
    explorer.get_by_role("button", name="Play").click()  # it trains in a worker
    expect(explorer).to_contain_text(re.compile("step [1-9]"), timeout=60_000)
    page.evaluate("window.print = () => { window.printed = true; }")
    page.evaluate("document.querySelector('.btn-download-pdf-button').click()")
    assert page.evaluate("window.printed")
    page.locator(".theme-switch-button:visible").first.click()
    assert page.evaluate("document.documentElement.dataset.mode") != "auto"
    page.locator(".search-button-field:visible").click()
    page.locator("form.bd-search input:visible").fill("eigenvectors")
    page.keyboard.press("Enter")
    page.locator("#search-results a", has_text="Notation").wait_for()
