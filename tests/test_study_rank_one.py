"""What the chapter on rank one claims."""

import numpy as np
import pytest

from iclbook.studies import rank_one
from iclcore import RegressionTask, SeparateAttention, theory
from iclcore.theory.saddles import staircase


@pytest.fixture(scope="module")
def stairs():
    return rank_one.saddles()


def test_saddles(stairs):
    facts = stairs.facts
    # y² of 5,000 sequences has a standard deviation of 1.9/√5000 = 0.027
    assert facts["plateau_gap"] < 0.04
    assert facts["drops"] == 24 and facts["heads_right"] >= 20
    assert 0.95 < facts["time_ratio"] < 1.05
    late = [d.time / rank_one.RATE for run in stairs.runs for d in run.drops]
    assert facts["beyond"] == sum(np.array(late) > rank_one.STEPS) == 2
    assert all(facts[f"beyond_{i}"] > rank_one.STEPS > facts[f"came_{i}"] for i in (1, 2))
    for run in stairs.runs:
        assert sorted(rank_one.owned(run)) == [1, 2, 3, 4]
        assert len(rank_one.drop_steps(run.history.loss, stairs.levels)) == 4


def test_early_stopping_is_pcr(stairs):
    facts = rank_one.principal_components(stairs).facts
    assert facts["nearest_is_own"] and max(facts[f"at_{m}"] for m in range(5)) < 0.15


def test_waiting_is_inverse_in_the_weights():
    """What theory leaves out, the drop itself, is a part of the wait in proportion to the weights: a tenth
    at 10^−1.5 is 3e-4 at 10^−4."""
    facts = rank_one.waiting().facts
    assert abs(facts["slope"] + 1) < 1e-3 and facts["off_last"] < 1e-3 < facts["off_first"] < 0.1


def test_the_start_predicts_the_staircase():
    facts = rank_one.allocation("quick").facts
    assert facts["heads_right"] == facts["drops"] >= 18
    assert facts["median_off"] < 0.01 and facts["worst_off"] < 0.15
    assert facts["ordered"] == facts["starts"]


def test_close_eigenvalues_may_be_learned_out_of_order():
    """Of eight eigenvalues ∝ d start 23 learns the fourth before the third, in training and in theory."""
    task, model = rank_one.CLOSE, SeparateAttention(9, 5e-3)
    assert not rank_one.in_order(task, model, 23, 400.0)
    order = [drop.component for drop in staircase(task, model.start(8, seed=23), 400.0)]
    assert order == [1, 2, 4, 3]
    assert rank_one.in_order(task, model, 0, 400.0)


def test_regression_proper_and_the_fixed_points():
    """Both closed forms against least squares on the first m coordinates of 20,000 contexts."""
    task, n = RegressionTask(dim=3, context=9), 9
    lam, rng = task.eigenvalues, np.random.default_rng(0)
    x, w = rng.standard_normal((20_000, n, 3)) * np.sqrt(lam), rng.standard_normal((20_000, 3))
    y = np.einsum("pnd,pd->pn", x, w)
    gains = theory.learned(task, "context")
    for m in (1, 2):
        fitted, fixed = np.zeros_like(w), np.zeros_like(w)
        xy = np.einsum("pnd,pn->pd", x[:, :, :m], y)
        fitted[:, :m] = np.linalg.solve(
            np.einsum("pni,pnj->pij", x[:, :, :m], x[:, :, :m]), xy[:, :, None]
        )[..., 0]
        fixed[:, :m] = gains[:m] * xy / n
        loss, distance = theory.regression(task, m)
        for got, wanted in ((fitted - w, loss), (fitted - fixed, distance**2)):
            squares = got**2 @ lam
            assert abs(squares.mean() - wanted) < 4 * squares.std() / np.sqrt(len(w))
    with pytest.raises(ValueError, match="less than 8"):
        theory.regression(task, 8)


def test_escape_is_homogeneous():
    """Half the weights, twice the time: exact for the quadratic ODE before the first drop."""
    start = SeparateAttention(heads=4, init=1e-4).start(4, seed=2)
    halved = {name: array / 2 for name, array in start.items()}
    first, second = (staircase(rank_one.TASK, w, 1e6)[0] for w in (start, halved))
    # the drop itself, which does not scale, is a fraction 1e-4 of the wait
    assert np.isclose(second.time, 2 * first.time, rtol=1e-3) and first.head == second.head
