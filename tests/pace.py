"""What each run of the tests tries, and what waits for `make test-slow`: more of the same."""

from collections.abc import Collection

import pytest

slow = pytest.mark.slow


def mostly_slow(every: Collection, *quick: object) -> list:
    """``quick`` of them in every run, the others among the slow ones."""
    assert set(quick) <= set(every)
    values = {each: each if isinstance(each, tuple) else (each,) for each in every}
    return [pytest.param(*of, marks=[] if each in quick else slow) for each, of in values.items()]
