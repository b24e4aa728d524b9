"""Sequences: how many have a task of their own, and what is none."""

import numpy as np
import pytest

from iclcore import RegressionTask, Sequences


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
