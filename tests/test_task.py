"""Sequences: how many have a task of their own."""

import numpy as np
import pytest

from iclcore import RegressionTask


@pytest.mark.parametrize("sequences, percent", [(100, 29), (100, 57), (100, 58), (7, 50), (10, 34)])
def test_a_share_is_met_to_the_nearest_sequence(sequences, percent):
    """100 * 0.29 is a little less than 29 in floating point."""
    task = RegressionTask(dim=2, context=3, in_context=percent / 100)
    data = task.sample(sequences)
    own = ~np.isclose(data.y, data.x @ task.shared).all(axis=(1, 2))
    assert abs(100 * own.sum() - sequences * percent) <= 50
    assert own[: own.sum()].all()
