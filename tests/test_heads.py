"""Multi-head softmax attention: the theory is tested against stored values, itself, and training."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from conftest import close
from pace import slow
from scipy import stats
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

from iclbook import measure
from iclbook.measure import crossing
from iclbook.theory import baselines, beyond, emergence, nonlinear, phases
from iclcore.heads import full_model, risk, spectral, theory
from iclcore.heads.schedule import learning_rates, walk_schedule
from iclcore.heads.theory import MultiTask

GOLDEN = json.loads((Path(__file__).parent / "golden" / "multihead.json").read_text())
FIGURE_1 = MultiTask((10, 10, 10), context=100)
ONE = MultiTask((10,), context=100)
STORED = 1e-8  # the stored values have eight decimals, so they are off by up to 5e-9
FLOW = 1e-6  # the stored flows were integrated with about 7 correct digits


def uneven() -> MultiTask:
    """Return a task whose sizes are all different, so that no test passes with two indices swapped."""
    return MultiTask((3, 5, 2), context=40, signal=(1.0, 2.0, 0.5), noise=0.3)


def random_spectrum(task, heads, seed=0, omega=0.2):
    rng = np.random.default_rng(seed)
    return omega * rng.normal(size=(heads, task.tasks)), rng.normal(size=(heads, task.tasks))


def random_starts(count, seed=1, spread=0.5):
    """Return log-normal starts around ω = 0.01 and μ = 0.05, the size of Figure 1's start."""
    rng = np.random.default_rng(seed)
    scale = np.array([0.01, 0.05]).reshape(2, 1, 1, 1)
    return scale * np.exp(spread * rng.normal(size=(2, count, 3, 3)))


def near(estimate, error, exact, sigmas=5):
    """Check a Monte Carlo mean. The seed is fixed, so that this always passes or always fails."""
    assert np.all(np.abs(np.asarray(estimate) - exact) <= sigmas * np.asarray(error)), (
        estimate,
        error,
        exact,
    )


def slopes(function, point, step=1e-5):
    """Return the central differences of a scalar function, entry by entry."""
    found = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        shift = np.zeros_like(point)
        shift[index] = step
        found[index] = (function(point + shift) - function(point - shift)) / (2 * step)
    return found


def left_over(task, path, limit):
    """Return the loss above the limit that is due to the ω of lost tasks, and its relative error.

    The B_hh of a head is e^{Σ_j d_j ω_j²} over its own tasks and over those it lost. ``spread`` is the
    sum over the lost ones.
    """
    omega, mu = limit
    spread = (task.d * np.where(omega == 0, path.omega[-1], 0) ** 2).sum(-1)
    own = theory.overlap(task, omega).diagonal()
    return task.s * task.phi / task.context * (mu.T**2 @ (own * spread)), spread.max()


# --- Stored values ------------------------------------------------------------------------------


def test_stored_flow_of_figure_1():
    rows = GOLDEN["ode_fig1"]
    path = theory.flow(FIGURE_1, *theory.aligned_start(FIGURE_1), [row["t"] for row in rows])
    off = ~np.eye(3, dtype=bool)
    for k, row in enumerate(rows):
        close(path.loss[k].sum(), row["loss"], within=FLOW)
        for name, value in (("omega", path.omega[k]), ("mu", path.mu[k])):
            close(value.diagonal(), np.full(3, row[f"{name}_diag"]), within=FLOW)
            close(value[off], np.full(6, row[f"{name}_off"]), within=FLOW)


def test_stored_flow_of_figure_3():
    rows = GOLDEN["ode_fig3"]
    start = np.array([[0.01]]), np.array([[1.0]])
    path = theory.flow(ONE, *start, [row["t"] for row in rows], width=30)
    close(path.omega[:, 0, 0], [row["omega"] for row in rows], within=FLOW)
    close(path.mu[:, 0, 0], [row["mu"] for row in rows], within=FLOW)
    omega = np.linspace(1e-4, 0.3162, 40_001)[:, None]
    speed = emergence.speed(ONE, omega, width=30)[:, 0]
    largest, where = GOLDEN["fig3c_max"]
    close(speed.max(), largest, within=STORED)
    # the grid's step is 8e-6; a step off the peak is 1e-8 lower, far above round-off
    close(omega[speed.argmax(), 0], where, within=1e-5)


def test_stored_limits_and_bounds():
    for row in GOLDEN["gf_limit"]:
        setting = row["L"], 1.0, row["sig2_over_s"]
        one, ten = MultiTask((row["d"],), *setting), MultiTask((row["d"],) * 10, *setting)
        omega, mu = theory.limit(one)
        close([omega[0, 0], mu[0, 0]], [row["omega"], row["mu"]], within=STORED)
        close(theory.loss(one, omega, mu)[0], row["loss_over_s"], within=STORED)
        close(risk.gradient_flow_risk(one)[0], row["loss_over_s"], within=STORED)
        single = theory.loss(ten, *theory.one_head(ten)).sum() / 10
        close(single, row["opt_single_of_10"], within=STORED)
        close(risk.debiased_linear_risk(one)[0], row["debiased_linear_exact"], within=STORED)
        close(risk.equiangular_bound(ten, 11) / 10, row["lb_H_gt_I"], within=STORED)


def test_stored_water_filling():
    for row in GOLDEN["waterfill"]:
        task = MultiTask([int(d) for d in row["d"]], row["L"], row["s"], row["sig2"])
        omega, mu = theory.one_head(task)
        close(omega[0], row["omega"], within=STORED)
        close(mu[0], row["mu"], within=STORED)
        close(theory.loss(task, omega, mu), row["loss"], within=STORED)
        close(theory.loss(task, omega, mu).sum(), row["total"], within=STORED)
        close(risk.gradient_flow_risk(task).sum(), row["gf_multi"], within=STORED)
        for heads, bound in row["lb_budget_Hminus1"].items():
            close(risk.equiangular_bound(task, int(heads)), bound, within=STORED)


