"""What the chapter on rank one claims."""

from conftest import recorded

rank_one = recorded("rank_one")


def test_runs_pass_the_plateaus():
    assert rank_one.levels == [1, 0.6406, 0.3774, 0.2098, 0.1360]  # the formula, by hand
    # 5,000 sequences move what is best by some √(features/P) = .09 of the answer, the loss by less than half
    assert rank_one.level_gap < 0.04
    assert rank_one.drops == rank_one.possible_drops == 24


def test_the_start_predicts_the_drops_on_finite_data():
    assert rank_one.right_heads >= 20
    assert 0.95 < rank_one.time_ratio_median < 1.05


def test_early_stopping_is_principal_component_regression():
    assert max(rank_one.distance_on_plateaus) < 0.15
    assert rank_one.nearest_components == [0, 1, 2, 3, 4]


def test_waiting_is_inverse_in_the_weights():
    assert abs(rank_one.wait_slope + 1) < 1e-3
    assert rank_one.staircase_error < 1e-3


def test_the_start_predicts_the_staircase():
    assert rank_one.population_right_heads == rank_one.population_drops == 150
    assert rank_one.time_error_median < 0.01
    assert rank_one.ordered_at_four == 40
    assert 30 < rank_one.ordered_at_eight < 40  # of close eigenvalues a smaller one may win


def test_few_sequences_are_overfitted_and_sharp():
    """Training fits most of the noise that the best fit would, and not all of it."""
    (own, fresh), (best_own, best_fresh) = rank_one.few_errors, rank_one.best_fit_errors
    level = rank_one.levels[-1]
    assert best_own < own < level - 0.02 and level + 0.02 < fresh < best_fresh
    assert rank_one.settled_sharpness < rank_one.sharpness < rank_one.largest_sharpness
    assert rank_one.too_sharp > 4
