"""Links to explorers: each is followed or refused, and whatever is drawn are numbers."""

import random
import re

import pytest
from pace import mostly_slow

from browser.seen import FOLLOW, drawing, frames
from iclbook.explorers import EXPLORERS

ODD = ["", "0", "-1", "1e9", "NaN", "Infinity", "null", "[]", "%", "__proto__", "1,2,3", "1e-320",
       "<b>x</b>", "0x10", "9" * 400, "1;2", "constructor", "1.5", "%22%3E"]  # fmt: skip
PLACES = ["1", "2", "9", "11", "22", "55", "0", "-0", "0.5", "0.005", "1e-6", "1e-9", "3", "-3", "30",
          "-30", "10", "1e300", "-1e300", "NaN", "Infinity", ""]  # fmt: skip
OTHERS = ["", "", "", "", "&show=all", "&show=banana", "&v=0", "&a=1", "&check=00000000"]


def value(rng: random.Random, control: dict) -> str:
    """An end of what a control takes, or what no control takes; of points, all kinds of places."""
    if control["type"] == "points":
        return ",".join(rng.choices(PLACES, k=rng.choice([3, 3, 3, 6, 9, 2])))
    if control["type"] == "choice":
        return str(rng.choice([*control["options"], *ODD]))
    return str(rng.choice([control["min"], control["max"], control["max"], *ODD]))


def link(rng: random.Random, name: str, controls: list[dict]) -> str:
    chosen = rng.sample(controls, rng.randrange(1, min(4, len(controls) + 1)))
    chosen += [each for each in controls if each["type"] == "points"]
    pairs = [f"{each['key']}={value(rng, each)}" for each in chosen]
    return f"{name}?" + "&".join(pairs) + rng.choice(OTHERS)


@pytest.mark.parametrize("name", mostly_slow(sorted(EXPLORERS), "task", "task_allocation"))
def test_no_link_breaks_an_explorer(name, visit, served):
    rng, page = random.Random(name), visit(f"{served}/{name}.html")
    first, controls = drawing(page), EXPLORERS[name]().controls
    for moved in ("1,1e300,1e9", "0.5,1,1", "11,2,-1e300"):
        page.evaluate(FOLLOW, f"{name}?moved={moved}")
        assert page.locator(".ex-notice").inner_text().startswith("The link")
    for _ in range(40):
        page.evaluate(FOLLOW, followed := link(rng, name, controls))
        shown = page.locator(".ex > :not(.ex-notice)").evaluate_all(
            "all => all.map((each) => each.outerHTML)"
        )
        assert not re.search(r"NaN|undefined|Infinity|\[object", "".join(shown)), followed
    page.evaluate(FOLLOW, f"{name}?")
    for pinned in page.get_by_role("button", name="Remove").all():
        pinned.click()
    frames(page)
    assert drawing(page) == first
