"""Plans, grids, and sweeps on this machine: interrupted, continued, damaged, and several at a time."""

import csv
import importlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from conftest import close
from threadpoolctl import threadpool_info

from iclcore import (
    CubicMLP,
    History,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    Sequences,
    models,
    modules,
    published,
    train,
)
from iclcore.checks import BadValue
from iclcore.sweep import Plan, carry_out, executor, grid, sweep

BASE = Plan(RegressionTask(dim=3, context=7), SeparateAttention(2), sequences=60, steps=40, lr=0.02)
DATA = BASE.data.sample(60, 1)


def files(folder):
    """Return the bytes of all files of a sweep by their names."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- plans and grids ------------------------------------------------------------------------------


def test_numbers_of_numpy_and_of_python_are_the_same_plan():
    """This runs in a separate process, because the type checks of the tests refuse NumPy's numbers."""
    script = (
        "import numpy as np\n"
        "from iclcore import GradientDescent, MergedAttention, RegressionTask\n"
        "from iclcore.sweep import Plan, grid\n"
        "i, f, b = np.int64, np.float32, np.bool_\n"
        "task, rule = RegressionTask(dim=i(3), noise=0), GradientDescent(momentum=f(0.5))\n"
        "model = MergedAttention(heads=i(2), init=1, softmax=b(False))\n"
        "one = Plan(task, model, i(60), i(0), i(40), 1, i(3), b(False), optimizer=rule)\n"
        "task, rule = RegressionTask(dim=3), GradientDescent(momentum=0.5)\n"
        "other = Plan(task, MergedAttention(2, 1.0), 60, 0, 40, 1.0, 3, optimizer=rule)\n"
        "assert one == other and one.name == other.name and one.row == other.row\n"
        "assert grid(other, heads=np.array([2]), lr=np.ones(1, f))[0].name == one.name\n"
        "kinds = {type(value) for value in one.row.values() if value is not None}\n"
        "assert kinds == {str, int, float, bool}, kinds\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_grid_takes_lists_and_arrays_and_its_last_name_changes_fastest():
    plans = grid(BASE, lr=np.array([0.1, 0.2]), rank=(1, 2), dim=range(3, 5))
    seen = [(plan.lr, plan.model.rank, plan.data.dim) for plan in plans]
    assert seen == [(lr, rank, dim) for lr in (0.1, 0.2) for rank in (1, 2) for dim in (3, 4)]
    assert grid(BASE, lr=np.array([0.02]))[0].name == BASE.name


@pytest.mark.parametrize(
    "axes, line",
    [
        ({"engine": "auto"}, "engine takes a list of values in a grid, not 'auto'"),
        ({"fish": [1]}, "fish is not a parameter of Plan, SeparateAttention, RegressionTask"),
        ({"model": [CubicMLP()], "heads": [1]}, "heads is part of model, which varies already"),
        ({"seed": range(10**6), "lr": [1, 2]}, "grid takes at most 100,000 runs, not 2,000,000"),
    ],
)
def test_a_grid_is_refused_in_one_line(axes, line):
    with pytest.raises(BadValue) as error:
        grid(BASE, **axes)
    assert str(error.value) == line


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("steps", {"steps": 0}),
        ("engine", {"engine": "fast"}),
        ("model", {"model": None}),
        ("tests", {"tests": 10, "sequences": None}),
        ("sequences", {"sequences": None, "engine": "autograd"}),
        ("sequences", {"data": DATA, "sequences": 60}),
        ("tests", {"data": replace(DATA, tests={"a": RegressionTask(dim=2).sample(9)})}),
        ("tests", {"data": replace(DATA, tests={"a-b": DATA})}),
    ],
)
def test_a_plan_refuses_what_cannot_be_trained(name, wrong):
    with pytest.raises(BadValue) as error:
        replace(BASE, **{"sequences": 5000} | wrong)
    assert error.value.name == name


