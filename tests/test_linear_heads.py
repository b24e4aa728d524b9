"""Linear attention with several heads on several tasks: its loss, its risk, and the order of the tasks."""

import numpy as np
from conftest import close

from iclbook.theory import linear_heads, phases
from iclcore.heads import full_model
from iclcore.heads.theory import MultiTask


def test_linear_attention_loss_against_drawn_contexts():
    import torch

    task = MultiTask((3, 5, 2), context=20, signal=(1.0, 2.0, 0.5), noise=0.3)
    rng = np.random.default_rng(0)
    omega, mu = 0.5 * rng.normal(size=(2, 2, 3))
    arrays = full_model.decomposable_weights(task, omega, mu)
    weights = {name: torch.tensor(w, dtype=torch.float32) for name, w in arrays.items()}
    tokens, query, answer = full_model.sequences(task, 40_000, torch.Generator().manual_seed(0))
    found = full_model.predict(weights, tokens, query, softmax=False)
    losses = (found - answer).square().double().numpy()
    expected = linear_heads.loss(task, omega, mu)
    assert np.all(np.abs(losses.mean(0) - expected) < 5 * losses.std(0) / 200)


def test_linear_attention_risk_is_the_least_loss():
    task = MultiTask((3, 5), context=20, signal=(1.0, 2.0), noise=0.3)
    best_mu = 1 - linear_heads.least_loss(task) / task.s
    best = linear_heads.loss(task, np.eye(2), np.diag(best_mu))
    close(best, linear_heads.least_loss(task))
    for step in (-1e-3, 1e-3):  # changes the loss by 1e-6, far above round-off
        moved = linear_heads.loss(task, np.eye(2), np.diag(best_mu) + step)
        assert np.all(moved > best)


def test_strong_and_small_tasks_escape_first():
    """The order is not that of s/d: of two tasks with equal s/d the larger one is first."""
    omega, mu = np.full((1, 1), 0.01), np.full((1, 1), 0.1)

    def wait(dim, signal):
        task = MultiTask((dim,), context=100, signal=(signal,))
        return phases.escape_time(task, omega, mu, width=30)[0, 0]

    assert wait(20, 20.0) < wait(10, 10.0) < wait(5, 5.0)
    assert wait(5, 10.0) < wait(10, 10.0) < wait(20, 10.0)
    assert wait(10, 20.0) < wait(10, 10.0)
