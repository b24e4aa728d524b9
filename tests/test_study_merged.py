"""What the chapter on merged key and query claims."""

import numpy as np
import pytest
from conftest import close

from iclbook.studies import crossing, merged
from iclcore import MergedAttention, RegressionTask, reference, theory, train
from iclcore.moments import of_population, of_sequences


@pytest.fixture(scope="module")
def drop():
    return merged.abrupt_drop()


def test_abrupt_drop():
    facts = merged.abrupt_drop("quick").facts
    close(facts["theory_end"], 0.1359950716, within=1e-9)
    assert facts["floor"] <= facts["end"] < 0.15 < 0.9 < facts["start"]
    assert facts["apart_end"] < 0.01 and 500 < facts["drop_step"] < 1500


def test_white_course():
    facts = merged.white_course("quick").facts
    # A step of 0.05 multiplies by 1 + 2a·lr: the course is late by a·lr = 0.6% of its longest wait, 54, where
    # it falls by 0.128 a unit of time. Half the rate, half of that, to a relative 2a·lr.
    assert facts["gap"] < 0.128 * 0.125 * 0.05 * 54 and 1.9 < facts["gap_ratio"] < 2.1
    # 500 sequences: a standard deviation of 0.013
    close(facts["data_end"], facts["theory_end"], within=0.02)


def test_drop_times():
    found = merged.drop_times("paper")
    assert len(found.inits) == 7  # six decades
    for spectrum in found.measured:
        task, rate = RegressionTask(spectrum=spectrum), 0.005
        growth = theory.growth_rate(task, "context")
        # A step multiplies by 1 + growth·lr, exactly where weights are small; between two steps the loss is
        # taken as a line. Of large starts the slope that is fitted has 1e-3 besides.
        last = np.diff(found.measured[spectrum])[-1]
        close(last, rate * np.log(10) / np.log1p(growth * rate), within=growth * rate**2)
        slope, wanted = (found.facts[f"{spectrum}_decade{end}"] for end in ("", "_theory"))
        close(slope, wanted, within=2e-3)
    growth = theory.growth_rate(merged.WHITE, "context")
    # late by a·lr of its time, at most
    close(found.measured["white"], found.predicted["white"], within=growth / 2 * rate)


def test_phase_plane():
    assert merged.phase_plane("quick").facts["furthest"] < 1e-9  # trained to the end: round-off


def test_attention_and_mlp_differ_on_a_sample(drop):
    """The draw that is shown is better than most: the text quotes the others."""
    facts = drop.facts
    assert facts["apart"] < facts["apart_median"] < facts["apart_largest"]
    halves = [facts[f"half_{d}"] for d in (1, 2, 3, 4)]
    assert abs(halves[0] - facts["drop_step"]) < 100 and halves == sorted(halves)


def test_what_follows_the_drop_does_not_depend_on_the_start():
    """From weights a hundred times smaller: all directions later, by the same time."""
    model, halves = MergedAttention(8, divisor="context"), []
    for init in (1e-3, 1e-5):
        start = {name: array * init / 1e-3 for name, array in merged.unit_start().items()}
        every = range(0, 9001, 10)
        run = train(
            model, of_population(merged.TASK, model), 9000, 0.01, start=start, snapshots=every
        )
        # shares are in the convention without 1/N, where M is N times smaller
        shares = merged._shares(run, merged.TASK.eigenvectors) / merged.TASK.context
        halves.append(0.1 * np.argmax(shares > 0.5, axis=0))
    later = halves[1] - halves[0]
    close(later, np.full(4, later[0]), within=0.1 / later[0])  # snapshots are 0.1 apart
    assert later[0] > 10 and halves[0][3] > 1.5 * halves[0][0]


def test_a_sample_pulls_harder_than_its_part_in_the_subspace():
    """The time that a hundredfold smaller start costs on data is ln 100 over twice the whole pull."""
    model = MergedAttention(8, divisor="context")
    data = of_sequences(reference.sample(merged.WHITE, 5000, seed=10), model)
    own, whole = merged._pulls(data)
    assert whole > 1.05 * own
    times = []
    for init in (1e-5, 1e-7):
        start = {name: array * init / 1e-3 for name, array in merged.unit_start().items()}
        times.append(0.02 * crossing(train(model, data, 4000, 0.02, start=start).loss, 0.9))
    # a step of 0.02 multiplies by 1 + 2σ·0.02, which is 0.3% less than the exponential
    close((times[1] - times[0]) * 2 * whole / np.log(100), 1, within=0.005)


def test_a_start_of_the_wrong_sign_passes_the_saddle_at_a_distance():
    facts = merged.phase_plane("quick").facts
    assert (facts["wrong"], facts["far_away"]) == (6, 4)
    # a step of 0.05 loses 4·0.05²(a − b uv)² of v² − u²: on the slow paths 5% in all, and half in its root
    close([facts["near"], facts["far"]], np.sqrt([0.3**2 - 0.24**2, 2.6**2 - 0.1**2]), within=0.025)
