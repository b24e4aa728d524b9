"""The theory of linear attention against simulation, in float64."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import close
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from iclcore import (
    CubicMLP,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    published,
    theory,
    train,
)
from iclcore.moments import coefficients, of_population, of_sequences
from iclcore.stability import stable_rate
from iclcore.theory.linear import escape_integral
from iclcore.theory.minimum import balanced_end

TASK = RegressionTask()  # λ = .4 .3 .2 .1, N = 31
PLATEAUS = (1, 0.6405797101, 0.3773721630, 0.2098045954, 0.1359950716)
PLATEAUS_8 = (1, 0.8113, 0.6490, 0.5130, 0.4032, 0.3192, 0.2605, 0.2260, 0.2133)
PLATEAUS_8_POWER = (1, 0.6715, 0.5191, 0.4244, 0.3579, 0.3079, 0.2685, 0.2366, 0.2101)
LIMITS = (1.30967, 1.43005, 1.61204, 1.94702)  # |v| in the paper's 1/N convention
K = np.arange(1, 2000)  # of a power series


def test_noise_adds_to_the_trace():
    """Noise of variance σ² raises every level by σ², and in b_d it adds to tr Λ."""
    noisy, lam = replace(TASK, noise=0.3), TASK.eigenvalues
    gains = lam / (1 + (1 + 1.3 / lam) / 31)
    close(theory.plateau_losses(noisy), 1.3 - np.concatenate([[0], np.cumsum(gains)]))
    # the waits do not depend on noise
    assert (theory.rates(noisy)[0] == theory.rates(TASK)[0]).all()


def test_published_plateaus():
    # to half a unit of the last published digit
    close(theory.plateau_losses(TASK), PLATEAUS, within=5e-11)
    close(theory.plateau_losses(RegressionTask(dim=8)), PLATEAUS_8, within=5e-5)
    power = RegressionTask(dim=8, spectrum="power")
    close(theory.plateau_losses(power), PLATEAUS_8_POWER, within=5e-5)
    close(theory.head_limit(TASK, "context"), LIMITS, within=5e-6)


@pytest.mark.parametrize("noise", [0, 0.5])
@pytest.mark.parametrize("every_length", [False, True])
@pytest.mark.parametrize("divisor", ["one", "context", "tokens"])
def test_plateaus_are_losses_of_pcr(divisor, every_length, noise):
    """The level L(M_m) is the loss, by exact moments, of attention whose weights compute M_m."""
    task = RegressionTask(3, 9, spectrum="power", every_length=every_length, noise=noise)
    model = MergedAttention(heads=1, divisor=divisor)
    moments = of_population(task, model)
    exact = divisor == "tokens" or not every_length
    for m, loss in enumerate(theory.plateau_losses(task)):
        predictor = theory.pcr_predictor(task, m, divisor)
        weights = {"key_query": np.zeros((1, 4, 4)), "value": np.zeros((1, 4, 4))}
        weights["key_query"][0, :3, :3], weights["value"][0, 3, 3] = predictor.T, 1
        c = coefficients(model.factors(weights, 3), moments.features)
        close(theory.population_loss(task, predictor, divisor), moments.loss(c))
        if exact:
            close(moments.loss(c), loss)
    close(moments.loss(c), moments.floor())  # no linear attention is better than all D components
    if exact:  # averages with other features have the same levels
        for each in (moments, of_population(task, CubicMLP(heads=1, divisor=divisor))):
            close(theory.plateau_losses(each), theory.plateau_losses(task))


def test_levels_of_models_with_two_outputs():
    """A separate head may learn for one output alone. That training ends on these levels is in test_cli."""
    losses = theory.plateau_losses(task := RegressionTask(dim=3, outputs=2))
    number, level = theory.plateau_levels(SeparateAttention(heads=2), task)
    close(number, [0, 0.5, 1, 1.5, 2])
    between = (losses[:2] + losses[1:3]) / 2
    close(level, [losses[0], between[0], losses[1], between[1], losses[2]])
    for model, part in ((MergedAttention(), 1), (CubicMLP(), 0.5)):
        number, level = theory.plateau_levels(model, task)
        close(number, [0, 3 * part])
        close(level, [losses[0], losses[0] + part * (losses[3] - losses[0])])


def assert_first_order(gaps):
    """Check that a learning rate ten times smaller makes the gap about ten times smaller."""
    assert 8 < gaps[0] / gaps[1] < 12, gaps


@pytest.mark.parametrize("outputs", [1, 2])
def test_white_course_is_first_order_in_the_learning_rate(outputs):
    """The closed form is gradient flow, and Euler steps that are ten times smaller come ten times nearer."""
    task = RegressionTask(spectrum="white", outputs=outputs)
    model = MergedAttention(heads=8, init=1e-4, divisor="context")
    moments, start = of_population(task, model), model.start(4, outputs, seed=1)
    c0, rate = theory.white_start(start, 4), theory.growth_rate(task, "context")
    when = theory.drop_time(task, c0, "context")
    first, *_, last = theory.plateau_losses(task)
    gaps = []
    for lr in (0.05, 0.005):
        steps = int(100 * outputs**0.5 / lr)
        history = train(model, moments, steps, lr, start=start)
        course = theory.white_course(task, c0, history.time, "context")
        gaps.append(np.abs(history.loss - course).max())
        # Euler's steps of ẇ = f(w) are late by (lr/2) ln(f/f₀). Here w = √c and f ∝ w (1 − c/c*), where the
        # second factor is 1/√2 at half of the drop. The next order is smaller by a factor lr · rate.
        half = (1 - 1 / np.sqrt(2)) * 2 * (first - last) / rate
        late = lr / 2 * np.log(np.sqrt(half / c0) / np.sqrt(2))
        there = np.interp(when + late, history.time, history.loss)
        close(there, (first + last) / 2, within=late * lr * rate)
    assert_first_order(gaps)
    tenth = theory.drop_time(task, c0 / 100, "context") - when
    # up to the term c₀/c* in the logarithm
    close(tenth, np.log(10) / rate, within=c0)


def test_head_course_solves_its_ode():
    a, b = theory.rates(TASK, "context")
    for component in (1, 4):
        s0, times = 0.02, np.linspace(0, 12000, 60)

        def rate(_, s, d=component - 1):
            return 2 * (a[d] * s**2 - b[d] * s**5)

        accuracy = {"rtol": 1e-11, "atol": 1e-13, "method": "LSODA"}
        solved = solve_ivp(rate, (0, times[-1]), [s0], t_eval=times, **accuracy)
        # the solver errs by 1e-11 a step, in some hundred steps, magnified by s*/s₀ = 100 in the escape
        close(theory.head_course(TASK, component, times, s0, "context"), solved.y[0], within=1e-7)
    close(theory.head_course(TASK, 1, np.array([0.0]), 0.02, "context"), [0.02])
    # At the escape time x = s/s* solves Σ_k x^3k/(3k − 1) = 1 for any s₀, up to the order (s₀/s*)².
    share = brentq(lambda x: np.sum(x ** (3 * K) / (3 * K - 1)) - 1, 0.5, 0.99)
    limit = theory.head_limit(TASK)[0]
    for s0 in (1e-2, 1e-4):
        escape = np.array([theory.escape_time(TASK, 1, s0)])
        close(theory.head_course(TASK, 1, escape, s0) / limit, [share], within=(s0 / limit) ** 2)


@pytest.mark.parametrize("s0", [1e-100, 1e-3, 0.3])
def test_head_course_inverts_the_escape_integral(s0):
    """A root finder that brackets the root is the oracle, before the escape, during it and after it."""
    (a, *_), _ = theory.rates(TASK)
    limit = theory.head_limit(TASK)[0]
    last = theory.escape_time(TASK, 1, s0) + 10 / (2 * a * limit)
    times = np.concatenate([last * np.linspace(-1, 1, 50), last - np.geomspace(1e-6, 1, 50) * last])
    first, found = escape_integral(s0 / limit), theory.head_course(TASK, 1, times, s0) / limit
    for time, x in zip(times, found, strict=True):
        value = first + 2 * a * limit * time
        root = brentq(
            lambda y, value=value: escape_integral(1 / y) - value,  # 1/x, for a relative tolerance
            1 / (1 - 1e-15), 4 + 2 * abs(value), xtol=1e-15, rtol=1e-15,
        )  # fmt: skip
        close(x * root, 1, within=1e-14)  # ten roundings of the last bit


@pytest.mark.parametrize("dim", [1, 4])
@pytest.mark.parametrize("share", [1e-6, 0.05, 0.2])
def test_at_the_drop_time_half_of_the_loss_is_gone(share, dim):
    """This holds for large starts too: half of the drop is over at 0.29 of the limit a/b."""
    task = RegressionTask(dim=dim, spectrum="white")
    (first, *_, last), a = theory.plateau_losses(task), theory.growth_rate(task, "context") / 2
    end = (first - last) / a
    when = np.array([theory.drop_time(task, share * end, "context")])
    close(theory.white_course(task, share * end, when, "context"), [(first + last) / 2])
    # here half of the drop is over before the start
    assert theory.drop_time(task, 0.999 * end, "context") < 0
    with pytest.raises(ValueError, match="c0 takes a start between 0 and"):
        theory.drop_time(task, 1.001 * end, "context")


def test_one_head_follows_the_scalar_ode():
    """With |v| = |k| = |q| along an eigenvector, gradient descent takes Euler's steps of the ODE ṡ = f(s)."""
    s0, gaps = 0.05, []
    a, b = (each[0] for each in theory.rates(TASK))
    model = SeparateAttention(heads=1, init=s0)
    moments = of_population(TASK, model)
    weights = {name: np.zeros_like(array) for name, array in model.start(4).items()}
    weights["key"][0, 0, :4] = weights["query"][0, 0, :4] = s0 * TASK.eigenvectors[:, 0]
    weights["value"][0, 4, 4] = s0
    for lr in (0.01, 0.001):
        history = train(model, moments, int(10 / lr), lr, start=weights)
        course = theory.head_course(TASK, 1, lr * history.steps, s0)
        gaps.append(np.abs(history.series["value"][:, 0] - course).max())
        # Euler's error is (lr/2) f ln(f/f₀) to first order; the next is smaller by lr|f'|, which ends at 6as*
        speed = 2 * (a * course**2 - b * course**5)
        euler = lr / 2 * np.max(speed * np.log(np.maximum(speed, speed[0]) / speed[0]))
        close(gaps[-1] / euler, 1, within=lr * 6 * a * course[-1])
    assert_first_order(gaps)