@pytest.mark.parametrize(("scaling", "signal", "unit"), [("B", 1.0, 1), ("C", 0.1, 10)])
def test_stored_risk_curves(scaling, signal, unit):
    rows = [row for row in GOLDEN["bayes_ridge"] if row["conv"] == scaling]
    ratio = np.array([row["r"] for row in rows])
    curves = baselines.risk_curves(ratio, 10, signal, 1.0, (2, 5, 10, 11), penalty_unit=unit)
    names = {"Bayes": "mmse_over_s", "ridge 0.05": "ridge005", "ridge 5": "ridge5"}
    names |= {"a head each": "gf", "one head": "opts"}
    for name, stored in names.items():
        close(curves[name], [row[stored] for row in rows], within=STORED)
    for heads in (2, 5, 10, 11):
        stored = [row["lb"][str(heads)] for row in rows]
        close(curves[f"bound, H = {heads}"], stored, within=STORED)
    assert np.all(curves["a head each"] / curves["bound, H = 11"] <= np.e)


def test_stored_loss():
    row = GOLDEN["icl_loss_example"]
    task = MultiTask([int(d) for d in row["d"]], row["L"], row["s"], row["sig2"])
    omega, mu = np.array(row["omega"]), np.array(row["mu"])
    close(theory.loss(task, omega, mu).sum(), row["loss"], within=STORED)
    mean, error = spectral.measure(task, omega, mu, sequences=5000)
    stored, stored_error = row["mc"]
    near(mean.sum(), np.hypot(error.sum(), stored_error), stored)


# --- The flow -----------------------------------------------------------------------------------


def test_gradient_by_finite_differences():
    task = uneven()
    omega, mu = random_spectrum(task, heads=4)
    by_omega, by_mu = theory.gradient(task, omega, mu)
    # Differences are off by 1e-10 times the third derivative, and by round-off of 1e-16/1e-5.
    close(by_omega, slopes(lambda w: theory.loss(task, w, mu).sum(), omega), within=1e-8)
    close(by_mu, slopes(lambda m: theory.loss(task, omega, m).sum(), mu), within=1e-8)


