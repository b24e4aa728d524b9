"""Thousands of generated inputs and faults where LONG is set (make test-long), some dozens where not.

Addresses of explorers are tried where the browser is, in tests/browser.
"""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, settings

LONG = "LONG" in os.environ
collect_ignore = (
    [] if LONG else ["test_faults.py"]
)  # of each the first is in test_sweep and test_cli


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
