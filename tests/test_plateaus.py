"""The table of 96 runs: one seed is computed again, and the statistics of its rows are right."""

from dataclasses import replace

import numpy as np
from conftest import close
from pace import slow

from iclbook import measure
from iclbook.data import plateaus


def landings():
    rate = plateaus.PLAN.lr
    return [measure.landings(rate * counts, rank) for rank, counts in plateaus.read().items()]


@slow
def test_a_seed_of_the_table_computed_again(tmp_path):
    rows = plateaus.count(tmp_path, seeds=[7])
    for row, table in zip(rows, plateaus.read().values(), strict=True):
        again = [row[f"level_{m}"] for m in range(9)]
        assert row["seed"] == 7 and np.abs(np.array(again) - table[7]).max() <= plateaus.ALIKE
    assert [row["rank"] for row in rows] == list(plateaus.RANKS)


def test_other_settings_have_no_runs_in_the_table():
    table = plateaus.read()
    shifted = {rank: counts[:2] + 3 * (rank == 4) for rank, counts in table.items() if rank > 1}
    assert plateaus.gaps(plateaus.PLAN, shifted) == [0, 0, 3, 3, 0, 0]
    assert plateaus.gaps(replace(plateaus.PLAN, lr=0.02), shifted) == []


def test_survival_counts_what_is_cut_as_long_as_it_was_seen():
    """Five landings: 1, 2, 2 and cut at 2, 4. Left of those at risk: 4/5, then 2/4, then none."""
    time, cut = np.array([1.0, 2, 2, 2, 4]), np.array([False, False, False, True, False])
    found = measure.Landings(rank=2, dim=8, level=np.ones(5, dtype=int), time=time, cut=cut)
    times, left = found.survival("room")
    np.testing.assert_array_equal(times, [1, 2, 4])
    close(left, [0.8, 0.4, 0.0])
    assert found.outlasted("room", 0.5) == 2 and np.isnan(found.outlasted("new", 0.5))


def test_a_run_is_cut_at_the_last_level_it_saw():
    found = measure.landings(np.array([[2.0, 0.5, 3.0, 0.0], [4.0, 0.0, 0.0, 0.0]]), rank=2)
    np.testing.assert_array_equal(found.level, [0, 1, 2, 0])
    np.testing.assert_array_equal(found.cut, [False, False, True, True])
    close(found.passed("room"), [0.5])
    assert found.cuts(0) == found.cuts(2) == 1 and not found.cuts(3)


def test_two_populations_at_every_rank():
    """Nine tenths of the landings with a head at work are over before nine tenths of the others."""
    for own in landings():
        if own.rank in (2, 4):
            assert 8 * own.outlasted("room", 0.1) < own.outlasted("new", 0.9)
        # every landing counts once: first, new, room, or the end of the stairs
        kinds = np.sum([own.of(kind) for kind in measure.KINDS], axis=0)
        np.testing.assert_array_equal(kinds, own.level < 8)


def test_time_near_a_level_does_not_depend_on_a_last_bit():
    """A loss that falls from 1 to 0 in two steps is within .1 of .5 for .4 steps. The time at which it enters
    this range is interpolated between two steps, so that it is a continuous function of the loss."""
    falls, rests = np.array([1.0, 0.5, 0.0]), np.array([0.5, 0.5, 0.5])
    close(measure.steps_near(falls, np.array([0.5, 0.9, 2.0]), 0.1), [0.4, 0.4, 0.0])
    close(measure.steps_near(rests, np.array([0.5, 0.9]), 0.1), [2.0, 0.0])
    border = np.array([0.6, 0.5999, 0.5])  # a count of steps has one more or one less here
    spent = [measure.steps_near(border + nudge, np.array([0.5]), 0.1) for nudge in (-1e-9, 1e-9)]
    # 2e-9 of a step that falls by 1e-4
    assert abs(spent[0] - spent[1]) < 2.1e-5
