"""The book as one document has every page and picture and links inside it; two of its pages are printed."""

import re

import paper
import pytest
from pace import slow

pytestmark = slow
FACTS = """([text, pages]) => {
  const read = (each) => new DOMParser().parseFromString(each, "text/html");
  const book = read(text), all = (selector) => [...book.querySelectorAll(selector)];
  const file = (image) => image.getAttribute("src").split("/").pop();
  const ids = all("[id]").map((each) => each.id), targets = new Set(ids);
  const printed = new Set(all("img").map(file));
  const shown = pages.flatMap((each) => [...read(each).querySelectorAll("article img")].map(file));
  const links = all("a[href]").map((each) => each.getAttribute("href"));
  const inside = links.filter((each) => each.startsWith("#"));
  return {
    articles: all("body > article").map((each) => each.id),
    wrong: [
      ...ids.filter((each, at) => ids.indexOf(each) !== at),
      ...inside.filter((each) => !targets.has(each.slice(1))),
      ...links.filter((each) => !/^(#|https:)/.test(each)),
      ...all("details:not([open]), button, input, select, .headerlink").map((each) => each.outerHTML),
      ...shown.filter((each) => !printed.has(each)),
    ],
    counts: [inside, shown, all("details"), all(".explorer img")].map((each) => each.length),
  };
}"""


@pytest.fixture(scope="module")
def texts():
    return paper.pages()


def test_it_has_every_page_and_all_that_they_show(texts, browser):
    toc = re.findall(r"(?:root|file): book/(\w+)", (paper.ROOT / "_toc.yml").read_text())
    assert list(texts) == toc
    page = browser.new_page()
    facts = page.evaluate(FACTS, [paper.joined(texts, page), list(texts.values())])
    page.close()
    assert facts["articles"] == [f"{name}--" for name in toc]
    assert facts["wrong"] == []
    links, pictures, solutions, explorers = facts["counts"]
    assert links > 500 and pictures > 70 and solutions > 20 and explorers > 10


def test_printed_pages_have_links_an_outline_and_text(texts, browser):
    """Only two pages, because the whole book takes minutes."""
    content = paper.printed({name: texts[name] for name in ("index", "notation")}, browser)
    assert content.startswith(b"%PDF") and b"/StructTreeRoot" in content
    titles = re.findall(rb"/Title \(([^)]*)\)", content)
    assert titles.count(b"Notation") == 1 and b"To cite this book" in titles
    targets = set(re.findall(rb"/Dest /([^\s>]+)", content))
    assert b"notation--" in targets and all(content.count(b"/" + each) > 1 for each in targets)
    assert b"/URI (https://arxiv.org" in content and b"(file:" not in content
    assert b"/ToUnicode" in content  # letters that can be found and copied
