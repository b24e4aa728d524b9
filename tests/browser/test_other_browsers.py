"""Firefox and WebKit draw what Chromium draws: make test-browsers, of those that are installed."""

import csv
import shutil

import browsers
import numpy as np
import pytest
from conftest import close

from browser.seen import REST
from iclbook.explorers import EXPLORERS

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


UNFOLDED = """async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    while (!document.querySelector(".ex svg")) await frame();
    document.querySelectorAll(".ex-fold[aria-expanded=false]").forEach((each) => each.click());
    await frame(); }"""
MIDDLE = """(selector) => {
    const each = document.querySelector(selector);
    each.scrollIntoView({ block: "center" });
    const { x, y, width, height } = each.getBoundingClientRect();
    return [x + width / 2, y + height / 2].map(Math.round); }"""

SHORT = {"softmax": "softmax?steps=300"}  # a run whose losses fall at every step


@pytest.fixture(scope="module", params=[browsers.Firefox, browsers.WebKit])
def other(request):
    if not browsers.here(request.param):
        pytest.skip(f"not all of {request.param.takes} is on the PATH")
    browser = request.param()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(site, tmp_path_factory):
    """Those of the site, which gather what they complain of."""
    folder = shutil.copytree(site, tmp_path_factory.mktemp("pages"), dirs_exist_ok=True)
    for path in folder.glob("*.html"):
        path.write_text(path.read_text().replace("<head>", f"<head>{browsers.GATHERS}"))
    return folder


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


@pytest.mark.parametrize("name", sorted(EXPLORERS))
def test_another_browser_draws_what_chromium_draws(visit, pages, other, name):
    address = f"{pages.as_uri()}/{name}.html#{SHORT.get(name, '')}"
    page = visit(address, viewport={"width": 1280, "height": 900})
    other.open(address)
    ours, theirs = page.evaluate(STATES), other.evaluate(STATES)
    assert not other.complaints
    assert len(ours) == len(theirs) == 3 and len({*ours}) > 1
    for one, another in zip(ours, theirs, strict=True):
        (words, numbers), (other_words, other_numbers) = taken_apart(one), taken_apart(another)
        assert words == other_words
        close(other_numbers, numbers)


def drag(browser, selector, right, down):
    """From the middle of what is there."""
    x, y = browser.evaluate(MIDDLE, selector)
    steps = [
        {"type": "pointerMove", "x": x, "y": y},
        {"type": "pointerDown", "button": 0},
        {"type": "pointerMove", "x": x + right, "y": y + down, "duration": 50},
        {"type": "pointerUp", "button": 0},
    ]
    mouse = {"parameters": {"pointerType": "mouse"}, "actions": steps}
    browser.act({"type": "pointer", "id": "mouse", **mouse})


def test_a_hand_moves_bars_sliders_and_pictures(pages, other):
    other.open(f"{pages.as_uri()}/rank_one.html")
    other.evaluate(UNFOLDED)
    bar, slider = ".ex-bar:last-child", ".ex-rest input[type=range]"
    clock = "() => document.querySelector('.ex-clock').textContent"
    height = f"() => +document.querySelector('{bar}').ariaValueNow"
    place = f"() => +document.querySelector('{slider}').value"

    before = other.evaluate(height)
    drag(other, bar, 0, -30)
    dragged = other.evaluate(height)
    assert dragged > before
    up = [{"type": each, "value": "\ue013"} for each in ("keyDown", "keyUp")]
    other.act({"type": "key", "id": "keys", "actions": up})
    assert other.evaluate(height) > dragged  # it has had the focus since

    before = other.evaluate(place)
    drag(other, slider, 40, 0)
    assert other.evaluate(place) > before

    before = other.evaluate(clock)
    drag(other, ".ex-panels svg", -40, 0)
    assert other.evaluate(f"async () => {{ await ({REST})(); return ({clock})(); }}") != before
    assert not other.complaints
