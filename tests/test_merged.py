"""When the loss of merged heads drops, and what the time of the drop depends on."""

import numpy as np
import pytest
from conftest import close

from iclbook import measure
from iclbook.theory.in_weight import pull_matrix
from iclcore import CubicMLP, MergedAttention, RegressionTask, published, theory, train
from iclcore.moments import averages

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
    # A step multiplies small weights by 1 + growth·rate. Between two steps the loss is interpolated linearly.
    wanted = rate * np.log(10) / np.log1p(growth * rate)
    close(times[1] - times[0], wanted, within=growth * rate**2)
    if spectrum == "white":
        c0 = theory.white_start(start(1e-6, 3), 3)
        # the run is late by at most the fraction a·rate of its time
        close(times[0], theory.drop_time(task, c0, "context"), within=growth / 2 * rate)


def test_the_course_after_the_drop_does_not_depend_on_the_start():
    """From weights a hundred times smaller all directions are learned later by the same time."""
    task, halves = RegressionTask(), []
    basis, end = task.eigenvectors, theory.learned(task, "context")
    for size in (1e-3, 1e-5):
        run = train(MODEL, task, 9000, 0.01, start=start(size, 4), snapshots=10)
        # the learned fraction of each direction; with the divisor N, M is that of the formulas
        along = np.einsum("id,sij,jd->ds", basis, run.predictors, basis) / end[:, None]
        halves.append([measure.crossing(run.lr * run.kept, fraction, 0.5) for fraction in along])
    first, second = np.array(halves)
    # Between snapshots, 0.1 apart, a fraction is interpolated linearly. That errs by 0.1²/8 of its second
    # derivative, 0.8.
    close(second - first, np.full(4, second[0] - first[0]), within=1e-3)
    assert second[0] - first[0] > 10 and first[3] > 1.5 * first[0]


def test_a_sample_drives_growth_faster_than_its_part_in_the_subspace():
    """A hundredfold smaller start costs ln 100 over twice the largest singular value of the whole pull."""
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


@pytest.mark.parametrize("spectrum", ["white", "linear", "power"])
@pytest.mark.parametrize("model", [MergedAttention(8, 1e-4, "context"), CubicMLP(8, 1e-4)])
def test_the_drop_comes_when_the_equation_of_one_head_says(spectrum, model):
    task = RegressionTask(context=15, spectrum=spectrum)
    growth, ends = theory.growth_rate(task, model.divisor), theory.plateau_losses(task)[[0, -1]]
    weights, rate = model.start(4, seed=3), 1 / (400 * growth)
    expected = theory.merged_drop(task, model, weights)
    run = train(model, task, int(1.2 * expected / rate), rate, start=weights)
    # Euler's steps are late by the part growth·rate/2. The parts of the start that do not grow, as large as
    # those that do, shift the drop by some parts in a thousand of this time.
    close(measure.drop_times(run, ends)[0] / expected, 1 + growth * rate / 2, within=0.005)
    # c₀ is smaller by 1e-180, and grows twice as fast as the weights
    later = theory.merged_drop(task, model, {name: 1e-90 * w for name, w in weights.items()})
    close(later - expected, np.log(1e90) / growth, within=1e-4 / growth)
