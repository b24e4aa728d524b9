"""Firefox draws what Chromium draws: make test-firefox, where Firefox is installed."""

import csv

import browsers
import numpy as np
import pytest
from conftest import close

from browser.seen import KINDS

# each control but the learning rate to places beside its own, and what is drawn then, as the page exports
# it; past the edge of stability rounding grows, and an engine's Math has its own
STATES = """async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    while (!document.querySelector(".ex svg")) await frame();
    document.querySelectorAll(".ex-fold[aria-expanded=false]").forEach((each) => each.click());
    const texts = [], made = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      if (blob.type === "text/csv") texts.push(blob.text());  // a worker is made of a blob too
      return made.call(URL, blob);
    };
    const save = [...document.querySelectorAll("button")].find((each) => each.textContent === "Download CSV");
    HTMLAnchorElement.prototype.click = () => {};  // nothing lands in a folder
    await frame();
    const play = document.querySelector(".ex-time button");
    if (play && !document.querySelector(".ex-time input")) {  // it trains when it is asked to
      play.click();
      while (!document.querySelector(".ex-summary").textContent.includes("Trained")) await frame();
    }
    save.dispatchEvent(new MouseEvent("click"));
    for (const share of [0.2, 0.7]) {
      for (const range of document.querySelectorAll(".ex-controls input[type=range]")) {
        if (range.labels[0].textContent.startsWith("learning rate")) continue;
        range.value = +range.min + share * (range.max - range.min);
        range.dispatchEvent(new Event("input"));
      }
      do { await frame(); await frame(); } while (document.querySelector("[aria-busy=true]"));
      save.dispatchEvent(new MouseEvent("click"));
    }
    return Promise.all(texts); }"""


SHORT = {"softmax": "softmax?steps=300"}  # a run whose losses fall at every step


@pytest.fixture(scope="module")
def fox():
    assert browsers.installed(browsers.FIREFOX), (
        f"none of {', '.join(browsers.FIREFOX)} is on the PATH"
    )
    browser = browsers.Firefox()
    yield browser
    browser.close()


def taken_apart(text):
    """The words in a table, and its numbers."""
    words, numbers = [], []
    for row in csv.reader(
        line for line in text.splitlines() if not line.startswith(("#", "\ufeff"))
    ):
        for cell in row:
            try:
                numbers.append(float(cell))
            except ValueError:
                words.append(cell)
    return words, np.array(numbers)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_firefox_draws_what_chromium_draws(visit, site, fox, name):
    address = f"{site.as_uri()}/{name}.html#{SHORT.get(name, '')}"
    page = visit(address, viewport={"width": 1280, "height": 900})
    fox.complaints.clear()
    fox.open(address)
    ours, theirs = page.evaluate(STATES), fox.evaluate(STATES)
    assert not fox.complaints
    assert len(ours) == len(theirs) == 3 and len({*ours}) > 1
    for one, other in zip(ours, theirs, strict=True):
        (words, numbers), (other_words, other_numbers) = taken_apart(one), taken_apart(other)
        assert words == other_words
        close(other_numbers, numbers)
