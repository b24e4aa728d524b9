"""The plain loops give the results of the compiled loops, and train if NumPy is the only package."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import close

from iclcore import (
    CubicMLP,
    History,
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
    """Yield the same run by the compiled loops and by the plain loops, each with its own averages."""
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
            # each of the 60 steps rounds some hundred numbers of order one by 1e-16
            for name, array in compiled.series.items():
                close(plainly.series[name], array, within=1e-12)
            for name, array in compiled.final.items():
                close(plainly.final[name], array, within=1e-12)


def test_plain_and_compiled_loops_stop_at_the_same_loss(monkeypatch):
    model, data = SeparateAttention(heads=2, init=0.5), TASKS[0].sample(40)
    compiled, plainly = by_both(monkeypatch, model, data, 500, 5.0)
    assert compiled.ended == plainly.ended == "diverged"
    assert len(compiled.loss) == len(plainly.loss) < 500 and not np.isfinite(plainly.loss[-1])


ALONE = """
import sys
class OnlyNumPy:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in {"iclcore", "numpy", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, OnlyNumPy)

from importlib import import_module
for name in sys.argv[1:]:
    import_module(f"iclcore.{name}")

import numpy as np
from iclcore import RegressionTask, SeparateAttention, theory, train
from iclcore.extras import MissingExtra
from iclcore.stability import sharpness, stable_rate
task, model = RegressionTask(), SeparateAttention()
data = task.sample(5000)
run = train(model, data, 10_001, 0.02, tests={"population": task})
run.to_npz("run.npz")
assert 0 < run.floor < run.loss[-1] < theory.plateau_losses(data)[-1]
assert theory.head_course(task, 1, np.array([0.0]), 0.01) > 0 and stable_rate(task, model) > 0.02
for call in (
    lambda: theory.staircase(task, run.start),
    lambda: sharpness(None, ()),
    lambda: train(model, task, 5, 0.02, engine="population"),
    lambda: train(SeparateAttention(softmax=True), data, 5, 0.02),
):
    try:
        call()
    except MissingExtra as error:
        print(error)
"""
CORE = """checks extras files shapes versions task models optimisers generators published plain gaussian
moments history engines engines.base engines.linear trainer theory theory.linear theory.minimum
theory.saddles theory.merged stability sweep_plan sweep cli cli.flags cli.train cli.theory cli.report"""


def test_numpy_alone_is_enough_to_train_and_for_the_theory(in_folder):
    """The run equals that of the compiled loops, and a missing library is reported in one line."""
    command = [sys.executable, "-c", ALONE, *CORE.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = "needs {0}, which is not installed: pip install {0}"
    missing = ("scipy", "scipy", "numba", "numba")
    assert done.stdout.splitlines() == [line.format(name) for name in missing]
    task, alone = RegressionTask(), History.from_npz("run.npz")
    data, tests = task.sample(5000), {"population": task}
    run = train(SeparateAttention(), data, 10_001, 0.02, tests=tests)
    for name, array in run.series.items():
        # rounding by 1e-16 at the start grows by a factor of s*/s₀ = 40 during a plateau
        close(alone.series[name], array, within=1e-12)
    close(alone.floor, run.floor, within=1e-12)
