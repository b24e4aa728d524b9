"""The race of heads, its predictions for the flow and for training, ties, and decomposable weights."""

import numpy as np
import pytest
from conftest import close
from pace import mostly_slow

from iclbook.measure import crossing
from iclbook.theory import emergence, phases
from iclcore.heads import full_model, spectral, theory
from iclcore.heads.theory import MultiTask


def pair(length, phi, size):
    """Return one task and a start of two heads with the proportions of Figure 1."""
    task = MultiTask((10,), length, noise=10 * (phi - 1.0))
    return task, np.full((2, 1), size / 10), size * np.array([[1.0], [0.5]])


def without_error_in_length(task):
    """Return the task for which the race of this one has no error of order 1/L.

    At ω → 0 the mean of z·p is ω(1 − 1/L), and |p|² is 1/L.
    """
    share = 1 - 1 / task.context
    return MultiTask(task.dims, task.context - 1, (share * task.s).tolist(), share * task.noise)


def first_order(task, omega0, mu0):
    """Return how much the finite size of a start changes the time of half of a task, to first order.

    Let c = φ/L. On the limit curve the race neglects a part kω² of dt/dω = g/(κω²), where
    k = (1 + cd)/g · (1 + 2ag)/(2 + ag) ≤ 2(1 + cd)/g because ag = 1 + ac ≥ 1. This follows from the next
    order of dt/dω and of μ = (ω/g)(1 + βω²), with 2β + a(gβ + cd + 1) = (1 + cd)/g. The advance counts this
    part from ω = 0, but a start begins at ω0, which gives 2(1 + cd) ω0/κ. If Σμ of the start differs from
    that of the curve by a factor 1 + X, this part is wrong by the factor X as long as they differ. The
    difference decays as (ω0/ω)^{ag}, hence the factor X min(ln ω½/ω0, 1/(ag − 1)). With several tasks B
    contains all of them, and d is their sum.
    """
    a, c = task.d * task.dim**0.5, task.phi / task.context
    g, kappa, half = 1 / a + c, 4 * task.s / a, 0.5 / (1 + np.e * task.d * c)
    omega = omega0.max(0)
    off = np.abs(g * mu0.sum(0) / omega - 1)
    fades = np.minimum(np.log(np.sqrt(g * half) / omega), 1 / (a * g - 1))
    return 2 * (1 + task.dim * c) * omega / kappa * (1 + off * fades)


def rounding(end, advance):
    """Return the numerical error of the time of half.

    Linear interpolation on a grid of step h = 0.025 advance has the error h²/8 · |y''/y'|, 3e-4 of the
    advance for a curve that bends within a quarter of it. The integrations of ``race`` and of the flow
    have relative errors of 1e-8.
    """
    return 3e-4 * advance + 1e-8 * end


@pytest.mark.parametrize("phi", [1, 2, 3])
@pytest.mark.parametrize("length", mostly_slow([10, 100, 1000], 100))
def test_half_of_a_task_is_done_an_advance_before_the_race_ends(length, phi):
    gaps = []
    for size in 10.0 ** -np.arange(1, 6):
        task, *start = pair(length, phi, size)
        (end,), (advance,) = phases.race(task, *start)[0], emergence.advance(task)
        around = np.array([0, *(end + advance * np.linspace(-4, 1, 201))])
        path = theory.flow(task, *start, around)
        done, limit = (path.mu * path.omega).sum((1, 2)), 1 / (1 + np.e * 10 * phi / length)
        gaps.append(end - advance - crossing(path.t, done, limit / 2))
        assert abs(gaps[-1]) < first_order(task, *start)[0] + rounding(end, advance)
    # From a point on the ray the race takes another (1 + aφ/L)/(4sω). The flow leads it by less.
    left = (1 + 10**1.5 * phi / length) / 40 / np.interp(end - advance, path.t, path.omega[:, 0, 0])
    assert 0 < advance < left


def test_three_races_at_once_have_the_advance_of_one():
    """The heads of Figure 1 divide three tasks; to first order, the advance is that of a single task."""
    task = MultiTask((10, 10, 10), 100)
    advance = emergence.advance(task)
    for size in (0.1, 0.01, 0.001):
        start = theory.aligned_start(task, omega=size / 10, mu=size / 2, own=size)
        end, _ = phases.race(task, *start)
        path = theory.flow(task, *start, [0, *(end[0] + advance[0] * np.linspace(-4, 1, 201))])
        done = (path.mu * path.omega).sum(1)[:, 0]
        gap = end - advance - crossing(path.t, done, 0.5 / (1 + np.e * 0.1))
        assert np.all(np.abs(gap) < first_order(task, *start) + rounding(end, advance))


