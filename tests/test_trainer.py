"""``train``: engines agree, the records are right, and a run that ends early keeps what it recorded."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import EXACT, close

from iclcore import (
    CubicMLP,
    GradientDescent,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    Sequences,
    published,
    train,
)
from iclcore.checks import BadValue
from iclcore.engines.autograd import AutogradEngine
from iclcore.engines.linear import MomentEngine
from iclcore.moments import averages, coefficients, of_population, of_sequences
from iclcore.stability import stable_rate
from iclcore.trainer import delayed_interrupt

TASK = RegressionTask(dim=3, context=6)


@pytest.mark.parametrize(
    "model",
    [
        MergedAttention(heads=2, init=0.1),
        SeparateAttention(heads=3, rank=2, init=0.2),
        CubicMLP(heads=3, init=0.1),
        SeparateAttention(heads=2, init=0.5, softmax=True),
    ],
    ids=["merged", "separate", "mlp", "softmax"],
)
def test_engines_agree(model):
    data, test = TASK.sample(40, seed=1), TASK.sample(9, seed=2)
    options = {"seed": 3, "tests": {"test": test}, "snapshots": [0, 7, 60]}
    runs = [train(model, data, 60, 0.02, engine=e, **options) for e in ("auto", "autograd")]
    # softmax: a gradient to 1e-6 (test_gradients), for 60 steps of 0.02, and e² for what grows in them
    within = 1e-5 if getattr(model, "softmax", False) else EXACT
    for name in ("loss", "test", "value"):
        close(runs[0].series[name], runs[1].series[name], within)
    for name, stack in runs[0].snapshots.items():
        close(stack, runs[1].snapshots[name], within)
        close(stack[-1], runs[0].final[name])
    assert runs[1].engine == "autograd" != runs[0].engine


def test_snapshots_are_weights_from_before_their_step():
    model, data = SeparateAttention(heads=2, init=0.3), TASK.sample(30)
    moments = of_sequences(data, model)
    history = train(model, data, 50, 0.05, snapshots=[0, 20, 49])
    for i, step in enumerate(history.kept):
        weights = {name: stack[i] for name, stack in history.snapshots.items()}
        c = coefficients(model.factors(weights, 3), moments.features)
        close(moments.loss(c), history.loss[step])
        close(weights["value"][:, -1, -1], history.series["value"][step])


def test_divergence_ends_the_run():
    model = MergedAttention(heads=4, init=0.3)
    for engine in ("auto", "autograd"):
        with pytest.warns(UserWarning, match="stopped being finite at step"):
            history = train(model, TASK.sample(30), 5000, 5.0, engine=engine)
        assert history.ended == "diverged" and len(history.loss) < 5000
        assert np.isfinite(history.loss[:-1]).all() and not np.isfinite(history.loss[-1])


def test_a_rate_that_is_too_large_by_the_formula_diverges_and_one_below_it_does_not():
    """A task of trace 3, where the README's rate is too large."""
    task = RegressionTask.of_covariance(np.diag([1.5, 1.0, 0.5]), context=31)
    model, lr = SeparateAttention(heads=3), 0.05
    rate = stable_rate(task, model)
    assert rate < lr / 4
    with pytest.warns(UserWarning, match="lr = 0.05 is too large: iclcore.stability"):
        train(model, task, 20_000, lr)
    assert train(model, task, 20_000, 0.9 * rate).ended == "finished"


def test_a_warning_names_the_step_at_which_the_loss_rises():
    model, draw = SeparateAttention(heads=2, init=0.3), published.sample(TASK, 50)
    with pytest.warns(UserWarning) as warned:
        history = train(model, draw, 2000, 0.1)
    step = history.first_rise
    assert history.ended == "finished" and step
    assert history.loss[step + 1] > history.loss[step]
    assert (np.diff(history.loss[: step + 1]) <= 0).all()
    (message,) = (str(each.message) for each in warned)
    assert f"rose at step {step}," in message and 'engine="published" on a draw' in message
    with pytest.warns(UserWarning, match="rose at step .* finds a smaller one .*steps$"):
        train(model, draw, 2000, 0.1, engine="published")


def test_the_loss_may_rise_under_another_optimizer():
    """With momentum a loss that rises is no sign of instability."""
    model, data = MergedAttention(heads=4, init=0.3), TASK.sample(30)
    history = train(model, data, 400, 0.02, optimizer=GradientDescent(momentum=0.9))  # no warning
    assert (np.diff(history.loss) > 1e-6).any()


def test_factors_that_are_copies_are_refused():
    class Copying(SeparateAttention):
        def factors(self, weights, dim):
            return tuple(factor.copy() for factor in super().factors(weights, dim))

    model = Copying()
    with pytest.raises(TypeError, match="factors must return views of the weights"):
        AutogradEngine(model, model.start(3), TASK.sample(3), [], 0.1)


def test_factors_of_a_wrong_shape_are_refused():
    """Without the check the compiled loop would read beyond the arrays, which can end the process."""

    class Exchanged(SeparateAttention):
        def factors(self, weights, dim):
            key, query, value = super().factors(weights, dim)
            return value, key, query

    model = Exchanged(heads=2)
    with pytest.raises(BadValue, match=r"model takes factors of shapes .*; Exchanged has \[\(2, "):
        MomentEngine(model, model.start(3), averages(TASK, SeparateAttention()), [], 0.1)