def test_names_change_with_every_setting_and_with_versions(monkeypatch):
    plans = grid(BASE, rank=(1, 2), seed=(0, 1), in_context=(0.5, 1.0), values=(False, True))
    assert len({plan.name for plan in plans}) == 16
    monkeypatch.setattr("iclcore.sweep_plan.versions", lambda: {"numpy": "1.0"})
    assert replace(BASE).name != BASE.name


OWN = """
from dataclasses import dataclass
from iclcore.models import MODELS, MergedAttention
from iclcore.modules import MODULES, Merged

class Base(Merged):
    def normalised(self, scores):
        return scores.relu()

class Module(Base):
    pass

@dataclass(frozen=True)
class OwnAttention(MergedAttention):
    linear = False

MODELS["OwnAttention"], MODULES[OwnAttention] = OwnAttention, Module
"""


def test_a_model_that_was_changed_is_trained_again(in_folder, monkeypatch):
    """The code of the torch module, here of its base class, counts like a setting."""
    monkeypatch.setattr(models, "MODELS", models.MODELS.copy())
    monkeypatch.setattr(modules, "MODULES", modules.MODULES.copy())
    monkeypatch.setattr("sys.path", [str(in_folder), *sys.path])
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    losses, reused = [], []
    for source in (OWN, OWN, OWN.replace("relu", "tanh"), OWN):
        Path("own_model.py").write_text(source)
        importlib.invalidate_caches()
        own = importlib.reload(importlib.import_module("own_model"))
        plan = replace(BASE, model=own.OwnAttention(2, init=0.5))
        swept = sweep([plan], "out")
        losses.append(swept.history(plan).loss[-1])
        reused.append(swept.reused)
    assert reused == [0, 1, 0, 1]
    assert losses[0] == losses[1] == losses[3] != losses[2]


# -- one run --------------------------------------------------------------------------------------


def test_runs_that_share_a_draw_equal_runs_that_are_trained_alone(in_folder):
    """All models are trained on the same draw, whose random numbers are drawn in the published order."""
    base = replace(BASE, tests=30)
    plans = [
        replace(base, model=SeparateAttention(2, rank=3), values=True),
        replace(base, model=MergedAttention(2, divisor="context"), lr=0.1),
        replace(base, model=CubicMLP(3)),
        replace(base, model=MergedAttention(2, softmax=True)),
        replace(base, engine="autograd"),
    ]
    swept = sweep(plans, "out")
    for plan in plans:
        draw = published.sample(BASE.data, 60, plan.seed, 30)
        tests = {f"test_{name}": data for name, data in draw.tests.items()}
        alone = train(plan.model, draw, 40, plan.lr, tests=tests, engine=plan.engine)
        stored = swept.history(plan)
        assert stored.settings == plan.settings and ("value" in stored.series) == plan.values
        assert stored.floor == alone.floor and not stored.seconds
        for name, series in stored.series.items():
            close(series, alone.series[name], within=1e-12)  # thousands of roundings in 40 steps
        assert swept.rows[plan.name]["test_in_weight"] == stored.series["test_in_weight"][-1]


def test_own_sequences_are_identified_by_their_content(in_folder):
    """Their seed draws the initial weights. A copy of the numbers gives the same plan."""
    own, other = Sequences(DATA.x, DATA.y), BASE.data.sample(50, 2)
    swept = sweep(grid(Plan(own, BASE.model, steps=40), seed=(0, 1), data=(own, other)), "out")
    for plan in swept.runs.values():
        alone = train(plan.model, plan.data, 40, plan.lr, seed=plan.seed)
        stored, row = swept.history(plan), swept.rows[plan.name]
        assert stored.loss.tobytes() == alone.loss.tobytes() and stored.task == plan.data.task
        digest = plan.data.digest
        assert (row["sequences"], row["data"], row["digest"]) == (len(plan.data), digest, digest)
    copied = Plan(Sequences(own.x.tolist(), own.y[:, :, 0]), BASE.model, steps=40, seed=1)
    again = sweep([copied], "out")
    assert again.reused == 1 and copied.name in swept.runs
    for changed in (own[:59], Sequences(own.x, own.y, every_length=True), Sequences(own.x, -own.y)):
        assert replace(copied, data=changed).name not in swept.runs


