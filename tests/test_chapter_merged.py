"""What the chapter on merged key and query claims."""

import numpy as np
from conftest import close, recorded

from iclcore import RegressionTask, theory

merged = recorded("merged")


def test_one_drop_to_the_best_linear_attention():
    assert merged.lower_level == 0.1360
    assert merged.floor <= merged.last_loss < 0.15 < 0.9 < merged.first_loss
    assert 500 < merged.drop_step < 1500
    assert abs(merged.half_learned[0] - merged.drop_step) < 100
    assert merged.half_learned == sorted(merged.half_learned)


def test_attention_and_the_network_differ_on_a_sample():
    assert merged.last_gap < 0.01
    assert merged.shown_gap < merged.gap_median < merged.largest_gap


def test_paths_end_in_the_valley_and_pass_the_saddle_at_a_distance():
    assert merged.distance_to_minima < 1e-9
    # v² − u² is conserved, but a step of a·rate = 1/160 loses 4 (a·rate)²(1 − b uv/a)² of it: on the slow
    # path 5% in all, and half in its root
    side = np.sqrt(0.125 / (0.25**3 * (1 + 5 / 31)))  # of a minimum with v = u, by hand
    close(merged.nearest_to_saddle, side * np.sqrt(0.12**2 - 0.09**2), within=0.025)


def test_white_course():
    # A step of 0.05 multiplies by 1 + 2a·lr: the course is late by a·lr = 0.6% of its longest wait, 54, where
    # it falls by 0.128 a unit of time. Half the rate, half of that, to a relative 2a·lr.
    assert merged.course_error < 0.128 * 0.125 * 0.05 * 54
    assert 1.9 < merged.error_ratio < 2.1
    assert merged.pull_excess > 0.05 > merged.pull_excess_of_matrix
    assert merged.draws / 2 < merged.harder_draws


def test_a_decade_of_the_weights():
    growths = [theory.growth_rate(RegressionTask(spectrum=law), "context")
               for law in ("white", "linear", "power")]  # fmt: skip
    close(merged.decade_predicted, np.log(10) / np.array(growths), within=1e-3)
    # a step multiplies by 1 + 1/800, which is late by half of that; of large starts 1e-3 besides
    close(merged.decade_cost, merged.decade_predicted, within=2e-3)
    # ln 10 and ten times; a step of small ones is late by up to dt ln(1/s₀)/2, and the next step ends it
    close(merged.exponential_waits, np.log([10, 100, 1000]), within=0.02)
    close(merged.hyperbolic_waits, [9, 99, 999])


def test_training_overfits_between_the_matrix_and_all_features():
    """On fresh sequences too; of 16 draws the mean excess is known to a tenth of itself, the own error to
    0.0015, a quarter of one draw's standard deviation."""
    assert 4**2 < merged.kappa_of_matrix < merged.kappa_trained < merged.kappa_of_all
    level = theory.plateau_losses(RegressionTask())[-1]
    excess = 5000 * (merged.fresh_error / level - 1)
    assert 0.9 * merged.kappa_of_matrix < excess < 1.1 * merged.kappa_of_all
    assert level * (1 - merged.kappa_of_all / 5000) - 0.0045 < merged.own_error < level
