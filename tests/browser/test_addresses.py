"""Addresses of explorers: each is followed, or a line says what is wrong, and what is drawn are numbers."""

import random

import pytest
from hypothesis import settings
from pace import slow

from browser.test_explorers import FOLLOW
from iclbook import explorers

DRAWN = """() => {
    const copy = document.querySelector(".ex").cloneNode(true);
    copy.querySelector(".ex-notice").remove();  // which repeats what was wrong
    return copy.innerHTML; }"""
NAMES = [getattr(explorers, name)().name for name in explorers.__all__]
ODD = ["", "0", "-1", "1e9", "NaN", "Infinity", "null", "[]", "{}", "%00", "%", "__proto__", "1,2,3", "a",
       "1e-320", "é", "<b>x</b>", "true", "0x10", "9" * 400, "1;2", "constructor", "1.5",
       "%22%3E"]  # fmt: skip
LINK = """async () => {
    navigator.clipboard.writeText = () => Promise.reject();
    [...document.querySelectorAll("button")].find((each) => each.textContent === "Copy link").click();
    await new Promise((done) => setTimeout(done, 50));
    return document.querySelector(".ex-copied").textContent.split("#")[1]; }"""


def altered(rng: random.Random, good: str) -> str:
    """A link of which some settings are odd, lost, twice, or which is cut or has other letters."""
    name, _, said = good.split("&check=")[0].partition("?")
    pairs = [pair.split("=") for pair in said.split("&")]
    for _ in range(rng.randrange(1, 4)):
        kind, pair = rng.randrange(5), rng.choice(pairs)
        if kind < 2:
            pair[-1] = rng.choice(ODD)
        elif kind == 2:
            pairs.append(list(pair))
        elif kind == 3 and len(pairs) > 1:
            pairs.remove(pair)
        else:
            pair[0] = rng.choice([*ODD, "v", "show", "pinned", "time"])
    link = f"{name}?" + "&".join("=".join(pair) for pair in pairs)
    if rng.random() < 0.2:
        place = rng.randrange(len(link))
        link = link[:place] + rng.choice(ODD) + link[place + rng.randrange(2) :]
    return link


@slow
@pytest.mark.parametrize("name", NAMES)
def test_addresses(name, visit, served):
    rng = random.Random(name)
    page = visit(f"{served}/{name}.html")
    good = page.evaluate(LINK)
    for _ in range(settings().max_examples // 10):
        while (link := altered(rng, good)) == page.evaluate("location.hash.slice(1)"):
            pass
        page.evaluate(FOLLOW, link)
        drawn = page.evaluate(DRAWN)
        for word in ("NaN", "undefined", "Infinity", "[object"):
            assert word not in drawn, link
        assert "<b>x</b>" not in drawn