@pytest.mark.parametrize(
    ("length", "phi", "size", "pairs"),
    mostly_slow([(10, 3, 1e-5, 16), (1000, 3, 1e-3, 4)], (1000, 3, 1e-3, 4)),
)
def test_training_from_small_starts(length, phi, size, pairs):
    """Training with exact softmax ends when the race says, over decades of time.

    Steps are a hundredth of the time that is left of the race, which is computed anew whenever half of it
    has passed. Pairs remove the odd noise of batches, which would be larger than such slow growth.
    """
    task, omega, mu = pair(length, phi, size)
    known = without_error_in_length(task)
    ((end,), _), (advance,) = phases.race(known, omega, mu), emergence.advance(known)
    assert advance > 0  # otherwise the loop does not end
    now, lag, left = 0.0, 0.0, end
    while left > 10 * advance:
        options = {"batch": 10**15, "pairs": pairs, "seed": int(now)}
        run = spectral.train_spectral(task, omega, mu, [(left / 2, left / 100)], **options)
        # Euler's method lags, as below
        lag += 0.75 * left / 100 * np.log(run.final["mu"][0, 0] / mu[0, 0])
        omega, mu, now = run.final["omega"], run.final["mu"], now + left / 2
        (left,), _ = phases.race(known, omega, mu)
    # The noise that remains is that of r²z² of each pair, with relative variance 2/d + 2/L, over the 50
    # steps of each halving. Halvings add up to Σ 4^−j/4 = 1/3. The drag leaves 1/ag of the growth.
    growth = 1 + 10**1.5 * phi / length
    noise = np.sqrt((2 / 10 + 2 / length) / (50 * pairs) / 3) * growth
    assert abs(now + left - end - lag) < 3 * noise * end


@pytest.mark.parametrize(
    ("length", "phi"), mostly_slow([(10, 1), (10, 3), (100, 1), (1000, 3)], (100, 1))
)
def test_training_is_done_when_the_race_says(length, phi):
    """Training with exact softmax on 1,024 contexts a step agrees with the race, up to the errors below."""
    rate, batch = 0.04, 1024
    task, *start = pair(length, phi, 0.1)
    known = without_error_in_length(task)
    (end,), (advance,) = phases.race(known, *start)[0], emergence.advance(known)
    run = spectral.train_spectral(task, *start, [(1.1 * end, rate)], batch=batch)
    omega, mu = run.series["omega"], run.series["mu"]
    late = crossing(run.time, (omega * mu).sum((1, 2)), 0.5 / (1 + np.e * 10 * phi / length))
    # Euler's method for ẋ = f(x) lags by η/2 ln(f₁/f₀). Here a step multiplies by (1 + ηf/2)² instead of
    # e^{ηf}, so that the lag is 3/4 η Δ ln μ.
    grown = np.log(mu[run.time < late].max() / start[1].max())
    expected = end - advance + 0.75 * rate * grown
    # ∂Loss/∂μ of one context has the variance 4s²φ/(dL), so that ln μ has the standard deviation
    wander = 4 * 10 * np.sqrt(rate * end * phi / (10 * length * batch))
    more, _ = phases.race(known, start[0], 1.01 * start[1])
    noise = wander * end * -np.log(more[0] / end) / np.log(1.01) / np.sqrt(3)
    # The relative error of the advance is of order 1/d, or e/L if L < d.
    formula = advance * (0.1 + np.e / length) + first_order(task, *start)[0]
    assert abs(late - expected) < 3 * noise + formula


@pytest.mark.parametrize("phi", [1, 3])
def test_leads_of_a_tie_grow_as_theory_says(phi):
    """On the ray of a tie of two heads, r = ln μ₂/μ₁ and w = ln ω₂/ω₁ obey r' = Aw and w' = r.

    The derivative is by −ln(T − t), and A = 1 + 2aφ/L. So (r + √A w)/size^√A determines the split.
    """
    task = MultiTask((10,), 100, noise=10 * (phi - 1.0))
    a = 10 * 30**0.5
    growth = 1 + 2 * a * phi / 100
    splits = []
    for size in (0.03, 0.003):
        push = 0.03 * size**growth**0.5 * np.array([[1, 0], [0, growth**-0.5], [-3, 0]])
        apart = np.array([-0.5, 0.5])[:, None]
        mu0 = size * np.exp(push[:, :1, None] * apart)
        omega0 = size * (1 / a + 2 * phi / 100) * np.exp(push[:, 1:, None] * apart)
        until = [0, a / 40 / size + 60]
        path = theory.flow(task, omega0, mu0, until, width=30)
        splits.append(path.mu[-1, :, 1, 0] / path.mu[-1].sum((1, 2)))
    by_mu, by_omega, back = splits[0]
    assert 0.5 < by_mu < 1 and back < 0.5
    # The errors are of first order in the push and in the size.
    close(by_omega, by_mu, within=3e-3)
    close(splits[1], splits[0], within=0.03)


