"""What the chapter on rank one claims."""

import numpy as np
import pytest

from iclcore.studies import rank_one


@pytest.fixture(scope="module")
def stairs():
    return rank_one.saddles()


def test_saddles(stairs):
    facts = stairs.facts
    assert facts["plateau_gap"] < 0.04  # finite data moves the plateaus
    assert facts["drops"] == 24 and facts["heads_right"] >= 20
    assert 0.95 < facts["time_ratio"] < 1.05
    for run in stairs.runs:
        assert sorted(rank_one.owned(run)) == [1, 2, 3, 4]
        assert len(rank_one.drop_steps(run.history.loss, stairs.levels)) == 4


def test_early_stopping_is_pcr(stairs):
    facts = rank_one.principal_components(stairs).facts
    assert facts["nearest_is_own"] and max(facts[f"at_{m}"] for m in range(5)) < 0.15


def test_waiting_is_inverse_in_the_weights():
    facts = rank_one.waiting().facts
    assert abs(facts["slope"] + 1) < 1e-3 and facts["off_last"] < 1e-3 < facts["off_first"] < 0.1


def test_the_start_predicts_the_staircase():
    facts = rank_one.allocation("quick").facts
    assert facts["heads_right"] == facts["drops"] >= 18
    assert facts["median_off"] < 0.01 and facts["worst_off"] < 0.15


def test_escape_is_homogeneous():
    """Half the weights, twice the time: exact for the quadratic ODE before the first drop."""
    from iclcore.models import SeparateAttention
    from iclcore.theory.saddles import staircase

    start = SeparateAttention(heads=4, init=1e-4).start(4, seed=2)
    halved = {name: array / 2 for name, array in start.items()}
    first, second = (staircase(rank_one.TASK, w, 1e6)[0] for w in (start, halved))
    # the drop itself, which does not scale, is a fraction 1e-4 of the wait
    assert np.isclose(second.time, 2 * first.time, rtol=1e-3) and first.head == second.head
