"""The command line. It is called as a separate process only where this matters."""

import csv
import json
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

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
    "--model attnS --head 9 --KQ_dim 4 --in_dim 8 --seq_len 32 --init 5e-3 --epoch 20001 --lr 0.02",
    "--model attnM --icl 0.4 --head 8 --testset 5000 --init 1e-6 --white_cov --lr 0.0005 --epoch 4001",
)
TASK = RegressionTask(dim=3, context=7)


def run(line: str, status: int = 0) -> None:
    assert main(shlex.split(line)) == status


def refused(line: str, capsys) -> str:
    """Return the one line on stderr of a command that refuses a flag and prints nothing else."""
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    said = capsys.readouterr()
    assert stop.value.code == 2 and not said.out and said.err.count("\n") == 1, said
    return said.err


def save_arrays(*names: str) -> list[Sequences]:
    """Save 60 sequences of TASK in a file of each name. The k-th file is drawn with seed k."""
    draws = [TASK.sample(60, seed) for seed, _ in enumerate(names)]
    for name, data in zip(names, draws, strict=True):
        np.savez(f"{name}.npz", x=data.x, y=data.y[:, :, 0], more=np.arange(3))
    return draws


def table(path: str) -> list[dict]:
    return list(csv.DictReader(Path(path).read_text().splitlines()))


@pytest.mark.parametrize("flags", mostly_slow(PUBLISHED, *PUBLISHED[:3]))
def test_published_commands_run(flags, in_folder, capsys):
    run(f"train {flags} --save run.csv")
    history = History.from_csv("run.csv")
    epoch = int(flags.split("--epoch ")[1].split()[0]) if "--epoch" in flags else 6001
    assert len(history.loss) == epoch and history.floor <= history.loss[-1] < 0.5 * history.loss[0]
    assert ("test_in_weight" in history.series) == ("--testset" in flags)
    if "--show" in flags:
        assert "the picture is in run.png" in capsys.readouterr().out
        assert Path("run.png").read_bytes().startswith(b"\x89PNG")


def test_files(in_folder):
    run(
        f"train --model attnS --head 2 --testset 30 --track_value --save f.csv --json f.json {SMALL}"
    )
    lines = Path("f.csv").read_text().splitlines()
    rows = [line for line in lines if not line.startswith("#")]
    assert rows[0] == "step,loss,test_in_weight,test_in_context,value_1,value_2"
    assert len(rows) == 41 and rows[1].startswith("0,") and rows[-1].startswith("39,")
    assert any(line.startswith("# settings: ") and '"seed": 10' in line for line in lines)
    record = json.loads(Path("f.json").read_text())
    assert {"loading", "moments", "descent"} <= set(record["seconds"])
    assert record["engine"] == "moments" and record["versions"]["torch"].startswith("2.13")
    assert record["final_loss"] == float(rows[-1].split(",")[1]) >= record["floor"]


# A wrong command line, the flag that the error names, and what the error says.
REFUSED = [
    ("train --icl nan", "--icl", "from 0 to 1"),
    ("train --engine moments --in_dim 40", "--engine", "at most 8,000 features"),
    ("train --model mlp", "--model", "--cubic_feat"),
    ("train --optimizer adam --momentum 0.9", "--momentum", "is only for --optimizer sgd"),
    ("train --heads 1 --head 2", "--heads", "--heads and --head are the same flag"),
    ("train --model multihead --start published --heads 2", "--heads", "--start published"),
    ("theory --model attnS --init 1e-320", "--init", "a start that floats can follow"),
    ("sweep --out out --grid rank=1,2 seed=0:4", "--grid", "needs quotes around all of it; 'seed=0:4'"),
    *((f"sweep --out out --epoch 5 --grid '{grid}'", named, says) for grid, named, says in (
        ("lr=log:0:1:5", "--grid", "log:FIRST:LAST:COUNT"),
        ("seed=0:99999 heads=1:999", "--grid", "from 1 to 100,000 runs, not 99,799,002"),
        ("epoch=1,2", "--grid", "also given elsewhere"),
        ("rank=1,2", "--rank", "is only for --model attnS, not attnM, in the run --rank=2"),
    )),
]  # fmt: skip


