"""What the chapter on low rank claims."""

import numpy as np
from conftest import recorded

low_rank = recorded("low_rank")


def test_rank_decides_which_plateaus_are_long():
    """8 and 20 of a wait that is logarithmic, 20 and 60 of one that goes as 1/init = 200."""
    assert max(low_rank.waits_with_room) < 8 < 20 < min(low_rank.first_waits)
    assert min(low_rank.waits_for_head) > 60
    # the fuller the heads, the further training comes in the same steps
    assert low_rank.last_losses == sorted(low_rank.last_losses, reverse=True)
    assert low_rank.finished_ranks == 8


def test_the_published_rate_is_past_the_edge_at_rank_8():
    assert low_rank.lr < 0.9 * low_rank.edge and low_rank.edge < 0.02 < low_rank.edge_of_command
    assert low_rank.rising_past_edge > 0 == low_rank.rising


def test_the_pages_runs_are_those_of_the_table():
    assert low_rank.alike_runs == low_rank.repeated_runs == 24


def test_heads_fill_up_one_after_the_other():
    taken = zip(low_rank.ranks, low_rank.working_heads, strict=True)
    assert low_rank.learned_vectors == [rank * heads for rank, heads in taken]


def test_training_ends_at_the_best_matrix_of_its_sample():
    """Rank 8 can be any M: the loss of the best one, to what the other 296 features still fit."""
    assert abs(low_rank.widest_error - low_rank.matrix_floor) < 0.002
    # the last level of a sample has a standard deviation of 0.0016, the mean over six seeds of 0.0007
    assert low_rank.floor < low_rank.matrix_floor < low_rank.last_level + 0.002
    assert low_rank.last_level < low_rank.fresh_error < low_rank.fresh_error_of_fit


def test_waits_are_logarithmic_in_a_head_with_room():
    """Slopes of a fit over two decades; the constant next to the logarithm is not quite one."""
    assert max(abs(power - 1) for power in low_rank.wait_powers) < 0.02
    measured = np.array([low_rank.decade_at_two, *low_rank.decades_at_three])
    predicted = np.array([low_rank.predicted_at_two, *low_rank.predicted_at_three])
    assert np.all(abs(measured / predicted - 1) < 0.02)


def test_drift_is_first_order_in_the_learning_rate():
    # order one, and neither none nor two; over eightfold rates the next order shows in percents
    assert 0.95 < min(low_rank.drift_powers) <= max(low_rank.drift_powers) < 1.1
    # without the labels' column of the key and the inputs' columns of the value nothing is conserved
    assert low_rank.drift_without > 5 * low_rank.drift


def test_finite_data():
    # six draws of one standard deviation each, at four sizes: within three times it
    assert low_rank.largest_deviation < 3
    # What the fit gains on 80,000 sequences. One sample's gain varies by 6%, six by 2.6%; κ from 100,000
    # sequences has an error of 1.1%; the next order is κ/P = 0.6%. With F or F − D for κ it would be 1.3 or
    # more.
    assert low_rank.kappa > 1.3 * low_rank.features
    law = low_rank.predicted_gain
    assert abs(low_rank.gain / law - 1) < 3 * (0.026**2 + 0.011**2) ** 0.5 + 0.006
    # fresh sequences lose what is gained; the two errors have four digits
    lost = low_rank.fresh_error_of_fit - low_rank.last_level
    assert abs(lost / law - 1) < 0.1 + 1e-4 / law
