"""What a head of rank R ≥ 2 does, and how far a sample's first level is off."""

import numpy as np
import pytest
from conftest import close

from iclbook import measure
from iclbook.theory import low_rank
from iclcore import RegressionTask, SeparateAttention, published, theory, train


def test_heads_fill_up_one_after_the_other():
    """With rank two, one head learns the first two of four eigenvectors, and the next head the others."""
    task = RegressionTask(dim=4, spectrum="power")
    model = SeparateAttention(heads=3, init=1e-3, rank=2)
    run = train(model, task, 60_000, 0.02, seed=1)
    key, query, v = model.factors(run.final, 4)
    basis = task.eigenvectors
    made = np.einsum("h,hrd,hrd->hd", v[:, 0, -1], key[:, :, :4] @ basis, query @ basis)
    learned = [np.flatnonzero(row > 0.5 * theory.learned(task)).tolist() for row in made]
    assert sorted(learned) == [[], [0, 1], [2, 3]]


def test_the_wait_for_a_spare_row_is_logarithmic():
    """Ten times smaller weights lengthen the plateau at M_1 by ln 10 times the predicted slope.

    Gradient flow grows by exp(x) in the time of a step, x = 2 a v lr, and gradient descent by 1 + x. The
    other deviations are of the size of the weights, at most 1e-3.
    """
    task, waits = RegressionTask(dim=2, spectrum=(0.6, 0.4)), []
    lr, levels = 0.1, theory.plateau_losses(task)
    for init in (1e-3, 1e-4):
        model = SeparateAttention(heads=2, init=init, divisor="context", rank=2)
        horizon = 100 + 3 * theory.escape_time(task, 1, init, "context")
        run = train(model, task, int(horizon / lr), lr, seed=1)
        waits.append(np.diff(measure.drop_times(run, levels))[0])
    found = np.diff(waits)[0] / np.log(10)
    value = low_rank.head_value(task, range(1, 2), "context")
    x = 2 * theory.rates(task, "context")[0][1] * value * lr
    close(found * np.log1p(x) / x / low_rank.wait_slope(task, 1, 2, "context"), 1, within=5e-4)


def test_only_the_eigenvectors_of_the_same_head_set_the_wait():
    """At M_3 and rank two the second head has learned e_3, and its value alone sets the growth along e_4.

    At the start the first head has learned e_1 and e_2, and the second is small and balanced along e_3,
    with e_4 in its other row. Weights of size 1e-2 leave a correction of that size.
    """
    task, lr, waits = RegressionTask(), 0.1, []
    levels, basis = theory.plateau_losses(task), task.eigenvectors
    model = SeparateAttention(heads=2, divisor="context", rank=2)
    gains = theory.learned(task, "context")
    for size in (1e-2, 1e-3):
        start = model.start(4, seed=0)
        for array in start.values():
            array[:] = 0
        full = low_rank.head_value(task, range(1, 3), "context")
        start["value"][:, -1, -1] = full, size
        rows = (basis[:, :2] * np.sqrt(gains[:2] / full)).T
        start["key"][0, :, :4] = start["query"][0, :, :4] = rows
        start["key"][1, :, :4] = start["query"][1, :, :4] = size * basis[:, 2:].T
        horizon = 400 + theory.escape_time(task, 3, size, "context")
        run = train(model, task, int(horizon / lr), lr, start=start)
        close(run.loss[0], levels[2], within=1e-4)
        times = [measure.crossing(run.time, run.loss, levels[m : m + 2].mean()) for m in (2, 3)]
        waits.append(np.diff(times)[0])
    slope = np.diff(waits)[0] / np.log(10)
    close(slope / low_rank.wait_slope(task, 3, 2, "context"), 1, within=1e-2)


def test_the_wait_slope_of_a_new_head_is_refused():
    task = RegressionTask(dim=8, spectrum="power")
    for components, rank in ((2, 2), (3, 1), (8, 3)):
        with pytest.raises(ValueError, match="no multiple of the rank"):
            low_rank.wait_slope(task, components, rank)


def test_head_value_is_where_training_leaves_the_head():
    """With two eigenvectors in one head, v³ is the sum of both a_d/b_d. Gradient descent does not quite keep
    |v| = |K| = |Q|, and so it misses this in proportion to the learning rate."""
    task = RegressionTask(dim=2, spectrum=(0.6, 0.4))
    model, gaps = SeparateAttention(heads=1, rank=2, init=5e-3, divisor="context"), []
    for rate in (0.05, 0.005):
        end = train(model, task, int(3000 / rate), rate, seed=1)
        close(end.loss[-1], theory.plateau_losses(task)[-1])
        gaps.append(abs(end.value[-1, 0]) - low_rank.head_value(task, range(1, 3), "context"))
    assert abs(gaps[0]) < 0.003 and 9 < gaps[0] / gaps[1] < 11, gaps


def test_whitened_task_vectors_move_the_top_level_less():
    """Compare means of y_q² over a set and over its first quarter, in 3,000 sets of 100 sequences."""
    task, rng = RegressionTask(dim=3, spectrum=(0.5, 0.3, 0.2)), np.random.default_rng(0)
    sizes, tops, powers = np.array([25, 100]), [], []
    for _ in range(3000):
        x = rng.normal(size=(100, 3)) * np.sqrt(task.eigenvalues)
        w = published._whiten(rng.normal(size=(100, 3, 1)), np)[..., 0]
        squares = np.sum(x * w, axis=1) ** 2
        tops.append([squares[:size].mean() for size in sizes])
        powers.append([(w[:size] ** 2 @ task.eigenvalues).mean() for size in sizes])
    exact = low_rank.first_level_deviation(task, sizes)
    found = np.std(tops, axis=0) / exact
    # one standard error is 1.3%, and more by the heavy tails of y⁴; without whitening in the formula the
    # second would be 0.93
    close(found, [1, 1], within=0.02)
    # The part of wᵀΛw alone, beside 2 tr² + 4 tr Λ² of the inputs: a variance over 3,000 sets has an error of
    # 2.6%, and sets of 100 are finite, which is 1/100. Over the whole set this part is zero.
    own = sizes * exact**2 - 2 - 4 * np.sum(task.eigenvalues**2)
    found = sizes * np.var(powers, axis=0)
    assert abs(found[0] / own[0] - 1) < 3 * 0.026 + 0.01
    close([found[1], own[1]], [0, 0])