def test_the_published_start_is_decomposable_and_stays_so():
    """The published K and Q have entries for labels, which have no effect on the other entries.

    The entries of Q are multiplied by zeros of the query's token. Those of K are multiplied by the rows
    of Q for labels, whose gradient is odd in the sign of a task. So on contexts with both signs of each
    task the other entries of K and Q have the gradient of weights without entries for labels.
    """
    import torch

    task = MultiTask((2, 2), context=5)
    weights = full_model.published_start(task)
    assert max(full_model.departure(task, weights).values()) == 0
    omega, mu = full_model.spectrum(task, weights)
    plain = full_model.decomposable_weights(task, omega, mu, width=6)
    tokens, query, answer = full_model.sequences(task, 4, torch.Generator().manual_seed(0))
    signs = torch.tensor([[a, b] for a in (1.0, -1.0) for b in (1.0, -1.0)])
    tokens = tokens.repeat(4, 1, 1).double()
    tokens[:, 4:] *= signs.repeat_interleave(4, 0)[:, :, None]
    answer = answer.repeat(4, 1).double() * signs.repeat_interleave(4, 0)

    def slopes(some):
        tensors = {n: torch.tensor(w, requires_grad=True) for n, w in some.items()}
        said = full_model.predict(tensors, tokens, query.repeat(4, 1).double())
        (said - answer).square().sum(1).mean().backward()
        return {name: w.grad.numpy() for name, w in tensors.items()}

    theirs, ours = slopes(weights), slopes(plain)
    for name in "KQ":
        close(theirs[name][:, :4, :4], ours[name][:, :4, :4])
        close(theirs[name][:, 4:], np.zeros((2, 2, 6)))
        close(theirs[name][:, :, 4:], np.zeros((2, 6, 2)))
    for name in "VO":
        close(theirs[name], ours[name])


def test_pairs_have_the_noise_of_the_batch_they_stand_for():
    """At the start ∂Loss/∂μ is a mean of −2(s/d) r z̄, whose variance is 4s²/(dL) over the batch."""
    task, steps, rate = MultiTask((4,), 20, noise=2.0), 1000, 1e-3
    start = np.full((1, 1), 1e-9), np.full((1, 1), 1e-6)
    spread = {}
    for pairs, batch in ((None, 16), (2, 1600)):
        run = spectral.train_spectral(
            task, *start, [(steps * rate, rate)], batch=batch, pairs=pairs
        )
        slopes = np.diff(np.log(run.series["mu"][:, 0, 0])) / -2 / rate
        spread[pairs, batch] = slopes.var() * batch
    # The variance of n numbers has the relative error √((kurtosis − 1)/n). The kurtosis of one context is
    # 3(1 + 2/d) = 4.5, that of a mean is less, so the error is at most √(3.5/1000) = 6%.
    for each in spread.values():
        assert each == pytest.approx(4 * 16 / (4 * 20), rel=0.2)
    task, *start = pair(20, 1, 0.1)
    plain, same = (
        spectral.train_spectral(task, *start, [(0.2, 0.02)], batch=70, pairs=n) for n in (None, 70)
    )
    close(same.series["mu"], plain.series["mu"])


def test_noise_lowers_the_logarithm():
    """The factors (1 − ηg)² lower ln μ by η Var g a unit of time, although they raise the mean of μ."""
    task, rate, batch, steps = MultiTask((4,), 20), 0.2, 1, 6000
    start = np.full((1, 1), 1e-9), np.full((1, 1), 1e-9)
    run = spectral.train_spectral(task, *start, [(steps * rate, rate)], batch=batch)
    change = np.log(run.final["mu"][0, 0] / start[1][0, 0])
    variance = 4 * 16 / (4 * 20) / batch
    # The next term of 2 ln(1 − ηg) is −η⁴ E g⁴/2 a step, with E g⁴ = 3(1 + 2/d) Var².
    lost = steps * (rate**2 * variance + rate**4 * 4.5 * variance**2 / 2)
    assert abs(change + lost) < 4 * 2 * rate * np.sqrt(steps * variance)


