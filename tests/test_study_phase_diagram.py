"""The map of 10,000 runs: a part of it trained again, its theory, and where training tends to."""

import numpy as np
import pytest
from conftest import close

from iclbook.figures import phase_diagram as figures
from iclbook.studies import in_weight
from iclbook.studies import phase_diagram as study
from iclcore import train


@pytest.fixture(scope="module")
def found():
    return study.diagram("quick")


def test_a_part_of_the_map_trained_again(found):
    assert found.facts["alike"] == found.facts["again"] == 9


def test_the_end_of_a_run_is_that_of_training():
    parts = study.kinds(5)
    tests = {test: parts[test] for test in study.TESTS}
    run = train(
        study.MODEL, in_weight.at_share(parts, 0.3), study.STEPS + 1, study.RATE, tests=tests
    )
    close(study.ends(parts, 0.3), [run.series[test][-1] for test in study.TESTS])


def test_the_border_of_training_tends_to_that_of_the_optimum(found):
    optimum = found.optimum[np.array(study.BORDER_LENGTHS) - 1]
    gaps = np.abs(found.borders - optimum).max(axis=1)
    # at N = 100 the optimum's border is below 0.001, that of a hundred times the steps at 0.003
    assert gaps[0] > gaps[1] > 0.01 > 0.003 > gaps[2]
    # the pull of in-context sequences is proportional to their share: ten times the steps, a tenth of it, to
    # the order of the share itself, 0.12
    close(found.facts["border_100_1"] / found.facts["border_100_10"], 10, within=0.1)


def test_the_border_is_where_both_errors_of_the_optimum_are_equal(found):
    for length in (1, 4, 20):
        weights, context = study.best(study.kinds(length), found.optimum[length - 1])
        close(weights, context, within=1e-6)  # the share to 2e-9, times a slope
    facts = found.facts  # the exponent of the border falls to two
    assert 2.2 > facts["power_8"] > facts["power_50"] > facts["power_200"] > 2
    assert facts["power_200"] < 2.02
    # one border: from there on memory is worse, up to where nothing is in weights
    lead = found.errors[0] - found.errors[1]
    assert np.all(np.diff(np.sign(lead), axis=1) >= 0) and np.all(lead[:, -1] > 0)


def test_the_picture_says_what_was_measured(found):
    assert f"{found.facts['best_25']:.3f} there" in figures.diagram(found).alt
