"""Optimisers on moments take the steps of torch.optim; batches of fresh sequences; their theory."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from conftest import close

from iclbook.theory import optimisers
from iclcore import (
    CubicMLP,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    published,
    theory,
    train,
)
from iclcore.cli import main
from iclcore.engines.base import flat, parted
from iclcore.engines.linear import BatchEngine, gradient
from iclcore.history import History
from iclcore.models import Model
from iclcore.modules import module
from iclcore.moments import coefficients, of_population, of_sequences
from iclcore.optimisers import Adam, GradientDescent
from iclcore.sweep import Plan, carry_out
from iclcore.task import Sequences

TASK = RegressionTask(dim=3, context=6)
RULES = (
    GradientDescent(momentum=0.9),
    GradientDescent(weight_decay=0.05),
    GradientDescent(momentum=0.5, weight_decay=0.05),
    Adam(),
    Adam(beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.05),
)
MODELS = (
    MergedAttention(heads=2, init=0.1),
    SeparateAttention(heads=3, rank=2, init=0.2),
    CubicMLP(heads=3, init=0.1),
)


def by_torch(model: Model, data: Sequences, start: dict, steps: int, rule) -> tuple[list, dict]:
    """Train the torch module by torch.optim, and return the losses and the last weights."""
    net = module(model, start, data.y.shape[2])
    optimizer, losses = rule(net.parameters()), []
    ((tokens, target),) = data.prefixes()
    tokens, target = torch.tensor(tokens).double(), torch.tensor(target).double()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(tokens), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    final = {name: [m.detach().numpy() for m in getattr(net, name)] for name in start}
    return losses, {name: np.stack(matrices) for name, matrices in final.items()}


def torch_rule(optimizer, lr):
    decay = optimizer.weight_decay
    if isinstance(optimizer, GradientDescent):
        return lambda p: torch.optim.SGD(p, lr, optimizer.momentum, weight_decay=decay)
    betas = optimizer.beta1, optimizer.beta2
    return lambda p: torch.optim.Adam(p, lr, betas, optimizer.eps, decay)


@pytest.mark.parametrize("optimizer", RULES, ids=str)
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_steps_are_those_of_torch(model, optimizer):
    """The moments have only the factors, so weights that reach no prediction do not decay there."""
    data = TASK.sample(40, seed=1)
    options = {"seed": 3, "optimizer": optimizer}
    by_moments, by_autograd = (
        train(model, data, 60, 0.02, engine=e, **options) for e in ("moments", "autograd")
    )
    losses, final = by_torch(model, data, by_autograd.start, 60, torch_rule(optimizer, 0.02))
    for run in (by_moments, by_autograd):
        close(run.loss, losses)
        factors = (model.factors(weights, 3) for weights in (run.final, final))
        for factor, expected in zip(*factors, strict=True):
            close(factor, expected)
        assert run.optimizer == optimizer
    for name, weights in final.items():
        close(by_autograd.final[name], weights)


def test_adam_by_default_is_that_of_torch():
    by_default = torch.optim.Adam([torch.zeros(1)]).defaults
    ours = Adam()
    assert (ours.beta1, ours.beta2) == by_default["betas"]
    assert (ours.eps, ours.weight_decay) == (by_default["eps"], by_default["weight_decay"])


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_ten_thousand_steps_of_adam_are_those_of_torch(decay):
    """They agree to 1e-9 for as long as runs whose starts differ by 1e-13 agree to 1e-9.

    They cannot agree for longer. Where gradients vanish, Adam divides by the rest of their squares, so that
    the last bit of a weight grows like the weight. A step rounds by 1e-16, a thousandth of 1e-13.
    """
    model, data = MergedAttention(heads=2, init=0.1), TASK.sample(40, seed=1)
    rule, start = Adam(weight_decay=decay), model.start(3, seed=3)
    moments, rng = of_sequences(data, model), np.random.default_rng(0)
    like = model.factors(start, 3)
    vector = torch.nn.Parameter(torch.tensor(flat(like)))
    vector.grad = torch.zeros_like(vector)
    weights, slopes = (parted(of.numpy(), like) for of in (vector.data, vector.grad))
    optimizer, theirs = torch_rule(rule, 1e-3)([vector]), []
    for step in range(10_000):
        if step % 100 == 0:
            theirs.append(vector.detach().numpy().copy())
        for slope, given in zip(slopes, gradient(tuple(weights), moments), strict=True):
            slope[...] = given
        optimizer.step()

    def ours(begin):
        run = train(model, moments, 10_000, 1e-3, start=begin, optimizer=rule, snapshots=100)
        factors = model.factors(run.snapshots, 3)
        return np.concatenate([factor[:100].reshape(100, -1) for factor in factors], axis=1)

    own, moved = ours(start), []
    for _ in range(3):
        shifted = {n: w * (1 + 1e-13 * rng.standard_normal(w.shape)) for n, w in start.items()}
        moved.append(np.abs(ours(shifted) - own).max(axis=1))
    near = np.maximum.accumulate(np.max(moved, axis=0)) < 1e-9
    assert near.sum() > 40  # after 4,000 steps all is learned
    close(own[near], np.array(theirs)[near])


def test_an_optimiser_keeps_its_state_between_blocks_of_steps():
    """Steps are taken in blocks whose size depends on a clock."""
    model, data = SeparateAttention(heads=2, init=0.2), TASK.sample(30)
    for optimizer in (Adam(), GradientDescent(momentum=0.9)):
        options = {"optimizer": optimizer}
        in_one, cut = (train(model, data, 90, 0.02, snapshots=at, **options) for at in ((), 7))
        assert (in_one.loss == cut.loss).all()


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_weights_without_a_gradient_stay_zero_under_adam(model):
    """Adam turns any gradient above eps into steps of lr. Over the population, the gradient of the columns of
    labels is zero, and it must be zero in floating point too. On finite data it is not."""
    run = train(model, TASK, 300, 0.01, seed=1, optimizer=Adam())
    like = model.start(3, 1, seed=1)
    finite = train(model, TASK.sample(500), 300, 0.01, start=like, optimizer=Adam())

    def largest(weights):
        return max(np.abs(array[like[name] == 0]).max(initial=0) for name, array in weights.items())

    assert largest(run.final) == 0
    assert largest(finite.final) > 0.1 or isinstance(model, CubicMLP)


# -- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task",
    [TASK, RegressionTask(dim=2, context=4, outputs=2, every_length=True, in_context=0.5)],
    ids=["whole", "every_length"],
)
def test_batches_are_steps_on_fresh_sequences(task):
    model = SeparateAttention(heads=3, init=0.3, divisor="tokens")
    run = train(model, task, 20, 0.1, batch=6, seed=4, tests={"population": task})
    weights = model.start(task.dim, task.outputs, seed=4)
    factors, population = model.factors(weights, task.dim), of_population(task, model)
    for step, drawn in enumerate(islice(task.batches(6, 4), 20)):
        assert step or (drawn.x == task.sample(6, 4).x).all()
        own = of_sequences(drawn, model)
        loss = train(model, own, 1, 0.1, start=weights).loss[0]
        close(run.loss[step], loss)
        exact = train(model, population, 1, 0.1, start=weights).loss[0]
        close(run.series["population"][step], exact)
        for factor, slope in zip(factors, gradient(factors, own), strict=True):
            factor -= 0.1 * slope
    for name, array in weights.items():
        close(run.final[name], array)


def test_batches_do_not_depend_on_blocks():
    model, task = MergedAttention(heads=2, init=0.2), TASK
    runs = []
    for blocks in ((9,), (2, 7)):
        weights = model.start(3, seed=1)
        descent = BatchEngine(model, weights, of_population(task, model), [], 0.1, Adam(), batch=5)
        descent.at_a_time = 4
        runs.append(np.concatenate([descent.advance(steps)[0] for steps in blocks]))
    assert (runs[0] == runs[1]).all() and len(runs[0]) == 9


# -- runs and their records -----------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [RULES[2], RULES[4]], ids=str)
def test_a_file_and_a_plan_say_how_a_run_is_trained(optimizer, in_folder):
    plan = Plan(TASK, SeparateAttention(), sequences=40, steps=5, lr=0.02)
    own = replace(plan, optimizer=optimizer)
    assert own.name != plan.name and own.draw == plan.draw
    carry_out(own).to_npz("run.npz")
    assert History.from_npz("run.npz").optimizer == optimizer


def test_softmax_by_adam_is_autograd():
    model, data = SeparateAttention(heads=2, init=0.5, softmax=True), TASK.sample(30)
    run = train(model, data, 20, 0.02, seed=1, optimizer=Adam())
    losses, _ = by_torch(model, data, run.start, 20, torch_rule(Adam(), 0.02))
    assert run.engine == "autograd"
    close(run.loss, losses)


FLAGS = {
    "--optimizer adam": Adam(),
    "--momentum 0.9 --weight_decay 0.01": GradientDescent(momentum=0.9, weight_decay=0.01),
}


@pytest.mark.parametrize("flags", FLAGS)
def test_the_command_is_the_published_run_with_another_optimiser(flags, in_folder):
    """Compare with torch.optim on the authors' draws in float64."""
    run = "train --model attnS --heads 2 --in_dim 3 --seq_len 8 --trainset_size 50 --epoch 80 --lr 0.02"
    assert main([*run.split(), *flags.split(), "--track_value", "--save", "run.npz"]) == 0
    own = History.from_npz("run.npz")
    draw = published.sample(RegressionTask(dim=3, context=7), 50, 10)
    rule = torch_rule(FLAGS[flags], 0.02)
    losses, final = by_torch(own.model, draw, draw.starts(own.model), 80, rule)
    close(own.loss, losses, within=1e-6)  # float32 draws, summed in float64
    factors = (own.model.factors(weights, 3) for weights in (own.final, final))
    for factor, expected in zip(*factors, strict=True):
        close(factor, expected, within=1e-6)


