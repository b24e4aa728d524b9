"""Context lengths: one ridge for many lengths, and the loss of a predictor at every other."""

import numpy as np
import pytest
from conftest import close

from iclbook.studies import context_length as study
from iclcore import RegressionTask, theory


@pytest.mark.parametrize("every_length", [False, True])
def test_learned_is_ridge(every_length):
    """a_d/b_d of the rates, built up length by length, is one ridge with one effective length."""
    task = RegressionTask(dim=3, context=7, spectrum="power", every_length=every_length)
    ridge = theory.ridge_predictor(task, theory.effective_tokens(task))
    basis = task.eigenvectors
    close(basis.T @ ridge @ basis, np.diag(theory.learned(task, "tokens")))
    if not every_length:
        close(theory.effective_tokens(task), 8)


def test_mixture_is_the_mean_over_lengths():
    """The level that training on all lengths ends on is the mean of its predictor's losses."""
    task = RegressionTask(dim=3, context=7, spectrum="power", every_length=True)
    ridge = theory.ridge_predictor(task, theory.effective_tokens(task))
    losses = theory.losses_at(task, ridge, np.arange(1, 8))
    close(losses.mean(), theory.plateau_losses(task)[-1])
    assert np.all(losses > theory.best_at(task, np.arange(1, 8)))
    for n in (1, 4, 20):  # at its own length a ridge is the best
        own = theory.losses_at(task, theory.ridge_predictor(task, n + 1), np.array([n]))
        close(own, theory.best_at(task, np.array([n])))


def test_losses_at_other_lengths_by_monte_carlo():
    task, n = RegressionTask(dim=3, context=7), 20
    ridge = theory.ridge_predictor(task, 8)
    errors = []
    for seed in range(20):
        data = RegressionTask(dim=3, context=n).sample(2000, seed=seed)
        beta = np.einsum("pmd,pm->pd", data.x[:, :-1], data.y[:, :-1, 0]) / (n + 1)
        answer = np.einsum("pd,da,pa->p", beta, ridge, data.x[:, -1])
        errors.append(np.mean((answer - data.y[:, -1, 0]) ** 2))
    error = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - theory.losses_at(task, ridge, np.array([n]))[0]) < 4 * error


def test_all_lengths_are_slower_by_the_ratio_of_rates():
    for kind in ("merged", "separate"):
        later = study.escapes(kind, "all") / study.escapes(kind, "one")
        drives = [theory.rates(task, "tokens")[0][0] for task in study.TASKS.values()]
        close(later, drives[1] / drives[0], within=2e-3)  # a tenth of the loss, finite steps


def test_training_ends_on_the_ridge():
    found = study.predictors().facts
    assert 10 < found["effective"] < 11  # a closed form, no measurement
    assert found["gap"] < 0.05  # 5,000 sequences
    facts = study.training().facts
    for kind in ("merged", "separate"):
        for name in study.TASKS:
            # one draw of 5,000, whose level has a standard deviation of 0.006 or less
            close(facts[f"{kind}_end_{name}"], facts[f"level_{name}"], within=0.015)


def test_linear_attention_lies_on_its_formula():
    fresh = study.fresh_data("paper", study.LONGEST, 2000)
    model = study.MergedAttention(8, divisor="tokens")
    contexts = np.array([1, 3, 10, 31, 100])
    for name, task in study.TASKS.items():
        weights = study.linear_run("paper", "merged", name).final
        ridge = theory.ridge_predictor(study.ONE, theory.effective_tokens(task))
        ratio = study.errors_at(model, weights, fresh, contexts)
        ratio = ratio / theory.losses_at(study.ONE, ridge, contexts)
        assert np.abs(ratio - 1).max() < 0.12, ratio  # 2,000 fresh sequences, 5,000 trained on


def test_softmax_makes_the_same_compromise():
    found = study.testing("quick").facts
    assert found["soft_all_1"] < found["soft_one_1"]
    for name in study.TASKS:  # a matrix fixed for shorter contexts: no softmax goes to zero
        assert found[f"soft_{name}_1000"] > 3 * found["best_1000"]
    assert found["ideal"] < found["mean_all"] < found["mean_one"]
    # with one example both matrices are worse than zero, whose error is the trace, 1
    assert found["one_1"] > found["all_1"] > 1 > found["best_1"]
