"""The map of 10,000 runs: a part is trained again, and the borders agree with the optimum."""

import numpy as np
import pytest
from conftest import close

from iclbook import plot
from iclbook.data import phase_diagram
from iclbook.theory import in_weight

ALIKE = 1e-4  # errors that were written as float32, on another machine


@pytest.fixture(scope="module")
def stored():
    return phase_diagram.stored()


@pytest.fixture(scope="module")
def optimum():
    lengths = [*phase_diagram.BORDER_LENGTHS, 200, 400]
    return {n: in_weight.optimum_border(phase_diagram.kinds(n)) for n in lengths}


def test_a_part_of_the_map_trained_again(stored):
    some = slice(9, None, 45)
    again = phase_diagram.train_all(stored.lengths[some], stored.shares[some])
    assert again.shape == (2, 3, 3)
    for test, errors in zip(phase_diagram.TESTS, again, strict=True):
        assert np.all(np.abs(errors - stored.errors[test][some, some]) < ALIKE)


def test_the_border_of_training_tends_to_that_of_the_optimum(stored, optimum):
    gaps = [
        max(abs(stored.borders[n, times] - optimum[n]) for n in phase_diagram.BORDER_LENGTHS)
        for times in phase_diagram.TIMES
    ]
    # at N = 100 the optimum's border is below 0.001, that of a hundred times the steps at 0.003
    assert gaps[0] > gaps[1] > 0.01 > 0.003 > gaps[2]
    # the pull of in-context sequences is proportional to their share: ten times the steps, a tenth of it, to
    # the order of the share itself, 0.12
    close(stored.borders[100, 1] / stored.borders[100, 10], 10, within=0.1)


def test_the_exponent_of_the_border_falls_to_two(optimum):
    steep = [np.log(optimum[8] / optimum[14]) / np.log(14 / 8)]
    steep += [np.log2(optimum[n] / optimum[2 * n]) for n in (50, 200)]
    assert 2.2 > steep[0] > steep[1] > steep[2] > 2 and steep[2] < 2.02


def test_there_is_one_border(stored):
    """From it on memory is worse, up to where nothing is in weights."""
    lead = stored.errors["in_weight"] - stored.errors["in_context"]
    assert np.all(np.diff(np.sign(lead), axis=1) >= 0) and np.all(lead[:, -1] > 0)


def test_the_picture_says_where_the_border_is(stored, optimum):
    everywhere = {n: optimum.get(n, 0.5) for n in stored.lengths}
    alt = plot.figure(plot.phase_map(stored, everywhere)).alt
    assert f"dashed border is at {optimum[25]:.3f} there" in alt
    assert f"at 8 to {stored.borders[100, 1]:.2f} at 100" in alt
