"""When rank-one heads make their drops, and what the fixed points compute."""

import numpy as np
from conftest import close
from scipy.optimize import brentq

from iclbook import measure
from iclbook.theory import rank_one
from iclcore import RegressionTask, SeparateAttention, theory, train
from iclcore.engines.linear import gradient
from iclcore.moments import averages, coefficients

TASK = RegressionTask()


def test_the_staircase_of_a_small_run_is_predicted_from_its_start():
    """The heads and their order are right, and the drops come within 2% of the predicted times."""
    task, model = RegressionTask(dim=2, context=10), SeparateAttention(heads=2, init=1e-3)
    start = model.start(2, seed=3)
    stairs = theory.staircase(task, start)
    run = train(model, task, int(1.2 * stairs[-1].time / 0.05), 0.05, start=start)
    compared = measure.compared(run, stairs, theory.plateau_losses(task))
    assert [drop.head_right for drop in compared] == [True, True]
    assert max(abs(drop.ratio - 1) for drop in compared) < 0.02


def test_the_time_of_a_drop_is_when_half_of_it_is_over():
    """One balanced head along e_2 grows as ṡ = 2as² until the loss of M = s³ e_2 e_2ᵀ is halfway down."""
    task, s0, d = RegressionTask(dim=3, context=9), 0.05, 1
    a, e = theory.rates(task)[0][d], task.eigenvectors[:, d]
    start = {n: np.zeros_like(w) for n, w in SeparateAttention(heads=2).start(3).items()}
    start["key"][1, 0, :3] = start["query"][1, 0, :3] = s0 * e
    start["value"][1, -1, -1] = s0

    def loss(x):
        return theory.population_loss(task, x * np.outer(e, e))

    end = theory.learned(task)[d]
    half = brentq(lambda x: loss(x) - (loss(0) + loss(end)) / 2, 0, end)
    drop = theory.staircase(task, start, until=1e3)[0]
    assert (drop.head, drop.component) == (1, d + 1)
    # the solver errs by 1e-9 a step, and errors grow with s², 100-fold
    close(drop.time, (1 / s0 - 1 / np.cbrt(half)) / (2 * a), within=1e-6)


def test_close_eigenvalues_may_be_learned_out_of_order():
    """With eight eigenvalues ∝ d, the start of seed 23 learns the fourth before the third, as predicted."""
    task, model = RegressionTask(dim=8), SeparateAttention(9, 5e-3)
    stairs = theory.staircase(task, model.start(8, seed=23), 400.0)
    assert [drop.component for drop in stairs] == [1, 2, 4, 3]
    rate = 0.03
    run = train(model, task, int(400 / rate), rate, seed=23, snapshots=25)
    basis, half = task.eigenvectors, theory.learned(task) / 2
    along = np.einsum("di,sde,ei->is", basis, run.predictors, basis)
    first = [measure.crossing(run.kept, row, level) for row, level in zip(along, half, strict=True)]
    assert first[3] < first[2] and not measure.ascending(first)


def test_principal_component_regression_and_the_fixed_points():
    """The closed forms agree with least squares on the first m coordinates of 20,000 contexts."""
    task, n = RegressionTask(dim=3, context=9), 9
    lam, rng = task.eigenvalues, np.random.default_rng(0)
    x, w = rng.standard_normal((20_000, n, 3)) * np.sqrt(lam), rng.standard_normal((20_000, 3))
    y = np.einsum("pnd,pd->pn", x, w)
    gains = theory.learned(task, "context")
    for m in (1, 2):
        fitted, fixed = np.zeros_like(w), np.zeros_like(w)
        xy = np.einsum("pnd,pn->pd", x[:, :, :m], y)
        xx = np.einsum("pni,pnj->pij", x[:, :, :m], x[:, :, :m])
        fitted[:, :m] = np.linalg.solve(xx, xy[:, :, None])[..., 0]
        fixed[:, :m] = gains[:m] * xy / n
        loss, distance = rank_one.regression(task, m)
        for got, wanted in ((fitted - w, loss), (fitted - fixed, distance**2)):
            squares = got**2 @ lam
            assert abs(squares.mean() - wanted) < 4 * squares.std() / np.sqrt(len(w))


