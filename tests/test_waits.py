"""A part of the table of 20,000 runs is computed again."""

import numpy as np
import pytest

from iclbook.data import waits
from iclcore import SeparateAttention

SOME = range(20, 50, 10)


@pytest.mark.parametrize("dim", waits.SETTINGS)
def test_a_part_of_the_table_computed_again(dim):
    table = waits.read()[dim]
    assert table.simulated.shape == (waits.STARTS, waits.SETTINGS[dim].drops)
    assert len(table.predicted) == waits.STARTS / waits.EVERY
    tenths = [seed // waits.EVERY for seed in SOME]
    for again, stored in (
        (waits.simulated(dim, SOME), table.simulated[list(SOME)]),
        (waits.predicted(dim, SOME), table.predicted[tenths]),
    ):
        np.testing.assert_allclose(again, stored, rtol=waits.ALIKE)


def test_a_part_of_the_predicted_columns_computed_again():
    """Each prediction stands in the column and row of its setting and start."""
    parts = waits.told(lambda what, *arguments: (what, arguments))
    for name in ("labels", "even"):
        what, (dim, seeds, even) = parts[f"{name}_4"][1]
        stored = getattr(waits.read()[dim], name)
        assert stored.shape == (waits.TOLD, dim)
        np.testing.assert_array_equal(what(dim, seeds[:2], even), stored[seeds[0] : seeds[2]])
    for law, table in waits.read_last().items():
        assert table.shape == (waits.TOLD, len(waits.DIMS))
        what, (dim, own, seeds) = parts[f"last_{law}_4"][1]
        assert own == law
        stored = table[seeds[0] : seeds[2], waits.DIMS.index(dim)]
        np.testing.assert_allclose(what(dim, law, seeds[:2]), stored, rtol=waits.ALIKE)


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
