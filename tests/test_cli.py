"""The command line, as a process where the process matters."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from numba import config
from pace import mostly_slow

from iclcore import (
    CubicMLP,
    History,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    Sequences,
    __version__,
    cli,
    theory,
    train,
)
from iclcore.cli import main, memory
from iclcore.cli.parser import Refused
from iclcore.edge import AT_A_TIME
from iclcore.heads.spectral import spectra
from iclcore.stability import stable_rate
from iclcore.sweep import Plan

SMALL = "--trainset_size 60 --epoch 40"
PUBLISHED = (
    "--model attnM --head 8 --init 1e-6 --show",
    "--model mlp --cubic_feat --head 8 --init 1e-6 --show",
    "--model attnS --head 5 --init 1e-2 --epoch 10001 --lr 0.02 --show",
    *(
        f"--model attnS --head 9 --KQ_dim {r} --in_dim 8 --seq_len 32 --init 5e-3 "
        "--trainset_size 2000 --epoch 20001 --lr 0.02"  # at 80,000 in the bench
        for r in (8, 4, 2, 1)
    ),
    *(
        f"--model attnM --icl {c} --head 8 --testset 5000 --init 1e-6 --white_cov --lr 0.0005 --epoch 4001"
        for c in (0, 0.2, 0.4, 0.6, 0.8, 1)
    ),
)


def command(line: str, **kind):
    return [sys.executable, "-m", "iclcore", *shlex.split(line)]


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
    assert {"data", "moments", "descent", "loading", "floor"} <= set(record["seconds"])
    assert record["engine"] == "moments" and record["versions"]["torch"].startswith("2.13")
    assert record["final_loss"] == float(rows[-1].split(",")[1]) >= record["floor"]


def test_engines_give_one_curve(in_folder):
    for engine in ("moments", "autograd"):
        assert main(shlex.split(f"train --engine {engine} --save {engine}.csv {SMALL}")) == 0
    fast, slow = (History.from_csv(f"{engine}.csv") for engine in ("moments", "autograd"))
    # float64, losses of at most 1: thousands of roundings
    np.testing.assert_allclose(fast.loss, slow.loss, rtol=0, atol=1e-12)


BAD = [
    ("--heads 0", "--heads", "at least 1"),
    ("--head_num 0", "--head_num", "at least 1"),
    ("--head 2.5", "--head", "whole number"),
    ("--model attnS --KQ_dim 0", "--rank", "at least 1"),
    ("--model attnM --rank 2", "--rank", "attnS"),
    ("--icl 1.5", "--icl", "from 0 to 1"),
    ("--icl nan", "--icl", "from 0 to 1"),
    ("--seq_len 1", "--seq_len", "at least 2"),
    ("--trainset_size 4", "--trainset_size", "at least 5 sequences"),
    ("--testset 3", "--testset_size", "at least 5 sequences"),
    ("--lr inf", "--lr", "finite"),
    ("--lr 5", "--lr", "diverges"),
    ("--lr 0.041", "--lr", "at most 0.04 with"),
    ("--engine moments --in_dim 40", "--engine", "at most 8,000 features"),
    ("--softmax --vary_len --seq_len 9000", "--trainset_size", "takes less: this needs"),
    (
        "--engine published --seq_len 9000 --lr 1e-5",
        "--trainset_size",
        "takes less: this needs",
    ),
    ("--softmax --head 8 --lr 100", "--lr", "takes at most 80 with"),
    ("--init -1", "--init", "above 0"),
    ("--save nowhere/f.csv", "--save", "folder to write in"),
    ("--json .", "--json", "folder to write in"),
    ("--seed 4294967296", "--seed", "from 0 to 4294967295"),
    ("--trainset_size 100000000000", "--trainset_size", "GB"),
    ("--save a.csv --json ./a.csv", "--json", "a file of its own"),
    ("--save a.csv --json a.png --show", "--show", "a file of its own"),
    ("--save a.png", "--save", "ends in .csv or .npz, not 'a.png'"),
    ("--save /proc/a.csv", "--save", "folder to write in"),
    ("--fish", "--fish", "no flag of train"),
    ("--epochs 5", "--epochs", "did you mean --epoch?"),
    ("--steps 5", "--steps", "did you mean --epoch?"),  # its name in Python
    ("--learning-rate 5", "--learning-rate", "did you mean --lr?"),
    ("--noise 1", "--noise", "is no flag of train; --help lists them"),
    (
        "--spectrum 2,1",
        "--spectrum",
        "one of linear, power, white, not '2,1'; in Python a RegressionTask",
    ),
    ("--model mlp", "--model", "--cubic_feat"),
    ("--cubic_feat", "--cubic_feat", "mlp"),
    ("--model mlp --cubic_feat --vary_len", "--vary_len", "not mlp"),
    ("--model mlp --cubic_feat --softmax", "--softmax", "not mlp"),
    ("--white_cov --spectrum power", "--white_cov", "not allowed with"),
    ("--softmax --engine moments", "--engine", "linear models"),
    ("--tasks 3", "--tasks", "no flag of train"),
    ("--model multihead --dims 10,10 --tasks 3", "--dims", "one number or 3"),
    ("--model multihead --dims 10,10 --in_dim 30", "--in_dim", "takes 20, the sum"),
    ("--model multihead --dims 10,0", "--dims", "at least 1"),
    ("--model multihead --head 0", "--head", "at least 1"),
    ("--model multihead --noise -0.1", "--noise", "at least 0"),
    ("--model multihead --signal 1,2", "--signal", "one number or 3"),
    ("--model multihead --seq_len 2", "--seq_len", "at least 3"),
    ("--model multihead --width 20", "--width", "at least 30"),
    *(
        (f"--model multihead --start published --{name} {value}", f"--{name}", f"takes {says}")
        for name, value, says in (
            ("dims", "3,4,3", "one size for all tasks with --start published"),
            ("heads", "2", "3, one a task, with --start published"),
            ("signal", "1", "no value, s = d, with"),
            ("width", "40", "no value, d_e is all inputs and labels, with"),
            ("engine", "spectral", "full with --start published"),
            ("batch", "1000000000000", "less: this needs"),
        )
    ),
    ("--model multihead --lr 0.01", "--lr", "goes with --epoch"),
    ("--model multihead --rank 2", "--rank", "no flag of train --model multihead"),
    ("--model multihead --engine moments", "--engine", "invalid choice"),
    ("--model multihead --json .", "--json", "folder to write in"),
    ("--epoch 1" + 400 * "0", "--epoch", "at most 9223372036854775807"),
    ("--in_dim 1000000000000", "--in_dim", "takes less: this needs more than 10^15 GB"),
    ("--out_dim 1000000000000", "--out_dim", "takes less"),
    ("--head 1000000000000", "--heads", "takes less"),
    ("--model attnS --rank 1000000000000", "--rank", "takes less"),
    ("--seq_len 1000000000000 --vary_len", "--trainset_size", "takes less"),
    ("--epoch 1000000000000", "--epoch", "takes less"),
    ("--testset 1000000000000", "--testset_size", "takes less"),
    *(
        (f"--model multihead {flag} 1000000000000 --engine {engine}", flag, "takes less")
        for flag in ("--tasks", "--heads", "--seq_len", "--batch")
        for engine in ("full", "spectral")
    ),
    ("--model multihead --dims 1000000000000", "--dims", "takes less"),
    ("--model multihead --width 1000000000000", "--width", "takes less"),
    ("--model multihead --epoch 1000000000000 --lr 0.1", "--epoch", "takes less"),
    ("--model multihead --epoch 10 --lr 1e308", "--lr", "takes at most 3.4e+38"),
]


@pytest.mark.parametrize("flags, named, says", BAD)
def test_bad_input(flags, named, says, in_folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", *shlex.split(flags)])
    said = capsys.readouterr()
    assert stop.value.code == 2 and not said.out
    assert said.err.count("\n") == 1 and named in said.err and says in said.err
    assert not list(in_folder.iterdir())


def test_own_arrays(in_folder, capsys):
    """The command line, a sweep and Python train on them alike."""
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
    (found,) = (in_folder / "out" / "runs").glob(f"{found_name(data, model)}.npz")
    assert History.from_npz(found).loss.tobytes() == alone.loss.tobytes()


@pytest.mark.parametrize("model", ["attnM", "attnS --heads 2 --rank 2", "attnS --softmax"])
def test_arrays_without_a_rate_are_offered_one_that_is_taken(model, in_folder, capsys):
    data = RegressionTask(dim=2, context=5).sample(30, 1)
    np.savez("own.npz", x=data.x, y=7 * data.y)
    for command in ("train", "sweep --out out --grid seed=1"):
        line = f"{command} --data own.npz --model {model} --epoch 300"
        with pytest.raises(SystemExit, match="2"):
            main(shlex.split(line))
        said = capsys.readouterr().err
        rate = re.search(r"argument --lr: is needed with --data; (\S+) keeps", said)[1]
        assert said.count("\n") == 1
        assert main([*shlex.split(line), f"--lr={rate}"]) == 0 and not capsys.readouterr().err
    assert main(shlex.split("train --data own.npz --optimizer adam --epoch 3")) == 0


def found_name(data, model):
    return Plan(Sequences(data.x, data.y), model, steps=40, lr=0.05, seed=3).name


def test_bad_arrays_are_a_line(in_folder, capsys):
    x, y = np.ones((5, 4, 2)), np.ones((5, 4))
    np.savez("good.npz", x=x, y=y)
    whole = (in_folder / "good.npz").read_bytes()
    for name, arrays in {
        "few": (x, y[:4]), "flat": (x[0], y), "none": (x[:0], y[:0]), "text": (x.astype(str), y),
        "pickled": (x.astype(object), y), "nan": (x, np.nan * y),
    }.items():  # fmt: skip
        np.savez(f"{name}.npz", x=arrays[0], y=arrays[1])
    np.savez("alone.npz", x=x)
    np.save("x.npy", x)
    (in_folder / "half.npz").write_bytes(whole[: len(whole) // 2])
    says = {
        "alone.npz": "alone.npz has no y, but x",
        "few.npz": "y takes as many", "none.npz": "at least one sequence",
        "flat.npz": "x takes the shape (P, T, D), not (4, 2)",
        "text.npz": "x takes an array of real numbers, not of <U32", "pickled.npz": "x is an array of Python",
        "nan.npz": "nan.npz has a number that is not finite", "half.npz": "is no npz file, or damaged",
        "x.npy": "x.npy: is no npz file: numpy.savez",
        "nowhere.npz": "nowhere.npz: No such file", ".": "Is a directory",
        "/dev/zero": "is a device",
    }  # fmt: skip
    before = sorted(in_folder.iterdir())
    for flag in (
        "--in_dim 2",
        "--out_dim 1",
        "--seq_len 4",
        "--trainset_size 5",
        "--testset 5",
        "--white_cov",
        "--icl 1",
    ):
        says[f"good.npz {flag}"] = f"argument {flag.split()[0].replace('white_cov', 'spectrum')}"
    for rest, line in says.items():
        for given in ("train", "sweep --grid seed=0:2 --out out"):
            with pytest.raises(SystemExit, match="2"):
                main(shlex.split(f"{given} --data {rest}"))
            said = capsys.readouterr()
            assert not said.out and said.err.count("\n") == 1 and line in said.err, (rest, said.err)
    assert sorted(in_folder.iterdir()) == before


def test_arrays_that_do_not_fit_are_not_read(in_folder, monkeypatch, capsys):
    np.savez_compressed(
        "large.npz", x=np.ones((1000, 10, 100)), y=np.ones((1000, 10))
    )  # 8 MB as arrays
    monkeypatch.setattr("iclcore.cli.train.memory", lambda: 3_000_000)
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--data", "large.npz"])
    assert "has 0.00808 GB, and there is memory for 0.001" in capsys.readouterr().err


def test_a_refusal_loads_no_library_that_it_does_not_need(in_folder):
    """In half a second it is there: longer than torch and numba take, and as long as scipy does."""
    script = """