def test_departure_is_recorded_and_is_noise():
    """The departure is 0 at the start. Before anything grows it is noise, smaller for larger batches."""
    task, means = MultiTask((3, 3), 20), []
    for batch in (64, 1024):
        run = full_model.train_full(task, *theory.aligned_start(task), [(0.4, 0.02)], batch=batch)
        departures = np.array([run.series[f"departure_{name}"] for name in ("KQ", "OV")])
        assert not departures[:, 0].any() and departures.shape == (2, 20)
        means.append(departures[:, 10:].mean(1))
    # 16 times the contexts give a quarter of the noise. The largest of ten entries has a relative spread of
    # 1/3, and the ratio of two of 1/2.
    assert np.all(means[0] > 1.5 * means[1]) and np.all(means[0] < 8 * means[1]), means


def test_rates_and_speeds_with_noise():
    """Each formula agrees with the flow it comes from, for φ = 3 and a width other than d."""
    task, width = MultiTask((10,), 100, noise=20.0), 17
    omega, mu = theory.limit(task)
    # Near the limit the flow is linear, and the logarithm of the distance falls at the rate.
    near = theory.flow(task, omega * (1 - 1e-3), mu, [0, 4, 6], width)
    left = np.log(np.abs(1 - near.omega[1:, 0, 0] / omega[0, 0]))
    close(-np.diff(left)[0] / 2, phases.convergence_rate(task, width)[0], within=1e-3)
    # The speed is ω̇ of the flow with the best μ.
    points = np.array([0.05, 0.15, 0.3])
    v = task.phi[0] / 100 * np.exp(10 * points**2)
    best = points / (points**2 + v)
    for at, m, speed in zip(points, best, emergence.speed(task, points[:, None], width)):  # noqa: B905
        by_omega, _ = theory.gradient(task, np.array([[at]]), np.array([[m]]))
        close(-2 / np.sqrt(width) * at / 10 * by_omega[0, 0], speed[0])
    # Along the course the derivative by μ is 0.
    for at, m in zip(*emergence.course(task, np.array([0.05]), [0, 1, 2], width), strict=True):
        close(theory.gradient(task, at[None], m[None])[1], np.zeros((1, 1)), within=1e-12)
    # The saddle rate is that of the μ of a second head whose ω is 0.
    _, by_mu = theory.gradient(task, np.array([*omega, [0.0]]), np.array([*mu, [-1e-9]]))
    close(2 * by_mu[1, 0], phases.saddle_rate(task)[0], within=1e-6)


def test_signs_are_kept():
    """If ω and μ have opposite signs, training shrinks both and keeps their signs."""
    task = MultiTask((3, 3), 20)
    omega, mu = np.full((1, 2), 0.2), np.full((1, 2), 0.5)
    for signs in ((-1, 1), (1, -1)):
        run = spectral.train_spectral(
            task, signs[0] * omega, signs[1] * mu, [(1.0, 0.05)], batch=2000
        )
        ends = run.final["omega"], run.final["mu"]
        for end, sign, begin in zip(ends, signs, (omega, mu), strict=True):
            assert np.all(sign * end > 0) and np.all(np.abs(end) < begin)


def test_the_scale_of_the_loss_is_recorded():
    task = MultiTask((2, 2), 10)
    mean = full_model.train_published(task, [(0.1, 0.1)], batch=2)
    total = spectral.train_spectral(task, *theory.aligned_start(task), [(0.1, 0.1)], batch=2)
    assert (mean.settings["loss_scale"], total.settings["loss_scale"]) == (0.5, 1.0)


def test_heads_that_share_all_tasks_are_at_rest_but_not_stable():
    """With two heads and three tasks, one common split of all tasks is at rest but unstable."""
    task = MultiTask((10, 10, 10), 100)
    omega, mu = (np.repeat(each, 2, 0) for each in theory.one_head(task))
    for split in (0.5, 0.2):
        for slope in theory.gradient(task, omega, mu * [[split], [1 - split]]):
            close(slope, np.zeros((2, 3)), within=1e-12)  # terms of 2sμ = 50
    by_omega, _ = theory.gradient(task, omega, mu * [[0.3, 0.5, 0.8], [0.7, 0.5, 0.2]])
    assert np.abs(by_omega).max() > 1
    lean = np.array([[1, 0, -1], [-1, 0, 1]])
    apart = [
        np.ptp(np.log(theory.flow(task, omega, mu * np.exp(1e-7 * lean), [0, t]).mu[-1, :, 0]))
        for t in (4, 8)
    ]
    assert apart[1] > 2 * apart[0]
