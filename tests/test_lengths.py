"""Context lengths: one ridge predictor for many lengths, and its loss at other lengths."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import close

from iclbook import measure
from iclbook.theory.context_length import best_at, effective_tokens, losses_at, ridge_predictor
from iclcore import MergedAttention, RegressionTask, theory, train


@pytest.mark.parametrize("every_length", [False, True])
def test_learned_is_ridge(every_length):
    """a_d/b_d, whose rates are means over the lengths, is a ridge predictor with one effective length."""
    task = RegressionTask(dim=3, context=7, spectrum="power", every_length=every_length)
    ridge = ridge_predictor(task, effective_tokens(task))
    basis = task.eigenvectors
    close(basis.T @ ridge @ basis, np.diag(theory.learned(task, "tokens")))
    if not every_length:
        close(effective_tokens(task), 8)


def test_the_last_level_is_a_mean_over_lengths():
    """Training on all lengths ends at the mean of its predictor's losses."""
    task = RegressionTask(dim=3, context=7, spectrum="power", every_length=True)
    ridge = ridge_predictor(task, effective_tokens(task))
    losses = losses_at(task, ridge, np.arange(1, 8))
    close(losses.mean(), theory.plateau_losses(task)[-1])
    assert np.all(losses > best_at(task, np.arange(1, 8)))
    for n in (1, 4, 20):  # a ridge predictor is the best one at its own length
        own = losses_at(task, ridge_predictor(task, n + 1), np.array([n]))
        close(own, best_at(task, np.array([n])))
    with pytest.raises(ValueError, match="tokens takes a finite number above 0"):
        ridge_predictor(task, 0)


def test_losses_at_other_lengths_by_monte_carlo():
    task, n = RegressionTask(dim=3, context=7), 20
    ridge = ridge_predictor(task, 8)
    errors = []
    for seed in range(20):
        data = RegressionTask(dim=3, context=n).sample(2000, seed=seed)
        beta = np.einsum("pmd,pm->pd", data.x[:, :-1], data.y[:, :-1, 0]) / (n + 1)
        answer = np.einsum("pd,da,pa->p", beta, ridge, data.x[:, -1])
        errors.append(np.mean((answer - data.y[:, -1, 0]) ** 2))
    error = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - losses_at(task, ridge, np.array([n]))[0]) < 4 * error


def test_all_lengths_are_slower_by_the_ratio_of_rates():
    """Compare how much later ten times smaller merged weights escape, on two lengths and on one. A step
    multiplies small weights by 1 + 2|a| lr, and what follows is the same for both sizes."""
    one = RegressionTask(dim=2, context=2)
    waits = []
    for task in (replace(one, every_length=True), one):
        steps = []
        for size in (1e-4, 1e-5):
            model = MergedAttention(heads=2, init=size, divisor="tokens")
            run = train(model, task, 1500, 0.05, seed=1)
            steps.append(measure.fallen(run.loss, 0.1))
        waits.append(0.05 * (steps[1] - steps[0]))
    step = np.log1p(0.05 * theory.growth_rate(one, "tokens"))
    close(waits[1], 0.05 * np.log(10) / step, within=1e-3)
    drives = [theory.rates(task, "tokens")[0][0] for task in (one, replace(one, every_length=True))]
    close(waits[0] / waits[1], drives[0] / drives[1], within=2e-3)


def test_errors_at_other_lengths_are_those_of_the_formula():
    """A run on one length ends at the M of the theory; its errors are measured on pieces of fresh
    sequences."""
    task = RegressionTask(dim=2, context=9)
    model = MergedAttention(heads=2, init=0.1, divisor="tokens")
    run = train(model, task, 3000, 0.2, seed=1)
    fresh = measure.fresh(task, 4000, longest=9, seed=2)
    found = measure.errors_at(run, fresh, [1, 4, 9])
    ridge = ridge_predictor(task, effective_tokens(task))
    wanted = losses_at(task, ridge, np.array([1, 4, 9]))
    # four standard errors of 4,000 squared errors, whose spread is at most twice their mean
    close(list(found.values()) / wanted, np.ones(3), within=4 * 2 / np.sqrt(4000) / 2)
