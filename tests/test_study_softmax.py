"""Softmax attention: what the chapter says of its runs, and the theory of small scores."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import close

from iclbook.studies import small_scores
from iclbook.studies import softmax as study
from iclcore import MergedAttention, RegressionTask, SeparateAttention, theory, train
from iclcore.modules import _tensors, mean_loss, module


@pytest.fixture(scope="module")
def data():
    return small_scores.mirrored(RegressionTask().sample(100, seed=3))


def loss_at(model, weights, data):
    return float(mean_loss(module(model, weights, 1), _tensors(data)).detach())


@pytest.mark.parametrize("kind", [MergedAttention, SeparateAttention])
def test_small_scores_are_the_leading_terms(kind, data):
    """Weights of size s: what the leading terms leave out is one order of s smaller than they are."""
    model = replace(kind(heads=3, softmax=True), init=1.0)
    unit, (drive, drag, power) = model.start(4, seed=2), small_scores.leading(data)
    rest = []
    for size in (2e-2, 1e-2):
        weights = {name: size * array for name, array in unit.items()}
        expected = theory.early_loss(drive, drag, power, weights, np.array([0.0]))[0]
        rest.append(abs(loss_at(model, weights, data) - expected))
    # merged: terms of second order kept, and third vanish by oddness; separate: third kept. So
    # the rest is below size³ = 1e-6, and of half the size an eighth of it or less.
    assert rest[1] < 1e-6 and rest[0] / rest[1] > 8, rest


def test_small_scores_of_the_population():
    """A and κ as measured on many sequences, in standard errors."""
    task = RegressionTask(dim=3, context=5)
    parts = [small_scores.leading(task.sample(2000, seed=s)) for s in range(40)]
    drive, drag = theory.small_scores(task)
    for exact, samples in ((drive, [p[0] for p in parts]), (drag, [p[1] for p in parts])):
        error = np.std(samples, axis=0, ddof=1) / np.sqrt(len(parts))
        assert np.all(np.abs(np.mean(samples, axis=0) - exact) < 4.5 * error)


def test_growth_of_the_sum():
    """Both exponents from the linear flow of (v_h, u_h), by its matrix."""
    task, heads = RegressionTask(), 5
    drive, drag = theory.small_scores(task)
    size, one, none = np.linalg.norm(drive), np.eye(heads), np.zeros((heads, heads))
    flow = 2 * np.block([[-drag * np.ones((heads, heads)), size * one], [size * one, none]])
    growing = np.sort(np.linalg.eigvalsh(flow))[-heads:]
    pull, together = theory.merged_growth(drive, drag, heads)
    close(growing, np.sort([together, *[pull] * (heads - 1)]))


def test_mirrored_sequences_stand_on_a_saddle(data):
    """Nothing moves from zero, and label-reading weights stay zero; on drawn sequences they move."""
    drawn = RegressionTask().sample(400, seed=3)
    model = MergedAttention(heads=2, init=1e-2, softmax=True)
    start = model.start(4, seed=1)
    moved = [train(model, each, 200, 0.05, start=start).final for each in (data, drawn)]
    labels = [np.abs(w["key_query"][:, :4, -1]).max() for w in moved]
    inputs = [np.abs(w["value"][:, -1, :4]).max() for w in moved]
    assert labels[0] < 1e-5 and inputs[0] < 1e-5  # float32 sums of terms that cancel
    assert labels[1] > 1e-3 and inputs[1] > 1e-3


def test_escape_is_predicted():
    found = small_scores.escape("quick").facts
    # a tenth of the loss is not infinitely little: three percent at the starts of the chapter
    assert found["merged_error"] < 0.05 and found["separate_error"] < 0.03
    close(found["decade"], found["decade_theory"], within=0.02)
    assert found["merged_later"] > 1.02 and found["separate_later"] > 1.02
    assert found["merged_drawn"] < 0.6 * found["merged_even"]  # a sample has no saddle
    assert found["together"] < found["pull"]
    for kind in (
        "merged",
        "separate",
    ):  # the times exclude that there is no drag, not four times as much
        assert found[f"{kind}_error_0"] > 2 * found[f"{kind}_error"] > found[f"{kind}_error_4"]


def test_the_flow_of_small_scores_descends_its_own_loss(data):
    """Along gradient flow the loss falls at the square of its own gradient, taken by differences."""
    drive, drag, power = small_scores.leading(data)
    weights = MergedAttention(heads=3, init=0.1, softmax=True).start(4, seed=2)
    step = np.array([0.0, 1e-4])

    def loss(moved):
        return theory.early_loss(drive, 30 * drag, power, moved, step[:1])[0]

    square = 0.0
    for name, array in weights.items():
        for place in np.ndindex(array.shape):
            nudged = [{n: a.copy() for n, a in weights.items()} for _ in range(2)]
            nudged[0][name][place] += 1e-5
            nudged[1][name][place] -= 1e-5
            square += ((loss(nudged[0]) - loss(nudged[1])) / 2e-5) ** 2
    falls = -np.diff(theory.early_loss(drive, 30 * drag, power, weights, step))[0] / step[1]
    close(falls / square, 1, within=2e-3)  # over a finite time the gradient changes


def test_one_drop_or_several():
    """Some of the six starts each; a tenth of the sequences has drops of its own making."""
    for seed in (1, 2):
        assert len(study.drops(study.one_run("paper", study.MERGED, seed).loss)) == 1
    # where two eigenvectors are learned within a hundred steps their drops are one
    counts = [
        len(study.drops(study.one_run("paper", study.SEPARATE, s).loss))
        for s in (1, study.LABELS_RUN, study.INPUTS_RUN)
    ]
    assert all(2 <= count <= 4 for count in counts), counts  # a last drop may fall past the end


def test_plateau_has_two_eigenvectors():
    """What the picture of attention says of its middle column, by the shares and not by the loss."""
    draw = study.drawn_data("paper")
    for seed, reads_labels in ((1, True), (study.LABELS_RUN, True), (study.INPUTS_RUN, False)):
        run = study.one_run("paper", study.SEPARATE, seed)
        weights = study.taken(run)[study.plateau(run)]
        shares = study.shares_learned(weights, draw.tests["in_context"], draw.task.covariance)
        assert shares[:2].min() > 0.7 and np.abs(shares[2:]).max() < 0.15
        close(run.loss[study.EVERY * study.plateau(run)], 0.377, within=0.035)
        labels = study.reading_labels(weights)
        assert labels > 0.95 if reads_labels else labels < 0.05
        end = study.shares_learned(
            study.taken(run)[-1], draw.tests["in_context"], draw.task.covariance
        )
        assert end[:3].min() > 0.9 and end[3] < 0.3


def test_each_kind_of_head_is_where_it_is_said():
    facts = study.reading("paper").facts
    assert facts["value_minus"] < -1 and facts["value_plus"] > 1
    # attention is broad on average, and less so for the query that is shown, picked for its size
    for kind in ("inputs", "labels"):
        assert 20 < facts[f"{kind}_mean_two"] < 30
        assert facts[f"{kind}_tokens_two"] < facts[f"{kind}_mean_two"] - 4
    assert facts["labels_top_two"] > 0.25 and facts["labels_tokens_two"] < 10


def test_drops_learn_eigenvectors_in_order():
    found = study.learned("paper").facts
    halves = [found[f"half_{d}"] for d in (1, 2, 3, 4)]
    assert all(later - earlier > 200 for earlier, later in pairwise(halves))
    for d in (1, 2, 3):
        assert found[f"next_{d}"] < 0.2
        # of 1,000 sequences y² has 0.06, and what is learned of it less; the first plateau is short
        close(found[f"loss_{d}"], found[f"linear_{d}"], within=0.06 if d == 1 else 0.02)


def test_linear_floor_is_passed_only_on_its_own_sequences():
    found = study.long_run("paper").facts
    assert found["train"] < found["floor"] - 0.005
    assert found["fresh_best"] > found["floor_fresh"] > found["best"]
    assert found["fresh"] > found["fresh_best"] + 0.005