def test_principal_component_regression_with_few_examples():
    """The mean of an inverse Wishart matrix is infinite for N ≤ m + 1, but without noise ŵ = w."""
    short, n = RegressionTask(dim=3, context=3), 3
    assert [rank_one.regression(short, m).loss for m in (2, 3)] == [np.inf, 0]
    assert np.isnan(rank_one.regression(RegressionTask(dim=3, context=2), 3)).all()
    lam, rng = short.eigenvalues, np.random.default_rng(0)
    x, w = rng.standard_normal((20_000, n, 3)) * np.sqrt(lam), rng.standard_normal((20_000, 3))
    fixed = theory.learned(short, "context") * np.einsum("pnd,pne,pe->pd", x, x, w) / n
    squares = (w - fixed) ** 2 @ lam
    distance = rank_one.regression(short, 3).distance
    assert abs(squares.mean() - distance**2) < 4 * squares.std() / np.sqrt(len(w))


def test_a_second_way_to_the_answer():
    """With key and value of all heads exchanged the staircase is the same, and every drop is by labels.
    From a start with both ways open, the drops of the run come within 2%, and heads read what is
    predicted."""
    model, draws = SeparateAttention(heads=4, init=1e-3), np.random.default_rng(3)
    start = model.start(4, seed=2)
    mirror = {name: array.copy() for name, array in start.items()}
    mirror["key"][:, 0], mirror["value"][:, -1] = start["value"][:, -1], start["key"][:, 0]
    pairs = zip(theory.staircase(TASK, start), theory.staircase(TASK, mirror), strict=True)
    for own, other in pairs:
        close(other.time, own.time, within=1e-6)  # the solver errs by 1e-9, magnified by 1/init
        assert (other.head, other.component) == (own.head, own.component)
        assert other.labels and not own.labels
    free = {name: 1e-3 * draws.standard_normal(array.shape) for name, array in start.items()}
    stairs = theory.staircase(TASK, free, until=1000.0)
    run = train(model, TASK, 40_000, 0.025, start=free)
    times = measure.drop_times(run, theory.plateau_losses(TASK))
    key, _, value = model.factors(run.final, 4)
    assert len(stairs) >= 2
    for drop, time in zip(stairs[:2], times, strict=False):
        assert abs(drop.time / time - 1) < 0.02
        reads = np.abs([key[drop.head, 0, 4], value[drop.head, 0, 4]])
        assert (reads[0] > reads[1]) == drop.labels


def test_a_head_whose_key_is_its_value_rests_on_a_saddle_of_its_own():
    """For D = 1 its loss is L = λ − a²/(b + (√(AC) + B)/2), with Gaussian moments computed by hand. The test
    keeps key and value equal, for otherwise rounding would lead away from the saddle."""
    n, model = 7, SeparateAttention(heads=1)
    task = RegressionTask(dim=1, context=n)
    moments = averages(task, model)
    k, q, v = np.array([[[0.05, 0.03]]]), np.array([[[0.05]]]), np.array([[[0.05, 0.03]]])
    for _ in range(3000):
        slopes = gradient((k, q, v), moments)
        q = q - 0.03 * slopes[1]
        k = v = k - 0.015 * (slopes[0] + slopes[2])
    (a,), (b,) = theory.rates(task)
    even = n**2 + 8 * n + 15, n**2 + 5 * n, 3 * n * (n + 2)  # A, B, C of λ = 1
    rests = 1 - a**2 / (b + (np.sqrt(even[0] * even[2]) + even[1]) / 2)
    close(moments.loss(coefficients((k, q, v), moments.features)), rests)
    assert rests > theory.plateau_losses(task)[-1] + 0.4


def test_the_rms_prediction_is_that_of_drawn_sequences():
    """It agrees with 20,000 sequences to four standard errors."""
    task = RegressionTask(dim=3, context=9)
    first, _, last = task.eigenvectors.T
    data, matrix = task.sample(20_000, seed=1), np.outer(first, last)  # β and x_q apart
    beta = np.einsum("pnd,pn->pd", data.x[:, :-1], data.y[:, :-1, 0])
    squares = np.einsum("pa,ab,pb->p", beta, matrix, data.x[:, -1]) ** 2
    error = squares.std() / np.sqrt(20_000)
    assert abs(squares.mean() - rank_one.rms_prediction(task, matrix) ** 2) < 4 * error


def test_predictors_are_what_a_run_computes():
    task, model = RegressionTask(dim=3, context=5), SeparateAttention(heads=2, rank=2, init=0.3)
    run = train(model, task, 3, 0.01, snapshots=1)
    losses = [theory.population_loss(task, matrix) for matrix in run.predictors]
    close(losses[:3], run.loss)