# -- theory ---------------------------------------------------------------------------------------

FOUR = RegressionTask()
LEVELS = theory.plateau_losses(FOUR)


def crossings(run: History, levels=LEVELS) -> list[float]:
    """Return the steps at which the loss is halfway from each level to the next."""
    below = [run.loss < half for half in (levels[1:] + levels[:-1]) / 2]
    return [int(np.argmax(each)) if each.any() else np.inf for each in below]


def test_momentum_scales_time_and_lags():
    """Momentum β multiplies the rate by 1/(1 − β), and sees gradients lag = β/(1 − β) steps late. While s
    grows as ds/dt = r s(t − lag)² = rs² (1 − 2r lag s), every decade of growth takes 2 lag · ln 10 = 41
    more steps."""
    found = []
    for init in (1e-2, 1e-3):
        model = SeparateAttention(heads=4, init=init)
        plain = train(model, FOUR, int(16 / init), 0.02, seed=1)
        heavy = GradientDescent(momentum=0.9)
        run = train(model, FOUR, int(2 / init) + 200, 0.02, seed=1, optimizer=heavy)
        found.append(crossings(run)[0] - 0.1 * crossings(plain)[0])
    # four crossings are rounded to whole steps, and the next order is lag/wait, 0.06 of the 41 steps
    assert abs(found[1] - found[0] - 18 * np.log(10)) < 2 + 0.06 * 41