def test_the_held_out_sets_of_sequences_are_recorded():
    model, data, other = SeparateAttention(), TASK.sample(30), TASK.sample(20, 1)
    own = Sequences(data.x, data.y, tests={"later": other})
    history = train(model, own, 9, 0.01)
    explicit = train(model, data, 9, 0.01, tests={"test_later": other})
    close(history.series["test_later"], explicit.series["test_later"], within=0)
    assert set(train(model, own, 9, 0.01, tests={}).series) == {"loss", "value"}


def test_interruption_keeps_what_was_recorded():
    """A separate process gets Ctrl-C in the middle of a long run."""
    script = (
        "import signal, threading, os\n"
        "from iclcore import *\n"
        "from iclcore.moments import of_population\n"
        "task, model = RegressionTask(), SeparateAttention()\n"
        "moments = of_population(task, model)\n"
        "train(model, moments, 10, 0.01)\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "history = train(model, moments, 10**9, 0.01, snapshots=[5])\n"
        "assert history.ended == 'interrupted', history.ended\n"
        "assert len(history.loss) > 100 and history.kept.tolist() == [5]\n"
        "again = train(model, moments, len(history.loss), 0.01)\n"
        "assert all((again.final[n] == w).all() for n, w in history.final.items())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_callback_sees_each_block_and_may_end_the_run():
    """It gets the loss of the last step. Only True ends the run, not any other value that it returns."""
    seen = []

    def callback(step, loss):
        seen.append((step, loss))
        return len(seen) == 5 or len(seen)

    history = train(SeparateAttention(), TASK.sample(9), 10**6, 0.001, callback=callback)
    assert history.ended == "stopped" and repr(history).count("; stopped at step ") == 1
    assert [len(history.loss), len(seen)] == [seen[-1][0], 5]
    assert all(history.loss[step - 1] == loss for step, loss in seen)
    again = train(SeparateAttention(), TASK.sample(9), len(history.loss), 0.001)
    close(again.final["value"], history.final["value"], within=0)
    last = train(SeparateAttention(), TASK.sample(9), 1, 0.001, callback=lambda *_: np.True_)
    assert last.ended == "finished"


def test_ctrl_c_is_delayed_also_in_a_nested_use_and_raised_again_afterwards():
    with delayed_interrupt() as outer, delayed_interrupt() as inner:
        signal.raise_signal(signal.SIGINT)
        assert outer.is_set() and inner.is_set()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def short(model=None, data=None, steps=5, lr=0.1, **options):
    return train(model or MergedAttention(), data or TASK.sample(3), steps, lr, **options)


@pytest.mark.parametrize(
    "wrong, says",
    [
        (lambda: MergedAttention(heads=0), "heads takes a whole number of at least 1"),
        (lambda: MergedAttention(init=float("nan")), "init takes a finite number above 0"),
        (lambda: MergedAttention(divisor="half"), "divisor takes one of one, context, tokens"),
        (lambda: RegressionTask(in_context=1.2), "in_context takes a number from 0 to 1"),
        (lambda: RegressionTask(dim=2, spectrum=(1.0,)), "spectrum takes a law.s name or 2 eigenvalues"),
        (lambda: short(steps=0), "steps takes"),
        (lambda: short(lr=0.0), "lr takes"),
        (lambda: short(snapshots=[9]), "snapshots takes"),
        (lambda: short(start=MergedAttention().start(2)), "start takes"),
        (lambda: short(MergedAttention(softmax=True), engine="moments"), "moments takes linear"),
        (
            lambda: short(MergedAttention(softmax=True), of_population(TASK, MergedAttention())),
            "softmax takes Sequences as data, not Moments",
        ),
        (lambda: short(tests={"loss": TASK.sample(3)}), "tests takes names"),
        (lambda: short(tests={"other": RegressionTask(dim=2).sample(3)}), "other has 2 and 1"),
        (
            lambda: short(tests={"other": TASK}, engine="autograd"),
            r"engine autograd takes Sequences as other, not .*; task.sample\(5000\) draws",
        ),
        (
            lambda: short(tests={"other": of_population(TASK, CubicMLP())}),
            "averages of the features of MergedAttention",
        ),
    ],
)  # fmt: skip
def test_refusals(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


WRONG_TYPES = """
from iclcore import MergedAttention, RegressionTask, train
from iclcore.stability import monotone_rate
task, model = RegressionTask(dim=3, context=6), MergedAttention()
data = task.sample(3)
for wrong in (
    lambda: train(None, data, 5, 0.1),
    lambda: train(model, data.x, 5, 0.1),
    lambda: train(model, data, 5, 0.1, start=[1]),
    lambda: train(model, data, 5, 0.1, tests={"test": 3}),
    lambda: train(model, data, 5, 0.1, optimizer="adam"),
    lambda: train(model, data, 5, 0.1).error(task),
    lambda: monotone_rate(MergedAttention(softmax=True), task, 5),
):
    try:
        wrong()
    except (TypeError, ValueError) as error:
        print(error)
"""