def test_weights_outside_the_subspace_stay_zero_if_they_start_at_zero():
    """This is so on infinitely many sequences. If they start elsewhere, some heads end outside of it."""
    model = SeparateAttention(heads=4, init=5e-2)
    moments, ends = of_population(TASK, model), []
    inside = model.start(4, seed=0)
    outside = {name: array.copy() for name, array in inside.items()}
    rng = np.random.default_rng(0)
    outside["key"][:, :, -1] = 5e-2 * rng.standard_normal((4, 1))
    outside["value"][:, -1, :4] = 5e-2 * rng.standard_normal((4, 4))
    for start in (inside, outside):
        run = train(model, moments, 40_001, 0.02, start=start)
        key, _, v = model.factors(run.final, 4)
        ends.append(np.linalg.norm(v[:, 0, :4], axis=1) * np.abs(key[:, 0, 4]))
        close(run.loss[-1], theory.plateau_losses(TASK)[-1])  # either way all is learned
    # round-off in one run, and in two heads of the other run as large as all else
    assert ends[0].max() < 1e-12 and np.sum(ends[1] > 0.1) == 2


@pytest.mark.parametrize("rank", [1, 3])
def test_conservation_laws(rank):
    """Gradient flow keeps these differences; under gradient descent they drift in proportion to lr."""
    model, drifts = SeparateAttention(heads=5, rank=rank, init=0.05), []
    moments, start = of_population(TASK, model), model.start(4, seed=2)
    before = np.concatenate(theory.conserved(start, 4))
    for lr in (0.01, 0.001):
        after = train(model, moments, int(8 / lr), lr, start=start)
        drifts.append(np.abs(np.concatenate(theory.conserved(after.final, 4)) - before).max())
        # a step changes the differences by at most lr²|∇L|², and the loss by lr|∇L|²
        assert after.loss[-1] < 0.9 * after.loss[0] and drifts[-1] < lr * np.ptp(after.loss)
    assert_first_order(drifts)


