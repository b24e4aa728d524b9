"""The table of 20,000 runs: a part of it computed again, and what is read from it."""

import numpy as np
import pytest

from iclbook.data import waits

SOME = range(20, 50, 10)


@pytest.mark.parametrize("dim", waits.SETTINGS)
def test_a_part_of_the_table_computed_again(dim):
    kept = waits.read()[dim]
    assert kept.simulated.shape == (waits.STARTS, waits.SETTINGS[dim].drops)
    assert len(kept.predicted) == waits.STARTS / waits.EVERY
    tenths = [seed // waits.EVERY for seed in SOME]
    for again, table in (
        (waits.simulated(dim, SOME), kept.simulated[list(SOME)]),
        (waits.predicted(dim, SOME), kept.predicted[tenths]),
    ):
        np.testing.assert_allclose(again, table, rtol=waits.ALIKE)


def test_chunks_cover_all_starts():
    """Every start once, and every tenth once more for the theory."""
    for step in (1, waits.EVERY):
        parts = [list(part) for part in waits.chunks(step)]
        assert [seed for part in parts for seed in part] == list(range(0, waits.STARTS, step))
