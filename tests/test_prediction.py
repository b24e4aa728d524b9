"""A trained model predicts new sequences as its torch module does."""

import numpy as np
import pytest
import torch
from conftest import close

from iclcore import (
    CubicMLP,
    History,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    Sequences,
    train,
)
from iclcore.checks import BadValue
from iclcore.modules import module

LINEAR = [
    MergedAttention(2, 0.3),
    SeparateAttention(3, 0.3, rank=2, divisor="context"),
    CubicMLP(3, 0.3, divisor="tokens"),
]
SOFTMAX = [
    MergedAttention(2, 0.3, softmax=True, divisor="tokens"),
    SeparateAttention(3, 0.3, softmax=True),
]


@pytest.mark.parametrize("every_length", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("model", LINEAR + SOFTMAX, ids=repr)
def test_predictions_are_those_of_the_module_and_their_error_is_the_loss(
    model, outputs, every_length
):
    task = RegressionTask(dim=3, context=6, outputs=outputs, every_length=every_length, noise=0.1)
    data, new = task.sample(50), task.sample(20, seed=1)
    run = train(model, data, 40, 0.002)
    *_, (tokens, _) = new.prefixes()
    by_module = module(model, run.final, outputs)(torch.tensor(tokens)).detach().numpy()
    close(run.predict(new.x, new.y), by_module)
    close(run.predict(new.x, new.y[:, :-1]), by_module)
    close(run.predict(new.x[:, 2:], new.y[:, 2:]).shape, by_module.shape)  # a shorter context
    again = train(model, data, 1, 0.1, start=run.final).loss[0]
    # softmax computes in float32; test_gradients has the same tolerance
    assert abs(run.error(data) / again - 1) < (1e-6 if model.softmax else 1e-12)


def test_the_result_has_the_form_of_the_labels():
    """The label of the query is not used, so it may be unknown."""
    data = RegressionTask(dim=3, context=6).sample(9)
    run = train(SeparateAttention(2, 0.3), data, 9, 0.01)
    y = np.array(data.y)
    y[:, -1] = np.nan
    flat = run.predict(data.x.tolist(), y[..., 0].tolist())
    assert flat.shape == (9,)
    close(run.predict(data.x, y)[:, 0], flat, within=0)


def test_a_run_on_infinitely_many_sequences_predicts_too():
    """So do runs of the engine that trains only those rows of the value that affect the prediction."""
    task = RegressionTask(dim=3, context=6)
    model = SeparateAttention(2, 0.3)
    runs = [train(model, task, 500, 0.05, engine=e) for e in ("moments", "population")]
    new = task.sample(20_000)
    for run in runs:
        assert run.error(new) == pytest.approx(run.loss[-1], rel=0.05)  # expected: 2% at 3 sigma
    close(runs[0].predict(new.x, new.y), runs[1].predict(new.x, new.y))


def test_predictions_that_are_impossible_are_refused(tmp_path):
    task = RegressionTask(dim=3, context=6)
    data = task.sample(9)
    run = train(SeparateAttention(2), Sequences(data.x, data.y), 3, 0.01)
    x, y = data.x, data.y
    for wrong, says in (
        ((x[0], y), r"x takes the shape \(P, T, D\)"),
        ((x, y[:, :3]), r"y takes the shape \(P, T - 1\) .* not \(9, 3, 1\)"),
        ((x[..., :2], y), "as many inputs and outputs as the run, 3 and 1, not 2 and 1"),
    ):
        with pytest.raises(BadValue, match=says):
            run.predict(*wrong)
    run.to_csv(tmp_path / "run.csv")
    with pytest.raises(ValueError, match="a CSV file has no weights; save the run with to_npz"):
        History.from_csv(tmp_path / "run.csv").predict(x, y)
