"""When a learning rate is too large: sharpness against the whole Hessian by autograd, and monotone_rate."""

import os
import signal
import threading

import numpy as np
import pytest
import torch
from conftest import close
from scipy.sparse.linalg import ArpackError

from iclcore import MergedAttention, RegressionTask, SeparateAttention, Sequences, train
from iclcore.engines.autograd import mean_loss, tensors
from iclcore.engines.linear import gradient
from iclcore.modules import module
from iclcore.moments import of_sequences
from iclcore.stability import monotone_rate, sharpness

TASK = RegressionTask(dim=2, context=5)


def gradient_of(model, data, like):
    """Return the function ∂L/∂factors of the torch module, whose other weights are zero."""
    dim, outputs = data.dim, data.outputs
    sets = tensors(module(model, like, outputs), data)

    def of_factors(factors):
        weights = {name: np.zeros_like(array) for name, array in like.items()}
        for view, factor in zip(model.factors(weights, dim), factors, strict=True):
            view[...] = factor
        net = module(model, weights, outputs)
        mean_loss(net.predict, sets).backward()
        slopes = {n: np.stack([matrix.grad.numpy() for matrix in getattr(net, n)]) for n in like}
        return model.factors(slopes, dim)

    return of_factors


def exact_sharpness(model, weights, data):
    """Return the largest eigenvalue of the Hessian in all weights. Weights without effect add zeros."""
    net = module(model, weights, data.y.shape[2])
    names, parts = zip(*net.named_parameters(), strict=True)
    ((tokens, answers, _),) = tensors(net, data)

    def loss(*values):
        weights = dict(zip(names, values, strict=True))
        return (torch.func.functional_call(net, weights, (tokens,)) - answers).square().mean()

    blocks = torch.autograd.functional.hessian(loss, tuple(p.detach() for p in parts))
    rows = [
        torch.cat([b.reshape(p.numel(), -1) for b in row], dim=1)
        for p, row in zip(parts, blocks, strict=True)
    ]
    return float(torch.linalg.eigvalsh(torch.cat(rows))[-1])


@pytest.mark.parametrize(
    "model",
    [
        MergedAttention(heads=2, init=0.5),
        SeparateAttention(heads=3, rank=2, init=0.7),
        SeparateAttention(heads=2, init=0.7, softmax=True),
    ],
    ids=["merged", "separate", "softmax"],
)
def test_sharpness_is_that_of_the_whole_hessian(model):
    data, start = TASK.sample(40, seed=1), model.start(2, seed=3)
    expected = exact_sharpness(model, start, data)
    factors = model.factors(start, 2)
    # Lanczos stops at 1e-3 of it
    close(sharpness(gradient_of(model, data, start), factors), expected, within=1e-3)
    if model.linear:
        moments = of_sequences(data, model)
        close(sharpness(lambda at: gradient(at, moments), factors), expected, within=1e-3)


def test_sharpness_is_nan_if_lanczos_does_not_converge(monkeypatch):
    def not_converged(*_, **__):
        raise ArpackError(-1)

    monkeypatch.setattr("scipy.sparse.linalg.eigsh", not_converged)
    assert np.isnan(sharpness(lambda at: at, (np.ones(3),)))


@pytest.mark.parametrize("softmax", [False, True], ids=["linear", "softmax"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_at_the_monotone_rate_the_loss_never_rises_and_at_twice_as_much_it_does(softmax, scale):
    """lr × sharpness by the whole Hessian, where the run starts, inside and at its end; at any scale."""
    model, drawn = SeparateAttention(heads=2, init=0.3, softmax=softmax), TASK.sample(50, seed=1)
    data, start = Sequences(drawn.x, scale * drawn.y), model.start(2, seed=2)
    lr = monotone_rate(model, data, 2000, seed=2)
    assert np.log2(lr).is_integer()

    def products(lr):
        run = train(model, data, 2000, lr, start=start, snapshots=[0, 200, 1000, 2000])
        if run.ended == "diverged":
            return run, [np.inf]
        stored = ({n: w[i] for n, w in run.snapshots.items()} for i in range(4))
        return run, [lr * exact_sharpness(model, weights, data) for weights in stored]

    run, stable = products(lr)
    # to what Lanczos leaves, 1e-3
    assert max(stable) < 2 * (1 + 2e-3) and np.all(np.diff(run.loss) <= 1e-6 * run.loss[0])
    run, unstable = products(2 * lr)
    assert max(unstable) > 2 or np.any(np.diff(run.loss) > 1e-6 * run.loss[0])


def test_a_rate_is_too_large_if_the_run_ends_unstable_before_its_loss_rises():
    model, data = SeparateAttention(heads=2, init=0.3), TASK.sample(50, seed=1)
    start = model.start(2, seed=2)
    run = train(model, data, 24, 1 / 8, start=start)
    assert run.first_rise is None and exact_sharpness(model, run.final, data) / 8 > 2
    assert monotone_rate(model, data, 24, seed=2) == 1 / 16
    assert train(model, data, 60, 1 / 8, start=start).first_rise > 24


@pytest.mark.parametrize("softmax", [False, True], ids=["linear", "softmax"])
def test_ctrl_c_ends_the_search(softmax):
    model = SeparateAttention(heads=2, init=0.3, softmax=softmax)
    monotone_rate(model, TASK.sample(9), 3)  # compiled, so that Ctrl-C comes while it trains
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        monotone_rate(model, TASK.sample(9), 10**9)


def test_data_without_a_monotone_rate_are_refused():
    zeros = Sequences(np.zeros((3, 4, 2)), np.zeros((3, 4)))
    with pytest.raises(ValueError, match="a learning rate works"):
        monotone_rate(MergedAttention(heads=1), zeros, 3)
    data = TASK.sample(5)
    with pytest.raises(ValueError, match="a learning rate works"):
        monotone_rate(MergedAttention(heads=1), Sequences(1e40 * data.x, data.y), 3)
