"""How good the multi-head solution is, for noisy labels and unequal tasks."""

import numpy as np
import pytest
from conftest import close

from iclbook.theory import baselines, nonlinear
from iclcore.heads import risk, spectral, theory
from iclcore.heads.theory import MultiTask

NOISY = MultiTask((3, 5, 2), context=40, signal=(1.0, 2.0, 0.5), noise=0.3)


def within(estimate, error, exact, sigmas=5):
    """Check a Monte Carlo mean. The seed is fixed, so that this always passes or always fails."""
    assert abs(estimate - exact) <= sigmas * error, (estimate, error, exact)


def test_noisy_labels_of_a_linear_target_are_the_task_itself():
    """With f(u) = u the exact loss of a linear task is known; the noise is four times the signal."""
    task = MultiTask((20,), 400, 1.0, noise=4.0)
    omega, mu = (each[0] for each in theory.limit(task))
    exact = risk.exact_loss(task, omega, mu)[0]
    within(*nonlinear.measured_loss(task, lambda u: u, omega[0], mu[0], 10_000), exact)
    found = nonlinear.transfer(task, lambda u: u)
    # The formula has errors of e/L = 0.7% and 1/(dφ) = 1%.
    assert abs(found["loss"] / exact - 1) < 0.02
    # The noise adds μ² e σ²/L for any target.
    clean = MultiTask((20,), 400, 1.0)
    per = [
        nonlinear.transfer(each, np.tanh)["variance"] / theory.limit(each)[1][0, 0] ** 2
        for each in (task, clean)
    ]
    close(per[0] - per[1], 4.0 * np.e / 400)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_water_filling_is_where_no_exchange_helps(noise):
    """Marginal gains are equal where 0 < m < 1, smaller where m = 0, and larger where m = 1."""
    task = MultiTask((3, 5, 2, 9), 40, (1.0, 2.0, 0.5, 0.05), noise)
    depth = task.phi * task.d / task.context
    seen = set()
    for budget in (0.05, 1 / np.e, 1.5, 2.5, 3.9):
        m = theory.water_filling(task, budget)
        close(m.sum(), budget)
        gain = task.s * depth / (depth + m) ** 2  # −d/dm of s/(1 + m/depth)
        inside, empty, full = (m > 0) & (m < 1), m == 0, m == 1
        level = gain[inside].mean() if inside.any() else gain[full].min()
        close(gain[inside], np.full(inside.sum(), level))
        assert np.all(gain[empty] <= level) and np.all(gain[full] >= level)
        seen |= {name for name, each in (("empty", empty), ("full", full)) if each.any()}
    assert seen == {"empty", "full"}
    close(theory.water_filling(task, 9.0), np.ones(4))


def test_one_head_is_the_least_loss_of_one_head():
    """The gradient is 0, also for a task that is given up, and random steps increase the loss."""
    task = MultiTask((3, 5, 9), 40, (1.0, 2.0, 0.05), noise=0.3)
    omega, mu = theory.one_head(task)
    given_up = omega[0] == 0
    assert given_up.tolist() == [False, False, True] and mu[0, 2] == 0
    for slope in theory.gradient(task, omega, mu):
        close(slope, np.zeros((1, 3)), within=1e-12)  # terms of size 1 that cancel
    least, rng = theory.loss(task, omega, mu).sum(), np.random.default_rng(0)
    for size in 10.0 ** rng.uniform(-3, 0, 200):
        step = size * rng.normal(size=(2, 1, 3))
        assert theory.loss(task, omega + step[0], mu + step[1]).sum() > least
    # its loss is s/(1 + Lm/(φd)) with the budget 1/e
    close(least, risk.equiangular_bound(task, 1))


def test_when_one_head_gives_a_task_up():
    """Of two tasks the second gets no attention if and only if s₂/ρ₂ ≤ s₁ρ₁/(1 + ρ₁)²."""
    for s in np.geomspace(0.02, 2, 60):
        task = MultiTask((10, 20), 100, (1.0, s), noise=1.0)
        rho = np.e * task.d * task.phi / task.context
        lost = s / rho[1] <= rho[0] / (1 + rho[0]) ** 2
        assert (theory.one_head(task)[0][0, 1] == 0) == lost


def test_limit_keeps_noise_and_order_of_shared_tasks():
    """Each head is the best one for its own tasks, also if it serves tasks 0 and 2."""
    omega, mu = theory.limit(NOISY, (2, 0, 2), heads=4)
    assert omega.shape == mu.shape == (4, 3)
    for head, own in ((2, [0, 2]), (0, [1])):
        task = MultiTask(
            [NOISY.dims[i] for i in own], 40, [NOISY.signal[i] for i in own], NOISY.noise
        )
        best = theory.one_head(task)
        close([omega[head, own], mu[head, own]], [each[0] for each in best])
    assert not omega[[1, 3]].any() and not mu[[1, 3]].any()
    assert np.count_nonzero(omega) == np.count_nonzero(mu) == 3
    close(theory.loss(NOISY, *theory.limit(NOISY)), risk.gradient_flow_risk(NOISY))


def test_bounds_of_equal_tasks_with_noise():
    """``risk_curves`` has the bound of ``equiangular_bound``; more than I + 1 heads do not lower it."""
    task = MultiTask((10,) * 3, 100, 2.0, noise=3.0)
    heads = (1, 2, 3, 4, 5)
    curves = baselines.risk_curves(np.array([0.1]), 3, 2.0, 3.0, heads)
    for h in heads:
        close(risk.equiangular_bound(task, h) / 6, curves[f"bound, H = {h}"][0])
    close(curves["bound, H = 4"], curves["bound, H = 5"])
    rho = np.e * 10 * 2.5 / 100
    close(curves["a head each"] / curves["bound, H = 4"], [(np.e + rho) / (1 + rho)])
    close(curves["one head"], curves["bound, H = 1"])
    # The exact loss of zero-sum heads at ω → 0 is 1 + 1/(dφ) times the bound.
    exact = risk.debiased_linear_risk(task)[0] / 2
    close(exact / curves["bound, H = 4"][0], 1 + 1 / 25)


def test_measured_losses_take_noise_length_and_sign():
    """Measured losses agree with quadrature, also for another length and for negative ω and μ."""
    omega, mu = np.array([[0.5]]), np.array([[1.2]])
    task = MultiTask((5,), 30, 2.0, noise=1.5)
    for length in (30, 90):
        exact = risk.exact_loss(task, omega[0], mu[0], length)[0]
        mean, error = spectral.measure(task, omega, mu, 10_000, context=length)
        within(mean[0], error[0], exact)
        close(risk.exact_loss(task, -omega[0], -mu[0], length)[0], exact)
    assert [sum(spectral.chunk_sizes(n)) for n in (1, 64, 100)] == [1, 64, 100]
    # The standard error falls as 1/√n. Its own relative error is somewhat above 1/√(2n).
    few = spectral.measure(task, omega, mu, 1000)[1][0]
    many = spectral.measure(task, omega, mu, 16_000)[1][0]
    assert few / many == pytest.approx(4, rel=0.2)