def test_flow_is_that_of_the_matrices():
    """The log coordinates give the same flow as the factors K = ±Q = √(|ω|√d_e) and O = ±Vᵀ."""
    task, width = uneven(), 17
    omega0, mu0 = random_spectrum(task, heads=2)
    mu0[0, 1] = 0
    k, v = np.sqrt(np.abs(omega0) * np.sqrt(width)), np.sqrt(np.abs(mu0))
    start = np.stack([k, k * np.sign(omega0), v * np.sign(mu0), v])

    def speed(_, factors):
        K, Q, O, V = factors.reshape(start.shape)  # noqa: E741
        by_omega, by_mu = theory.gradient(task, K * Q / np.sqrt(width), O * V)
        by_entry = by_omega / task.d / np.sqrt(width)  # each of d_i diagonal entries
        return -np.stack([by_entry * Q, by_entry * K, by_mu * V, by_mu * O]).ravel()

    plain = solve_ivp(speed, (0, 1.5), start.ravel(), "DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
    K, Q, O, V = plain.reshape(start.shape)  # noqa: E741
    path = theory.flow(task, omega0, mu0, [0, 1.5], width=width)
    # both integrators have errors of 1e-10 a step
    close(path.omega[-1], K * Q / np.sqrt(width), within=1e-8)
    close(path.mu[-1], O * V, within=1e-8)
    assert path.mu[-1, 0, 1] == 0


def test_flow_of_many_starts_at_once_is_the_flow_of_each():
    omega0, mu0 = random_starts(4)
    together = theory.flow(FIGURE_1, omega0, mu0, [0, 5, 9])
    alone = theory.flow(FIGURE_1, omega0[2], mu0[2], [0, 5, 9])
    # The two flows take other steps, each with an error of 1e-10. Such an error in ln μ shifts a wait of 7
    # by 3e-10, and ln μ then changes by up to 4sω = 13 a unit of time: 4e-7 for some hundred steps.
    close(together.mu[:, 2], alone.mu, within=1e-6)
    swapped = theory.flow(FIGURE_1, omega0[2][::-1], mu0[2][::-1], [0, 5, 9])
    close(swapped.mu, alone.mu[:, ::-1], within=1e-6)


def test_decayed_weights_do_not_run_away():
    path = theory.flow(FIGURE_1, *theory.aligned_start(FIGURE_1), [0, 100, 200])
    assert np.all(path.mu > 0)
    # Only the ω of lost tasks keep the loss above the limit. Their 1/ω grows at 4 e s φ μ²/(L √d_e).
    limit = theory.limit(FIGURE_1)
    mu = limit[1][0, 0]
    rate = np.diff(1 / path.omega[1:, 0, 1])[0] / 100
    # The next order is Σ_j d_j ω_j² of the lost tasks, 7e-4 at t = 100.
    close(rate, 4 * np.e * 10 * mu**2 / 100 / np.sqrt(30), within=1e-3)
    above, spread = left_over(FIGURE_1, path, limit)
    found = path.loss[-1] - theory.loss(FIGURE_1, *limit)
    assert np.all(np.abs(found - above) < spread * above)


def test_heads_are_allocated_from_the_start():
    """The head that wins the race wins the task, in 92% to 95% of the tasks for spreads of 0.1 to 1."""
    omega0, mu0 = random_starts(100)
    path = theory.flow(FIGURE_1, omega0, mu0, [0, 60])
    # The share of 300 draws at 93% has a standard error of 1.5%.
    assert (phases.race(FIGURE_1, omega0, mu0)[1] == path.owner).mean() >= 0.9
    # A head keeps what it has won, so each start ends at the limit of its own winners.
    for k, owner in enumerate(path.owner):
        limit = theory.limit(FIGURE_1, owner, 3)
        end = theory.Flow(FIGURE_1, path.t, path.omega[:, k], path.mu[:, k])
        above, spread = left_over(FIGURE_1, end, limit)
        found = end.loss[-1].sum() - theory.loss(FIGURE_1, *limit).sum()
        # If one head wins all tasks, only e^{−20} remains, which has not converged yet.
        assert abs(found - above.sum()) < spread * above.sum() + 1e-8


def test_fewer_heads_than_tasks():
    omega0, mu0 = theory.aligned_start(FIGURE_1, heads=2)
    mu0[1, 2] = 0.06  # the second head leans towards the third task
    path = theory.flow(FIGURE_1, omega0, mu0, [0, 200])
    assert path.owner.tolist() == [0, 1, 1]
    omega, mu = theory.limit(FIGURE_1, (0, 1, 1))
    close(omega[1, 1:], np.full(2, 20**-0.5))
    # dω² of a head's own tasks sums to 1 for any constant B. B drifts by spread/t.
    above, spread = left_over(FIGURE_1, path, (omega, mu))
    own = [0, 1, 1], [0, 1, 2]
    close(path.omega[-1][own], omega[own], within=spread / 200)
    # The ω of the first head on the tasks of the other decays as 1/t.
    found = path.loss[-1] - theory.loss(FIGURE_1, omega, mu)
    assert np.all(np.abs(found - above) < spread * above)


def test_two_heads_of_one_task():
    """Equal heads share the task for ever, very unequal heads leave it to one. The loss is the same."""
    shared = theory.flow(ONE, np.full((2, 1), 0.01), np.full((2, 1), 0.1), [0, 60], width=30)
    start = np.array([[0.01], [0.012]]), np.array([[0.1], [0.05]])
    alone = theory.flow(ONE, *start, [0, 60], width=30)
    mu = theory.limit(ONE)[1][0, 0]
    # Convergence leaves e^{−.67 · 50}. Along the line of splits nothing corrects the errors of 100 steps
    # of 1e-10, which grow during the emergence.
    close(shared.mu[-1, :, 0], [mu / 2, mu / 2], within=1e-6)
    close(alone.mu[-1, :, 0], [mu, 0], within=1e-6)
    close(shared.loss[-1], alone.loss[-1], within=1e-6)
    # If both ω = d^(−1/2), any split of μ is at rest. Nearly equal starts end at such a split.
    for split in (0.1, 0.4, 0.9):
        mus = mu * np.array([[split], [1 - split]])
        for slope in theory.gradient(ONE, np.full((2, 1), 10**-0.5), mus):
            close(slope, np.zeros((2, 1)), within=1e-13)  # terms of 2sμ = 50 are rounded by 1e-14
    mu0 = np.array([[[0.07], [second]] for second in (0.06999, 0.0699, 0.068, 0.06)])
    path = theory.flow(ONE, np.full_like(mu0, 0.01), mu0, [0, 60, 120], width=30)
    ratios = path.mu[1:, :, 1, 0] / path.mu[1:, :, 0, 0]
    # The closer the starts, the more equal the ends. Shared tasks stay shared, other μ keep decaying.
    assert np.all(np.diff(ratios[0]) < 0) and ratios[0, 0] < 1 and ratios[0, 1] > 0.5
    assert np.all(ratios[0, 2:] < 1e-6)
    close(ratios[1, :2], ratios[0, :2], within=1e-6)  # as above
    close(path.loss[-1], np.full((4, 1), shared.loss[-1, 0]), within=1e-6)


def test_the_limit_is_a_saddle():
    """A negative μ off the diagonal grows at ``saddle_rate``, and the loss falls to the bound for H heads."""
    omega, mu = theory.limit(FIGURE_1)
    rate = phases.saddle_rate(FIGURE_1)[0]
    for sign, change in ((-1, rate), (1, -rate)):
        seeded = np.where(mu == 0, sign * 1e-7, mu)
        path = theory.flow(FIGURE_1, omega, seeded, [0, 5])
        grown = np.log(np.abs(path.mu[-1] / seeded))[mu == 0] / 5
        # The next order is the seed times e^{5 rate}, 1.5e-5 of μ, which is about 1.
        close(grown, np.full(6, change), within=2e-5)
    path = theory.flow(FIGURE_1, omega, np.where(mu == 0, -1e-3, mu), [0, 40, 200, 1000])
    bound = risk.equiangular_bound(FIGURE_1, 3)
    assert np.all(np.diff(path.loss.sum(-1)) < 0)
    for k in (1, 2, 3):
        # Each head attends to one task with x = dω², so that B = 1 + (e^x − 1) I. With the best μ the loss
        # of a task is s/(1 + Lm/d), where m = x (B⁻¹)_ii → 1 − 1/3 as x → 0, and the sum of μ over heads
        # is ω (L/φ)(loss/s)/Σ_g B_hg.
        x = 10 * path.omega[k, 0, 0] ** 2
        m = x / np.expm1(x) * (1 - 1 / (np.expm1(x) + 3))
        best = 10 / (1 + 10 * m)
        total = path.omega[k, 0, 0] * 10 * best / (np.expm1(x) + 3)
        # μ lags behind its best value by a relative error of order x: that value drifts at 1/(2t), and μ
        # follows it at the rate 4s (φ/L) μx.
        assert 0 < path.loss[k].sum() - 3 * best < x * (3 * best - bound)
        assert np.all(np.abs(path.mu[k].sum(0) / total - 1) < x)


# --- The phases ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_race_ends_where_its_equations_blow_up(seed):
    """Near the pole T of the head that wins ω ∝ 1/(T − t), so that κ μ (T − t) tends to 1."""
    task = uneven()
    omega0, mu0 = (np.abs(a) for a in random_spectrum(task, heads=3, seed=seed, omega=0.05))
    time, head = phases.race(task, omega0, mu0, width=17)
    a = task.d * np.sqrt(17)
    kappa = 4 * task.s / a
    for i in range(task.tasks):

        def speed(_, u, i=i):
            omega, mu = np.exp(u.reshape(2, 3))
            drag = task.phi[i] / task.context * mu.sum()
            return np.concatenate([kappa[i] * mu, 4 * task.s[i] * (omega - drag)])

        logs = np.log(np.concatenate([omega0[:, i], mu0[:, i]]))
        before = time[i] * (1 - 1e-4)
        end = solve_ivp(speed, (0, before), logs, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
        omega, mu = np.exp(end.reshape(2, 3))
        assert (omega * mu).argmax() == head[i]
        # Without the drag it is y/(e^y − 1) with y = 1e-4 ln(aω0/μ0), so the error is 1e-4 times a log.
        assert kappa[i] * mu.max() * (time[i] - before) == pytest.approx(1, abs=1e-3)


def test_a_race_in_a_long_context_ends_at_the_least_escape_time():
    task = MultiTask((3, 5, 2), 10**14, (1.0, 2.0, 0.5), noise=0.3)
    omega0, mu0 = (np.abs(a) for a in random_spectrum(task, heads=3, omega=0.05))
    mu0[:, 0] = task.d[0] * np.sqrt(task.dim) * omega0[:, 0]  # at aω = μ the escape time is 0/0
    escape = phases.escape_time(task, omega0, mu0)
    time, head = phases.race(task, omega0, mu0)
    close(time, escape.min(0), within=1e-8)  # the race is integrated with errors of 1e-10 a step
    assert head.tolist() == escape.argmin(0).tolist()
    tied, _ = phases.race(task, omega0[[0] * 4], mu0[[0] * 4])
    close(tied, escape[0], within=1e-8)
    close(phases.escape_time(task, -omega0, -mu0), escape)
    assert np.isinf(phases.escape_time(task, omega0, -mu0)).all()


def test_emergence_follows_the_flow():
    t = np.linspace(4, 40, 1441)
    omega, mu = emergence.course(ONE, np.array([0.01]), t, width=30)
    start = np.array([[0.01]]), np.array([[1.0]])
    path = theory.flow(ONE, *start, t, width=30)
    # μ lags behind its best value while ω rises, so the equation is 0.732 time units early.
    rise = [crossing(t, w, 0.158) for w in (path.omega[:, 0, 0], omega[:, 0])]
    # 0.732 is rounded, and steps of 0.025 are interpolated
    assert rise[0] - rise[1] == pytest.approx(0.732, abs=1e-3)
    close(mu[-1], path.mu[-1, 0], within=1e-8)  # e^{−.67 · 33} = 2e-10


# --- Risks, against Monte Carlo -------------------------------------------------------------------


def test_best_mu_leaves_a_budget():
    """With the best μ the loss of a task is s/(1 + L m/(φd)), and no ω has m_i > 1 or Σ m_i > H − 1."""
    task = uneven()
    for seed in range(50):
        heads = 2 + seed % 3
        omega, _ = random_spectrum(task, heads, seed, omega=10.0 ** (-seed / 20))
        B = theory.overlap(task, omega)
        m = task.d * (omega * np.linalg.solve(B, omega)).sum(0)
        load = task.phi / task.context
        columns = zip(omega.T, load, strict=True)
        mu = np.stack([np.linalg.solve(np.outer(w, w) + f * B, w) for w, f in columns], axis=1)
        expected = task.s / (1 + m / (load * task.d))
        # B is nearly singular at small ω: its condition number is up to 4e9, times 1e-16.
        close(theory.loss(task, omega, mu), expected, within=1e-6)
        assert m.max() <= 1 and m.sum() <= heads - 1 + 1e-6
        assert expected.sum() >= risk.equiangular_bound(task, heads) - 1e-6


def test_debiased_linear_attention():
    rng = np.random.default_rng(0)
    d, length, noise, count = 4, 9, 0.6, 40_000
    x, g = rng.normal(size=(count, length, d)), rng.normal(size=(count, d, 1)) / np.sqrt(d)
    y = x @ g + np.sqrt(noise) * rng.normal(size=(count, length, 1))
    # the average over the query is in closed form
    seen, w = ((x - x.mean(1, keepdims=True)) * y).sum(1), g[:, :, 0]
    gamma = (seen * w).sum() / (seen**2).sum()
    losses = ((gamma * seen - w) ** 2).sum(1)
    formula = risk.debiased_linear_risk(MultiTask((d,), length, 1.0, noise))[0]
    near(losses.mean(), losses.std() / np.sqrt(count), formula)


def test_bayes_and_ridge_are_the_large_limit():
    """Compare with the exact risks given X for d = 80, which differ from the limit by O(1/d), 1% here."""
    rng = np.random.default_rng(0)
    d, signal, noise = 80, 2.0, 0.7
    for ratio in (0.25, 1.0, 2.5):
        length, z, bayes, ridge = int(d / ratio), 0.3, [], []
        best = ratio * noise / signal
        for _ in range(20):
            x = rng.normal(size=(d, length))
            values = np.linalg.eigvalsh(x @ x.T / length)
            ridge.append(((signal * z**2 + noise * ratio * values) / (values + z) ** 2).mean())
            bayes.append((signal * best / (values + best)).mean())
        for found, formula in (
            (bayes, baselines.mmse(ratio, signal, noise)),
            (ridge, baselines.ridge_risk(ratio, z, signal, noise)),
        ):
            error = np.std(found) / np.sqrt(len(found))
            near(np.mean(found), error + 0.01 * formula / 5, formula)
    close(baselines.mmse(np.array([0.5, 2.0])), [0, 0.5])
    best = baselines.ridge_risk(0.5, 0.5 * noise / signal, signal, noise)
    close(best, baselines.mmse(0.5, signal, noise))


def test_exact_loss_against_the_reduction_and_the_formula():
    task = MultiTask((4, 10), context=30, signal=(1.0, 3.0), noise=0.4)
    omega, mu = np.diag([0.7, 0.3]), np.diag([0.8, 1.5])
    exact = risk.exact_loss(task, omega.diagonal(), mu.diagonal())
    near(*spectral.measure(task, omega, mu, sequences=40_000), exact)
    # ``theory.loss`` is its limit for large d and L, up to 1/(dφ) with φ = 1. The exact values here are
    # stored ones of the same quadrature.
    for d, length, exact in ((10, 100, 0.23546569), (100, 400, 0.40785413)):
        task = MultiTask((d,), length, 1.0)
        omega, mu = theory.limit(task)
        close(risk.exact_loss(task, omega[0], mu[0])[0], exact, within=STORED)
        assert abs(theory.loss(task, omega, mu)[0] / exact - 1) < 1 / d


def test_softmax_moments_and_regimes():
    rng = np.random.default_rng(0)
    for beta, context in ((0.5, 100), (2.0, 100), (4.0, 20), (1.0, 2)):
        zeta = rng.normal(size=(20_000, context))
        p = np.exp(beta * zeta)
        p /= p.sum(1, keepdims=True)
        power, square = risk.softmax_moments(np.array([beta]), context)
        for sample, exact in (
            ((p**2).sum(1), power[0]),
            ((p * zeta).sum(1) ** 2, square[0]),
            ((p * zeta).sum(1), beta * (1 - power[0])),
        ):
            near(sample.mean(), sample.std() / np.sqrt(len(sample)), exact)
    close(risk.softmax_moments(np.array([0.0]), 50), [[1 / 50], [1 / 50]])
    beta = np.array([0.5, 1.0, 2.0, 30.0])
    found = beyond.participation(beta, 100)
    close(found["exact"][1:3], [0.0255, 0.1263], within=5e-5)  # four decimals
    close(found["exponential"][1:3], np.exp([1, 4]) / 100)
    # E Σ e^{2βζ} / (Σ e^{βζ})² to first order in 1/L; the second order is 1e-4.
    first = (2 * np.expm1(2 * 0.5**2) - 3 * np.expm1(0.5**2)) / 100
    close(found["exponential"][0] / found["exact"][0] - 1, first, within=1e-4)
    # At large β only the two largest scores matter, and 1 − E|p|² is the density of their gap at 0 over β,
    # which tends to √(2 ln L)/β. The next order, 1/β³, is 4e-5 times a density.
    z = np.linspace(-10, 10, 2001)
    density = 100 * 99 * (stats.norm.pdf(z) ** 2 * stats.norm.cdf(z) ** 98).sum() * 0.01
    close(1 - found["exact"][3], density / 30, within=1e-4)
    close(1 - found["saturated"][3], np.sqrt(2 * np.log(100)) / 30)


def test_length_generalisation():
    lengths = [50, 100, 200, 400, 1000]
    task = MultiTask((10,), 100, 1.0)
    found = beyond.length_generalisation(task, lengths)[:, 0]
    close(found[[0, 2, 3, 4]], [0.3818, 0.1297, 0.0877, 0.0625], within=5e-5)  # four decimals
    close(found[1], risk.gradient_flow_risk(task)[0])
    omega, mu = theory.limit(task)
    exact = [risk.exact_loss(task, omega[0], mu[0], length)[0] for length in lengths]
    # The error of the formula is 1/d, and e/L of the context at training.
    assert np.all(np.abs(found / exact - 1) < 0.12)
    near(*spectral.measure(task, omega, mu, 10_000, context=400), exact[3])


TARGETS = {
    "tanh": (np.tanh, 0.0724),
    "sin": (lambda u: np.sin(2 * u), 0.4664),
    "relu": (lambda u: np.maximum(u, 0), 1.5701),
}


@pytest.mark.parametrize("name", TARGETS)
def test_nonlinear_targets(name):
    target, value = TARGETS[name]
    task = MultiTask((20,), 400, 1.0)
    found = nonlinear.transfer(task, target)
    close(found["loss"], value, within=5e-5)  # four decimals
    omega, mu = theory.limit(task)
    mean, error = nonlinear.measured_loss(task, target, omega[0, 0], mu[0, 0], 10_000)
    # The formula is of first order in e/L; it neglects 2%.
    near(mean, error + 0.02 * value / 5, value)
    # The linear coefficient is multiplied by μω and by the ratio of mean slopes E f'(√v ξ), which are
    # means of ξ f(√v ξ)/√v, here by Gauss-Hermite quadrature: v = 1 + ω², and 1 + 4ω² for twice the shift.
    x, weight = np.polynomial.hermite_e.hermegauss(100)
    plain, once, twice = (
        weight @ (x * target(np.sqrt(v) * x)) / np.sqrt(v) for v in (1, 1 + 1 / 20, 1 + 4 / 20)
    )
    left = (omega * mu)[0, 0] * (once - np.e / 400 * (2 * twice - once)) / plain
    close(found["answer"][1] / found["target"][1], left)
    # Higher degrees are lost: degree k is multiplied by ω^k μ, and ω² = 0.05. Zeros are round-off.
    assert np.all(np.abs(found["answer"][3:]) < 0.05 * np.abs(found["target"][3:]) + 1e-9)


# --- Training -----------------------------------------------------------------------------------


def test_reduction_gradient_by_finite_differences():
    task = uneven()
    omega, mu = random_spectrum(task, heads=4, omega=0.5)
    r, z = spectral.draw(task, 7, np.random.default_rng(0))
    value, by_omega, by_mu = spectral.spectral_gradient(task, omega, mu, r, z)

    def mean(w, m):
        return spectral.spectral_losses(task, w, m, r, z).sum(1).mean()

    close(value, mean(omega, mu))
    # Differences are off by 2e-11 times the third derivative, up to 100 here, and by round-off of 1e-11.
    close(by_omega, slopes(lambda w: mean(w, mu), omega), within=1e-8)
    close(by_mu, slopes(lambda m: mean(omega, m), mu), within=1e-8)


def test_prediction_written_out():
    """Compute the prediction head by head and token by token, with weights that are not decomposable."""
    import torch

    task = uneven()
    generator = torch.Generator().manual_seed(0)
    tokens, query, answer = full_model.sequences(task, 3, generator)
    rng = np.random.default_rng(0)
    shapes = {"K": (2, 12, 13), "Q": (2, 12, 13), "V": (2, 3, 13), "O": (2, 3, 3)}
    weights = {name: 0.3 * rng.normal(size=shape) for name, shape in shapes.items()}
    tensors = {name: torch.tensor(w, dtype=torch.float32) for name, w in weights.items()}
    found = full_model.predict(tensors, tokens, query)
    for Z, q, prediction in zip(tokens.numpy(), query.numpy(), found.numpy(), strict=True):
        expected = np.zeros(3)
        for K, Q, V, O in zip(*(weights[name] for name in "KQVO"), strict=True):  # noqa: E741
            weight = np.array([np.exp((K @ token) @ (Q @ q) / np.sqrt(12)) for token in Z.T])
            read = sum(w * token for w, token in zip(weight, Z.T, strict=True))
            expected += O @ V @ read / weight.sum()
        close(prediction, expected, within=1e-5)  # float32
    assert np.all(query[:, 10:].numpy() == 0)
    assert answer.shape == (3, 3)


def test_labels_carry_signal_and_noise():
    import torch

    task = uneven()
    tokens, _, answer = full_model.sequences(task, 5000, torch.Generator().manual_seed(0))
    labels = tokens[:, 10:, 0].numpy()
    for values, power in ((labels, task.s * task.phi), (answer.numpy(), task.s)):
        near((values**2).mean(0), (values**2).std(0) / np.sqrt(5000), power)


def test_spectral_losses_are_those_of_the_full_model():
    """Whole sequences and the I numbers a token give the same losses for decomposable weights."""
    task = uneven()
    omega, mu = random_spectrum(task, heads=2, omega=0.4)
    weights = full_model.decomposable_weights(task, omega, mu, width=15)
    close(full_model.spectrum(task, weights), (omega, mu))
    assert max(full_model.departure(task, weights).values()) < 1e-14  # products without sums
    full, full_error = measure.fresh_loss(task, weights, 40_000)
    mean, error = spectral.measure(task, omega, mu, 40_000)
    near(full, np.hypot(full_error, error), mean)


@slow
def test_spectral_training_follows_the_flow_a_little_behind():
    start = theory.aligned_start(FIGURE_1)
    history = spectral.train_spectral(FIGURE_1, *start)
    omega, mu = history.series["omega"], history.series["mu"]
    path = theory.flow(FIGURE_1, *start, np.linspace(0, 12, 601))
    half = 0.5 * 10**-0.5
    lead = [
        crossing(history.time, omega[:, i, i], half) - crossing(path.t, path.omega[:, i, i], half)
        for i in range(3)
    ]
    # Finite steps of 0.02 delay the rise by 0.025, and E Σ p ζ = ω(1 − 1/L) by 0.083 of a wait of 6.7.
    # Batches of 2048 give the sum, 0.108; batches of 256 spread the mean by 0.02.
    assert 0.10 <= np.mean(lead) <= 0.15, lead
    own = omega[-1].diagonal(), mu[-1].diagonal()
    exact = risk.exact_loss(FIGURE_1, *own).sum()
    alone = theory.loss(FIGURE_1, *(np.diag(a) for a in own)).sum()
    # the loss that is due to attention to the tasks of other heads
    others = theory.loss(FIGURE_1, omega[-1], mu[-1]).sum() - alone
    late = history.loss[-400:]
    near(late.mean(), late.std() / np.sqrt(400), exact + others)


def test_ctrl_c_ends_a_run_after_a_step_that_is_recorded():
    import signal

    weights = {"omega": np.zeros(1)}

    def step(rate):
        weights["omega"] += rate
        if weights["omega"] > 0.25:
            signal.raise_signal(signal.SIGINT)
        return 1.0

    read = lambda: {"omega": weights["omega"].copy()}  # noqa: E731
    run = walk_schedule("spectral", ONE, [(1.0, 0.1)], {}, weights, read, step)
    assert run.ended == "interrupted"
    close(run.series["omega"][:, 0], [0, 0.1, 0.2])
    close(run.final["omega"], [0.3])
    assert run.time.tolist() == pytest.approx([0, 0.1, 0.2])


def test_saturated_starts_return():
    for times in (1.9, 3.2):
        start = np.array([[times * 10**-0.5]]), np.array([[0.1]])
        history = spectral.train_spectral(ONE, *start, ((25.0, 0.03),), width=30, batch=128)
        # By ``exact_loss`` the best is 1.007; steps of 0.03 on batches of 128 spread it by 0.007.
        assert history.final["omega"][0, 0] * 10**0.5 == pytest.approx(1.007, abs=4 * 0.007)


@slow
def test_full_model_reaches_the_limit():
    """A schedule shorter than that of Figure 1 is enough."""
    schedule = ((8.0, 0.02), (11.0, 0.01), (12.0, 0.004))
    history = full_model.train_full(FIGURE_1, *theory.aligned_start(FIGURE_1), schedule, seed=1)
    omega, mu = full_model.spectrum(FIGURE_1, history.final)
    assert (omega * mu).argmax(0).tolist() == [0, 1, 2]
    limit = theory.limit(FIGURE_1)
    exact = risk.exact_loss(FIGURE_1, *(a.diagonal() for a in limit)).sum()
    close(exact, 7.063971, within=5e-7)  # six decimals
    # The loss is above it by the noise of SGD, η Tr C/(4 · 256) = 1.7% where C is the covariance of the
    # gradient of one context at the limit, and by 0.4% because heads still attend to others' tasks. The
    # relative error of ω is of the same order.
    assert np.all(np.abs(omega.diagonal() * 10**0.5 - 1) < 0.04)
    assert abs(history.loss[-200:].mean() / exact - 1) < 0.04
    # The largest entry is noise that grows with the learning rate: 0.04 with the schedule of Figure 1.
    assert max(full_model.departure(FIGURE_1, history.final).values()) < 0.06


# --- Refusals and records -----------------------------------------------------------------------

START = theory.aligned_start(FIGURE_1)
REFUSALS = {
    "dims takes at least one group": lambda: MultiTask(()),
    "noise takes a finite number of at least 0": lambda: MultiTask((10,), noise=-0.1),
    "signal takes one number or 3": lambda: MultiTask((10, 10, 10), signal=(1.0, 2.0)),
    "mu takes the shape of omega": lambda: theory.check_shapes(FIGURE_1, START[0], START[1][:2]),
    "owner takes 3 head numbers": lambda: theory.limit(FIGURE_1, (0, 1)),
    "t takes increasing times, at least one, not": lambda: theory.flow(FIGURE_1, *START, [0, 2, 1]),
    "t takes finite numbers": lambda: theory.flow(FIGURE_1, *START, [1.0, np.nan]),
    "omega0 takes Σ_j d_j ω_j²": lambda: theory.flow(ONE, np.array([[9.0]]), np.ones((1, 1)), [0]),
    "mu0 takes positive numbers for a race": lambda: phases.race(FIGURE_1, START[0], -START[1]),
    "penalty takes numbers above 0": lambda: baselines.ridge_risk(0.5, 0.0),
    "schedule takes increasing times": lambda: learning_rates(((2, 0.1), (1, 0.1))),
    "seed takes a whole number": lambda: spectral.measure(FIGURE_1, *START, seed=-1),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refusals(message):
    with pytest.raises(ValueError) as refusal:
        REFUSALS[message]()
    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


def test_torch_is_not_imported_with_the_modules():
    code = "import sys, iclcore.heads.full_model, iclcore.heads.risk; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_seed_of_the_full_model_keeps_its_batches():
    """The chapters quote runs of these batches. (float32, and torch's last bits on other processors)"""
    task = MultiTask((3, 3), context=20)
    start = theory.aligned_start(task)
    history = full_model.train_full(task, *start, ((0.03, 0.01),), batch=72, seed=1)
    close(history.loss, [6.625134, 4.267617, 4.670801], within=1e-5)


@pytest.mark.parametrize("where", ["start", "limit"])
def test_contexts_that_share_inputs_have_the_noise_of_contexts_that_do_not(where):
    """Compare the noise of the gradient in all matrices, and of its component along them, which moves ω and
    μ. Both agree within four standard errors."""
    import torch

    task = MultiTask((3, 3), context=20, noise=0.5)
    at = {"start": theory.aligned_start, "limit": theory.limit}[where](task)
    arrays = full_model.decomposable_weights(task, *at)
    weights = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}

    def slopes(contexts):
        generator, found = torch.Generator().manual_seed(contexts), []
        for _ in range(400):
            tokens, query, answer = full_model.sequences(task, 32, generator, contexts)
            prediction = full_model.predict(weights, tokens.double(), query.double(), True)
            loss = (prediction - answer.double()).square().sum(1).mean()
            parts = torch.autograd.grad(loss, list(weights.values()))
            along = [(p * w).sum() for p, w in zip(parts, weights.values(), strict=True)]
            found.append((torch.cat([p.ravel() for p in parts]), torch.stack(along).detach()))
        return [torch.stack(each).numpy() for each in zip(*found, strict=True)]

    for own, shared in zip(slopes(1), slopes(full_model.CONTEXTS_PER_INPUT), strict=True):
        spread = [((each - each.mean(0)) ** 2).sum(1) for each in (own, shared)]
        noise, other = (each.mean() for each in spread)
        error = np.hypot(*(each.std() / len(each) ** 0.5 for each in spread))
        assert abs(other - noise) < 4 * error < 0.5 * noise


def test_balances_of_any_weights():
    """For each head ⟨K, ∂L/∂K⟩ = ⟨Q, ∂L/∂Q⟩ and ⟨O, ∂L/∂O⟩ = ⟨V, ∂L/∂V⟩, so the flow conserves
    |K|² − |Q|² and |O|² − |V|². Only for linear attention all four products are equal."""
    import torch

    task = uneven()
    tokens, query, answer = full_model.sequences(task, 20, torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    shapes = {"K": (2, 12, 13), "Q": (2, 12, 13), "V": (2, 3, 13), "O": (2, 3, 3)}
    for softmax in (True, False):
        weights = {
            name: torch.tensor(0.3 * rng.normal(size=shape)).requires_grad_()
            for name, shape in shapes.items()
        }
        prediction = full_model.predict(weights, tokens.double(), query.double(), softmax)
        (prediction - answer).square().sum().backward()
        pull = {n: (w * w.grad).sum((1, 2)).detach().numpy() for n, w in weights.items()}
        close(pull["K"], pull["Q"], within=1e-10)
        close(pull["O"], pull["V"], within=1e-10)
        gap = np.abs(pull["K"] - pull["V"]) / np.abs(pull["K"])
        assert gap.max() > 0.1 if softmax else gap.max() < 1e-10


def test_softmax_loses_the_third_balance_at_once():
    """At ω → 0, where B is 1, Σ_i (a_i ω_i − μ_i) of a head grows at 4 Σ_i s_i (φ_i/L) μ_i Σ_g μ_i^g."""
    task = uneven()
    _, mu = random_spectrum(task, heads=2)
    mu = np.abs(mu)
    for size in (1e-2, 1e-3):
        omega = size * np.ones_like(mu)
        by_omega, by_mu = theory.gradient(task, omega, mu)
        change = -2 * (omega * by_omega - mu * by_mu).sum(1)  # a ω̇ = −2ω ∂/∂ω
        expected = (4 * task.s * task.phi / task.context * mu * mu.sum(0)).sum(1)
        # Each term has the exact factor e^W (1 − W) = 1 − W²/2 + … with W = Σ_j d_j ω_j^h ω_j^g.
        assert np.all(np.abs(change / expected - 1) < (task.dim * size**2) ** 2)


def test_flow_keeps_factors_that_are_decomposable_not_products():
    """A step keeps weights decomposable if each of K, Q, O and V has the form, but not if only the products
    have it. The batch has every reflection and permutation of a group and every sign of a task, which
    leave the distribution of contexts unchanged."""
    import torch

    task = MultiTask((2, 2), context=5, signal=(1.0, 3.0), noise=0.2)
    rng = np.random.default_rng(0)
    x, q, g = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    noise = 0.4 * rng.normal(size=(3, 2, 5))
    turns = [
        np.diag(s) @ p for p in (np.eye(2), np.eye(2)[::-1]) for s in product((1, -1), repeat=2)
    ]
    tokens, queries, answers = [], [], []
    for first, second in product(turns, turns):
        turn = np.block([[first, np.zeros((2, 2))], [np.zeros((2, 2)), second]])
        for signs in product((1, -1), repeat=2):
            flip = np.array(signs)[:, None]
            y = flip * ((g[:, :, None] * x).reshape(3, 2, 2, 5).sum(2) + noise)
            tokens.append(np.concatenate([turn @ x, y], axis=1))
            queries.append(np.concatenate([q @ turn.T, np.zeros((3, 2))], axis=1))
            answers.append(flip[:, 0] * (g * q).reshape(3, 2, 2).sum(2))
    data = [torch.tensor(np.concatenate(part)) for part in (tokens, queries, answers)]

    def after_a_step(weights):
        tensors = {n: torch.tensor(w, requires_grad=True) for n, w in weights.items()}
        value = (full_model.predict(tensors, *data[:2]) - data[2]).square().sum(1).mean()
        slopes = torch.autograd.grad(value, list(tensors.values()))
        moved = zip(tensors.items(), slopes, strict=True)
        return {name: (w - 0.1 * slope).detach().numpy() for (name, w), slope in moved}

    omega, mu = np.array([[0.5, 0.2], [0.1, 0.4]]), np.ones((2, 2))
    weights = full_model.decomposable_weights(task, omega, mu, width=5)
    weights["K"] = 2 * weights["K"]  # weights need not be balanced
    stepped = after_a_step(weights)
    # The zeros are 0.1 times sums of 768 terms of size 1 that cancel, so round-off is 1e-16 · √768 · 0.1.
    assert max(full_model.departure(task, stepped).values()) < 1e-14
    moved = np.subtract(full_model.spectrum(task, stepped), full_model.spectrum(task, weights))
    assert np.abs(moved).min() > 1e-4
    uneven_factors = dict(weights, K=weights["K"].copy(), Q=weights["Q"].copy())
    uneven_factors["K"][0, 0, 0] *= 2
    uneven_factors["Q"][0, 0, 0] /= 2
    assert max(full_model.departure(task, uneven_factors).values()) < 1e-14
    assert full_model.departure(task, after_a_step(uneven_factors))["KQ"] > 1e-3


def test_no_search_finds_weights_beyond_the_budget():
    """Maximise Σ_i m_i = tr(B⁻¹ W Wᵀ) with W = √d ω and B = exp(W Wᵀ) from random ω of many sizes.

    The maximum is at ω → 0, where B is singular. So we add δ = 10⁻⁷ to its diagonal, which reduces the
    sum a little: by cg + δ/g for each of H − 1 directions with eigenvalue g → 0 of W Wᵀ, at best by
    2√(cδ). c is 1/6 for three equiangular heads and 1/4 for four; for two the first order in g vanishes.
    """

    def lost(flat, heads):
        w = flat.reshape(heads, 3)
        gram = w @ w.T
        B = np.exp(gram)
        inverse = np.linalg.inv(B + 1e-7 * np.eye(heads))
        slope = inverse - (inverse @ gram @ inverse) * B
        return -np.trace(inverse @ gram), -((slope + slope.T) @ w).ravel()

    rng = np.random.default_rng(0)
    for heads in (2, 3, 4):
        best = 0.0
        for _ in range(15):
            first = rng.normal(size=3 * heads) * 10.0 ** rng.uniform(-1.2, 0)
            end = minimize(lost, first, (heads,), "L-BFGS-B", jac=True, bounds=[(-2, 2)])
            best = max(best, -end.fun)
        # It may be above by round-off only, 1e-16 times the condition number 4e7.
        assert heads - 1 - (heads - 1) * 2 * np.sqrt(1e-7) < best < heads - 1 + 1e-7, (heads, best)
