"""The command line. It is called as a separate process only where this matters."""

import csv
import json
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from pace import mostly_slow

from iclcore import (
    Adam,
    CubicMLP,
    History,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    Sequences,
    __version__,
    theory,
    train,
)
from iclcore.cli import main
from iclcore.cli.advice import drop_times
from iclcore.stability import stable_rate
from iclcore.sweep import Plan, carry_out

SMALL = "--trainset_size 60 --epoch 40"
PUBLISHED = (
    "--model attnM --head 8 --init 1e-6 --show",
    "--model mlp --cubic_feat --head 8 --init 1e-6 --show",
    "--model attnS --head 5 --init 1e-2 --epoch 10001 --lr 0.02 --show",
    *(
        f"--model attnS --head 9 --KQ_dim {r} --in_dim 8 --seq_len 32 --init 5e-3 "
        "--trainset_size 2000 --epoch 20001 --lr 0.02"  # the benchmarks use 80,000
        for r in (8, 4, 2, 1)
    ),
    *(
        f"--model attnM --icl {c} --head 8 --testset 5000 --init 1e-6 --white_cov --lr 0.0005 --epoch 4001"
        for c in (0, 0.2, 0.4, 0.6, 0.8, 1)
    ),
)


@pytest.mark.parametrize("flags", mostly_slow(PUBLISHED, *PUBLISHED[:4]))
def test_published_commands_run(flags, in_folder, capsys):
    assert main(["train", *shlex.split(flags), "--save", "run.csv"]) == 0
    history = History.from_csv("run.csv")
    epoch = int(flags.split("--epoch ")[1].split()[0]) if "--epoch" in flags else 6001
    assert len(history.loss) == epoch and history.floor <= history.loss[-1] < 0.5 * history.loss[0]
    assert ("test_in_weight" in history.series) == ("--testset" in flags)
    if "--show" in flags:
        assert "the picture is in run.png" in capsys.readouterr().out
        assert (in_folder / "run.png").read_bytes().startswith(b"\x89PNG")


def test_files(in_folder):
    flags = f"train --model attnS --head 2 --testset 30 --track_value --save f.csv --json f.json {SMALL}"
    assert main(shlex.split(flags)) == 0
    lines = (in_folder / "f.csv").read_text().splitlines()
    rows = [line for line in lines if not line.startswith("#")]
    assert rows[0] == "step,loss,test_in_weight,test_in_context,value_1,value_2"
    assert len(rows) == 41 and rows[1].startswith("0,") and rows[-1].startswith("39,")
    assert any(line.startswith("# settings: ") and '"seed": 10' in line for line in lines)
    record = json.loads((in_folder / "f.json").read_text())
    assert {"loading", "moments", "descent"} <= set(record["seconds"])
    assert record["engine"] == "moments" and record["versions"]["torch"].startswith("2.13")
    assert record["final_loss"] == float(rows[-1].split(",")[1]) >= record["floor"]


def test_engines_give_one_curve(in_folder):
    for engine in ("moments", "autograd"):
        assert main(shlex.split(f"train --engine {engine} --save {engine}.csv {SMALL}")) == 0
    fast, slow = (History.from_csv(f"{engine}.csv") for engine in ("moments", "autograd"))
    # in float64, for losses of at most 1: a tolerance of thousands of roundings
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=0, atol=1e-12)