def test_held_out_sequences_are_tested_at_every_step_and_belong_to_the_plan(in_folder):
    held_out = BASE.data.sample(50, 2)
    own = Sequences(DATA.x, DATA.y, tests={"later": held_out}, name="mine, and yours")
    plan = Plan(own, BASE.model, steps=40)
    swept = sweep([plan], "out")
    alone = train(plan.model, own, 40, plan.lr, seed=plan.seed, tests={"test_later": held_out})
    stored, row = swept.history(plan), swept.rows[plan.name]
    assert stored.series["test_later"].tobytes() == alone.series["test_later"].tobytes()
    assert stored.series["test_later"][-1] == row["test_later"] != row["loss"]
    others = ({}, {"later": held_out[:49]}, {"other": held_out})
    names = {replace(plan, data=replace(own, tests=tests)).name for tests in others}
    assert len(names | {plan.name}) == 4
    renamed = replace(plan, data=replace(own, name="b.npz"))
    assert sweep([renamed], "out").reused == 1
    assert (row["data"], renamed.row["data"]) == ("mine, and yours", "b.npz")


WITHOUT = """
import sys
class Missing:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing)
from iclcore.cli import main
assert main("sweep --grid seed=0:2 --trainset_size inf --epoch 9 --out task".split()) == 0
line = "sweep --data own.npz --test own.npz --lr 0.01 --grid rank=1,2 --model attnS --out own"
assert main(line.split()) == 0
"""


def test_a_sweep_needs_no_library_that_it_does_not_use(in_folder):
    """Old files that a sweep cannot write again would be wrong, so the sweep removes them."""
    np.savez("own.npz", x=DATA.x, y=DATA.y)
    Path("own").mkdir()
    for name in ("table.parquet", "figure.png"):
        Path("own", name).write_bytes(b"of an earlier sweep")
    absent = ("torch", "dask", "distributed", "pyarrow", "matplotlib")
    subprocess.run([sys.executable, "-c", WITHOUT, *absent], check=True)
    for folder in ("task", "own"):
        names = {path.name for path in Path(folder).iterdir()}
        assert names == {"runs", "table.csv"} and len(list(Path(folder, "runs").iterdir())) == 2


def test_every_table_is_read_as_the_same_numbers(in_folder):
    """The tables have full precision, empty cells, booleans and texts with commas."""
    import pyarrow.csv
    import pyarrow.parquet

    own = Plan(Sequences(DATA.x, DATA.y, name='a, "b"'), BASE.model, steps=40, values=True)
    plans = [replace(BASE, lr=50, tests=4), own, replace(BASE, engine="population", sequences=None)]
    columns = sweep(plans, "out").table()
    assert columns["data"] == [None, 'a, "b"', None] and columns["first_rise"][1] is None
    assert not np.isfinite(columns["loss"][0])
    assert pyarrow.parquet.read_table("out/table.parquet").to_pydict().keys() == columns.keys()
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    read = pyarrow.csv.read_csv("out/table.csv", convert_options=options).to_pydict()
    for name, column in columns.items():
        assert read[name] == [None if value != value else value for value in column], name


# -- where runs are carried out -------------------------------------------------------------------


def threads_of_libraries():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_a_run_computes_on_one_thread_and_the_process_gets_its_threads_back():
    before = threads_of_libraries()
    with executor(2) as pool:
        assert pool.submit(threads_of_libraries).result() == {1}
    assert threads_of_libraries() == before


# -- many runs ------------------------------------------------------------------------------------


