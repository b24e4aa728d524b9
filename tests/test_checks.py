"""What a caller may pass: else one line that names the parameter."""

from collections.abc import Mapping

import pytest

from iclcore import CubicMLP, MergedAttention
from iclcore.checks import instance, least, positive, whole
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


@pytest.mark.parametrize("model", [MergedAttention(), CubicMLP()])
@pytest.mark.parametrize("sizes", [(1, 1), (4, 1), (3, 2)])
def test_features_are_counted_without_making_them(model, sizes):
    assert feature_count(model, *sizes) == features(model, *sizes).size
