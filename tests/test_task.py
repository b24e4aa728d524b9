"""Sequences: how many have a task of their own, and what is none."""

import numpy as np
import pytest

from iclcore import MergedAttention, RegressionTask, Sequences, train


@pytest.mark.parametrize("sequences, percent", [(100, 29), (100, 57), (100, 58), (7, 50), (10, 34)])
def test_a_share_is_met_to_the_nearest_sequence(sequences, percent):
    """100 * 0.29 is a little less than 29 in floating point."""
    task = RegressionTask(dim=2, context=3, in_context=percent / 100)
    data = task.sample(sequences)
    own = ~np.isclose(data.y, data.x @ task.shared).all(axis=(1, 2))
    assert abs(100 * own.sum() - sequences * percent) <= 50
    assert own[: own.sum()].all()


@pytest.mark.parametrize("name, inputs, outputs", [("x", 0, 1), ("y", 2, 0)])
def test_an_empty_axis_is_refused(name, inputs, outputs):
    with pytest.raises(ValueError, match=f"{name} takes at least one entry a token"):
        Sequences(np.ones((5, 3, inputs)), np.ones((5, 3, outputs)))


def test_lists_and_integers_become_arrays():
    x, y = [[[1, 2], [3, 4], [5, 6]]], [[7, 8, 9]]
    data = Sequences(x, y)
    assert data.x.dtype == float and (data.dim, data.context, data.outputs) == (2, 2, 1)
    same = Sequences(np.array(x, dtype=float), np.array(y, dtype=float)[:, :, None])
    assert data == same and len({data, same}) == 1 and data != Sequences(x, [[7, 8, 0]])
    assert train(MergedAttention(), data, 3, 1e-3).loss[0] == pytest.approx(81)  # the answer is 9


@pytest.mark.parametrize(
    "x, says",
    [
        ([[[1], [2, 3]]], r"an array of real numbers, not \[\[\[1\]"),
        ([["a"]], r"an array of real numbers, not \[\['a'\]"),
        (np.ones((2, 3)), r"the shape \(P, T, D\), not \(2, 3\)"),
        (np.ones((2, 3, 4)) + 0j, "an array of real numbers, not of complex128"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(x, says):
    with pytest.raises(ValueError, match=f"^x takes {says}"):
        Sequences(x, np.ones((2, 3)))