def test_ctrl_c_ends_long_runs_and_the_next_sweep_goes_on(in_folder):
    """The files of the second sweep are the same as those of a sweep that was not interrupted."""
    short, endless = grid(BASE, seed=range(4)), replace(BASE, steps=100_000_000)

    def interrupt():
        while len(list(in_folder.glob("out/runs/*.npz"))) < 3:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt) as stop:
        sweep([*short[:3], endless, replace(endless, seed=1), short[3]], "out", jobs=2)
    assert re.fullmatch(r"[34] of 6 runs are kept in out; sweep again to continue", str(stop.value))
    assert sweep(short, "out").reused >= 3
    sweep(short, "alone", jobs=1)
    assert files(in_folder / "out") == files(in_folder / "alone")


def test_runs_that_fail_or_diverge_are_reported_and_the_others_go_on(
    in_folder, monkeypatch, capsys
):
    def short_of_memory(plan, callback):
        if plan.sequences == 70:
            raise MemoryError("taken by others")
        return carry_out(plan, callback)

    with monkeypatch.context() as patch:
        patch.setattr("iclcore.sweep.carry_out", short_of_memory)
        plans = grid(BASE, sequences=(60, 70), lr=(0.01, 50))
        swept = sweep(plans, "out", jobs=1)
    assert repr(swept) == "Swept(4 runs in out: 1 finished, 1 diverged, 2 failed)"
    assert swept.axes == ["sequences", "lr"] and swept.ended("failed") == plans[2:]
    assert set(capsys.readouterr().err.splitlines()) == {
        f"run {plans[1].name} (sequences=60, lr=50.0) diverged at step 7",
        f"run {plans[2].name} (sequences=70, lr=0.01) failed: MemoryError: taken by others",
        f"run {plans[3].name} (sequences=70, lr=50.0) failed: MemoryError: taken by others",
    }
    rows = (in_folder / "out" / "table.csv").read_text().splitlines()
    assert [row.count(",failed,") for row in rows] == [0, 0, 0, 1, 1]
    assert sweep(plans, "out").reused == 2


def test_a_damaged_run_is_trained_again_and_other_files_are_left_alone(in_folder, capsys):
    plans = grid(BASE, seed=range(5))
    swept = sweep(plans, "out")
    wanted = files(in_folder / "out")
    paths = [swept.file(plan) for plan in plans]
    paths[0].write_bytes(wanted[paths[0].name][:-50])
    paths[1].write_bytes(b"")
    np.savez(paths[2], a=np.arange(3))
    paths[3].unlink()
    (in_folder / "out" / "runs" / "notes.npz").write_bytes(b"mine")
    half = paths[0].with_name(f"{paths[0].name}.0123abcd.partial")
    half.write_bytes(b"half")  # from a sweep that was killed
    assert sweep(plans, "out").reused == 1
    assert files(in_folder / "out") == wanted | {"notes.npz": b"mine"}
    assert not capsys.readouterr().err


def test_a_row_has_the_columns_that_the_page_reads_and_leads_to_its_run(tmp_path):
    page = (Path(__file__).parent.parent / "book" / "reproduce.md").read_text()
    (block,) = re.findall(r"```python\n(import pandas.*?)```", page, re.DOTALL)
    sweep(grid(BASE, rank=(1, 2), seed=(3, 4)), tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    named = set(re.findall(r"\(\"(\w+)\"\)|\[\"(\w+)\"\]", block))
    assert {a or b for a, b in named} == {"rank", "loss", "run"} <= rows[0].keys()
    (file,) = re.findall(r'from_npz\(f"runs/(.*?)"\)', block)
    for row in rows:
        history = History.from_npz(tmp_path / "out" / file.format(worst=row["run"]))
        assert float(row["loss"]) == history.loss[-1] and row["first_rise"] == ""
        assert row["rank"] == str(history.model.rank)