BAD = [
    ("--heads 0", "--heads", "at least 1"),
    ("--head_num 0", "--heads", "at least 1"),
    ("--head 2.5", "--head", "invalid int value: '2.5'"),
    ("--in_dim x", "--in_dim", "invalid int value: 'x'"),
    ("--model attnS --KQ_dim 0", "--rank", "at least 1"),
    ("--model attnM --rank 2", "--rank", "attnS"),
    ("--icl 1.5", "--icl", "from 0 to 1"),
    ("--icl nan", "--icl", "from 0 to 1"),
    ("--seq_len 1", "--seq_len", "at least 2"),
    ("--trainset_size 4", "--trainset_size", "at least 5 sequences"),
    ("--testset 3", "--testset_size", "at least 5 sequences"),
    ("--lr inf", "--lr", "finite"),
    ("--epoch 0", "--epoch", "at least 1"),
    ("--engine moments --in_dim 40", "--engine", "at most 8,000 features"),
    ("--init -1", "--init", "above 0"),
    ("--save nowhere/f.csv", "--save", "writable folder"),
    ("--save /proc/f.csv", "--save", "writable folder"),
    ("--json .", "--json", "writable folder"),
    ("--seed 4294967296", "--seed", "below 2^32"),
    ("--save a.csv --json ./a.csv", "--json", "a file of its own"),
    ("--save a.csv --json a.png --show", "--show", "a file of its own"),
    ("--save a.png", "--save", "ends in .csv or .npz, not 'a.png'"),
    ("--fish", "--fish", "is not a flag of this command"),
    ("--epochs 5", "--epochs", "did you mean --epoch?"),
    ("--steps 5", "--steps", "did you mean --epoch?"),  # the name in Python
    ("--learning-rate 5", "--learning-rate", "did you mean --lr?"),
    ("--dim 5", "--dim", "did you mean --in_dim?"),
    ("--n_heads 5", "--n_heads", "did you mean --heads?"),
    ("--weight-decay 5", "--weight-decay", "did you mean --weight_decay?"),
    ("--heads 1 --head 2", "--heads", "--heads and --head are the same flag"),
    ("--noise 1", "--noise", "--help lists the flags"),
    ("--spectrum 2,1", "--spectrum", "invalid choice: '2,1'"),
    ("--model mlp", "--model", "--cubic_feat"),
    ("--cubic_feat", "--model", "mlp"),
    ("--model mlp --cubic_feat --vary_len", "--model", "without"),
    ("--model mlp --cubic_feat --softmax", "--model", "without"),
    ("--white_cov --spectrum power", "--white_cov", "not allowed with"),
    ("--softmax --engine moments", "--engine", "linear models"),
    ("--optimizer adam --momentum 0.9", "--momentum", "is only for --optimizer sgd"),
    ("--tasks 3", "--tasks", "is not a flag of this command"),
    ("--model multihead --dims 10,10 --tasks 3", "--dims", "one number or 3"),
    ("--model multihead --dims 10,10 --in_dim 30", "--in_dim", "takes 20, the sum"),
    ("--model multihead --dims 10,0", "--dims", "at least 1"),
    ("--model multihead --head 0", "--heads", "at least 1"),
    ("--model multihead --noise -0.1", "--noise", "at least 0"),
    ("--model multihead --signal 1,2", "--signal", "one number or 3"),
    ("--model multihead --seq_len 2", "--seq_len", "at least 3"),
    ("--model multihead --width 20", "--width", "at least 30"),
    ("--model multihead --start published --dims 3,4,3", "--dims", "one size for all tasks"),
    ("--model multihead --start published --heads 2", "--heads", "--start published"),
    ("--model multihead --start published --signal 1", "--signal", "--start published"),
    ("--model multihead --start published --width 40", "--width", "--start published"),
    ("--model multihead --start published --engine spectral", "--engine", "--start published"),
    ("--model multihead --lr 0.01", "--epoch", "is needed with --lr"),
    ("--model multihead --epoch 10 --lr 0", "--lr", "above 0"),
    ("--model multihead --rank 2", "--rank", "is not a flag of this command"),
    ("--model multihead --engine moments", "--engine", "invalid choice"),
    ("--model multihead --json .", "--json", "writable folder"),
]  # fmt: skip


@pytest.mark.parametrize("flags, named, says", BAD)
def test_a_wrong_flag_is_refused_in_one_line(flags, named, says, in_folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *shlex.split(flags)])
    said = capsys.readouterr()
    assert stop.value.code == 2 and not said.out
    assert said.err.count("\n") == 1 and f"argument {named}" in said.err and says in said.err
    assert not list(in_folder.iterdir())


def test_the_help_shows_what_can_be_done_and_its_examples_run(in_folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    commands = ["train", "train --model multihead", "sweep", "theory"]
    for line in ["", *(f"{command} --help" for command in commands)]:
        with pytest.raises(SystemExit, match="0"):
            main(shlex.split(line))
        said = capsys.readouterr().out
        if not line:
            assert all(f"\n    {command} " in said for command in ("train", "sweep", "theory"))
        (example,) = re.findall(r"\nexample: iclcore (.+)\n$", said)
        assert main(shlex.split(example)) == 0 and not capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        "--model attnS --heads 2 --rank 3 --vary_len --testset 20 --trainset_size 60 --track_value",
        "--model mlp --cubic_feat --optimizer sgd --momentum 0.5 --weight_decay 0.01 --icl 0.5",
        "--model attnM --optimizer adam --weight_decay 0.1 --trainset_size inf --white_cov",
        "--model attnM --softmax --init 0.1 --trainset_size 30 --engine autograd --seq_len 5",
        "--model attnS --data own.npz --vary_len --lr 0.01",
    ],
)
def test_a_saved_run_is_repeated_with_other_flags(flags, in_folder):
    data = RegressionTask(dim=3, context=7).sample(60, 1)
    np.savez("own.npz", x=data.x, y=data.y)
    also = "--data own.npz" if "--data" in flags else ""
    runs = (f"{flags} --epoch 9", f"--like a.csv {also}", f"{flags} --epoch 9 --lr 0.02 --seed 3")
    for name, line in zip("abc", (*runs[:2], runs[2].replace("--lr 0.01", "")), strict=True):
        assert main(shlex.split(f"train {line} --save {name}.csv --json {name}.json")) == 0
    assert main(shlex.split(f"train --like b.csv {also} --seed 3 --lr 0.02 --save d.npz")) == 0
    first, again, other = (History.from_csv(f"{name}.csv") for name in "abc")
    assert again.settings == first.settings and again.loss.tobytes() == first.loss.tobytes()
    changed = History.from_npz("d.npz")
    assert changed.settings == other.settings and changed.loss.tobytes() == other.loss.tobytes()


