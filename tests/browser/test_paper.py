"""The book as one document: every page in order, every picture, links that lead inside; two pages printed."""

import re

import paper
import pytest
import yaml
from pace import slow

ROOT = paper.ROOT
FACTS = """([text, pages]) => {
  const read = (each) => new DOMParser().parseFromString(each, "text/html");
  const book = read(text), all = (what) => [...book.querySelectorAll(what)];
  const ids = all("[id]").map((each) => each.id), there = new Set(ids);
  const name = (each) => each.getAttribute("src").split("/").pop();
  const drawn = new Set(all("img").map(name));
  const shown = pages.flatMap((each) => [...read(each).querySelectorAll("article img")].map(name));
  return {
    articles: all("body > article").map((each) => each.id),
    twice: ids.length - there.size,
    inside: all("a[href^='#']").length,
    dead: all("a[href^='#']").map((each) => each.hash.slice(1)).filter((each) => !there.has(each)),
    outside: all("a[href]").map((each) => each.getAttribute("href"))
      .filter((each) => !/^(#|https:)/.test(each)),
    closed: all("details:not([open])").length,
    solutions: all("details").length,
    controls: all("button, input, select, .headerlink").length,
    explorers: all(".explorer img").length,
    missing: shown.filter((each) => !drawn.has(each)),
    shown: shown.length,
  };
}"""


@pytest.fixture(scope="module")
def texts():
    return paper.pages()


@slow
def test_it_has_every_page_in_order_and_all_that_they_show(texts, browser):
    def files(entry):
        match entry:
            case dict():
                for key, each in entry.items():
                    yield from [each] if key in ("root", "file") else files(each)
            case list():
                for each in entry:
                    yield from files(each)

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    names = [name.removeprefix("book/") for name in files(toc)]
    assert list(texts) == names
    page = browser.new_page()
    facts = page.evaluate(FACTS, [paper.joined(texts, page), list(texts.values())])
    page.close()
    assert facts["articles"] == [f"{name}--" for name in names]
    for what in ("twice", "closed", "controls"):
        assert facts[what] == 0, what
    for what in ("dead", "outside", "missing"):
        assert facts[what] == [], what
    assert facts["inside"] > 500 and facts["shown"] > 70
    assert facts["solutions"] > 20 and facts["explorers"] > 10


@slow
def test_a_link_that_was_dropped_led_to_nothing_on_paper(texts, browser):
    """An explorer's setting, a picture's own file, the index: nothing else becomes mere words."""
    page = browser.new_page()
    count = """([text, pattern]) => [...new DOMParser().parseFromString(text, "text/html")
      .querySelectorAll("article a[href]:not(.headerlink)")].map((each) => each.getAttribute("href"))
      .filter((each) => new RegExp(pattern).test(each)).length"""
    before = sum(page.evaluate(count, [text, "."]) for text in texts.values())
    none = r"^(\w+\.html)?#[a-z_]+\?|^\.\./_images/|^\.\./(genindex|py-modindex|search)\.html"
    gone = sum(page.evaluate(count, [text, none]) for text in texts.values())
    after = page.evaluate(count, [paper.joined(texts, page), "."])
    page.close()
    assert gone > 20 and before - gone == after


@slow
def test_a_printed_page_has_links_an_outline_and_text(texts, browser):
    """Of two pages: the whole book takes minutes."""
    two = {name: texts[name] for name in ("index", "notation")}
    content = paper.printed(two, browser)
    assert content.startswith(b"%PDF") and b"/StructTreeRoot" in content
    titles = [title.decode() for title in re.findall(rb"/Title \(([^)]*)\)", content)]
    assert titles.count("Notation") == 1 and "To cite this book" in titles
    named = set(re.findall(rb"/Dest /([^\s>]+)", content))
    assert b"notation--" in named and all(content.count(b"/" + each) > 1 for each in named)
    assert b"/URI (https://arxiv.org" in content and b"(file:" not in content
    assert b"/ToUnicode" in content  # letters, which can be found and copied
