"""A value that a parameter cannot take is refused in one line that names the parameter."""

import pickle
from collections.abc import Mapping

import jaxtyping
import numpy as np
import pytest
import shapes

from iclbook import measure
from iclcore import MergedAttention, RegressionTask, SeparateAttention, stability, theory, train
from iclcore.checks import (
    BadValue,
    choice,
    enough_to_whiten,
    fraction,
    instance,
    least,
    numbers,
    positive,
    seed,
    whole,
)
from iclcore.heads import spectral
from iclcore.models import trainable


@pytest.mark.parametrize(
    "check, value, says",
    [
        (whole, 0, "a whole number of at least 1, not 0"),
        (seed, 2**32, r"a whole number below 2\^32, not 4294967296"),
        (positive, np.array([1.0, 2.0]), "a finite number above 0"),
        (least, float("inf"), "a finite number of at least 0"),
        (fraction, 1.01, "a number from 0 to 1, not 1.01"),
        (lambda name, value: choice(name, value, ("one", "two")), "three", "one of one, two, not 'three'"),
        (numbers, [1, "a"], r"an array of real numbers, not \[1, 'a'\]"),
        (lambda name, value: enough_to_whiten(name, value, 4), 4, "at least 5 sequences"),
        (lambda name, value: instance(name, value, Mapping), [1], "Mapping, not list"),
        (trainable, "attnM", "MergedAttention or SeparateAttention or CubicMLP, not str"),
        (positive, "x" * 1000, "a finite number above 0, not 'x.{70,80}$")
    ]
)  # fmt: skip
def test_what_is_refused(check, value, says):
    with pytest.raises(BadValue, match=f"^size takes .*{says}") as refused:
        check("size", value)
    assert refused.value.name == "size" and "\n" not in str(refused.value)


def test_a_refusal_can_be_pickled():
    """A cluster sends it back from a worker."""
    back = pickle.loads(pickle.dumps(BadValue("lr", "takes a number, not 'a'")))
    assert str(back) == "lr takes a number, not 'a'" and back.name == "lr"


class Biased(MergedAttention):
    """The engines would train it without its bias."""


def test_what_would_silently_be_another_model_is_refused():
    task, other = RegressionTask(dim=3, context=5), RegressionTask(dim=4, context=5)
    rank_2, rank_1 = SeparateAttention(heads=2, rank=2), SeparateAttention(heads=2)
    runs = [train(model, task, 2, 0.01) for model in (rank_2, rank_1)]
    with pytest.raises(BadValue, match=r"^model takes .* or CubicMLP, not Biased"):
        train(Biased(), task, 2, 0.01)
    for run, of in zip(runs, (task, other), strict=True):
        with pytest.raises(ValueError, match=f"keys of shape .heads, 1, {of.dim + 1}."):
            theory.staircase(of, run.start)
    with pytest.raises(ValueError, match="rank-one heads"):
        measure.courses(runs[0])
    with pytest.raises(ValueError, match="takes a linear one"):
        stability.stable_rate(task, SeparateAttention(softmax=True))
    with pytest.raises(BadValue, match="covariance takes finite numbers"):
        RegressionTask.of_covariance([[float("nan"), 0], [0, 1]])


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_eigenvalues_whose_powers_are_no_floats_are_refused(scale):
    """Without this check, the eigenvalues of a Hessian did not converge and a staircase did not end."""
    task = RegressionTask.of_covariance(scale * np.eye(3))
    for wrong in (
        lambda: stability.stable_rate(task, SeparateAttention()),
        lambda: theory.plateau_losses(task),
        lambda: theory.staircase(task, SeparateAttention().start(3), until=1),
    ):
        with pytest.raises(BadValue, match="spectrum takes eigenvalues whose third powers"):
            wrong()
    near = RegressionTask.of_covariance(1e-50 * np.eye(3))
    assert np.isfinite(stability.stable_rate(near, SeparateAttention()))


@pytest.mark.parametrize("test", range(2))
def test_shapes_are_checked_in_the_first_calls_of_every_test(test):
    with pytest.raises(jaxtyping.TypeCheckError):
        spectral.mean_and_error(np.ones(3))
    for _ in range(shapes.FIRST):
        spectral.mean_and_error(np.ones((3, 1)))
    spectral.mean_and_error(np.ones(3))
