"""Plateau losses for inputs that are heavy-tailed or correlated along the context."""

import numpy as np
import pytest
from conftest import close

from iclbook.theory import inputs
from iclcore import RegressionTask, theory

TASK = RegressionTask(dim=3, context=6, spectrum="power", noise=0.2)


def betas(task, kurtosis_two, correlation, count, seed):
    """Return β = Σ y x/N, the query and its answer, for inputs √u z: u is 1 or exponential, z an AR(1)
    chain."""
    rng = np.random.default_rng(seed)
    root = (task.eigenvectors * np.sqrt(task.eigenvalues)) @ task.eigenvectors.T
    z = rng.standard_normal((count, task.context, task.dim))
    for n in range(1, task.context):
        z[:, n] = correlation * z[:, n - 1] + np.sqrt(1 - correlation**2) * z[:, n]
    u = rng.exponential(size=(count, task.context + 1)) if kurtosis_two else np.ones(1)
    scale = np.sqrt(np.broadcast_to(u, (count, task.context + 1)))[:, :, None]
    x, query = scale[:, :-1] * (z @ root), scale[:, -1] * (rng.standard_normal((count, 3)) @ root)
    w = rng.standard_normal((count, task.dim))
    noise = np.sqrt(task.noise) * rng.standard_normal((count, task.context))
    y = np.einsum("pnd,pd->pn", x, w) + noise
    return np.einsum("pn,pnd->pd", y, x) / task.context, query, np.einsum("pd,pd->p", query, w)


@pytest.mark.parametrize("heavy, correlation", [(True, 0), (False, 0.7), (True, 0.7)])
def test_levels_of_other_inputs(heavy, correlation):
    """The drive Λ² and the limit C of each eigenvector agree with 40 draws, to four standard errors."""
    basis, lam = TASK.eigenvectors, TASK.eigenvalues
    drives, limits = [], []
    for seed in range(40):
        beta, query, answer = betas(TASK, heavy, correlation, 5000, seed)
        beta, query = beta @ basis, query @ basis
        drives.append(np.mean(answer[:, None] * beta * query, axis=0))
        limits.append(np.mean(beta**2, axis=0))
    gains = -np.diff(inputs.plateau_losses(TASK, 1.0 + heavy, correlation))
    for samples, exact in ((drives, lam**2), (limits, lam**3 / gains)):
        samples = np.array(samples)
        error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
        assert (np.abs(samples.mean(axis=0) - exact) < 4 * error).all()  # six numbers, fixed seeds


def test_gaussian_inputs_are_a_special_case():
    close(inputs.plateau_losses(TASK), theory.plateau_losses(TASK))
    gains = np.diff(inputs.plateau_losses(RegressionTask(), 2.0))
    lam = RegressionTask().eigenvalues
    close(-gains, lam / (1 + (2 * (2 + 1 / lam) - 1) / 31))


def test_correlated_examples_count_as_fewer():
    close(inputs.effective_examples(31), 31)
    close(inputs.effective_examples(31, 1.0), 1)
    rho = 0.8  # in long contexts N (1 − ρ²)/(1 + ρ²), up to the ends
    close(inputs.effective_examples(20_00, rho) / 2000, (1 - rho**2) / (1 + rho**2), within=2e-3)
    fewer = inputs.effective_examples(31, rho)
    lam = RegressionTask().eigenvalues
    gains = -np.diff(inputs.plateau_losses(RegressionTask(), correlation=rho))
    close(gains, lam / (1 + (1 + 1 / lam) / fewer))


@pytest.mark.parametrize(
    "task, kurtosis, said",
    [
        (RegressionTask(in_context=0.5), 1.0, "in_context = 1"),
        (RegressionTask(), 0.9, "kurtosis takes"),
    ],
)
def test_tasks_without_this_formula_are_refused(task, kurtosis, said):
    with pytest.raises(ValueError, match=said):
        inputs.plateau_losses(task, kurtosis)
