"""The theory of small scores against softmax attention itself."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import close

from iclbook import measure
from iclbook.theory import softmax
from iclcore import MergedAttention, RegressionTask, SeparateAttention, train
from iclcore.engines.autograd import mean_loss, tensors
from iclcore.modules import module


@pytest.fixture(scope="module")
def data():
    return measure.mirrored(RegressionTask().sample(100, seed=3))


def loss_at(model, weights, data):
    net = module(model, weights, 1)
    return mean_loss(net.predict, tensors(net, data)).item()


@pytest.mark.parametrize("kind", [MergedAttention, SeparateAttention])
def test_small_scores_are_the_leading_terms(kind, data):
    """For weights of size s the leading terms leave out what is one order of s smaller than they are."""
    model = replace(kind(heads=3, softmax=True), init=1.0)
    unit, (drive, drag, power) = model.start(4, seed=2), measure.small_scores(data)
    rest = []
    for size in (2e-2, 1e-2):
        weights = {name: size * array for name, array in unit.items()}
        expected = softmax.early_loss(drive, drag, power, weights, np.array([0.0]))[0]
        rest.append(abs(loss_at(model, weights, data) - expected))
    # For merged heads the second order is kept and the third is zero by symmetry; for separate heads the
    # third is kept. So the rest is below size³ = 1e-6, and at half the size it is at most an eighth.
    assert rest[1] < 1e-6 and rest[0] / rest[1] > 8, rest


def test_drive_and_drag_of_the_population():
    """A and κ agree with many sequences with noisy labels, within 4.5 standard errors."""
    task = RegressionTask(dim=3, context=5, noise=0.5)
    parts = [measure.small_scores(task.sample(2000, seed=s)) for s in range(40)]
    drive, drag = softmax.small_scores(task)
    for exact, samples in ((drive, [p[0] for p in parts]), (drag, [p[1] for p in parts])):
        error = np.std(samples, axis=0, ddof=1) / np.sqrt(len(parts))
        assert np.all(np.abs(np.mean(samples, axis=0) - exact) < 4.5 * error)


def test_growth_rates_of_the_sum_and_of_differences():
    """Both rates are eigenvalues of the matrix of the linear flow of (v_h, u_h)."""
    task, heads = RegressionTask(), 5
    drive, drag = softmax.small_scores(task)
    size, one, none = np.linalg.norm(drive), np.eye(heads), np.zeros((heads, heads))
    flow = 2 * np.block([[-drag * np.ones((heads, heads)), size * one], [size * one, none]])
    growing = np.sort(np.linalg.eigvalsh(flow))[-heads:]
    pull, together = softmax.merged_growth(drive, drag, heads)
    close(growing, np.sort([together, *[pull] * (heads - 1)]))


def test_mirrored_sequences_stand_on_a_saddle(data):
    """On mirrored sequences the weights that read labels stay zero; on drawn sequences they move."""
    drawn = RegressionTask().sample(400, seed=3)
    model = MergedAttention(heads=2, init=1e-2, softmax=True)
    start = model.start(4, seed=1)
    moved = [train(model, each, 200, 0.05, start=start).final for each in (data, drawn)]
    labels = [np.abs(w["key_query"][:, :4, -1]).max() for w in moved]
    inputs = [np.abs(w["value"][:, -1, :4]).max() for w in moved]
    assert labels[0] < 1e-5 and inputs[0] < 1e-5  # float32 sums of terms that cancel
    assert labels[1] > 1e-3 and inputs[1] > 1e-3


def test_the_flow_of_small_scores_descends_its_own_loss(data):
    """The loss falls at the rate of its squared gradient, which is computed by finite differences."""
    drive, drag, power = measure.small_scores(data)
    weights = MergedAttention(heads=3, init=0.1, softmax=True).start(4, seed=2)
    step = np.array([0.0, 1e-4])

    def loss(moved):
        return softmax.early_loss(drive, 30 * drag, power, moved, step[:1])[0]

    square = 0.0
    for name, array in weights.items():
        for place in np.ndindex(array.shape):
            nudged = [{n: a.copy() for n, a in weights.items()} for _ in range(2)]
            nudged[0][name][place] += 1e-5
            nudged[1][name][place] -= 1e-5
            square += ((loss(nudged[0]) - loss(nudged[1])) / 2e-5) ** 2
    falls = -np.diff(softmax.early_loss(drive, 30 * drag, power, weights, step))[0] / step[1]
    close(falls / square, 1, within=2e-3)  # the gradient changes within the step


@pytest.mark.parametrize("kind, rate", [(MergedAttention, 0.05), (SeparateAttention, 0.2)])
def test_escape_is_predicted(kind, rate, data):
    """When a tenth of the loss is gone is predicted within 3%, and without the drag not even within 5%."""
    drive, drag, power = measure.small_scores(data)
    start = kind(heads=6, init=1e-3 if kind is MergedAttention else 2e-2).start(4, seed=1)
    both = (softmax.early_escape(drive, each, power, start, 0.1) for each in (drag, 0))
    expected, undragged = both
    run = train(kind(heads=6, softmax=True), data, int(1.2 * expected / rate), rate, start=start)
    left = measure.crossing(run.time, run.loss, 0.9 * run.loss[0])
    assert abs(expected / left - 1) < 0.03 < 0.05 < abs(undragged / left - 1)


def test_the_drag_has_the_right_strength(data):
    """With equal values and no scores the sum falls by the drag, then grows. Half or twice the drag misses
    it.

    Gradient descent misses exp(rt) by a relative lr r² t/2; the scores are of size 1e-6.
    """
    drive, drag, _ = measure.small_scores(data)
    model, rate = MergedAttention(heads=6, softmax=True), 0.01
    start = {name: np.zeros_like(array) for name, array in model.start(4).items()}
    start["value"][:, -1, -1] = 1e-3
    run = train(model, data, int(4 / rate), rate, start=start)
    found = run.value.sum(axis=1) / run.value[0].sum()
    courses = [softmax.sum_course(drive, x * drag, 6, run.time) for x in (1, 0, 0.5, 2)]
    gaps = [np.abs(course - found).max() for course in courses]
    fastest = np.hypot(2 * np.linalg.norm(drive), 6 * drag) + 6 * drag
    assert gaps[0] < rate * fastest**2 * 4 / 2 < 0.05 < min(gaps[1:]), gaps


def test_measures_of_heads_agree_with_the_run():
    """Answers and errors are those of the run, and a head that reads labels has all of the strength."""
    task = RegressionTask(dim=2, context=5)
    data = task.sample(20, seed=1)
    model = SeparateAttention(heads=2, init=0.5, softmax=True)
    start = model.start(2, seed=1)
    start["key"][1, 0] = 0, 0, 1
    start["value"][1, 2] = 1, 2, 0
    run = train(model, data, 4, 0.1, start=start, snapshots=1)
    close(measure.errors(run, data)[:4], run.loss, within=1e-6)  # the engine's sums are float32
    p = measure.attention(run, data, 0)
    close(p.sum(axis=2), np.ones((20, 2)))
    inputs, labels = measure.strengths(run, 0)
    assert inputs[1] == 0 and labels[0] == 0
    query = np.linalg.norm(start["query"][1, 0, :2])
    close(labels[1], query * np.sqrt(5))
    close(measure.label_share(run, 0), labels[1] / (labels[1] + abs(inputs[0])))
    found = measure.reading(run, data, "labels", [0], one=3)
    close(found.spread[0, 0], 1 / np.sum(p[:, 1] ** 2, axis=1))
    close(found.reads[0, 0], [*data.y[3, :-1, 0], 0])
