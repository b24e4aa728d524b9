"""The path through the book: each stop asks before its link, and answers after it."""

import re
from pathlib import Path

import pytest
from test_explorers import LINK, follow

BOOK = Path(__file__).resolve().parent.parent / "book"
PAGE = (BOOK / "path.md").read_text()
_, *STOPS = re.split(r"^## (?=\d)", PAGE.partition("## From here")[0], flags=re.MULTILINE)
PARTS = ("**Read** ", "**Claim.** ", "**Guess.** ", "?", "<details><summary>What", "**Exercise")


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop[:1])
def test_a_stop_asks_before_its_link_and_answers_after_it(stop):
    places = [stop.find(part) for part in PARTS]
    assert -1 not in places and places == sorted(places)
    assert places[2] < LINK.search(stop).start() < places[4]  # after the guess, before the answer
    ((_, name, query),) = LINK.findall(stop)
    follow(name, query)
    typed = re.sub(r"\{said\}`[^`]+`|<a href[^>]+>", "", stop)
    assert not re.search(r"\d\.\d", typed), "a number that is typed"
