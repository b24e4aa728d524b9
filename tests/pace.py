"""The mark of slow tests, and parameters of which most are slow tests."""

from collections.abc import Collection

import pytest

slow = pytest.mark.slow


def mostly_slow(every: Collection, *quick: object) -> list:
    """Return parameters of which those in ``quick`` are always tested, and the others by slow tests."""
    assert set(quick) <= set(every)
    values = {each: each if isinstance(each, tuple) else (each,) for each in every}
    return [pytest.param(*of, marks=[] if each in quick else slow) for each, of in values.items()]