def test_decay_compresses_time():
    model, decay = SeparateAttention(heads=4, init=3e-3), 1e-3
    start = model.start(4, seed=1)
    times = 0.02 * np.array(crossings(train(model, FOUR, 35_000, 0.02, start=start)))
    rule, levels = GradientDescent(weight_decay=decay), optimisers.decayed_losses(FOUR, decay)
    run = train(model, FOUR, 56_000, 0.02, start=start, optimizer=rule)
    found, expected = 0.02 * np.array(crossings(run, levels)), optimisers.decayed_time(times, decay)
    # decay shifts the heads that have learned, and so the drive a of the others changes by γ/(2s)
    most = decay / (2 * optimisers.decayed_head_limit(FOUR, decay) * theory.rates(FOUR)[0]).min()
    assert most < 0.01 and np.abs(found / expected - 1).max() < most
    late = train(model, FOUR, 20_000, 0.02, start=start, optimizer=replace(rule, weight_decay=0.01))
    assert np.isfinite(optimisers.decayed_time(times, 0.01)).tolist() == [True, False, False, False]
    # the later drops never come
    close(late.loss[-1], optimisers.decayed_losses(FOUR, 0.01)[1], within=1e-6)


@pytest.mark.parametrize("divisor", ["one", "context"])
def test_gradient_and_decay_cancel_at_the_fixed_points(divisor):
    """With the first m eigenvectors learned, this is so at the predicted sizes and at the predicted
    losses."""
    model, decay = SeparateAttention(heads=4, divisor=divisor), 0.01
    ends = optimisers.decayed_head_limit(FOUR, decay, divisor)
    for m, level in enumerate(optimisers.decayed_losses(FOUR, decay, divisor)):
        weights = {name: np.zeros_like(array) for name, array in model.start(4).items()}
        for h in range(m):
            e = FOUR.eigenvectors[:, h]
            weights["key"][h, 0, :4] = weights["query"][h, 0, :4] = ends[h] * e
            weights["value"][h, 4, 4] = ends[h]
        factors, moments = model.factors(weights, 4), of_population(FOUR, model)
        close(moments.loss(coefficients(factors, moments.features)), level)
        for factor, slope in zip(factors, gradient(factors, moments), strict=True):
            close(slope, -decay * factor)


