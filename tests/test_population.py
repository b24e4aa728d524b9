"""The population engine agrees with the engine on moments and with a gradient that is written plainly."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import close

from iclcore import CubicMLP, MergedAttention, RegressionTask, SeparateAttention, theory, train
from iclcore.engines import choose
from iclcore.engines.linear import gradient as gradient_of_moments
from iclcore.models import predictor
from iclcore.moments import averages
from iclcore.stability import stable_rate

EIGHT = RegressionTask(dim=8, spectrum="power", seed=3)
TURNED = RegressionTask.of_covariance(EIGHT.covariance, context=9)
LENGTHS = RegressionTask(dim=8, context=5, every_length=True)
WIDE = RegressionTask(dim=40)
MODELS = [
    (EIGHT, SeparateAttention(9, 2e-2)),  # more rows than D
    (EIGHT, SeparateAttention(7, 2e-2)),  # fewer
    (TURNED, SeparateAttention(2, 2e-2, rank=3)),
    (LENGTHS, SeparateAttention(4, 2e-2, rank=4, divisor="tokens")),
    (EIGHT, MergedAttention(3, 1e-3)),
    (TURNED, CubicMLP(4, 1e-3, divisor="context")),
]
STEPS = 6000


def gradient(factors, task, model):
    """Return ∂L/∂factors, written plainly, in the axes of the inputs."""
    a, b = theory.rates(task, model.divisor)
    lam = task.eigenvalues
    basis = task.eigenvectors
    *parts, v = factors
    m = basis.T @ predictor(factors) @ basis
    pull = np.zeros((task.dim, parts[0].shape[-1]))  # (D of the query, the key's entries)
    pull[:, : task.dim] = basis @ (2 * (m * np.outer(b / lam, lam) - np.diag(a))).T @ basis.T
    u = v[:, 0, -1, None, None]
    if len(parts) == 1:
        slopes = [u * pull]
        dv = np.einsum("hda,da->h", parts[0], pull)
    else:
        key, query = parts
        slopes = [u * (query @ pull), u * (key @ pull.T)]
        dv = np.einsum("hra,hrd,da->h", key, query, pull)
    dlast = np.zeros(v.shape)
    dlast[:, 0, -1] = dv
    return (*slopes, dlast)


@pytest.mark.parametrize("task, model", MODELS, ids=lambda each: type(each).__name__)
def test_a_whole_training_is_that_on_moments(task, model):
    """Both engines give the same run through all plateaus, up to rounding.

    A step rounds each weight to a few parts in 2⁵³, so that small weights have a relative error of at most
    δ = 4·2⁻⁵³ STEPS, and so has the time 1/s₀ of an escape, where s₀ is the scale of the start. The loss,
    which is of order one, falls within a time of order one. So its error is at most δ/s₀.
    """
    lr = 0.8 * stable_rate(task, model)
    slow, fast = (
        train(model, task, STEPS, lr, seed=1, snapshots=[0, STEPS], engine=engine)
        for engine in ("moments", "population")
    )
    assert (slow.engine, fast.engine) == ("moments", "population")
    assert fast.loss[-1] < 0.75 * fast.loss[0]  # it has left its first plateau
    within = 4 * 2**-53 * STEPS / model.init
    close(fast.loss, slow.loss, within)
    close(fast.value, slow.value, within)
    close(fast.predictors, slow.predictors, within)
    close(fast.floor, slow.floor)


@pytest.mark.parametrize("task, model", MODELS, ids=lambda each: type(each).__name__)
def test_the_plain_gradient_is_that_of_moments(task, model):
    factors = model.factors(replace(model, init=0.7).start(task.dim, seed=5), task.dim)
    known = gradient_of_moments(factors, averages(task, model))
    for found, wanted in zip(gradient(factors, task, model), known, strict=True):
        close(found, wanted)


@pytest.mark.parametrize(
    "model",
    [
        SeparateAttention(12, 0.4, rank=2),
        SeparateAttention(9, 0.4, rank=5),
        MergedAttention(3, 0.1),
    ],
    ids=["few rows", "many rows", "merged"],
)
def test_steps_in_many_dimensions_follow_the_plain_gradient(model):
    """In 40 dimensions there are too many moments, and ``train`` chooses this engine by itself."""
    run = train(model, WIDE, 3, 0.02, seed=2)
    assert run.engine == "population"
    weights = model.start(40, seed=2)
    for step in range(3):
        factors = model.factors(weights, 40)
        made = theory.population_loss(WIDE, predictor(factors), model.divisor)
        close(run.loss[step], made)
        for view, slope in zip(factors, gradient(factors, WIDE, model), strict=True):
            view[...] -= 0.02 * slope
    for found, wanted in zip(model.factors(run.final, 40), model.factors(weights, 40), strict=True):
        close(found, wanted)


def test_only_the_last_rows_of_values_are_stored():
    """The rest of a value matrix never moves, and at D = 1,000 it is 8 MB a head."""
    model = SeparateAttention(3, 0.1, rank=2)
    run = train(model, WIDE, 2, 0.02, seed=4)
    whole = model.start(40, seed=4)
    assert run.start["value"].shape == (3, 1, 41)
    close(run.start["value"], whole["value"][:, -1:])
    close(run.start["query"], whole["query"])
    # This run can be continued by this engine and on moments. The module of torch needs whole matrices.
    close(train(model, WIDE, 1, 0.02, start=run.final).loss[0], _loss_after(run))
    eight = train(model, EIGHT, 5, 0.02, seed=4, engine="population")
    on = [train(model, EIGHT, 4, 0.02, start=eight.final, engine=e) for e in ("auto", "population")]
    close(on[0].loss, on[1].loss)
    with pytest.raises(ValueError, match="start takes"):
        train(model, EIGHT.sample(50), 1, 0.02, start=eight.final, engine="autograd")


def _loss_after(run):
    factors = run.model.factors(run.final, 40)
    return theory.population_loss(WIDE, predictor(factors), run.model.divisor)


def test_other_data_and_models_are_refused():
    model = SeparateAttention()
    assert choose(model, "auto", (40, 1)) == "autograd"  # of sequences
    assert choose(model, "auto", (40, 1), WIDE) == "population"
    assert choose(model, "auto", (8, 1), EIGHT) == "moments"
    for lacking in (replace(WIDE, in_context=0.5), replace(WIDE, outputs=2)):
        for engine in ("auto", "population"):
            with pytest.raises(ValueError, match="one output, in_context 1"):
                train(model, lacking, 1, 0.1, engine=engine)
    with pytest.raises(ValueError, match="infinitely many sequences"):
        train(model, EIGHT.sample(9), 1, 0.1, engine="population")
    with pytest.raises(ValueError, match="tests takes none"):
        train(model, WIDE, 1, 0.1, tests={"other": WIDE})
    outside = model.start(40)
    outside["key"][0, 0, -1] = 1e-9
    with pytest.raises(ValueError, match="start takes zeros"):
        train(model, WIDE, 1, 0.1, start=outside)


def test_the_first_rise_is_that_on_moments():
    """The rate is stable at first and not at the end. All weights of MLP(z) are in the subspace."""
    model = CubicMLP(4, 0.1)
    lr = 1.5 * stable_rate(EIGHT, model)
    with pytest.warns(UserWarning, match="rose"):
        first, other = (
            train(model, EIGHT, 1500, lr, seed=1, engine=engine).first_rise
            for engine in ("moments", "population")
        )
    assert first > 0 and abs(first - other) < 50  # rounding decides when the rise is seen