@pytest.mark.parametrize("line, named, says", REFUSED)
def test_a_wrong_flag_is_refused_in_one_line(line, named, says, in_folder, capsys):
    error = refused(line, capsys)
    assert f"argument {named}" in error and says in error
    assert not list(in_folder.iterdir())


def test_a_refusal_loads_no_slow_library(in_folder):
    """A refusal should be immediate, but torch, numba, scipy and matplotlib can take seconds to load."""
    script = """
import json, sys
from iclcore.cli import main
from iclcore.cli.advice import drop_times
for line in json.load(sys.stdin):
    try:
        main(line)
    except SystemExit:
        pass
    heavy = {"torch", "numba", "scipy", "matplotlib"} & set(sys.modules)
    assert not heavy, (line, heavy)
"""
    lines = [shlex.split(line) for line, *_ in REFUSED]
    lines = [line for line in lines if "multihead" not in line and "1e-320" not in line]
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=json.dumps(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_examples_of_the_help_run(in_folder, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    for line in ["", "train -h", "train --model multihead -h", "sweep -h", "theory -h"]:
        with pytest.raises(SystemExit, match="0"):
            main(line.split())
        (example,) = re.findall(r"\nexample: iclcore (.+)\n$", capsys.readouterr().out)
        run(example)
        assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, data",
    [
        ("--model attnS --heads 2 --rank 3 --vary_len --testset 20 --track_value", ""),
        ("--model mlp --cubic_feat --momentum 0.5 --weight_decay 0.01 --icl 0.5", ""),
        ("--optimizer adam --weight_decay 0.1 --trainset_size inf --white_cov", ""),
        ("--softmax --init 0.1 --trainset_size 30 --engine autograd", ""),
        ("--model attnS --vary_len --lr 0.01", "--data own.npz"),
    ],
)
def test_a_saved_run_is_repeated_with_other_flags(flags, data, in_folder):
    save_arrays("own")
    run(f"train {flags} {data} --epoch 9 --save a.csv")
    run(f"train --like a.csv {data} --save b.csv")
    first, again = History.from_csv("a.csv"), History.from_csv("b.csv")
    assert again.settings == first.settings and again.loss.tobytes() == first.loss.tobytes()
    run(f"train --like b.csv {data} --seed 3 --lr 0.02 --save c.npz")
    run(f"train {flags.replace('--lr 0.01', '')} {data} --epoch 9 --seed 3 --lr 0.02 --save d.npz")
    changed, other = History.from_npz("c.npz"), History.from_npz("d.npz")
    assert changed.settings == other.settings and changed.loss.tobytes() == other.loss.tobytes()


def test_a_run_that_cannot_be_repeated_is_refused(in_folder, capsys):
    (data,) = save_arrays("mine")
    model = SeparateAttention(heads=2)
    train(model, data, 3, 0.01).to_npz("python.npz")
    for name, plan in {
        "own": Plan(replace(data, name="own", tests={"held_out": data}), model, steps=3),
        "noise": Plan(replace(TASK, noise=0.1), model, sequences=None, steps=3),
        "beta": Plan(TASK, model, optimizer=Adam(beta1=0.5), steps=3),
    }.items():
        carry_out(plan).to_npz(f"{name}.npz")
    for name in ("python", "noise", "beta"):
        assert "--like: takes a run of train" in refused(f"train --like {name}.npz", capsys)
    assert "--data: is needed" in refused("train --like own.npz", capsys)
    assert "--test: is needed" in refused("train --like own.npz --data mine.npz", capsys)
    assert "No such file" in refused("train --like none.csv", capsys)


def test_a_logarithmic_range_and_a_dry_run(in_folder, capsys):
    line = f"sweep --grid 'heads=1,10,100 lr=log:1e-3:1e-1:5' --model attnS {SMALL} --out out"
    run(f"{line} --dry-run")
    assert capsys.readouterr().out == "15 runs, 0 of them found in out; nothing was done\n"
    assert not list(in_folder.iterdir())
    run(line.replace("1,10,100", "1,10"))
    rates = ["0.001", "0.00316228", "0.01", "0.0316228", "0.1"]
    rows = [(row["heads"], row["lr"]) for row in table("out/table.csv")]
    assert rows == [(heads, lr) for heads in ("1", "10") for lr in rates]
    capsys.readouterr()
    run(f"{line} --dry-run")
    assert capsys.readouterr().out == "15 runs, 10 of them found in out; nothing was done\n"


def test_own_arrays_with_a_held_out_set(in_folder, capsys):
    """The command, a sweep and Python give the same run. The table shows the names of the files."""
    data, _, later = save_arrays("a", "b", "later")
    flags = "--test later.npz --model attnS --heads 2 --init 0.1 --lr 0.05 --epoch 40"
    run(f"train --data a.npz {flags} --seed 3 --save own.csv --show")
    assert "the picture is in own.png" in capsys.readouterr().out
    history, tests = History.from_csv("own.csv"), {"test_held_out": later}
    own = Sequences(data.x, data.y)
    alone = train(SeparateAttention(heads=2, init=0.1), own, 40, 0.05, seed=3, tests=tests)
    assert history.loss.tobytes() == alone.loss.tobytes() and history.task is None
    found = history.series["test_held_out"]
    assert found.tobytes() == alone.series["test_held_out"].tobytes()
    run(f"sweep {flags} --grid 'data=a.npz,b.npz seed=3:5' --out out")
    rows = table("out/table.csv")
    assert [row["data"] for row in rows] == ["a.npz", "a.npz", "b.npz", "b.npz"]
    assert [float(rows[0][name]) for name in ("loss", "test_held_out")] == [
        alone.loss[-1],
        found[-1],
    ]


def test_bad_arrays_are_refused_in_one_line(in_folder, capsys):
    x, y = np.ones((5, 4, 2)), np.ones((5, 4))
    np.savez("good.npz", x=x, y=y)
    np.savez("few.npz", x=x, y=y[:4])
    np.savez("text.npz", x=x.astype(str), y=y)
    np.savez("alone.npz", x=x)
    np.save("x.npy", x)
    Path("half.npz").write_bytes(Path("good.npz").read_bytes()[:100])
    for file in ("few.npz", "text.npz", "alone.npz", "half.npz", "x.npy", "none.npz"):
        for command in ("train", "sweep --grid seed=0:2 --out out"):
            error = refused(f"{command} --data {file} --lr 0.01", capsys)
            assert "argument --data: takes an npz file with arrays x and y: " in error
    assert "argument --in_dim" in refused("train --data good.npz --lr 0.01 --in_dim 2", capsys)
    assert not Path("out").exists()


def test_a_file_is_overwritten_only_with_force(in_folder, capsys):
    """Even with --force, a run never overwrites the arrays that it trains on."""
    save_arrays("own")
    for name in ("run.csv", "run.json", "run.png"):
        Path(name).write_text("mine")
    train_own = "train --model attnS --lr 0.01 --epoch 4 --data own.npz"
    for line, flag, file in (
        (f"{train_own} --save run.csv", "--save", "run.csv"),
        (f"{train_own} --json run.json", "--json", "run.json"),
        (f"{train_own} --save run.npz --show", "--show", "run.png"),
        ("train --model multihead --save run.csv", "--save", "run.csv"),
        ("theory --save run.csv", "--save", "run.csv"),
    ):
        error = refused(line, capsys)
        assert error.endswith(f"argument {flag}: would overwrite '{file}'; --force allows it\n")
    error = refused(f"{train_own} --save own.npz --force", capsys)
    assert "--save: takes a file of its own, not own.npz, that of --data" in error
    assert all(path.read_bytes() == b"mine" for path in in_folder.glob("run.*"))
    run(f"{train_own} --save run.csv --json run.json --show --force")
    assert all(path.read_bytes() != b"mine" for path in in_folder.glob("run.*"))


@pytest.mark.parametrize(
    "flags",
    [
        f"--lr 0.03 --init 0.5 --head 8 {SMALL}",
        "--model multihead --engine full --lr 3 --epoch 60",
        "--model multihead --engine spectral --lr 3 --epoch 60",
    ],
)
def test_divergence_keeps_the_curve(flags, in_folder, capsys):
    run(f"train {flags} --save d.csv", status=3)
    said = capsys.readouterr().err
    assert "not finite at step" in said and said.count("\n") == 1
    history = History.from_csv("d.csv")
    assert history.ended == "diverged"
    assert np.isfinite(history.loss[:-1]).all() and not np.isfinite(history.loss[-1])


@pytest.mark.parametrize("engine", ["full", "spectral"])
def test_multihead(engine, in_folder, capsys):
    flags = "--tasks 3 --head 3 --dims 4 --signal 10 --seq_len 41 --lr 0.02 --epoch 400 --seed 1"
    files = f"--save {engine}.csv --json run.json --show --track_value"
    run(f"train --model multihead {flags} --engine {engine} {files}")
    said = capsys.readouterr().out
    assert "task 1: head 1, task 2: head 2, task 3: head 3" in said
    assert f"picture is in {engine}.png" in said
    history = History.from_csv(f"{engine}.csv")
    assert len(history.loss) == 400 and history.settings["seed"] == 1 and history.engine == engine
    # each head has learned most of its own task, and hardly anything of the others
    done = history.series["omega"][-1] * history.series["mu"][-1]
    assert done.diagonal().min() > 0.6 and np.abs(done[~np.eye(3, dtype=bool)]).max() < 0.1
    task = json.loads(Path("run.json").read_text())["settings"]["MultiTask"]
    assert task["dims"] == [4, 4, 4] and task["context"] == 40


def test_an_interrupted_run_saves_its_curve(in_folder):
    """Ctrl-C ends a run between two steps, also in compiled loops."""
    flags = "train --model attnS --softmax --trainset_size 300 --epoch 1000000 --save i.csv"
    script = f"""
import sys
from iclcore import cli, trainer

train = trainer.train

def callback(step, loss):
    if step > 10:
        print("it trains", flush=True)

trainer.train = lambda *args, **rest: train(*args, **rest | {{"callback": callback}})
sys.exit(cli.main({shlex.split(flags)}))
"""
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", script], text=True, **pipes)
    assert process.stdout.readline() == "it trains\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (out, err)
    assert err.count("\n") == 1 and "they are saved in i.csv" in err
    assert len(History.from_csv("i.csv").loss) > 10


@pytest.mark.parametrize("model", ["attnS --heads 2 --rank 2", "attnS --softmax"])
def test_for_arrays_without_a_rate_a_rate_is_suggested_that_works(model, in_folder, capsys):
    data = RegressionTask(dim=2, context=5).sample(30, 1)
    np.savez("own.npz", x=data.x, y=7 * data.y)
    for command in ("train", "sweep --out out --grid seed=1"):
        line = f"{command} --data own.npz --model {model} --epoch 300"
        error = refused(line, capsys)
        rate = re.search(r"argument --lr: is needed with --data; with --lr (\S+),", error)[1]
        run(f"{line} --lr={rate}")
        assert not capsys.readouterr().err
    run("train --data own.npz --optimizer adam --epoch 3")


def test_a_rising_loss_is_reported_in_one_line(in_folder, capsys):
    """On a published draw, the line suggests the engine with the authors' own operations."""
    flags = "train --softmax --init 1 --head_num 3 --seed 3 --lr 2 --epoch 6 --trainset_size 300"
    for engine, offered in (("auto", True), ("published", False)):
        run(f"{flags} --engine {engine}")
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "the loss rises at step " in said
        assert ("--engine published repeats" in said) == offered


def rows_of(line, capsys):
    """Return the rows (index, step, value) of each quantity."""
    run(line)
    found = {}
    for row in capsys.readouterr().out.splitlines()[2:]:
        quantity, index, *rest = row.split(",")
        found.setdefault(quantity, []).append((float(index or "nan"), *rest))
    return found


@pytest.mark.parametrize(
    "flags, model, outputs, learned, also",
    [
        ("attnM --heads 2", MergedAttention(2), 1, [0, 3], set()),
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
    task = replace(TASK, outputs=outputs)
    start = replace(model, init=0.3).start(3, outputs, seed=1)
    history = train(model, task, 6000, 0.2 * stable_rate(task, model), start=start)
    # the start is forgotten with the time constant 1/(rate b_3), and the run is 100 times as long
    assert history.loss[-1] == pytest.approx(float(found["plateau_loss"][-1][2]), abs=1e-9)


def test_theory_has_the_levels_of_heads_that_read_one_label(capsys):
    """With two outputs, a head learns only the output whose label its key reads."""
    found = rows_of("theory --model attnS --heads 3 --out_dim 2 --in_dim 3 --seq_len 8", capsys)
    levels = {index: float(value) for index, _, value in found["plateau_loss"]}
    assert sorted(levels) == [0, 0.5, 1, 1.5, 2, 2.5, 3]
    task = replace(TASK, outputs=2)
    pairs_of = {0.5: [(0, 1)], 1: [(0, 0), (0, 1)], 1.5: [(0, 0), (0, 1), (1, 1)]}
    for learned, pairs in pairs_of.items():
        model = SeparateAttention(heads=len(pairs))
        start = {name: np.zeros_like(each) for name, each in model.start(3, 2).items()}
        for h, (d, output) in enumerate(pairs):
            e = task.eigenvectors[:, d]
            start["key"][h, 0, 3 + output], start["query"][h, 0, :3] = 0.3, 0.3 * e
            start["value"][h, 3 + output, :3] = 0.3 * e
        history = train(model, task, 3000, 0.2 * stable_rate(task, model), start=start)
        assert history.loss[-1] == pytest.approx(levels[learned], abs=1e-9)


DEFAULTS = {"attnS": 6001, "attnM": 60, "mlp --cubic_feat": 60}


@pytest.mark.parametrize("model", DEFAULTS)
def test_a_run_that_ends_on_a_plateau_says_when_the_loss_drops(model, in_folder, capsys):
    """A run with as many steps as suggested has the drop, and its last plateau gives no message."""
    line = f"train --model {model} --epoch"
    run(f"{line} {DEFAULTS[model]}")
    said = capsys.readouterr().out
    assert "the loss is on a plateau, 0 of 4 eigenvectors are learned: theory" in said
    step, epoch = map(int, re.findall(r"step (\d+)\. --epoch (\d+) shows it", said)[0])
    rate = float(said.split()[-1])  # the largest learning rate that is suggested
    run(f"{line} {round(epoch * 1e-3 / rate)} --lr {rate} --save fast.csv")
    quick = History.from_csv("fast.csv")
    assert quick.first_rise is None
    run(f"{line} {epoch} --save run.csv")
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
        ("--model attnS --rank 2", "0 of 4 eigenvectors are learned: theory expects the next drop"),
        ("--model attnS --out_dim 2", "0 of 4 eigenvectors are learned: a larger --epoch, --lr"),
        ("--model attnS --heads 5 --epoch 10001 --lr 0.02 --seed 0", None),  # all are learned
        ("--model attnS --heads 2 --init 0.1 --lr 0.02", "that is all that these heads can learn"),
        ("--model attnM --softmax --trainset_size 50 --epoch 9", None),
    ],
)
def test_the_message_about_a_plateau(flags, says, capsys):
    run(f"train {flags}")
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
