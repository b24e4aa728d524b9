"""What a caller may pass: else one line that names the parameter."""

from collections.abc import Mapping

import jaxtyping
import numpy as np
import pytest
import shapes

from iclbook import measure
from iclcore import (
    CubicMLP,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    stability,
    theory,
    train,
)
from iclcore.checks import instance, least, positive, whole
from iclcore.heads import spectral
from iclcore.models import Model, feature_count, trainable
from iclcore.moments import features


@pytest.mark.parametrize(
    "check, value, kind, says",
    [
        (whole, 2**63, ValueError, "at most 9223372036854775807"),
        (positive, 2**1024, ValueError, "a finite number above 0"),
        (least, 2**1024, ValueError, "a finite number of at least 0"),
        (positive, float("nan"), ValueError, "a finite number above 0"),
        (least, float("-inf"), ValueError, "a finite number of at least 0"),
        (trainable, "attnM", TypeError, "MergedAttention or SeparateAttention or CubicMLP, not str"),
        (trainable, Model(), TypeError, "not Model"),
        (trainable, MergedAttention, TypeError, "not type"),
        (lambda name, value: instance(name, value, Mapping), [1], TypeError, "Mapping, not list"),
    ],
)  # fmt: skip
def test_what_is_refused(check, value, kind, says):
    with pytest.raises(kind, match=f"^size takes .*{says}") as refused:
        check("size", value)
    assert "\n" not in str(refused.value)


def test_what_is_taken():
    assert whole("size", 2**63 - 1) == 2**63 - 1
    assert positive("size", 1.7e308) == 1.7e308
    assert trainable("model", MergedAttention()) == MergedAttention()


class Biased(MergedAttention):
    """What the engines would train without its bias."""


def test_what_would_silently_be_of_another_model_is_refused():
    task, other = RegressionTask(dim=3, context=5), RegressionTask(dim=4, context=5)
    wide, flat = SeparateAttention(heads=2, rank=2), SeparateAttention(heads=2)
    runs = [train(model, task, 2, 0.01) for model in (wide, flat)]
    with pytest.raises(TypeError, match="itself, not Biased"):
        train(Biased(), task, 2, 0.01)
    for run, of in zip(runs, (task, other), strict=True):
        with pytest.raises(ValueError, match=f"keys of shape .heads, 1, {of.dim + 1}."):
            theory.staircase(of, run.start)
    with pytest.raises(ValueError, match="rank-one heads"):
        measure.courses(runs[0])
    with pytest.raises(ValueError, match="takes a linear one"):
        stability.stable_rate(task, SeparateAttention(softmax=True))
    with pytest.raises(ValueError, match="covariance takes finite numbers"):
        RegressionTask.of_covariance([[float("nan"), 0], [0, 1]])


@pytest.mark.parametrize("model", [MergedAttention(), CubicMLP()])
@pytest.mark.parametrize("sizes", [(1, 1), (4, 1), (3, 2)])
def test_features_are_counted_without_making_them(model, sizes):
    assert feature_count(model, *sizes) == features(model, *sizes).size


@pytest.mark.parametrize("test", range(2))
def test_shapes_are_checked_at_the_first_calls_of_every_test(test):
    with pytest.raises(jaxtyping.TypeCheckError):
        spectral.mean_and_error(np.ones(3))
    for _ in range(shapes.FIRST):
        spectral.mean_and_error(np.ones((3, 1)))
    spectral.mean_and_error(np.ones(3))
