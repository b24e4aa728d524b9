"""When merged heads drop, and what decides it, without a chapter."""

import numpy as np
import pytest
from conftest import close

from iclbook import measure
from iclcore import MergedAttention, RegressionTask, published, theory, train
from iclcore.moments import averages
from iclcore.theory.in_weight import pull_matrix

MODEL = MergedAttention(heads=8, divisor="context")


def start(size, dim):
    return MergedAttention(heads=8, init=size).start(dim, seed=1)


@pytest.mark.parametrize("spectrum", ["white", "linear", "power"])
def test_a_decade_costs_what_the_growth_rate_says(spectrum):
    task = RegressionTask(dim=3, context=9, spectrum=spectrum)
    growth = theory.growth_rate(task, "context")
    rate, ends = 1 / (800 * growth), theory.plateau_losses(task)[[0, -1]]
    times = []
    for size in (1e-6, 1e-7):
        count = int(2 * (np.log(1 / size) + 3) / growth / rate)
        run = train(MODEL, task, count, rate, start=start(size, 3))
        times.append(measure.drop_times(run, ends)[0])
    # A step multiplies by 1 + growth·rate, exactly where weights are small; between two steps the loss is
    # taken as a line.
    wanted = rate * np.log(10) / np.log1p(growth * rate)
    close(times[1] - times[0], wanted, within=growth * rate**2)
    if spectrum == "white":
        c0 = theory.white_start(start(1e-6, 3), 3)
        # late by a·rate of its time, at most
        close(times[0], theory.drop_time(task, c0, "context"), within=growth / 2 * rate)


def test_what_follows_the_drop_does_not_depend_on_the_start():
    """From weights a hundred times smaller: all directions later, by the same time."""
    task, halves = RegressionTask(), []
    basis, end = task.eigenvectors, theory.learned(task, "context")
    for size in (1e-3, 1e-5):
        run = train(MODEL, task, 9000, 0.01, start=start(size, 4), snapshots=10)
        # of shares; in the convention with 1/N M is that of the formulas
        along = np.einsum("id,sij,jd->ds", basis, run.predictors, basis) / end[:, None]
        halves.append([measure.crossing(run.lr * run.kept, share, 0.5) for share in along])
    first, second = np.array(halves)
    # between snapshots, 0.1 apart, a share is taken as a line: off by 0.1²/8 of what its slope grows by, 0.8
    close(second - first, np.full(4, second[0] - first[0]), within=1e-3)
    assert second[0] - first[0] > 10 and first[3] > 1.5 * first[0]


def test_a_sample_pulls_harder_than_its_part_in_the_subspace():
    """The time that a hundredfold smaller start costs on data is ln 100 over twice the whole pull."""
    task = RegressionTask(spectrum="white")
    data = published.sample(task, 500, seed=10)
    whole = pull_matrix(averages(data, MODEL))
    own = np.trace(whole.reshape(4, 5, 5)[:, :4, -1]) / 2
    most = np.linalg.norm(whole, 2)
    assert most > 1.05 * own
    times = []
    for size in (1e-5, 1e-7):
        run = train(MODEL, data, 4000, 0.02, start=start(size, 4))
        times.append(measure.crossing(run.time, run.loss, 0.9 * run.loss[0]))
    # a step of 0.02 multiplies by 1 + 2σ·0.02, which is 0.3% less than the exponential
    close((times[1] - times[0]) * 2 * most / np.log(100), 1, within=0.005)