def predictor(history_weights: dict, model, dim: int) -> np.ndarray:
    """Return M of ŷ = βᵀ M x_q, which the weights multiply to."""
    key, query, v = model.factors(history_weights, dim)
    return np.einsum("hra,hrd,h->ad", key[:, :, :dim], query, v[:, 0, -1])


def test_plateaus_are_principal_component_regression():
    """At the step whose loss is nearest to L(M_m), the model computes M_m."""
    model = SeparateAttention(heads=5, init=1e-3)
    # the largest learning rate is 0.16; plateaus last in proportion to 1/init
    history = train(model, TASK, 300_000, 0.05, seed=3, snapshots=100)
    at = history.loss[np.minimum(history.kept, len(history.loss) - 1)]
    for m, level in enumerate(PLATEAUS):
        nearest = int(np.argmin(np.abs(at - level)))
        # while a head of size s grows, the loss falls at the rate 12a²s⁴: for s = 3e-3, by 1e-7 between two
        # snapshots; and near the fixed point the loss curves by b_D or more
        close(at[nearest], level, within=1e-6)
        weights = {name: stack[nearest] for name, stack in history.snapshots.items()}
        gap = np.linalg.norm(predictor(weights, model, 4) - theory.pcr_predictor(TASK, m))
        assert gap < np.sqrt(1e-6 / theory.rates(TASK)[1][-1]), (m, gap)


