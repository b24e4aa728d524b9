"""The levels, the floor and the stable learning rate of a finite sample."""

import numpy as np
from conftest import close

from iclbook import measure
from iclcore import MergedAttention, RegressionTask, SeparateAttention, published, theory, train
from iclcore.moments import coefficients, of_population, of_sequences


def test_levels_and_floors_are_least_squares_of_the_sequences_themselves():
    """The features are βᵀ e_d e_dᵀ x_q for the levels and all β_a x_q[d] for the floor."""
    task = RegressionTask(dim=3, context=9, seed=2)
    data = task.sample(400, seed=1)
    y, beta = data.y[:, -1, 0], np.einsum("pnd,pn->pd", data.x[:, :-1], data.y[:, :-1, 0])
    along = (beta @ task.eigenvectors) * (data.x[:, -1] @ task.eigenvectors)
    every = np.einsum("pa,pd->pad", beta, data.x[:, -1]).reshape(400, 9)

    def least(features):
        fit = np.linalg.lstsq(features, y, rcond=None)[0] if features.shape[1] else np.zeros(0)
        return np.mean((y - features @ fit) ** 2)

    close(theory.plateau_losses(data), [least(along[:, :m]) for m in range(4)])
    close(measure.floor_of_matrices(data), least(every))
    close(measure.loss_of_best(data), np.mean((y - along @ theory.learned(task)) ** 2))
    assert measure.floor(data) < measure.floor_of_matrices(data) < theory.plateau_losses(data)[3]


def test_below_the_edge_a_run_only_falls():
    """Full-batch gradient descent never raises the loss by more than rounding; above the edge it does.

    A loss is a sum of F² + 2F terms, so its rounding error is below F units of the last place of their sum.
    """
    task, model = RegressionTask(dim=8, spectrum="power"), SeparateAttention(9, 5e-3, rank=8)
    data = published.sample(task, 4000, seed=0)
    run = train(model, data, 9000, 0.016)
    c = coefficients(model.factors(run.final, 8), run.moments.features)[0]
    terms = run.moments.power + 2 * np.abs(run.moments.cross[0]) @ np.abs(c)
    terms += np.abs(c) @ np.abs(run.moments.gram) @ np.abs(c)
    rounding = len(c) * np.finfo(float).eps * terms
    assert rounding < 1e-10  # far below what a rising loss rises by
    assert np.diff(run.loss).max() <= rounding and not measure.rises(run)
    assert run.loss[-1] < 1.2 * theory.plateau_losses(task)[-1]  # all is learned
    assert 0.016 < measure.edge(run) < 0.022
    assert measure.rises(train(model, data, 9000, 1.2 * measure.edge(run)))


def test_squares_are_of_all_that_can_move():
    """At every snapshot the differences of the squares are those of ``conserved``."""
    task, model = RegressionTask(dim=3, context=5), SeparateAttention(heads=2, rank=2, init=0.3)
    run = train(model, task, 4, 0.01, seed=1, snapshots=2)
    found = measure.squares(run)
    assert found.shape == (3, 2, 3)
    for i, weights in ((0, run.start), (2, run.final)):
        close(-np.diff(found[:, :, i], axis=0), theory.conserved(weights, 3))


def test_the_overfitting_of_least_squares_is_kappa():
    """κ is what least squares gains on 60 drawn sets and loses on fresh sequences, to four standard errors.

    This holds for all features, and for those of M alone. The next order is κ/P of the leading one, with
    opposite signs for gain and loss, so that it cancels in their mean.
    """
    task, model = RegressionTask(dim=2, context=15), MergedAttention(heads=1)
    exact = of_population(task, model)
    sets = [of_sequences(task.sample(4000, seed=seed), model) for seed in range(500, 560)]
    c = np.linalg.solve(exact.gram, exact.cross.T).T
    for matrix in (False, True):
        kappa, error = measure.overfit(task, 100_000, matrix)
        used = measure.samples.of_matrices(exact.features) if matrix else np.arange(c.size)
        gains, losses = [], []
        for each in sets:
            fit = np.zeros_like(c)
            fit[0, used] = np.linalg.solve(each.gram[np.ix_(used, used)], each.cross[0, used])
            gains.append(4000 * (each.loss(c) - each.loss(fit)) / exact.loss(c))
            losses.append(4000 * (exact.loss(fit) - exact.loss(c)) / exact.loss(c))
        found = np.add(gains, losses) / 2
        spread = np.std(found, ddof=1) / np.sqrt(len(sets))
        most = 4 * np.hypot(error, spread) + kappa * (kappa / 4000) ** 2
        assert abs(np.mean(found) - kappa) < most
        for one in (gains, losses):
            assert abs(np.mean(one) / kappa - 1) < 4 * np.std(one) / np.mean(one) / 60**0.5 + 0.05
        assert kappa - 4 * error > 2 * used.size  # far from the count of features, 12 and 4


def test_errors_of_a_run_and_of_a_fit_on_fresh_sequences():
    """The closed forms agree with 40,000 drawn sequences."""
    task = RegressionTask(dim=2, context=9, seed=3)
    data, fresh = task.sample(300, seed=1), task.sample(40_000, seed=2)
    run = train(MergedAttention(heads=2, init=0.1), data, 400, 0.01, tests={"fresh": fresh})
    own = of_sequences(data, MergedAttention(heads=1))
    fit = np.linalg.solve(own.gram, own.cross.T).T
    of_fresh = of_sequences(fresh, MergedAttention(heads=1))
    c = coefficients(run.model.factors(run.final, 2), of_fresh.features)
    of_run = measure.unseen(run), of_fresh.loss(c)
    of_fit = measure.unseen_of_fit(data), of_fresh.loss(fit)
    for exact, drawn in (of_run, of_fit):
        # four standard errors of 40,000 squared errors, whose spread is at most twice their mean
        close(exact / drawn, 1, within=0.04)
    assert measure.unseen_of_fit(data) > theory.plateau_losses(task)[-1] > measure.floor(data)
