"""What the chapter on low rank claims, at the paper's scale where that is fast."""

import numpy as np
import pytest
import torch
from conftest import close

from iclbook.figures import low_rank as figures
from iclbook.studies import conservation, finite_data, low_rank
from iclcore import MergedAttention, RegressionTask, SeparateAttention, reference, theory, train
from iclcore.moments import coefficients, of_population, of_sequences
from iclcore.stability import stable_rate
from iclcore.theory.low_rank import head_value, wait_slope


@pytest.fixture(scope="module")
def stairs():
    return low_rank.staircases("quick")


def test_rank_decides_which_plateaus_are_long(stairs):
    """On 8,000 sequences, six seeds: every level left within the run, m > 0."""
    for rank, spent in zip(low_rank.RANKS[1:], stairs.spent[1:], strict=True):
        spent = low_rank.RATE * spent
        passed = low_rank._passed(spent, rank)
        assert np.mean(np.array(passed) < 20) > 0.95  # some seeds have two heads in a race
        assert np.median(passed) < 8 < 20 < np.median(spent[:, 0])
        assert np.median(spent[:, rank]) > 60
    # 8 and 20 of a wait that is logarithmic, 20 and 60 of one that goes as 1/init = 200
    # the fuller the heads, the further training comes in the same steps
    ends = [stairs.facts[f"end_{rank}"] for rank in low_rank.RANKS]
    assert ends == sorted(ends, reverse=True)


def test_no_run_rises(stairs):
    """Below the edge of stability full-batch descent only falls, down to the rounding of a loss.

    It is a sum of F² + 2F terms, and rounds by less than F units of the last place of their size.
    """
    for rank, runs in stairs.runs.items():
        for seed, run in zip(low_rank.SEEDS, runs, strict=True):
            moments = low_rank.published(seed, "quick").moments
            c = coefficients(low_rank.model(rank).factors(run.final, 8), moments.features)[0]
            terms = moments.power + 2 * np.abs(moments.cross[0]) @ np.abs(c)
            terms += np.abs(c) @ np.abs(moments.gram) @ np.abs(c)
            rounding = len(c) * np.finfo(float).eps * terms
            assert rounding < 1e-10  # far below what a rising loss rises by
            assert np.diff(run.loss).max() <= rounding, (rank, seed)


def test_the_published_rate_is_past_the_edge_at_rank_8_only(stairs):
    edges = low_rank.edges(stairs, "quick")
    for rank in low_rank.RANKS:
        edge = stable_rate(low_rank.TASK, low_rank.model(rank))
        assert 0.9 * edge > low_rank.RATE and (edge < low_rank.PUBLISHED_RATE) == (rank == 8)
    assert low_rank.RATE < edges["own_least"] < edges["edge_8"] < edges["own_most"]
    assert edges["rising"] > 0 == edges["rising_here"]
    # the time is that of the published steps
    close(low_rank.RATE * (low_rank.STEPS - 1), low_rank.PUBLISHED_RATE * 20_000)


def test_heads_fill_up_one_after_the_other(stairs):
    for rank, taken in zip(low_rank.RANKS[1:], stairs.taken[1:], strict=True):
        for head, row in enumerate(taken):
            held = np.flatnonzero(row > 0.5)
            if len(held):
                np.testing.assert_array_equal(held, head * rank + np.arange(rank))


def test_training_ends_at_the_best_matrix_of_its_sample(stairs):
    """Rank 8 can be any M: the loss of the best one, to what the other 296 features still fit."""
    assert abs(stairs.facts["above_inside"]) < 0.002
    # a level of 8,000 sequences has a standard deviation of 0.004, the mean over six seeds of 0.0016
    assert stairs.facts["floor"] < stairs.facts["inside"] < stairs.facts["final_theory"] + 0.01


def test_waits_are_logarithmic_in_a_head_with_room():
    """Slopes of a fit over two decades; the constant next to the logarithm is not quite one."""
    found = low_rank.waits()
    for name, value in found.facts.items():
        if name.startswith("power"):
            assert abs(value - 1) < 0.02, name
        elif not name.startswith("decade_theory"):
            close(value / found.facts[name.replace("decade", "decade_theory")], 1, within=0.01)


def test_wait_slope_is_not_for_new_heads():
    for components, rank in ((2, 2), (3, 1), (8, 3)):
        with pytest.raises(ValueError, match="no multiple of the rank"):
            wait_slope(low_rank.TASK, components, rank)