def test_rank_sets_the_long_plateaus():
    """Of the eight plateaus only those at multiples of the rank are long (Figure 4)."""
    task = RegressionTask(dim=8, spectrum="power")
    model = SeparateAttention(heads=9, init=5e-3, rank=2)
    history = train(model, of_population(task, model), 20_001, 0.02, seed=1)
    times = [np.sum(np.abs(history.loss - level) < 0.006) for level in theory.plateau_losses(task)]
    # a new head waits for 1/init = 200, and a head with a row to spare for ln(1/init) = 5
    assert min(times[2], times[4]) > 5 * max(times[1], times[3]), times


@pytest.mark.parametrize(
    "model",
    [
        SeparateAttention(heads=6, init=2e-2),
        SeparateAttention(heads=6, init=2e-2, rank=3),
        MergedAttention(init=1e-3),
        CubicMLP(init=1e-3),
    ],
    ids=["rank1", "rank3", "merged", "mlp"],
)
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_stable_rate_separates_decay_from_growth(model, outputs):
    """At the end of training a small perturbation dies out below the stable rate and grows above it."""
    task = RegressionTask(dim=3, context=12, outputs=outputs)
    edge, moments = stable_rate(task, model), of_population(task, model)
    rng = np.random.default_rng(0)
    nudged = model.start(3, outputs)
    views = model.factors(nudged, 3)
    for view in views:
        view[...] = 1e-7 * rng.standard_normal(view.shape)
    for view, part in zip(views, balanced_end(task, model), strict=True):
        view[: len(part)] += part
    # In the loss a perturbation of 1e-7 is squared and lost in round-off, so look at c, which has size 1, is
    # rounded at 1e-16 and changes by as much as the weights. In 390 steps its steepest part shrinks by
    # .94^390 = 3e-11, or grows until the run finds a flatter end.
    at = [10, 11, 400, 401]
    for factor, grows in ((0.97, False), (1.03, True)):
        after = train(model, moments, 401, factor * edge, start=nudged, snapshots=at)
        weights = [{n: w[i] for n, w in after.snapshots.items()} for i in range(len(at))]
        c = [coefficients(model.factors(each, 3), moments.features) for each in weights]
        early, late = (np.abs(c[i + 1] - c[i]).max() for i in (0, 2))
        assert early > 1e-9, early  # far above round-off
        assert late > 2 * early if grows else late < early / 2, (factor, early, late)
    end = moments.loss(coefficients(balanced_end(task, model), moments.features))
    small = train(model, moments, int(4000 / edge), 0.3 * edge, seed=1)
    close(small.loss[-1], end, within=1e-4)  # training has not quite converged
    # the features of the MLP contain β of one output only
    if outputs == 1 or not isinstance(model, CubicMLP):
        close(end, theory.plateau_losses(task)[-1])


def test_finite_data_near_the_population():
    """Published draws have the plateau losses of the theory, up to sampling errors of order 1/√P."""
    task, model = RegressionTask(), SeparateAttention(heads=1, rank=4)
    draw = published.sample(task, 20_000, seed=0)
    moments = of_sequences(draw, model)
    for m, level in enumerate(PLATEAUS):
        weights = {name: np.zeros_like(array) for name, array in model.start(4).items()}
        weights["query"][0, :, :4] = np.eye(4)
        weights["key"][0, :, :4] = theory.pcr_predictor(draw.task, m).T
        weights["value"][0, 4, 4] = 1
        c = coefficients(model.factors(weights, 4), moments.features)
        # y² has a standard deviation of 1.9, so its mean over 20,000 has 0.013; this draw is within 0.02
        close(moments.loss(c), level, within=0.02)


def test_a_rank_beyond_the_dimension_has_the_same_stable_rate():
    """The further rows are zero and stay zero, so no matrix of 15 million rows is needed."""
    edges = [stable_rate(TASK, SeparateAttention(rank=rank)) for rank in (TASK.dim, 3_000_000)]
    assert edges[0] == edges[1]


@pytest.mark.parametrize(
    "wrong, says",
    [
        (lambda: theory.escape_time(TASK, 5, 0.1), "component takes a whole number from 1 to 4, not 5"),
        (lambda: theory.plateau_losses(RegressionTask(in_context=0.5)), "in_context takes 1"),
        (
            lambda: theory.plateau_losses(replace(of_population(TASK, MergedAttention()), task=None)),
            "whose task is known",
        ),
        (lambda: theory.plateau_losses(RegressionTask(outputs=2).sample(9)), "outputs takes 1"),
        (lambda: theory.white_course(TASK, 1e-3, np.array([1.0])), "white"),
        (lambda: theory.head_course(TASK, 1, np.array([1.0]), 5.0), "between 0 and"),
        (lambda: theory.head_course(TASK, 1, np.array([1.0]), 1e-310), "s0 takes a start of at least"),
    ],
)  # fmt: skip
def test_refusals(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()