def test_a_saved_run_is_repeated_with_another_optimizer(in_folder):
    assert main(shlex.split("train --epoch 5 --trainset_size 50 --save a.csv")) == 0
    assert main(shlex.split("train --like a.csv --optimizer adam --save b.csv")) == 0
    assert "Adam" in History.from_csv("b.csv").settings


def test_a_run_that_cannot_be_repeated_is_refused(in_folder, capsys):
    task, model = RegressionTask(dim=3, context=7), SeparateAttention(heads=2)
    data = Sequences(*(getattr(task.sample(60, 1), name) for name in "xy"))
    train(model, data, 3, 0.01).to_csv("python.csv")
    held_out = replace(data, name="own", tests={"held_out": data})
    np.savez("mine.npz", x=data.x, y=data.y)
    for name, plan in {
        "own": Plan(held_out, model, steps=3),
        "context": Plan(task, replace(model, divisor="context"), steps=3),
        "basis": Plan(replace(task, basis=np.eye(3)), model, sequences=None, steps=3),
        "noise": Plan(replace(task, noise=0.1), model, sequences=None, steps=3),
        "beta": Plan(task, model, optimizer=Adam(beta1=0.5), steps=3),
    }.items():
        carry_out(plan).to_npz(f"{name}.npz")
    line = "train --model multihead --engine spectral --lr 0.1 --epoch 2 --save m.csv"
    assert main(line.split()) == 0
    capsys.readouterr()
    files = {name: "takes a run of train" for name in ("python.csv", "m.csv", "context.npz")}
    files |= {f"{name}.npz": "takes a run of train" for name in ("basis", "noise", "beta")}
    for file, says in (
        files
        | {
            "own.npz": "--data: is needed",
            "own.npz --data mine.npz": "--test: is needed",
            "none.csv": "No such file",
        }
    ).items():
        with pytest.raises(SystemExit, match="2"):
            main(["train", "--like", *file.split()])
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and says in said, said


def test_a_logarithmic_range_and_a_dry_run(in_folder, capsys):
    flags = "--model attnS --trainset_size 50 --epoch 5 --out out"
    grid = "heads=log:1:100:3 lr=log:1e-3:1e-1:5"
    line = f"sweep --grid '{grid}' {flags}"
    assert main(shlex.split(f"{line} --dry-run")) == 0
    assert capsys.readouterr().out == "15 runs, 0 of them found in out; nothing was done\n"
    assert not list(in_folder.iterdir())
    assert main(shlex.split(line.replace("log:1:100:3", "1,10"))) == 0
    with open("out/table.csv", newline="") as file:
        rows = [(row["heads"], row["lr"]) for row in csv.DictReader(file)]
    rates = ["0.001", "0.00316228", "0.01", "0.0316228", "0.1"]
    assert rows == [(heads, lr) for heads in ("1", "10") for lr in rates]
    capsys.readouterr()
    assert main(shlex.split(f"{line} --dry-run")) == 0
    assert capsys.readouterr().out == "15 runs, 10 of them found in out; nothing was done\n"


GRIDS = [
    ("rnk=1,2", "--rnk", "is not a flag of this command; did you mean --rank?"),
    ("rank", "--grid", "takes FLAG=VALUES"),
    ("softmax=1,2", "--grid", "cannot vary --softmax, which has no value"),
    ("seed", "--grid", "takes FLAG=VALUES"),
    ("seed=1,", "--seed", "invalid int value: ''"),
    ("seed=1,1", "--grid", "each run once"),
    ("seed=2:2", "--grid", "from 1 to 100,000 runs, not 0"),
    ("seed=0:9:x", "--grid", "a range"),
    ("lr=log:1:2", "--grid", "or log:FIRST:LAST:COUNT, not 'log:1:2'"),
    ("lr=log:0:1:5", "--grid", "log:FIRST:LAST:COUNT"),
    ("lr=log:1:nan:5", "--grid", "log:FIRST:LAST:COUNT"),
    ("lr=log:1e-3:1:1", "--grid", "log:FIRST:LAST:COUNT"),
    ("lr=log:1e-3:1:1000000000", "--grid", "log:FIRST:LAST:COUNT"),
    ("seed=0:99999999999999999999", "--grid", "a range"),
    ("seed=0:99999 heads=1:999", "--grid", "from 1 to 100,000 runs, not 99,799,002"),
    ("seed=1 seed=2", "--grid", "also given elsewhere"),
    ("epoch=1,2", "--grid", "also given elsewhere"),
    ("rank=1,2", "--rank", "is only for --model attnS, not attnM, in the run --rank=2"),
    ("heads=1,x", "--heads", "invalid int value: 'x'"),
]


