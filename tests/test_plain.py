"""The plain loops are the oracle of the compiled ones, and they train where NumPy is the only package."""

import numpy as np
import pytest
from conftest import close

from iclcore import (
    CubicMLP,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    loops,
    plain,
    train,
)
from iclcore.engines import linear
from iclcore.optimisers import Adam, GradientDescent
from iclcore.task import Sequences

RULES = (
    GradientDescent(),
    GradientDescent(momentum=0.9),
    GradientDescent(momentum=0.5, weight_decay=0.05),
    Adam(beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.05),
)
MODELS = (
    MergedAttention(heads=2, init=0.1),
    SeparateAttention(heads=3, init=0.3),
    SeparateAttention(heads=2, rank=2, init=0.3, divisor="tokens"),
    CubicMLP(heads=3, init=0.1),
)
TASKS = (
    RegressionTask(dim=3, context=6),
    RegressionTask(dim=2, context=4, outputs=2, every_length=True),
)


def by_both(monkeypatch, model, data, *args, **kwargs):
    """The same run by the compiled loops and by the plain ones; no averages are shared."""
    for each in (loops, plain):
        monkeypatch.setattr(linear, "linear_loops", lambda each=each: each)
        monkeypatch.setattr("iclcore.moments.linear_loops", lambda each=each: each)
        if isinstance(data, Sequences):
            data.averages.clear()
        yield train(model, data, *args, **kwargs)


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_plain_and_compiled_loops_take_the_same_steps(model, rule, monkeypatch):
    for task in TASKS:
        draw = task.sample(40)
        draw = Sequences(draw.x.astype(np.float32), draw.y, every_length=task.every_length)
        others = {"other": draw[:15], "population": task}
        for data, given in ((draw, {}), (task, {"batch": 6})):
            compiled, plainly = by_both(
                monkeypatch, model, data, 60, 0.005, seed=3, optimizer=rule, tests=others, **given
            )
            # 60 steps, each of which rounds some hundred numbers of order one at 1e-16
            for name, array in compiled.series.items():
                close(plainly.series[name], array, within=1e-12)
            for name, array in compiled.final.items():
                close(plainly.final[name], array, within=1e-12)


def test_plain_and_compiled_loops_stop_at_the_same_loss(monkeypatch):
    model, data = SeparateAttention(heads=2, init=0.5), TASKS[0].sample(40)
    compiled, plainly = by_both(monkeypatch, model, data, 500, 5.0)
    assert compiled.ended == plainly.ended == "diverged"
    assert len(compiled.loss) == len(plainly.loss) < 500 and not np.isfinite(plainly.loss[-1])
