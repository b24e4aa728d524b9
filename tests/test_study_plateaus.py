"""The table of 96 runs: a seed of it computed again, and what is read from it."""

from dataclasses import replace

import numpy as np
from conftest import close

from iclbook.figures import plateaus as figures
from iclbook.studies import low_rank, plateaus


def test_a_seed_of_the_table_computed_again(tmp_path):
    rows = plateaus.count(tmp_path, seeds=[7])
    found = plateaus.plateaus()
    for row, kept in zip(rows, found.spent[:, 7], strict=True):
        again = [row[f"level_{m}"] for m in range(9)]
        assert row["seed"] == 7 and np.abs(np.array(again) - kept).max() <= plateaus.ALIKE
    assert [row["rank"] for row in rows] == list(low_rank.RANKS)


def test_survival_counts_what_is_cut_as_long_as_it_was_seen():
    """Five landings: 1, 2, 2 and cut at 2, 4. Left of those at risk: 4/5, then 2/4, then none."""
    steps, cut = np.array([1, 2, 2, 2, 4]), np.array([False, False, False, True, False])
    one = np.ones(5, dtype=int)
    found = replace(plateaus.plateaus(), rank=2 * one, level=one, steps=steps, cut=cut)
    times, left = plateaus.survival(found, 2, "room")
    np.testing.assert_array_equal(times, [1, 2, 4])
    close(left, [0.8, 0.4, 0.0])


def test_two_populations_at_every_rank():
    """Nine tenths of the landings with a head at work are over before nine tenths of the others."""
    found = plateaus.plateaus()
    facts = found.facts
    for rank in (2, 4):
        assert 8 * facts[f"room_{rank}_tenth"] < facts[f"new_{rank}_most"]
    # every landing counts once: first, new, room, or the end of the stairs
    kinds = [plateaus.landings(found, r, k) for r in low_rank.RANKS for k in figures.KINDS]
    np.testing.assert_array_equal(np.sum(kinds, axis=0), found.level < 8)
    assert f"{facts['new_1_half']:.3g} at rank 1" in figures.landings(found).alt
