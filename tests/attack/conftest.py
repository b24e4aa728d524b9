"""Thousands of generated inputs and faults where LONG is set (make test-long), some dozens where not.

What a test tried is counted. At the end of a long run the count of each test that passed becomes its row of
the table on the reproduce page. Addresses of explorers are tried where the browser is, in tests/browser.
"""

import os
from collections.abc import Callable

import attacked
import pytest
from hypothesis import HealthCheck, settings

LONG = "LONG" in os.environ
collect_ignore = (
    [] if LONG else ["test_faults.py"]
)  # of each the first is in test_sweep and test_cli
counts: dict[str, tuple[str, int]] = {}


def share(count: int) -> int:
    """Of so many inputs, or faults, those that are tried now."""
    return count if LONG else max(3, count // 100)


def inputs(count: int) -> Callable:
    """Hypothesis with so many of them, the same ones every time."""
    return settings(
        max_examples=share(count),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Tally:
    """How many inputs a test tried, under a name of the table."""

    def __init__(self, node: str) -> None:
        self.node, self.tried = node, dict[str, int]()

    def __call__(self, what: str, number: int = 1) -> None:
        self.tried[what] = self.tried.get(what, 0) + number


@pytest.fixture
def tally(request):
    own = Tally(request.node.nodeid.split("[")[0])
    yield own
    if request.node.stash.get(PASSED, False):
        for what, number in own.tried.items():
            counts[what] = own.node, counts.get(what, ("", 0))[1] + number


PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


def pytest_sessionfinish(session):
    if LONG:
        attacked.tell(
            [what, f"{number:,}", "0", f"``LONG=yes pytest {node}``"]
            for what, (node, number) in counts.items()
        )
