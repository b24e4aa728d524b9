"""Where a run passes the edge of stability: against the whole Hessian, by autograd."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import close
from scipy.sparse.linalg import ArpackError

from iclcore import MergedAttention, RegressionTask, SeparateAttention, Sequences, edge, train
from iclcore.cli import main
from iclcore.engines.autograd import gradient_of, lengths
from iclcore.modules import module
from iclcore.moments import of_sequences

TASK = RegressionTask(dim=2, context=5)
ZIGZAG = (
    "train --model attnS --head 2 --in_dim 2 --init 0.3 --seq_len 6 --trainset_size 30 --seed 1"
)
ZIGZAG += " --epoch 401"


def exact_sharpness(model, weights, data):
    """The largest eigenvalue of the Hessian in all weights: those that cannot move add only zeros."""
    net = module(model, weights, data.y.shape[2])
    names, parts = zip(*net.named_parameters(), strict=True)
    ((tokens, answers, _),) = lengths(net, data)

    def loss(*values):
        held = dict(zip(names, values, strict=True))
        return (torch.func.functional_call(net, held, (tokens,)) - answers).square().mean()

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
    kind = "softmax" if model.softmax else "moments"
    given = data if model.softmax else of_sequences(data, model)
    expected = exact_sharpness(model, start, data)
    factors = model.factors(start, 2)
    gradient = edge._gradient(kind, model, given, start)
    # Lanczos stops at 1e-3 of it
    close(edge.sharpness(gradient, factors), expected, within=1e-3)
    by_torch = gradient_of(model, data, start)
    close(edge.sharpness(by_torch, factors), expected, within=1e-3)


@pytest.mark.parametrize("softmax", [False, True], ids=["linear", "softmax"])
def test_the_first_step_past_the_edge(softmax):
    """Sharpness grows while a run learns: the rate is set to reach the edge in the middle."""
    model, data = SeparateAttention(heads=2, init=0.3, softmax=softmax), TASK.sample(50, seed=1)
    slow = train(model, data, 4000, 0.05, seed=2, snapshots=[4000])
    end = {name: stack[0] for name, stack in slow.snapshots.items()}
    lr = 2.2 / exact_sharpness(model, end, data)
    start = model.start(2, seed=2)
    run = train(model, data, 6000, lr, start=start)
    # a rise that is none of the edge's, as rounding makes one where nothing is learned
    jumped = replace(run, series={"loss": run.loss.copy()})
    jumped.loss[5] = jumped.loss[4] * (1 + 2e-6)
    for each in (run, jumped):
        step = edge.past_edge(model, data, start, lr, each)
        assert 10 < step < len(run.loss)
        around = train(model, data, step, lr, start=start, snapshots=[step - 1, step])
        before, after = (
            lr * exact_sharpness(model, {n: w[i] for n, w in around.snapshots.items()}, data)
            for i in (0, 1)
        )
        # to what Lanczos leaves on either side, 1e-3
        assert before < 2 * (1 + 2e-3) and after > 2 * (1 - 2e-3), (before, after)
        # it falls until then, but for what softmax in float32 rounds
        assert np.all(np.diff(run.loss[: step + 1]) <= 1e-6 * run.loss[0])
    short = replace(run, series={"loss": jumped.loss[:step]})
    assert edge.past_edge(model, data, start, lr, short) is None
    calm = train(model, data, 3000, 0.1 * lr, start=start)
    assert edge.past_edge(model, data, start, 0.1 * lr, calm) is None


@pytest.mark.parametrize("softmax", [False, True], ids=["linear", "softmax"])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_calm_rate_is_below_the_edge_and_twice_as_much_is_past_it(softmax, scale):
    """Where the run ends, and at every step before, by the whole Hessian; on arrays of any scale."""
    model, drawn = SeparateAttention(heads=2, init=0.3, softmax=softmax), TASK.sample(50, seed=1)
    data, start = Sequences(drawn.x, scale * drawn.y), model.start(2, seed=2)
    lr = edge.calm_rate(model, data, 2000, seed=2)

    def products(lr):
        """Learning rate × sharpness where it begins and at three steps of the run."""
        run = train(model, data, 2000, lr, start=start, snapshots=[0, 200, 1000, 2000])
        if run.ended == "diverged":
            return run, [np.inf]
        each = ({n: w[i] for n, w in run.snapshots.items()} for i in range(4))
        return run, [lr * exact_sharpness(model, weights, data) for weights in each]

    run, calm = products(lr)
    # to what Lanczos leaves, 1e-3
    assert max(calm) < 2 * (1 + 2e-3) and np.all(np.diff(run.loss) <= 1e-6 * run.loss[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run, wild = products(2 * lr)
    assert max(wild) > 2 or np.any(np.diff(run.loss) > 1e-6 * run.loss[0])


def test_where_there_is_nothing_to_learn_no_rate_is_found():
    zeros = Sequences(np.zeros((3, 4, 2)), np.zeros((3, 4)))
    with pytest.raises(ValueError, match="something can be learned"):
        edge.calm_rate(MergedAttention(heads=1), zeros, 3)
    data = TASK.sample(5)
    with pytest.raises(ValueError, match="smaller numbers"):
        edge.calm_rate(MergedAttention(heads=1), Sequences(1e60 * data.x, data.y), 3)


def test_a_run_that_diverges_when_it_is_repeated():
    """As rounding may decide past the edge: its own loss stayed finite, and rose once before."""
    model, data = SeparateAttention(heads=2, init=0.3), TASK.sample(50, seed=1)
    start, lr = model.start(2, seed=2), 0.2
    wild = train(model, data, 5000, lr, start=start)
    assert wild.ended == "diverged"
    loss = np.full(len(wild.loss) + 10, 1.0)
    loss[[3, -1]] = 1.1, 1.3
    run = replace(wild, series={"loss": loss}, ended="finished")
    assert 3 < edge.past_edge(model, data, start, lr, run) < len(wild.loss)


def test_however_often_the_loss_rises_few_rises_are_looked_into(monkeypatch):
    """Of those that are the largest so far the first and the largest are always among them."""
    model, data = SeparateAttention(heads=2, init=0.3), TASK.sample(50, seed=1)
    start = model.start(2, seed=2)
    run = train(model, data, 300, 0.01, start=start)
    loss = 1 + np.arange(300.0) ** 2
    seen = []
    monkeypatch.setattr(edge, "sharpness", lambda *_: seen.append(1) or 0.0)
    rising = replace(run, series={"loss": loss})
    assert edge.past_edge(model, data, start, 0.01, rising) is None
    assert len(seen) == 1 + 2 * edge.RISES
    rises = edge._rises(rising)
    assert rises[0] == 0 and rises[-1] == 298 and len(rises) == edge.RISES


@pytest.mark.parametrize("engine", ["auto", "published"])
def test_the_command_line_says_where(engine, capsys, in_folder):
    """lr · sharpness is 1.25 before step 10 and 3.05 before step 11: no rounding and no Lanczos decides."""
    assert main([*ZIGZAG.split(), "--lr=0.2", "--engine", engine]) == 0
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "from step 11 " in said.err
    assert ("--engine published goes on" in said.err) == (engine == "auto")


def test_the_table_of_a_sweep_says_where(in_folder):
    assert main(["sweep", *ZIGZAG.split()[1:], "--grid", "lr=0.05,0.2", "--out", "out"]) == 0
    header, calm, wild = (in_folder / "out" / "table.csv").read_text().splitlines()
    at = header.split(",").index('"past_edge"')
    assert calm.split(",")[at] == "" and wild.split(",")[at] == "11"


def test_a_search_that_does_not_settle_costs_no_run(monkeypatch, capsys, in_folder):
    def unsettled(*_, **__):
        raise ArpackError(-1)

    monkeypatch.setattr("scipy.sparse.linalg.eigsh", unsettled)
    assert main([*ZIGZAG.split(), "--lr=0.2", "--save", "run.csv"]) == 0
    assert "401 steps" in capsys.readouterr().out and (in_folder / "run.csv").exists()