import contextlib, io, json, sys
from iclcore.cli import main
def refused(line):
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            main(line)
        except SystemExit as stop:
            assert stop.code == 2
for name, lines in json.load(sys.stdin).items():
    for line in lines:
        refused(line)
        assert name not in sys.modules, (name, line)
"""
    lines = [["train", *shlex.split(flags)] for flags, *_ in BAD]
    light = [line for line in lines if "--softmax" not in line]  # which asks whether numba compiles
    light += [["--fish"], ["train", "--fish"], ["theory", "--softmax"], ["theory", "--rank", "2"]]
    light += [["sweep", "--out", "out", "--grid", axes] for axes in ("rnk=1,2", "rank=1,2")]
    lightest = [line for line in light if not {"multihead", "theory"} & set(line)]
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps({"scipy": lightest, "numba": light, "torch": lines}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_command_says_its_version():
    for start in (["-m", "iclcore"], ["-c", "from iclcore.__main__ import start; start()"]):
        line = [sys.executable, *start, "--version"]
        done = subprocess.run(line, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"iclcore {__version__}\n")


def test_a_command_of_the_book_starts_as_robustly(in_folder):
    line = shlex.join([sys.executable, "-m", "iclbook", "figure"])
    shell = f"mkdir gone; cd gone; rmdir ../gone; {line}"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True)
    said = "python -m iclbook: takes a working directory, and this one is gone\n"
    assert done.returncode == 2 and done.stderr == said


@pytest.mark.parametrize(
    "flags, named, says",
    [
        ("--in_dim 100000", "--in_dim", "at most 1243 here"),
        ("--in_dim 1000000000000 --epoch 1", "--in_dim", "at most 250000 here"),
        ("--vary_len --seq_len 1000000000", "--seq_len", "takes less with --vary_len"),
        ("--white_cov --init 1e-200", "--init", "a start that floats can follow"),
        ("--white_cov --init 1e200", "--init", "a start that floats can follow"),
        ("--white_cov --init 1e150", "--init", "a start that floats can follow"),
        ("--model attnS --init 1e-320", "--init", "a start that floats can follow"),
        ("--softmax", "--softmax", "no closed form"),
        ("--model attnS --out_dim 100000", "--out_dim", "at most 62500 here"),
    ],
)
def test_bad_input_of_theory(flags, named, says, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["theory", *flags.split()])
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    assert f"argument {named}: " in said.err and says in said.err


def test_theory_to_the_end_of_all_time(capsys):
    """Times beyond all ends, the last step exactly, and no number that is none."""
    line = "theory --white_cov --epoch 9223372036854775807 --lr 3e38 --init 1e-150"
    assert main(line.split()) == 0
    rows = [row.split(",") for row in capsys.readouterr().out.splitlines()[2:]]
    assert np.isfinite([float(row[3]) for row in rows]).all()
    assert max(int(row[2]) for row in rows if row[2]) == 2**63 - 2


def test_what_is_held_at_once_is_added_up(monkeypatch):
    run = Plan(RegressionTask(dim=300), MergedAttention(1), sequences=5000, steps=10)
    monkeypatch.setattr(memory, "memory", lambda: 10**9)
    with pytest.raises(Refused, match=r"--trainset_size: takes less: .* there are 1$"):
        memory.within(memory.of_run(run))
    tokens = 8 * 5000 * 32 * 301
    # drawn in as many parts as trained; no value matrix of each token, which would be 300 times as much
    assert 3 * tokens < memory.of_run(run).total() < 8 * tokens
    need = memory.of_run(Plan(RegressionTask(), SeparateAttention(3), tests=100))
    assert all(need[flag] for flag in ("--trainset_size", "--testset_size", "--in_dim", "--epoch"))
    # whatever trains, the edge of stability is looked for by moments and in stacks of weights
    slow = memory.of_run(Plan(RegressionTask(), MergedAttention(10_000), engine="autograd"))
    assert slow["--in_dim"] > 8 * 60**2
    assert slow["--heads"] > 8 * AT_A_TIME * 10_000 * 2 * 25
    for there, taken in ((need.total(), True), (need.total() - 1, False)):
        monkeypatch.setattr(memory, "memory", lambda there=there: there)
        with nullcontext() if taken else pytest.raises(Refused, match="takes less"):
            memory.within(need)


def test_what_does_not_run_says_so(in_folder, monkeypatch, capsys):
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--softmax"])
    assert "NUMBA_DISABLE_JIT is set" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="2"):
        main(["theory"])
    monkeypatch.undo()
    assert "--save: takes a file, for standard output is closed" in capsys.readouterr().err
    monkeypatch.setattr(cli, "__doc__", None)  # python -OO
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])


@pytest.mark.parametrize(
    "shell, says",
    [
        ("mkdir gone; cd gone; rmdir ../gone", "this one is gone"),
        ("ulimit -v 1000000", "of address space, and ulimit -v leaves 1.0"),
    ],
)
def test_a_process_in_which_nothing_runs(shell, says, in_folder):
    line = shlex.join(command("train"))
    done = subprocess.run(f"{shell}; {line}", shell=True, capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.count("\n") == 1 and says in done.stderr


def test_divergence_keeps_the_curve(in_folder, capsys):
    assert main(shlex.split(f"train --lr 0.03 --init 0.5 --head 8 --save d.csv {SMALL}")) == 3
    said = capsys.readouterr().err
    assert "not finite at step" in said and said.endswith("steps before it are kept in d.csv\n")
    assert said.count("\n") == 1
    assert main(shlex.split(f"train --lr 0.03 --init 0.5 --head 8 {SMALL}")) == 3
    assert capsys.readouterr().err.endswith("steps before it are not kept, without --save\n")
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
        assert len(history.loss) == 400 and history.seed == 1 and history.engine == engine
        omega, mu = (a[-1] for a in spectra(history))
        done = omega * mu
        # most of what a head learns of its task, and of the others hardly more than at its start
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


@pytest.mark.parametrize("kind", mostly_slow(["--engine autograd", "--softmax"], "--softmax"))
def test_interrupt_keeps_the_curve(kind, in_folder):
    """No bar where standard error is no terminal; Ctrl-C, twice, saves; what compiles is not hurt."""
    flags = f"train --model attnS {kind} --trainset_size 300 --epoch 1000000 --save i.csv"
    script = (
        "import runpy, sys\n"
        "from iclcore import trainer\n"
        "run = trainer._run\n"
        "def watched(descent, *rest):\n"
        "    advance, done = descent.advance, [0]\n"
        "    def told(steps):\n"
        "        rows = advance(steps)\n"
        "        before, done[0] = done[0], done[0] + len(rows[0])\n"
        "        if before <= 10 < done[0]:\n"
        "            print('it descends', flush=True)\n"
        "        return rows\n"
        "    descent.advance = told\n"
        "    return run(descent, *rest)\n"
        "trainer._run = watched\n"
        f"sys.argv[1:] = {shlex.split(flags)}\n"
        "runpy.run_module('iclcore', run_name='__main__')\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout.readline() == "it descends\n"
    for _ in range(2):
        run.send_signal(signal.SIGINT)
        time.sleep(0.1)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 130, (out, err)
    assert err.count("\n") == 1 and "they are kept in i.csv" in err
    assert len(History.from_csv("i.csv").loss) > 10


def test_a_softmax_loss_that_rises_goes_on_as_published_or_says_so(in_folder, capsys):
    """Even at its first step. A set that is too large for that keeps what is there. A line says either."""
    flags = "train --softmax --init 1 --head_num 3 --seed 3 --lr 2 --epoch 6 --trainset_size"
    assert main(shlex.split(f"{flags} 300")) == 0
    said = capsys.readouterr()
    assert "engine published" in said.out and "--engine published" not in said.err
    assert said.err.count("\n") == 1 and "from step 0 " in said.err
    assert main(shlex.split(f"{flags} 10000")) == 0
    said = capsys.readouterr()
    assert "engine softmax" in said.out and "--engine published goes on" in said.err


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
    """By quantity its rows: index, step, value."""
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
    # at the end a descent forgets its start in units of 1/(rate b_3), 100 of which it has
    assert run.loss[-1] == pytest.approx(float(found["plateau_loss"][-1][2]), abs=1e-9)


def test_theory_has_the_levels_of_heads_that_read_one_label(capsys):
    """Of two outputs a head learns one alone, if it is the label that its key reads."""
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
    """Of two outputs the MLP learns one, merged heads both, in a time that is longer by √2 than for one."""
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
        size = np.sqrt(8e-6 / 2 / c0)  # the formula has the mean over starts
        start = {key: size * each for key, each in start.items()}
        loss = train(model, task, 1601, lr, start=start).loss[steps.astype(int)]
        # Euler's steps are late by lr/2 times the logarithm by which the weights grow, here less than 8,
        # and the parts of the start that decay are in the loss as squares, 2 · 8 · 13 of them
        late = 4 * lr * np.abs(np.gradient(course, lr * steps)).max()
        assert course[-1] < 0.9 * course[0] and np.abs(loss - course).max() < late + 208e-6


def test_outputs_of_other_kinds(in_folder):
    """Weights in an npz; a link is followed, not replaced; one dimension can be whitened."""
    (in_folder / "real.csv").touch()
    (in_folder / "link.csv").symlink_to("real.csv")
    assert main(shlex.split(f"train --save link.csv {SMALL} --in_dim 1")) == 0
    assert (in_folder / "link.csv").is_symlink() and len(History.from_csv("real.csv").loss) == 40
    assert main(shlex.split(f"train --save run.npz {SMALL}")) == 0
    assert History.from_npz("run.npz").final["value"].shape == (1, 5, 5)


def test_what_could_not_be_written_is_named_and_nothing_else_is_said_to_be(
    in_folder, monkeypatch, capsys
):
    """That no process could be started was said to be a file that could not be written."""

    def fails(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("pathlib.Path.replace", fails)
        assert main(["theory", "--save", "f.csv"]) == 1
    said = "[Errno 28] could not write: No space left on device: 'f.csv'"
    assert capsys.readouterr() == ("", f"iclcore theory: {said}\n")
    assert not list(in_folder.iterdir())
    monkeypatch.setattr("iclcore.cli.theory.task_of", fails)
    assert main(["theory"]) == 1
    assert capsys.readouterr().err == "iclcore theory: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_writing_is_not_interrupted_but_waiting_is(kind, in_folder, monkeypatch):
    """A named pipe that nobody reads was waited for, and Ctrl-C was only noted."""
    if kind == "pipe":
        os.mkfifo("out.csv")
    write = History.to_csv

    def interrupted(history, path):
        signal.raise_signal(signal.SIGINT)
        return write(history, path) if kind == "file" else pytest.fail("waits")

    monkeypatch.setattr(History, "to_csv", interrupted)
    line = shlex.split(f"train --save out.csv {SMALL}")
    assert main(line) == (0 if kind == "file" else 130)
    assert kind == "pipe" or len(History.from_csv("out.csv").loss) == 40


@pytest.mark.parametrize(
    "path", ["loop", "a" * 300, "folder", "socket", "file/inside", "zero\0byte"]
)
def test_a_path_that_no_file_can_have_is_refused(path, in_folder, capsys):
    (in_folder / "loop").symlink_to("loop")
    (in_folder / "folder").mkdir()
    (in_folder / "file").touch()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    before = sorted(in_folder.iterdir())
    with pytest.raises(SystemExit, match="2"):
        main(["theory", "--save", path])
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "--save: takes a file in a folder to write in" in said.err
    assert sorted(in_folder.iterdir()) == before


def test_only_what_a_command_wrote_is_replaced(in_folder, capsys):
    """The arrays that a run trains on were lost by --save, and a picture of one's own by another."""
    data = RegressionTask(dim=2, context=5).sample(20, 1)
    np.savez("own.npz", x=data.x, y=data.y)
    np.savez("odd.npz", record=np.zeros(3), x=data.x, y=data.y)
    for name in ("note.csv", "note.json", "table.csv"):
        (in_folder / name).write_text("a, note\n")
    Figure().savefig("mine.png")
    there = {path: path.read_bytes() for path in in_folder.iterdir()}
    run = "train --model attnS --lr 0.01 --epoch 4 --data own.npz"
    for line, says in {
        f"{run} --save own.npz": "--save: replaces only what such a command wrote, and 'own.npz' is",
        f"{run} --save note.csv": "--save: replaces only",
        f"{run} --json note.json": "--json: replaces only",
        f"{run} --save mine.csv --show": "--show: its picture replaces only",
        "train --data odd.npz --lr 0.01 --save odd.npz": "--save: takes a file of its own, not that of",
        "theory --save note.csv": "--save: replaces only",
        "sweep --grid seed=0:2 --out .": "table.csv is there, and no sweep's",
    }.items():
        with pytest.raises(SystemExit, match="2"):
            main(shlex.split(line))
        said = capsys.readouterr()
        assert said.err.count("\n") == 1 and says in said.err, said.err
        assert {path: path.read_bytes() for path in in_folder.iterdir()} == there
    for line in (
        f"{run} --save run.csv --json run.json --show",
        f"{run} --save run.npz",
        "theory --save formulas.csv",
        f"sweep --grid seed=0:2 --out out {run.removeprefix('train')}",
    ):
        assert main(shlex.split(line)) == main(shlex.split(line)) == 0  # its own it does replace
    with pytest.raises(SystemExit, match="2"):
        main(["theory", "--save", "run.csv"])
