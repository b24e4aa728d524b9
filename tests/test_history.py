"""A run that is saved and loaded is the same run. A file that is no run is refused in one line."""

import os
from dataclasses import dataclass

import numpy as np
import pytest

from iclcore import (
    Adam,
    CubicMLP,
    GradientDescent,
    History,
    RegressionTask,
    SeparateAttention,
    Sequences,
    models,
    train,
)
from iclcore.files import DamagedFile
from iclcore.heads.theory import MultiTask
from iclcore.history import describe

TASK = RegressionTask(dim=3, context=6)


def small(**others):
    """A history of three steps, two heads and three tasks."""
    series = {
        "loss": np.array([3.5, 2.25, 1.1]),
        "value": np.arange(6.0).reshape(3, 2) / 3,
        "omega": np.arange(18.0).reshape(3, 2, 3) / 7,
        "departure_KQ": np.array([1e-300, np.inf, np.nan]),
    }
    weights = {"key": np.ones((2, 1, 4))}
    return History(
        **{"series": series, "settings": {"seed": 4, "lr": 0.1}, "engine": "moments", "final": weights,
           "snapshots": {"key": np.ones((1, 2, 1, 4))}, "kept": np.array([1])} | others
    )  # fmt: skip


def assert_same(one, other, groups=("series", "start", "snapshots", "final")):
    assert one.record() == other.record()
    np.testing.assert_array_equal(one.steps, other.steps)
    for group in groups:
        left, right = getattr(one, group), getattr(other, group)
        assert left.keys() == right.keys()
        for name, array in left.items():
            assert array.dtype == right[name].dtype
            np.testing.assert_array_equal(array, right[name])


def test_a_run_comes_back_from_npz_and_csv(tmp_path):
    tests = {"test_in_context": TASK.sample(5)}
    trained = train(
        SeparateAttention(3), TASK.sample(20), 30, 0.01, seed=4, tests=tests, snapshots=9
    )
    for run in (trained, small()):
        run.to_npz(tmp_path / "run.npz")
        run.to_csv(tmp_path / "run.csv")
        back = History.from_npz(tmp_path / "run.npz")
        assert_same(back, run)
        np.testing.assert_array_equal(back.kept, run.kept)
        assert_same(History.from_csv(tmp_path / "run.csv"), run, groups=("series",))
    assert len(os.listdir(tmp_path)) == 2


def test_a_loaded_run_has_its_model_task_and_optimizer(tmp_path):
    model = CubicMLP(heads=2)
    task = RegressionTask(dim=2, in_context=np.float64(1), spectrum=[0.2, 0.5], context=4)
    train(model, task, 3, 0.1, optimizer=Adam(), snapshots=1).to_npz(tmp_path / "run.npz")
    back = History.from_npz(tmp_path / "run.npz")
    assert (back.model, back.task, back.optimizer, back.lr) == (model, task, Adam(), 0.1)
    assert back.predictors.shape == (4, 2, 2) and back.value.shape == (3, 2)
    np.testing.assert_array_equal(back.time, 0.1 * np.arange(3))


def test_a_csv_from_elsewhere_is_read(tmp_path):
    """It needs no comment lines. Without them each column is a series."""
    text = "step,loss,test_2\r\n0,1,2\r\n7,5,6\r\n"
    (tmp_path / "run.csv").write_text(text)
    back = History.from_csv(tmp_path / "run.csv")
    assert back.steps.tolist() == [0, 7] and back.versions == {} and back.first_rise is None
    assert {n: a.tolist() for n, a in back.series.items()} == {"loss": [1, 5], "test_2": [2, 6]}


