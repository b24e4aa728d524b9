"""Sequences: their draws, refusals, and protection against changes."""

import numpy as np
import pytest

from iclcore import MergedAttention, RegressionTask, Sequences, checks, published, train
from iclcore.checks import BadValue
from iclcore.moments import averages


@pytest.mark.parametrize("sequences, percent", [(100, 29), (100, 57), (100, 58), (7, 50), (10, 34)])
def test_in_context_is_met_to_the_nearest_sequence(sequences, percent):
    """100 * 0.29 is a little less than 29 in floating point."""
    task = RegressionTask(dim=2, context=3, in_context=percent / 100)
    data = task.sample(sequences)
    own = ~np.isclose(data.y, data.x @ task.shared).all(axis=(1, 2))
    assert abs(100 * own.sum() - sequences * percent) <= 50
    assert own[: own.sum()].all()
    assert np.linalg.norm(RegressionTask(dim=3, outputs=2).shared) == pytest.approx(np.sqrt(3))


X, Y = np.ones((5, 3, 2)), np.ones((5, 3))


@pytest.mark.parametrize(
    "name, x, y, says",
    [
        ("x", [[[1], [2, 3]]], Y, r"takes an array of real numbers, not \[\[\[1\]"),
        ("x", [["a"]], Y, r"takes an array of real numbers, not \[\['a'\]"),
        ("x", X + 0j, Y, "takes an array of real numbers, not array"),
        ("x", X[0], Y, r"takes the shape \(P, T, D\), .*, not \(3, 2\)"),
        ("x", X[:0], Y[:0], "takes the shape"),
        ("x", X[:, :1], Y[:, :1], "at least 2 tokens"),
        ("x", X[:, :, :0], Y, "takes the shape"),
        ("x", X * np.nan, Y, "takes finite numbers"),
        ("y", X, Y[:, :2], r"takes the shape \(P, T\) or \(P, T, O\), .*, not \(5, 2, 1\)"),
        ("y", X, Y[:, :, None][:, :, :0], "takes the shape"),
        ("y", X, Y * np.inf, "takes finite numbers"),
    ],
)
def test_what_is_refused(name, x, y, says):
    with pytest.raises(BadValue, match=f"^{name} .*{says}") as refused:
        Sequences(x, y)
    assert refused.value.name == name and "\n" not in str(refused.value)


def test_a_changed_array_never_trains_on_averages_of_the_old_one():
    """Averages and the digest are kept with the sequences, so that these must not change."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 6, 3)), rng.standard_normal((30, 6))
    data, model = Sequences(x, y), MergedAttention(init=0.1)
    first, digest = train(model, data, 3, 0.01).loss[0], data.digest
    for array in (data.x, data.y, data[:5].x):
        with pytest.raises(ValueError, match="read-only"):
            array *= 2
    x *= 2  # the caller's own arrays
    y *= 2
    assert train(model, data, 3, 0.01).loss[0] == first and data.digest == digest
    doubled = Sequences(x, y)
    assert doubled.digest != digest and train(model, doubled, 3, 0.01).loss[0] > 3.9 * first


def test_what_the_memory_cannot_hold_is_refused_before_it_is_drawn(monkeypatch):
    monkeypatch.setattr(checks.os, "sysconf", lambda name: 1000)  # 1,000 pages of 1,000 bytes
    task = RegressionTask(dim=8, context=31)
    for draw in (task.sample, lambda count: published.sample(task, count)):
        with pytest.raises(BadValue, match=r"^sequences takes less: .* the machine has 0.001"):
            draw(1000)
    for data in (RegressionTask(dim=9), task.sample(9)):
        with pytest.raises(BadValue, match=r"^dim takes less: "):
            averages(data, MergedAttention())


def test_numbers_that_are_objects_and_covariances_that_are_singular_are_refused():
    with pytest.raises(
        BadValue, match=r"x takes an array of real numbers, not of objects: try .astype"
    ):
        Sequences(X.astype(object), Y)
    for covariance in ([[1, 1], [1, 1]], [1, 2], [[1, 2], [0, 1]]):
        with pytest.raises(BadValue, match="covariance takes a symmetric matrix whose eigenvalues"):
            RegressionTask.of_covariance(covariance)