def test_head_value_is_where_training_leaves_the_head():
    """Of two eigenvectors in one head of rank two: v³ is the sum of both gains, but for what
    gradient descent loses of the balance, in proportion to the learning rate."""
    task = RegressionTask(dim=2, spectrum=(0.6, 0.4))
    model = SeparateAttention(heads=1, rank=2, init=5e-3, divisor="context")
    moments, gaps = of_population(task, model), []
    for rate in (0.05, 0.005):
        end = train(model, moments, int(3000 / rate), rate, seed=1)
        close(end.loss[-1], theory.plateau_losses(task)[-1])
        gaps.append(abs(end.series["value"][-1, 0]) - head_value(task, range(1, 3), "context"))
    assert abs(gaps[0]) < 0.003 and 9 < gaps[0] / gaps[1] < 11, gaps


def test_drift_is_first_order_in_the_learning_rate():
    found = conservation.drift("quick")
    # order one, and neither none nor two; over eightfold rates the next order shows in percents
    assert 0.95 < found.facts["slope_least"] <= found.facts["slope_most"] < 1.1
    v, k, q = found.sizes[:, -1]
    close([k, q], [v, v], within=0.005)  # the drift at learning rate 0.016
    # Without the labels' column of the key and the inputs' columns of the value nothing is conserved. At an
    # eighth of the rate the drift is an eighth, but for the next order.
    assert found.facts["drift_slow"] < found.facts["drift"] / 7
    assert found.facts["partial_slow"] > 5 * found.facts["drift_slow"]


def test_finite_data(stairs):
    found = finite_data.finite_data("quick")
    # six draws of one standard deviation each: within three times it
    assert np.all(np.abs(found.shifts[:, :, 0]) < 3 * found.spread)
    # What the fit gains on 8,000 sequences. One sample's gain varies by 6%, six by 2.6%; κ from 10,000
    # sequences has an error of 3.4%; the next order is κ/P = 6%. With F or F − D for κ it would be 1.3 or
    # more.
    facts = found.facts
    assert abs(facts["gain"] / facts["gain_theory"] - 1) < 3 * np.hypot(0.026, 0.034) + 0.06
    close(facts["floor_theory"], facts["limit"] - facts["gain_theory"])
    close(found.predicted, facts["limit"] * (1 - facts["kappa"] / found.sizes))
    # the floor of all features is below that of M, and that below the diagonal M_8
    for seed in low_rank.SEEDS:
        each = low_rank.published(seed, "quick")
        assert each.floors[-1] < each.inside < each.levels[-1, 8]


def test_a_fit_gains_by_what_its_residuals_and_features_have_in_common():
    """κ of the floor law against what least squares gains on 60 drawn sets, in standard errors."""
    task, model = RegressionTask(dim=2, context=15), MergedAttention(heads=1)
    kappa, error = finite_data.overfit(task, 100_000)
    exact = of_population(task, model)
    c = np.linalg.solve(exact.gram, exact.cross.T).T
    sets = [of_sequences(task.sample(4000, seed=seed), model) for seed in range(500, 560)]
    gains = [4000 * (each.loss(c) - each.floor()) / exact.loss(c) for each in sets]
    spread = np.std(gains, ddof=1) / np.sqrt(len(sets))
    assert abs(np.mean(gains) - kappa) < 4 * np.hypot(error, spread)
    assert kappa - 4 * error > 2 * c.size  # far from the count of features, 12


def test_whitened_task_vectors_move_the_top_level_less():
    """The mean of y_q² over all of a set and over its first quarter, in 3,000 sets of 100."""
    task, rng = RegressionTask(dim=3, spectrum=(0.5, 0.3, 0.2)), np.random.default_rng(0)
    sizes, tops = np.array([25, 100]), []
    for _ in range(3000):
        x = rng.normal(size=(100, 3)) * np.sqrt(task.eigenvalues)
        w = reference._whiten(torch.from_numpy(rng.normal(size=(100, 3, 1)))).numpy()[..., 0]
        squares = np.sum(x * w, axis=1) ** 2
        tops.append([squares[:size].mean() for size in sizes])
    found = np.std(tops, axis=0) / finite_data.top_spread(task, sizes)
    # 1.3% is one standard error, and the heavy tails of y⁴ add to it; without the whitening's
    # share the second would be 0.93
    close(found, [1, 1], within=0.02)


def test_waits_for_a_new_head_are_long_but_for_races(stairs):
    """Of the alt text: no brief wait above rank one, and none at the start."""
    for rank, spent in zip(low_rank.RANKS, stairs.spent, strict=True):
        brief = low_rank._brief(spent, rank)
        assert (len(brief) == stairs.facts["brief"]) if rank == 1 else not brief, (rank, brief)
        assert all(m for _, m in brief)


def test_pictures_say_what_was_measured(stairs):
    alt = figures.staircases(stairs).alt
    assert all(f"{stairs.facts[f'end_{rank}']:.2f} at rank {rank}" in alt for rank in (1, 2, 4, 8))
    assert f"at rank 8 eigenvectors 1 to {stairs.facts['learned_8']}" in figures.taken(stairs).alt