@pytest.mark.parametrize(
    "text",
    ["", "step,loss\n", "step,error\n0,1.0\n", "step,loss\n0,one\n", "step,loss\n0,1.0\n1\n",
     "# settings\nstep,loss\n0,1.0\n", "\0\xff"],
)  # fmt: skip
def test_a_csv_that_is_no_run_is_refused(text, tmp_path):
    (tmp_path / "run.csv").write_bytes(text.encode("latin-1"))
    says = r"run.csv: is no CSV file of a run, or is damaged: [^\n]+$"
    with pytest.raises(DamagedFile, match=says):
        History.from_csv(tmp_path / "run.csv")


class Pickled:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_an_npz_that_is_no_run_is_refused_and_never_executed(in_folder):
    for arrays in ({"x": np.ones((3, 4))}, {"loss": np.array([Pickled()])}):
        np.savez("run.npz", **arrays)
        with pytest.raises(DamagedFile, match=r"^run.npz: is no npz file [^\n]+$"):
            History.from_npz("run.npz")
    assert os.listdir() == ["run.npz"]


def test_the_first_rise_of_the_loss():
    settings = describe(TASK, SeparateAttention(), GradientDescent())

    def rise(*loss, engine="moments", **others):
        return History({"loss": np.array(loss)}, settings | others, engine=engine).first_rise

    assert rise(3.0, 2.0, 2.1, 1.0, 1.5) == 1 and rise(3.0, 2.0, 1.0) is None
    assert rise(3.0, 2.0, 2.0 + 2e-11) is None and rise(3.0, 2.0, 2.0 + 4e-11) == 1
    assert rise(3.0, 2.0, np.nan) == 1 and rise(3.0, np.inf) == 0
    assert rise(3.0, 2.0, 2.0 + 2e-6, engine="softmax") is None
    assert rise(3.0, 2.0, 2.0 + 4e-6, engine="softmax") == 1
    assert rise(1.0, 2.0, batch=5) is None
    assert rise(1.0, 2.0, **describe(GradientDescent(momentum=0.9))) is None
    assert History({"loss": np.array([1.0, 2.0])}, describe(MultiTask((2,), 5))).first_rise is None


def test_runs_are_equal_if_they_recorded_the_same(tmp_path):
    model = SeparateAttention(2)
    run, again, other = (train(model, TASK, 9, lr, snapshots=4) for lr in (0.1, 0.1, 0.2))
    run.to_npz(tmp_path / "run.npz")
    assert run == again == History.from_npz(tmp_path / "run.npz")
    assert run != other and run != "run"
    later = train(SeparateAttention(2), TASK, 9, 0.1, snapshots=[3])
    assert run.loss.tolist() == later.loss.tolist() and run != later  # other weights were kept
    assert small() == small()  # with a nan


def test_predictors_need_weights_but_no_task():
    with pytest.raises(ValueError, match=r"snapshots=10"):
        _ = train(SeparateAttention(), TASK, 2, 0.1).predictors
    data = TASK.sample(20)
    for model in (CubicMLP(2), SeparateAttention(2)):
        of_task, own = (
            train(model, d, 4, 0.1, snapshots=2) for d in (data, Sequences(data.x, data.y))
        )
        np.testing.assert_array_equal(of_task.predictors, own.predictors)
    two = TASK.sample(20, seed=1)
    run = train(SeparateAttention(2), Sequences(two.x, np.dstack([two.y] * 2)), 4, 0.1, snapshots=2)
    with pytest.raises(ValueError, match="outputs takes 1 for a predictor, not 2"):
        _ = run.predictors


def test_a_run_of_an_unknown_model_is_read_and_names_its_class(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Mine(SeparateAttention):
        pass

    with monkeypatch.context() as patch:
        patch.setitem(models.MODELS, "Mine", Mine)
        train(Mine(), TASK, 3, 0.1).to_npz(tmp_path / "run.npz")
        assert History.from_npz(tmp_path / "run.npz").model == Mine()
    back = History.from_npz(tmp_path / "run.npz")
    says = r"model: this run has none of .*, but .*Mine.*; first import the"
    with pytest.raises(ValueError, match=says):
        _ = back.model
    assert len(back.loss) == 3