@pytest.mark.parametrize("grid, named, says", GRIDS)
def test_a_wrong_grid_is_refused_before_any_run(grid, named, says, in_folder, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", "--out", "out", "--epoch", "5", "--grid", grid])
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and f"argument {named}" in said.err and says in said.err
    assert not list(in_folder.iterdir())


def test_a_grid_without_its_quotes_is_recognised(in_folder, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", "--out", "out", "--model", "attnS", "--grid", "rank=1,2", "seed=0:4"])
    assert "--grid: needs quotes around all of it; 'seed=0:4' is outside" in capsys.readouterr().err


def test_own_arrays(in_folder, capsys):
    """The command line, a sweep and Python give the same run on a user's own arrays."""
    data = RegressionTask(dim=3, context=7).sample(60, 1)
    np.savez("own.npz", x=data.x, y=data.y[:, :, 0], more=np.arange(3))
    model, flags = (
        SeparateAttention(heads=2, init=0.1),
        "--model attnS --heads 2 --init 0.1 --lr 0.05",
    )
    alone = train(model, Sequences(data.x, data.y), 40, 0.05, seed=3)
    run = f"--data own.npz {flags} --epoch 40"
    assert main(shlex.split(f"train {run} --seed 3 --save own.csv --show")) == 0
    history = History.from_csv("own.csv")
    assert history.loss.tobytes() == alone.loss.tobytes() and history.task is None
    assert "the picture is in own.png" in capsys.readouterr().out
    assert main(shlex.split(f"sweep {run} --grid seed=2:5 --out out")) == 0
    (found,) = (in_folder / "out" / "runs").glob(f"{run_name(data, model)}.npz")
    assert History.from_npz(found).loss.tobytes() == alone.loss.tobytes()


def test_own_arrays_with_a_held_out_set(in_folder, capsys):
    """The errors on this set are recorded, drawn and in the table, which shows the names of the files."""
    task = RegressionTask(dim=3, context=7)
    for seed, name in enumerate(("a", "b", "later")):
        data = task.sample(60, seed)
        np.savez(f"{name}.npz", x=data.x, y=data.y)
    flags = "--test later.npz --model attnS --lr 0.05 --epoch 40"
    assert main(shlex.split(f"train --data a.npz {flags} --seed 3 --save own.csv --show")) == 0
    tests = {"test_held_out": task.sample(60, 2)}
    alone = train(SeparateAttention(heads=1), task.sample(60, 0), 40, 0.05, seed=3, tests=tests)
    found = History.from_csv("own.csv").series["test_held_out"]
    assert found.tobytes() == alone.series["test_held_out"].tobytes()
    assert main(shlex.split(f"sweep {flags} --grid 'data=a.npz,b.npz seed=3:5' --out out")) == 0
    with open("out/table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["data"] for row in rows] == ["a.npz", "a.npz", "b.npz", "b.npz"]
    assert float(rows[0]["test_held_out"]) == found[-1]
    capsys.readouterr()
    np.savez("wide.npz", x=np.ones((5, 4, 2)), y=np.ones((5, 4)))
    for line, named in (
        ("--test later.npz", "--test: is only for --data"),
        ("--data a.npz --test none.npz", "--test: takes an npz file with arrays x and y: "),
        ("--data a.npz --test wide.npz", "--test: takes arrays with D = 3 and O = 1, as in"),
        ("--data a.npz --test b.npz --save b.npz --force", "--save: takes a file of its own"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(shlex.split(f"train --lr 0.05 {line}"))
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"argument {named}" in said, said


@pytest.mark.parametrize("model", ["attnM", "attnS --heads 2 --rank 2", "attnS --softmax"])
def test_for_arrays_without_a_rate_a_rate_is_suggested_that_works(model, in_folder, capsys):
    data = RegressionTask(dim=2, context=5).sample(30, 1)
    np.savez("own.npz", x=data.x, y=7 * data.y)
    for command in ("train", "sweep --out out --grid seed=1"):
        line = f"{command} --data own.npz --model {model} --epoch 300"
        with pytest.raises(SystemExit, match="2"):
            main(shlex.split(line))
        said = capsys.readouterr().err
        rate = re.search(r"argument --lr: is needed with --data; with --lr (\S+),", said)[1]
        assert said.count("\n") == 1
        assert main([*shlex.split(line), f"--lr={rate}"]) == 0 and not capsys.readouterr().err
    assert main(shlex.split("train --data own.npz --optimizer adam --epoch 3")) == 0


def run_name(data, model):
    return Plan(Sequences(data.x, data.y), model, steps=40, lr=0.05, seed=3).name


def test_bad_arrays_are_refused_in_one_line(in_folder, capsys):
    x, y = np.ones((5, 4, 2)), np.ones((5, 4))
    np.savez("good.npz", x=x, y=y)
    content = (in_folder / "good.npz").read_bytes()
    for name, arrays in {
        "few": (x, y[:4]), "flat": (x[0], y), "none": (x[:0], y[:0]), "text": (x.astype(str), y),
        "pickled": (x.astype(object), y), "nan": (x, np.nan * y),
    }.items():  # fmt: skip
        np.savez(f"{name}.npz", x=arrays[0], y=arrays[1])
    np.savez("alone.npz", x=x)
    np.save("x.npy", x)
    (in_folder / "half.npz").write_bytes(content[: len(content) // 2])
    files = ("few", "flat", "none", "text", "pickled", "nan", "alone", "half", "nowhere")
    before = sorted(in_folder.iterdir())
    for file in [*(f"{name}.npz" for name in files), "x.npy", "."]:
        for command in ("train", "sweep --grid seed=0:2 --out out"):
            with pytest.raises(SystemExit, match="2"):
                main(shlex.split(f"{command} --data {file} --lr 0.01"))
            said = capsys.readouterr()
            assert not said.out and said.err.count("\n") == 1, (file, said.err)
            assert "argument --data: takes an npz file with arrays x and y: " in said.err
    for flag in (
        "--in_dim 2",
        "--out_dim 1",
        "--seq_len 4",
        "--trainset_size 5",
        "--testset 5",
        "--icl 1",
    ):
        with pytest.raises(SystemExit, match="2"):
            main(shlex.split(f"train --data good.npz --lr 0.01 {flag}"))
        assert f"argument {flag.split()[0]}" in capsys.readouterr().err
    assert sorted(in_folder.iterdir()) == before


def test_a_refusal_loads_no_slow_library(in_folder):
    """A refusal should be immediate, but torch, numba, scipy and matplotlib can take seconds to load."""
    script = """
import contextlib, io, json, sys
from iclcore.cli import main
from iclcore.cli.advice import drop_times
for line in json.load(sys.stdin):
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            main(line)
        except SystemExit as stop:
            assert stop.code == 2
    heavy = {"torch", "numba", "scipy", "matplotlib"} & set(sys.modules)
    assert not heavy, (line, heavy)
"""
    lines = [["train", *shlex.split(flags)] for flags, *_ in BAD if "multihead" not in flags]
    lines = [line for line in lines if "--show" not in line]  # --show imports matplotlib
    lines += [["sweep", "--out", "out", "--epoch", "5", "--grid", grid] for grid, *_ in GRIDS[:3]]
    lines += [["--fish"], ["theory", "--softmax"], ["theory", "--rank", "2"]]
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(lines), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_command_says_its_version():
    for start in (["-m", "iclcore"], ["-c", "from iclcore.__main__ import start; start()"]):
        line = [sys.executable, *start, "--version"]
        done = subprocess.run(line, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"iclcore {__version__}\n")


@pytest.mark.parametrize(
    "flags, named, says",
    [
        ("--lr inf", "--lr", "finite"),
        ("--epoch 0", "--epoch", "at least 1"),
        ("--white_cov --init 1e-200", "--init", "a start that floats can follow"),
        ("--white_cov --init 1e200", "--init", "a start that floats can follow"),
        ("--white_cov --init 1e150", "--init", "a start that floats can follow"),
        ("--model attnS --init 1e-320", "--init", "a start that floats can follow"),
        ("--softmax", "--softmax", "no closed form"),
    ],
)
def test_a_wrong_flag_of_theory_is_refused(flags, named, says, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["theory", *flags.split()])
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    assert f"argument {named}: " in said.err and says in said.err


def test_theory_to_the_end_of_all_time(capsys):
    """Very long times give finite numbers, and the last step is exact."""
    line = "theory --white_cov --epoch 9223372036854775807 --lr 3e38 --init 1e-150"
    assert main(line.split()) == 0
    rows = [row.split(",") for row in capsys.readouterr().out.splitlines()[2:]]
    assert np.isfinite([float(row[3]) for row in rows]).all()
    assert max(int(row[2]) for row in rows if row[2]) == 2**63 - 2


def test_divergence_keeps_the_curve(in_folder, capsys):
    assert main(shlex.split(f"train --lr 0.03 --init 0.5 --head 8 --save d.csv {SMALL}")) == 3
    said = capsys.readouterr().err
    assert "not finite at step" in said and said.endswith("steps before it are saved in d.csv\n")
    assert said.count("\n") == 1
    assert main(shlex.split(f"train --lr 0.03 --init 0.5 --head 8 {SMALL}")) == 3
    assert capsys.readouterr().err.endswith("steps before it are not saved, without --save\n")
    history = History.from_csv("d.csv")
    assert (
        history.ended == "diverged" and 0 < np.isfinite(history.loss).sum() == len(history.loss) - 1
    )


def test_multihead(in_folder, capsys):
    flags = "--model multihead --tasks 3 --head 3 --dims 4 --signal 10 --seq_len 41 --lr 0.02 --epoch 400"
    for engine in ("full", "spectral"):
        line = f"train {flags} --engine {engine} --save {engine}.csv --json {engine}.json --show"
        assert main(shlex.split(line + " --seed 1 --track_value")) == 0
        said = capsys.readouterr().out
        assert "task 1: head 1, task 2: head 2, task 3: head 3" in said
        assert f"picture is in {engine}.png" in said
        history = History.from_csv(f"{engine}.csv")
        assert (
            len(history.loss) == 400 and history.settings["seed"] == 1 and history.engine == engine
        )
        # each head has learned most of its own task, and hardly anything of the others
        done = history.series["omega"][-1] * history.series["mu"][-1]
        assert done.diagonal().min() > 0.6 and np.abs(done[~np.eye(3, dtype=bool)]).max() < 0.1
        task = json.loads((in_folder / f"{engine}.json").read_text())["settings"]["MultiTask"]
        assert task["dims"] == [4, 4, 4] and task["context"] == 40
    flags = "train --model multihead --engine spectral --start random --lr 0.01 --epoch 3"
    assert main(shlex.split(f"{flags} --noise 0.5 --save s.csv")) == 0
    header = next(row for row in (in_folder / "s.csv").read_text().splitlines() if row[0] != "#")
    assert header == "step,loss,time"


@pytest.mark.parametrize("engine", ["full", "spectral"])
def test_multihead_divergence_keeps_the_curve(engine, in_folder, capsys):
    flags = f"--model multihead --engine {engine} --lr 3 --epoch 60 --save d.csv"
    assert main(["train", *shlex.split(flags)]) == 3
    said = capsys.readouterr().err
    assert "not finite at step" in said and said.count("\n") == 1
    history = History.from_csv("d.csv")
    assert history.ended == "diverged" and np.isfinite(history.loss[:-1]).all()


@pytest.mark.parametrize("flags", mostly_slow(["--engine autograd", "--softmax"], "--softmax"))
def test_an_interrupted_run_saves_its_curve(flags, in_folder):
    """Ctrl-C ends a run between two steps, also in compiled loops."""
    flags = f"train --model attnS {flags} --trainset_size 300 --epoch 1000000 --save i.csv"
    script = (
        "import sys\n"
        "from iclcore import cli, trainer\n"
        "train = trainer.train\n"
        "def callback(step, loss):\n"
        "    if step > 10:\n"
        "        print('it trains', flush=True)\n"
        "def watched(*args, **rest):\n"
        "    return train(*args, **rest | {'callback': callback})\n"
        "trainer.train = watched\n"
        "import iclcore.sweep\n"
        "iclcore.sweep.train = watched\n"
        f"sys.exit(cli.main({shlex.split(flags)}))\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "it trains\n"
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 130, (out, err)
    assert err.count("\n") == 1 and "they are saved in i.csv" in err
    assert len(History.from_csv("i.csv").loss) > 10


def test_a_rising_loss_is_reported_in_one_line(in_folder, capsys):
    """On a published draw, the line suggests the engine with the authors' own operations."""
    flags = "train --softmax --init 1 --head_num 3 --seed 3 --lr 2 --epoch 6 --trainset_size 300"
    for engine, offered in (("auto", True), ("published", False)):
        assert main(shlex.split(f"{flags} --engine {engine}")) == 0
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "the loss rises at step " in said
        assert ("--engine published repeats" in said) == offered


def test_theory(in_folder, capsys):
    assert main(shlex.split("theory --white_cov --head 8 --init 1e-6")) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows[0] == ["quantity", "index", "step", "value"]
    names = {row[0] for row in rows[1:]}
    assert names == {"plateau_loss", "merged_loss"}
    assert float(rows[1][3]) == pytest.approx(1)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "iclcore", "theory"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "torch" not in done.stderr


def rows_of(line, capsys):
    """Return the rows (index, step, value) of each quantity."""
    assert main(shlex.split(line)) == 0
    found = {}
    for row in capsys.readouterr().out.splitlines()[2:]:
        quantity, index, *rest = row.split(",")
        found.setdefault(quantity, []).append((float(index or "nan"), *rest))
    return found


@pytest.mark.parametrize(
    "flags, model, outputs, learned, also",
    [
        ("attnM --heads 2", MergedAttention(2), 1, [0, 3], set()),
        ("attnM --heads 1 --out_dim 2", MergedAttention(1), 2, [0, 3], set()),
        ("mlp --cubic_feat --heads 4", CubicMLP(4), 1, [0, 3], set()),
        ("mlp --cubic_feat --heads 4 --out_dim 2", CubicMLP(4), 2, [0, 1.5], set()),
        ("attnS --heads 2", SeparateAttention(2), 1, [0, 1, 2], {"head_value"}),
        ("attnS --heads 9", SeparateAttention(9), 1, [0, 1, 2, 3], {"head_value"}),
        ("attnS --heads 1 --rank 2", SeparateAttention(1, rank=2), 1, [0, 1, 2], set()),
        ("attnS --heads 1 --out_dim 2", SeparateAttention(1), 2, [0, 0.5, 1], set()),
    ],
)
def test_theory_says_where_the_run_of_its_flags_ends(flags, model, outputs, learned, also, capsys):
    found = rows_of(f"theory --model {flags} --in_dim 3 --seq_len 8", capsys)
    assert found.keys() == {"plateau_loss"} | also
    assert [index for index, *_ in found["plateau_loss"]] == learned
    heads = {int(index) for index, *_ in found.get("head_value", ())}
    assert heads == (set(range(1, min(model.heads, 3) + 1)) if also else set())
    task = RegressionTask(dim=3, context=7, outputs=outputs)
    start = replace(model, init=0.3).start(3, outputs, seed=1)
    run = train(model, task, 6000, 0.2 * stable_rate(task, model), start=start)
    # the start is forgotten with the time constant 1/(rate b_3), and the run is 100 times as long
    assert run.loss[-1] == pytest.approx(float(found["plateau_loss"][-1][2]), abs=1e-9)


def test_theory_has_the_levels_of_heads_that_read_one_label(capsys):
    """With two outputs, a head learns only the output whose label its key reads."""
    found = rows_of("theory --model attnS --heads 3 --out_dim 2 --in_dim 3 --seq_len 8", capsys)
    levels = {index: float(value) for index, _, value in found["plateau_loss"]}
    assert sorted(levels) == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    task = RegressionTask(dim=3, context=7, outputs=2)
    for learned, pairs in {
        0.5: [(0, 1)],
        1: [(0, 0), (0, 1)],
        1.5: [(0, 0), (0, 1), (1, 1)],
    }.items():
        model = SeparateAttention(heads=len(pairs))
        start = {name: np.zeros_like(each) for name, each in model.start(3, 2).items()}
        for h, (d, output) in enumerate(pairs):
            e = task.eigenvectors[:, d]
            start["key"][h, 0, 3 + output], start["query"][h, 0, :3] = 0.3, 0.3 * e
            start["value"][h, 3 + output, :3] = 0.3 * e
        run = train(model, task, 3000, 0.2 * stable_rate(task, model), start=start)
        assert run.loss[-1] == pytest.approx(levels[learned], abs=1e-9)


def test_the_course_of_a_loss_is_that_of_the_model(capsys):
    """Of two outputs, the MLP learns one. Merged heads learn both, in √2 times the time for one output."""
    task, lr = RegressionTask(dim=3, context=7, outputs=2, spectrum="white"), 5e-3
    for name, model in {
        "attnM": MergedAttention(8, 1e-3),
        "mlp --cubic_feat": CubicMLP(8, 1e-3),
    }.items():
        flags = f"--model {name} --heads 8 --out_dim 2 --white_cov --in_dim 3 --seq_len 8"
        rows = rows_of(f"theory {flags} --init 1e-3 --lr {lr} --epoch 1601", capsys)
        steps, course = np.array([row[1:] for row in rows["merged_loss"]], dtype=float).T
        start = model.start(3, 2, seed=1)
        if name == "attnM":
            c0 = theory.white_start(start, 3)
        else:
            u = np.trace(start["first"].reshape(8, 3, 3), axis1=1, axis2=2) / np.sqrt(3)
            c0 = np.sum((u + start["second"][0, 1]) ** 2) / 4
        size = np.sqrt(8e-6 / 2 / c0)  # the formula uses the mean over starts
        start = {key: size * each for key, each in start.items()}
        loss = train(model, task, 1601, lr, start=start).loss[steps.astype(int)]
        # Euler's steps lag by lr/2 times the logarithm of the growth of the weights, which is below 8 here.
        # The parts of the start that decay add their squares to the loss; there are 2 · 8 · 13 of them.
        late = 4 * lr * np.abs(np.gradient(course, lr * steps)).max()
        assert course[-1] < 0.9 * course[0] and np.abs(loss - course).max() < late + 208e-6


DEFAULTS = {"attnS": 6001, "attnM": 60, "mlp --cubic_feat": 60}


@pytest.mark.parametrize("model", DEFAULTS)
def test_a_run_that_ends_on_a_plateau_is_told_when_the_loss_drops(model, in_folder, capsys):
    """A run with as many steps as suggested has the drop, and its last plateau gives no message."""
    line = f"train --model {model} --epoch"
    assert main([*line.split(), str(DEFAULTS[model])]) == 0
    said = capsys.readouterr().out
    assert "the loss is on a plateau, 0 of 4 eigenvectors are learned: theory" in said
    step, epoch = map(int, re.findall(r"step (\d+)\. --epoch (\d+) shows it", said)[0])
    rate = float(said.split()[-1])  # the largest learning rate that is suggested
    fast = [str(round(epoch * 1e-3 / rate)), "--lr", str(rate), "--save", "fast.csv"]
    assert main([*line.split(), *fast]) == 0
    quick = History.from_csv("fast.csv")
    assert quick.first_rise is None
    assert main([*line.split(), str(epoch), "--save", "run.csv"]) == 0
    loss = History.from_csv("run.csv").loss
    gain = 0.36 if model == "attnS" else 0.86  # of the first eigenvector, or of all
    # the covariance of 5,000 sequences differs from that of their task, and so rates differ by some percent
    assert loss[-1] < loss[0] - gain / 2 < loss[int(0.75 * step)]
    assert abs(np.argmax(loss < loss[0] - gain / 2) / step - 1) < 0.2
    assert quick.loss[-1] < loss[0] - gain / 2
    said = capsys.readouterr().out  # a single head learns one eigenvector, the others learn all
    assert ("that is all that these heads can learn" in said) == (model == "attnS")


@pytest.mark.parametrize(
    "flags, says",
    [
        (
            "--model attnS --rank 2",
            "0 of 4 eigenvectors are learned: theory expects the next drop at about step 257",
        ),
        (
            "--model attnS --out_dim 2",
            "0 of 4 eigenvectors are learned: a larger --epoch, --lr or --init",
        ),
        (
            "--model attnS --heads 5 --epoch 10001 --lr 0.02",
            "3 of 4 eigenvectors are learned: theory",
        ),
        ("--model attnS --heads 5 --epoch 10001 --lr 0.02 --seed 0", None),  # at the end
        (
            "--model attnS --heads 2 --init 0.1 --epoch 6001 --lr 0.02",
            "2 of 4 eigenvectors are learned: that is all that these heads can learn",
        ),
        ("--model attnM --softmax --trainset_size 50 --epoch 9", None),
        ("--model attnM --icl 0.5 --epoch 9", None),
        ("--model attnM --optimizer adam --epoch 9", None),
        ("--model attnM --trainset_size 60 --epoch 6001", None),  # far below the levels
    ],
)
def test_the_message_about_a_plateau(flags, says, capsys):
    assert main(["train", *flags.split()]) == 0
    said = capsys.readouterr().out
    assert says in said if says else "plateau" not in said


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_of_higher_rank_make_the_first_drop_when_theory_says(heads):
    """Euler's steps and the parts of the start that decay delay it by up to one percent."""
    task, model = RegressionTask(dim=3), SeparateAttention(heads=heads, rank=3)
    start = model.start(3)
    (time,) = drop_times(task, model, start, np.inf)
    loss = train(model, task, int(1.2 * time / 0.01), 0.01, start=start).loss
    first, second, *_ = theory.plateau_losses(task)
    assert abs(np.argmax(loss < (first + second) / 2) * 0.01 / time - 1) < 0.02


def test_weights_are_saved_in_an_npz(in_folder):
    assert main(shlex.split(f"train --save run.npz {SMALL} --in_dim 1")) == 0
    assert History.from_npz("run.npz").final["value"].shape == (1, 2, 2)


def test_a_full_disk_is_reported_in_one_line(in_folder, monkeypatch, capsys):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("iclcore.cli.theory.write_whole", fails)
    assert main(["theory", "--save", "f.csv"]) == 1
    assert capsys.readouterr() == ("", "iclcore theory: [Errno 28] No space left on device\n")


def test_writing_is_not_interrupted(in_folder, monkeypatch):
    write = History.to_csv

    def interrupted(history, path):
        signal.raise_signal(signal.SIGINT)
        return write(history, path)

    monkeypatch.setattr(History, "to_csv", interrupted)
    assert main(shlex.split(f"train --save out.csv {SMALL}")) == 0
    assert len(History.from_csv("out.csv").loss) == 40


def test_a_closed_pipe_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m iclcore theory | head -1", shell=True, capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 1 and not done.stderr


@pytest.mark.parametrize("path", [f"{'a' * 300}.csv", "folder.csv", "file/inside.csv"])
def test_a_path_that_no_file_can_have_is_refused(path, in_folder, capsys):
    (in_folder / "folder.csv").mkdir()
    (in_folder / "file").touch()
    before = sorted(in_folder.iterdir())
    with pytest.raises(SystemExit, match="2"):
        main(["theory", "--save", path])
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "--save: takes a file in a writable folder" in said.err
    assert sorted(in_folder.iterdir()) == before


def test_a_file_is_overwritten_only_with_force(in_folder, capsys):
    """Even with --force, a run never overwrites the arrays that it trains on."""
    data = RegressionTask(dim=2, context=5).sample(20, 1)
    np.savez("own.npz", x=data.x, y=data.y)
    for name in ("run.csv", "run.json", "run.png", "attnS.png"):
        (in_folder / name).write_text("mine")
    there = {path: path.read_bytes() for path in in_folder.iterdir()}
    train = "train --model attnS --lr 0.01 --epoch 4 --data own.npz"
    for line, flag, file in (
        (f"{train} --save run.csv", "--save", "run.csv"),
        (f"{train} --json run.json", "--json", "run.json"),
        (f"{train} --show", "--show", "attnS.png"),
        (f"{train} --save run.npz --show", "--show", "run.png"),
        ("train --model multihead --save run.csv", "--save", "run.csv"),
        ("theory --save run.csv", "--save", "run.csv"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(shlex.split(line))
        said = capsys.readouterr().err
        assert said.endswith(f"argument {flag}: would overwrite '{file}'; --force allows it\n")
    with pytest.raises(SystemExit, match="2"):
        main(shlex.split(f"{train} --save own.npz --force"))
    assert "--save: takes a file of its own, not own.npz, that of --data" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in in_folder.iterdir()} == there
    assert main(shlex.split(f"{train} --save run.csv --json run.json --show --force")) == 0
    assert main(shlex.split("theory --save run.csv --force")) == 0
    assert all(path.read_bytes() != there[path] for path in there if path.stem == "run")
    sweep = f"sweep --grid seed=0:2 --out out {train.removeprefix('train')}"
    assert main(shlex.split(sweep)) == main(shlex.split(sweep)) == 0  # it replaces its own files
