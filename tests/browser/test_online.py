"""The built pages as our server sends them, under the policy that they state."""

import re
import threading
from pathlib import Path

import online
import pytest
import serve
from pace import mostly_slow, slow
from playwright.sync_api import expect

from iclbook import explorers

BUILT = Path(__file__).resolve().parent.parent.parent / "_build" / "html"


@pytest.fixture(scope="module")
def host():
    server = serve.server(str(BUILT), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def sent(browser, host):
    """Open a page by its address; at the end nothing was refused or complained of."""
    context, said = browser.new_context(viewport={"width": 1100, "height": 900}), []
    page = context.new_page()
    page.on("console", lambda each: said.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))

    def opened(path):
        answer = page.goto(f"{host}/{path}")
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self' 'sha256-" in policy and "unsafe-eval" not in policy
        page.wait_for_function("!window.MathJax || MathJax.startup?.promise")
        page.evaluate("window.MathJax && MathJax.startup.promise")
        formulas = page.locator("article .math").count()
        assert page.locator("article .math mjx-container").count() == formulas
        return page

    yield opened
    context.close()
    assert not said


def test_every_inline_script_is_in_the_policy_and_no_attribute_is_a_script():
    policy = (BUILT / "_headers").read_text()
    for path in BUILT.rglob("*.html"):
        page = path.read_text()
        if path.parent == BUILT / "book":
            assert online.inline(page) and page.count("<meta charset") == 1
        assert not re.search(r"<summary[^>]*>\s*<p\b|<dl>\s*<dd>", page), path.name
        assert all(digest in policy for digest in online.inline(page)), path.name
        assert not re.search(r"<[^>]* on[a-z]+=|javascript:", page), path.name


def test_an_inline_script_that_is_not_in_the_policy_is_refused(browser, host):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{host}/book/index.html")
    ran = """() => { const it = document.createElement("script");
      it.textContent = "window.attacked = true"; document.head.append(it); return !!window.attacked; }"""
    assert page.evaluate(ran) is False
    context.close()


@pytest.mark.parametrize("name", mostly_slow(["index", "rank_one", "notation", "api"], "rank_one"))
def test_a_page_works_under_its_policy(sent, name):
    page = sent(f"book/{name}.html")
    explorer = page.locator(".ex").first
    if name == "rank_one":
        explorer.locator("svg .ex-axis").first.wait_for(state="attached")
        before = explorer.locator(".ex-panels").evaluate("each => each.innerHTML")
        explorer.locator("input[type=range]:visible").first.press("ArrowRight")
        page.wait_for_function(
            "before => document.querySelector('.ex-panels').innerHTML !== before", arg=before
        )
        page.evaluate("window.print = () => { window.printed = true; }")
        page.evaluate("document.querySelector('[data-prints]').click()")
        assert page.evaluate("window.printed")


@slow
def test_softmax_attention_trains_in_its_worker(sent):
    page = sent("book/softmax.html")
    play = page.locator(".ex").get_by_role("button", name="Play").first
    play.click()
    expect(page.locator(".ex").first).to_contain_text(re.compile(r"step [1-9]"), timeout=60_000)


@slow
def test_search_and_what_is_missing(sent, host, browser):
    page = sent("search.html?q=eigenvectors")
    page.locator("#search-results a", has_text="Notation").wait_for()
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(f"{host}/book/none.html")
    assert answer.status == 404
    page.get_by_role("link", name="The book begins here").click()
    page.wait_for_url("**/book/index.html")
    context.close()


def test_an_explorer_saved_as_a_page_moves_from_disk(browser, tmp_path):
    explorers.RankOne(heads=3).save(tmp_path / "page.html")
    context = browser.new_context(offline=True)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda each: said.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda each: asked.append(each.url))
    page.goto((tmp_path / "page.html").as_uri())
    page.locator(".ex svg .ex-axis").first.wait_for(state="attached")
    heads = page.get_by_label("heads H", exact=True)
    assert heads.input_value() == "3"
    before = page.locator(".ex-panels").evaluate("each => each.innerHTML")
    heads.press("ArrowRight")
    page.wait_for_function(
        "before => document.querySelector('.ex-panels').innerHTML !== before", arg=before
    )
    assert not said and {each for each in asked if not each.startswith("data:")} == {page.url}
    context.close()