def test_no_head_holds_an_eigenvector_above_its_largest_decay():
    limit = optimisers.largest_decay(FOUR)
    assert (np.diff(limit) < 0).all()
    for d, most in enumerate(limit):
        below, above = (optimisers.decayed_head_limit(FOUR, x * most)[d] for x in (0.999, 1.001))
        assert below > 0 == above


def test_adam_grows_in_a_straight_line():
    """It grows by √5 a step while its memory of squares is longer than the run, and by 1 once it is
    shorter."""
    blind = optimisers.adam_growth(3000, Adam(beta1=0.0, beta2=1 - 1e-9))
    assert abs(np.diff(blind)[-1] / np.sqrt(5) - 1) < 0.01
    long = optimisers.adam_growth(100_000)  # the mean square is about that of 1,000 steps ago
    assert abs(np.diff(long)[-1] - (1 - 0.01) ** -2) < 0.005


@pytest.mark.parametrize("heads, lr", [(1, 1e-3), (4, 1e-3), (8, 1e-3), (4, 3e-4)])
def test_the_first_drop_of_adam_depends_on_its_rate_alone(heads, lr):
    """The starts differ by a factor of a hundred, as the waits of gradient descent would."""
    expected, found = optimisers.adam_drop(FOUR, heads, lr), []
    for init in (1e-2, 1e-3, 1e-4):
        model = SeparateAttention(heads=heads, init=init)
        steps = int(2 * expected)
        runs = [train(model, FOUR, steps, lr, seed=seed, optimizer=Adam()) for seed in range(3)]
        found += [crossings(run)[0] for run in runs]
        if heads > 1 and init < 1e-2:
            shares = [np.abs(run.value[crossings(run)[0]]) for run in runs]
            assert min(each.min() / each.max() for each in shares) > 0.8  # all heads at once
    # a start of 1e-2 is ten steps of 1e-3, by which one head may be ahead or behind
    assert np.abs(np.array(found) / expected - 1).max() < 0.06 + 0.01 / lr / expected * (heads == 1)


@pytest.mark.parametrize(
    ("heads", "labels", "free"), [(3, 0.0, 1), (3, 0.5, 0), (4, 0.0, 2), (4, 0.5, 1)]
)
def test_label_weights_take_one_free_direction_from_the_heads_on_a_plateau(heads, labels, free):
    """On the last plateau but one of D = 3, queries can turn towards e₃ at no cost in H − 2 directions, and
    in one less if heads read labels, whose squares must cancel in the answer. The cost is a quadratic
    form."""
    task, rng = RegressionTask(dim=3, context=6), np.random.default_rng(0)
    averages = of_population(task, SeparateAttention(heads=heads))
    known, (a, b) = task.eigenvectors[:, :2], theory.rates(task)
    query = known @ rng.standard_normal((2, heads))  # a column a head
    back = np.linalg.pinv(query)  # (H, 3)
    # adds to no sum over heads
    idle = rng.standard_normal((3, heads)) @ (np.eye(heads) - back @ query)
    key = np.zeros((heads, 1, 4))
    key[:, 0, :3] = (known @ (np.diag((a / b)[:2]) @ known.T @ back.T + idle[:2])).T
    key[:, 0, 3] = labels * idle[2]
    value = np.array([0, 0, 0, 1.0]) * np.ones((heads, 1, 1))

    def answer(queries):
        return coefficients((key, queries[:, None], value), averages.features)[0]

    rested = answer(query.T)
    close(averages.loss(rested[None]), theory.plateau_losses(task)[2])
    turns = np.array([answer(np.outer(one, task.eigenvectors[:, 2])) for one in np.eye(heads)])
    close(turns @ (averages.gram @ rested - averages.cross[0]), np.zeros(heads))  # at rest
    cost = np.linalg.eigvalsh(turns @ averages.gram @ turns.T)
    assert np.sum(cost < 1e-12 * cost[-1]) == free and cost[free] > 1e-3 * cost[-1]
