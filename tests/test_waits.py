"""A part of the table of 20,000 runs is computed again."""

import numpy as np
import pytest

from iclbook.data import waits
from iclcore import SeparateAttention

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


def test_a_part_of_the_predicted_columns_computed_again():
    """Each prediction stands in the column and row of its setting and start."""
    few = waits.told(lambda what, *asked: (what, asked))
    table = waits.read()
    for name, own in (("labels", "labels"), ("even", "even")):
        what, (dim, seeds, even) = few[f"{name}_4"][1]
        kept = getattr(table[dim], own)
        assert kept.shape == (waits.TOLD, dim)
        np.testing.assert_array_equal(what(dim, seeds[:2], even), kept[seeds[0] : seeds[2]])
    for law, kept in waits.read_last().items():
        assert kept.shape == (waits.TOLD, len(waits.DIMS))
        what, (dim, own, seeds) = few[f"last_{law}_4"][1]
        assert own == law
        there = kept[seeds[0] : seeds[2], waits.DIMS.index(dim)]
        np.testing.assert_allclose(what(dim, law, seeds[:2]), there, rtol=waits.ALIKE)


def test_a_start_from_everywhere_has_no_zeros():
    """Its sizes are those of the model's own start; ``even`` makes keys as large as values."""
    model, dim = SeparateAttention(heads=2000, init=0.1), 3
    drawn, even = (waits.everywhere(model, dim, 0, given) for given in (False, True))
    for weights, key in ((drawn, 0.05), (even, 0.1)):
        for name, size in (("key", key), ("query", 0.05), ("value", 0.1)):
            # a standard deviation of n normal numbers is known to 1/√(2n): four of these
            n = weights[name].size
            assert abs(weights[name].std() / size - 1) < 4 / (2 * n) ** 0.5


def test_chunks_cover_all_starts():
    """Every start once, and every tenth once more for the theory."""
    for step in (1, waits.EVERY):
        parts = [list(part) for part in waits.chunks(waits.STARTS, step)]
        assert [seed for part in parts for seed in part] == list(range(0, waits.STARTS, step))
