"""Sweeps on this machine: resumed, reported, never misread; and grids that are refused."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from conftest import close
from pace import slow

from iclcore import (
    CubicMLP,
    History,
    MergedAttention,
    RegressionTask,
    SeparateAttention,
    Sequences,
    published,
    train,
)
from iclcore.cli import main
from iclcore.cli import plots as picture
from iclcore.files import write_whole
from iclcore.moments import of_sequences
from iclcore.sweep import Plan, carry_out, grid, prepare, sweep
from iclcore.sweep.chunks import sampled_moments
from iclcore.sweep.workers import Cores

BASE = Plan(RegressionTask(dim=3, context=7), SeparateAttention(2), sequences=60, steps=40, lr=0.02)


def files(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "runs").glob("*"))}


def test_runs_that_share_a_draw_are_what_each_is_alone(in_folder):
    """One draw, one set of moments for what has the same: the published order of random numbers."""
    task = BASE.data
    runs = [
        BASE,
        replace(BASE, model=SeparateAttention(2, rank=3), values=True),
        replace(BASE, model=MergedAttention(2, divisor="context"), lr=0.1),
        replace(BASE, model=CubicMLP(3)),
        replace(BASE, model=MergedAttention(2, softmax=True)),
        replace(BASE, engine="autograd"),
    ]
    runs = [replace(run, tests=30) for run in runs]
    swept = sweep(runs, "out")
    for run in runs:
        draw = published.sample(task, 60, run.seed, 30)
        tests = {f"test_{name}": data for name, data in draw.tests.items()}
        alone = train(
            run.model,
            draw,
            40,
            run.lr,
            start=draw.starts(run.model),
            tests=tests,
            engine=run.engine,
        )
        kept = swept.history(run)
        assert kept.settings == run.settings and ("value" in kept.series) == run.values
        for name, series in kept.series.items():
            close(series, alone.series[name], within=1e-12)  # 40 steps: thousands of roundings
        assert swept.rows[run.name]["test_in_weight"] == kept.series["test_in_weight"][-1]


def test_own_sequences_are_known_by_their_content(in_folder):
    """Their starts are drawn by the seed, and all that was done is found by equal numbers elsewhere."""
    data, other = BASE.data.sample(60, 1), BASE.data.sample(50, 2)
    own = Sequences(data.x, data.y)
    swept = sweep(grid(Plan(own, BASE.model, steps=40), seed=(0, 1), data=(own, other)), "out")
    for run in swept.runs.values():
        alone = train(run.model, run.data, 40, run.lr, seed=run.seed)
        kept = swept.history(run)
        assert kept.loss.tobytes() == alone.loss.tobytes() and kept.task == run.data.task
        assert swept.rows[run.name]["sequences"] == len(run.data)
        assert swept.rows[run.name]["data"] == run.data.digest
    assert swept.axes == ["sequences", "seed", "data"] and len(swept.rows) == 4
    copied = Plan(Sequences(own.x.tolist(), own.y[:, :, 0]), BASE.model, steps=40, seed=1)
    again = sweep([copied], "out")
    assert again.found == 1 and copied in swept.runs.values()
    for changed in (own[:59], Sequences(own.x, own.y, every_length=True), Sequences(own.x, -own.y)):
        assert replace(copied, data=changed).name not in swept.runs
    for name in ("sequences", "tests"):
        with pytest.raises(ValueError, match=f"{name} goes with a task"):
            replace(copied, **{name: 30})


@slow
def test_a_killed_sweep_continues_where_it_was(in_folder, capsys):
    """Killed by its process id: nothing that was done is done again, and the result is the same.

    While it runs the folder is its own; its end, of whatever kind, frees the folder.
    """
    line = "--grid 'rank=1,2 seed=0:4' --model attnS --head 4 --epoch 60000 --lr 0.01 --trainset_size 100"
    process = subprocess.Popen(
        [sys.executable, "-m", "iclcore", "sweep", *shlex.split(line), "--out", "out"]
    )
    runs = in_folder / "out" / "runs"
    while not runs.exists() or len(list(runs.glob("*.npz"))) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGSTOP)  # it must not end while this process loads what it needs
    with pytest.raises(SystemExit, match="2"):
        main(["sweep", *shlex.split(line), "--out", "out"])
    assert "argument --out: out is in use by another sweep" in capsys.readouterr().err
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    done = {path.name: path.stat().st_mtime_ns for path in runs.glob("*.npz")}
    assert 2 <= len(done) < 8
    for jobs, folder in ((2, "out"), (1, "again")):
        assert main(["sweep", *shlex.split(line), "--out", folder, "--jobs", str(jobs)]) == 0
    assert {name: (runs / name).stat().st_mtime_ns for name in done} == done
    out, again = (in_folder / name for name in ("out", "again"))
    whole = {name: data for name, data in files(out).items() if name.endswith(".npz")}
    assert whole == files(again) and len(whole) == 8
    for table in ("table.csv", "table.parquet"):
        assert (out / table).read_bytes() == (again / table).read_bytes()
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_two_sweeps_in_one_process_leave_each_other_alone(in_folder, monkeypatch):
    """The one that ends while a run of the other is under way does not end that run."""
    slow, others = replace(BASE, seed=1), grid(BASE, seed=(2, 3))
    begun, go = Event(), Event()

    def waiting(starts, name, progress):
        def told(steps):
            begun.set()
            assert go.wait(60)
            return progress(steps)

        return carry_out(starts, name, told if name == slow.name else progress)

    monkeypatch.setattr("iclcore.sweep.folder.carry_out", waiting)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(sweep, [slow], "one")
        assert begun.wait(60)
        assert len(sweep(others, "two").ended("finished")) == 2
        go.set()
        assert len(first.result().history(slow).loss) == slow.steps
    sweep([slow], "alone")
    assert files(in_folder / "one") == files(in_folder / "alone")


def test_a_run_that_was_interrupted_is_never_kept(in_folder, monkeypatch, capsys):
    def cut(starts, name, progress):
        return replace(carry_out(starts, name, progress), ended="interrupted")

    with monkeypatch.context() as patch:
        patch.setattr("iclcore.sweep.folder.carry_out", cut)
        swept = sweep([BASE], "out")
    assert swept.ended("failed") == [BASE] and not files(in_folder / "out")
    assert "failed: Unfinished: interrupted at step 40" in capsys.readouterr().err
    swept = sweep([BASE], "out")
    assert swept.found == 0 and len(swept.ended("finished")) == 1
    # a file that says so is one of another hand
    replace(swept.history(BASE), ended="interrupted").to_npz(f"out/runs/{BASE.name}.npz")
    assert sweep([BASE], "out").found == 0
    assert "interrupted, not finished; set aside" in capsys.readouterr().err


def test_a_run_that_is_cut_while_it_follows_the_published_operations_is_interrupted():
    """What another engine had to say of it is there, but is not how it ends."""
    model = MergedAttention(3, init=1.0, softmax=True)
    run = Plan(RegressionTask(), model, sequences=300, steps=6, lr=2.0, seed=3)
    told = []

    def tell(steps):
        told.append(steps)
        if sum(told) > run.steps:
            raise KeyboardInterrupt

    history = carry_out(prepare([run]), run.name, tell)
    assert sum(told) == run.steps + 1
    assert history.ended == "interrupted" and history.engine == "softmax"


@pytest.mark.parametrize("first, later", [(1, 2), (1, 0), (0, 2)])
def test_workers_come_and_go_while_runs_are_submitted(first, later, in_folder, monkeypatch):
    """As they do on a cluster."""
    seen = []

    class Changing(Cores):
        def submit(self, *call):
            seen.append(call)
            return super().submit(*call)

        @property
        def jobs(self):
            begun = "_pool" in vars(self)
            return (later if len(seen) > 4 else first) if begun else 1

        @jobs.setter
        def jobs(self, _):
            pass

    monkeypatch.setattr("iclcore.sweep.folder.Cores", Changing)
    swept = sweep(grid(BASE, seed=range(6)), "out")
    assert len(swept.ended("finished")) == 6


def test_ctrl_c_waits_until_a_result_is_written(in_folder, monkeypatch, capsys):
    """A zip file cannot be left in the middle: closing it would be an error of its own."""
    own = np.lib.format.write_array

    def write(*call, **options):
        signal.raise_signal(signal.SIGINT)
        return own(*call, **options)

    line = "sweep --model attnS --epoch 40 --in_dim 3 --trainset_size 60 --grid seed=0:3 --jobs 1"
    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", write)
        assert main([*line.split(), "--out", "out"]) == 130
    stopping, said = capsys.readouterr().err.splitlines()
    assert stopping.startswith("stopping: ")
    assert said == "interrupted: 1 of 3 runs are kept in out; run again to go on"
    assert main([*line.split(), "--out", "out"]) == 0
    assert "3 runs, 1 of them found" in capsys.readouterr().out


def test_a_value_error_deep_in_a_sweep_is_no_wrong_flag(in_folder, monkeypatch):
    def broken(_):
        raise ValueError("deep")

    monkeypatch.setattr("iclcore.sweep.folder._write_table", broken)
    with pytest.raises(ValueError, match="deep"):
        main(shlex.split("sweep --epoch 40 --trainset_size 60 --grid seed=0:1 --out out"))


@slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_a_sweep_as_ctrl_c_does(number, in_folder):
    """It says what is kept, unless its terminal is gone; and the exit status names the signal."""
    script = (
        "import runpy, signal, sys\n"
        "from iclcore import History\n"
        f"signal.signal({number:d}, signal.SIG_DFL)\n"  # whoever runs these tests may ignore it
        "own = History.to_npz\n"
        f"History.to_npz = lambda *a: own(*a) or signal.raise_signal({number:d})\n"
        "sys.argv[1:] = sys.argv[2:]\n"
        "runpy.run_module('iclcore', run_name='__main__')\n"
    )
    line = "sweep --epoch 40 --trainset_size 60 --grid seed=0:3 --jobs 1 --out out"
    there, terminal = os.openpty()
    error = terminal if number == signal.SIGHUP else subprocess.PIPE
    run = [sys.executable, "-c", script, "-", *line.split()]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=error, text=True)
    os.close(there)
    os.close(terminal)
    out, said = process.communicate()
    assert process.returncode == 128 + number, said
    assert not out and (said is None) == (number == signal.SIGHUP)
    if said is not None:
        _, kept = said.splitlines()
        assert kept == "interrupted: 1 of 3 runs are kept in out; run again to go on"
    assert len(files(in_folder / "out")) == 1


def test_runs_that_fail_or_diverge_are_reported_and_the_others_go_on(
    in_folder, monkeypatch, capsys
):
    def short(runs):
        if runs[0].sequences == 70:
            raise MemoryError("taken by others")
        return prepare(runs)

    monkeypatch.setattr("iclcore.sweep.folder.prepare", short)
    flags = "--model attnS --epoch 40 --in_dim 3 --grid"
    axes = "trainset_size=60,70 lr=0.01,50"
    assert main(["sweep", *flags.split(), axes, "--out", "out"]) == 3
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert sum("failed: MemoryError: " in line and "sequences=70" in line for line in lines) == 2
    assert sum("diverged at step" in line and "lr=50.0" in line for line in lines) == 1
    assert len(lines) == 3 and "1 finished, 1 diverged, 2 failed" in said.out
    rows = (in_folder / "out" / "table.csv").read_text().splitlines()
    assert [row.count('"failed"') for row in rows] == [0, 0, 0, 1, 1]
    # only what failed is tried again
    main(["sweep", *flags.split(), axes, "--out", "out"])
    assert "4 runs, 2 of them found" in capsys.readouterr().out


def test_what_is_no_run_of_these_versions_is_set_aside(in_folder, capsys):
    runs = grid(BASE, seed=range(10))
    before = sweep(runs, "out")
    wanted = files(in_folder / "out")
    table, left = (in_folder / "out" / "table.csv").read_bytes(), []
    paths = [in_folder / "out" / "runs" / f"{run.name}.npz" for run in runs]
    paths[0].write_bytes(wanted[paths[0].name][:-50])  # half of it on the disk
    paths[1].write_bytes(b"")
    older = before.history(runs[2])
    older.versions["numpy"] = "1.0"
    older.to_npz(paths[2])
    paths[3].write_bytes(wanted[paths[4].name])  # another run under this name
    changed = before.history(runs[5])
    changed.versions["iclcore"] += "0"  # by other code
    changed.to_npz(paths[5])
    for path in paths[6:]:
        path.unlink()
    paths[6].mkdir()
    paths[7].symlink_to(in_folder)
    os.mkfifo(paths[8])  # whoever opens it waits for ever
    paths[9].symlink_to("/proc/self/mem")  # a file whose first byte no one can read
    np.savez(in_folder / "out" / "runs" / "foreign.npz", a=np.arange(3))
    partial = paths[0].with_name("notes.partial")
    partial.write_bytes(b"half")
    capsys.readouterr()
    after = sweep(runs, "out")
    lines = capsys.readouterr().err.splitlines()
    said = {
        paths[0].name: "no run's file, or damaged: BadZipFile",
        paths[1].name: "no run's file, or damaged: BadZipFile",
        paths[2].name: "made by numpy 1.0, not ",
        paths[5].name: f"made by iclcore {changed.versions['iclcore']}, not ",
        paths[6].name: "no file",
        paths[7].name: "no file",
        paths[8].name: "no file",
        paths[9].name: "Input/output error",
        paths[3].name: f"holds run {runs[4].name}",
        "foreign.npz": "no run's file, or damaged: KeyError 'record'",
        partial.name: "no run",
    }
    assert len(lines) == len(said) and after.found == 1
    for name, reason in said.items():
        line = next(line for line in lines if name + ":" in line)
        assert reason in line and f"set aside as {name}.aside" in line
    assert {path.name: path.read_bytes() for path in paths} == wanted
    assert len(list(paths[0].parent.glob("*.aside"))) == len(said)
    assert (in_folder / "out" / "table.csv").read_bytes() == table
    # what a sweep that was killed has half written is no evidence
    out = in_folder / "out"
    written = [paths[0], *(out / name for name in ("table.csv", "table.parquet", "figure.png"))]
    for path in written:
        with pytest.raises(SystemExit):
            write_whole(path, lambda file: left.append(Path(file.name)) or sys.exit())
        left[-1].write_bytes(b"half")
    own = out / "notes.00000000.partial"
    own.touch()
    sweep(runs, "out")
    assert not capsys.readouterr().err and list(out.rglob("*.partial")) == [own]


def test_a_mistake_of_ours_sets_no_run_aside(in_folder, monkeypatch):
    sweep([BASE], "out")
    before = files(in_folder / "out")

    def broken(*_):
        raise AttributeError("deep")

    monkeypatch.setattr("iclcore.sweep.folder._row", broken)
    with pytest.raises(AttributeError, match="deep"):
        sweep([BASE], "out")
    assert files(in_folder / "out") == before


def test_names_change_with_settings_and_with_versions():
    runs = grid(BASE, rank=(1, 2), seed=(0, 1), in_context=(0.5, 1.0), values=(False, True))
    assert len({run.name for run in runs}) == len(runs) == 16
    history = History({"loss": np.zeros(1)}, settings=json.loads(json.dumps(BASE.settings)))
    assert replace(BASE).name == BASE.name and history.settings == BASE.settings
    for wrong in ({"rnk": (1,)}, {"rank": ()}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            grid(BASE, **wrong)
    with pytest.raises(ValueError, match="each run once"):
        sweep([BASE, BASE], "nowhere")


def test_moments_in_chunks_are_those_of_all_sequences_at_once():
    task, model = RegressionTask(dim=3, context=7, in_context=0.5), MergedAttention()
    once = sampled_moments(task, model, 700, seed=4, chunk=700)
    own = np.random.SeedSequence([4, 0]).generate_state(1, np.uint64)[0]
    close(once.gram, of_sequences(task.sample(700, int(own)), model).gram)
    apart = [sampled_moments(task, model, 1050, seed=4, chunk=100, jobs=jobs) for jobs in (1, 2)]
    assert apart[0].gram.tobytes() == apart[1].gram.tobytes()
    parts = [
        task.sample(
            count, int(np.random.SeedSequence([4, i]).generate_state(1, np.uint64)[0])
        )
        for i, count in enumerate([100] * 10 + [50])
    ]  # fmt: skip
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in "xy")
    close(apart[0].gram, of_sequences(replace(parts[0], x=x, y=y), model).gram)
    close(apart[0].cross, of_sequences(replace(parts[0], x=x, y=y), model).cross)


@pytest.mark.parametrize(
    "axes, rest, named, says",
    [
        ("rnk=1,2", "", "--grid", "'rnk' is no flag of train; did you mean rank?"),
        ("rank", "", "--grid", "takes NAME=VALUES between blanks, not 'rank'"),
        ("rank=", "", "--grid", "takes NAME=VALUES"),
        ("  ", "", "--grid", "not nothing"),
        ("rank=1,,2", "", "--grid", "lacks a value"),
        ("seed=6:0", "", "--grid", "'seed=6:0' is an empty range"),
        ("seed=0:b", "", "--grid", "a range is FIRST:END"),
        ("seed=0:1:2:3", "", "--grid", "a range is FIRST:END"),
        ("rank=1,1", "", "--grid", "has 1 twice"),
        ("lr=0.1,0.10", "", "--grid", "each run once"),
        ("heads=1,2 head_num=3", "", "--grid", "twice"),
        ("heads=1,2", "--head 3", "--heads", "a value of its own and one in --grid"),
        ("rank=1,2 KQ_dim=3", "", "--grid", "twice"),
        ("rank=1,2", "--KQ_dim 3", "--rank", "a value of its own and one in --grid"),
        ("seed=0:2", "--seed=3", "--seed", "a value of its own and one in --grid"),
        ("softmax=0,1", "", "--grid", "takes no values"),
        ("save=a.csv,b.csv", "", "--grid", "no flag of train"),
        ("rank=0,1", "", "--rank", "at least 1"),
        ("rank=1,2", "--model attnM", "--rank", "goes with --model attnS"),
        ("seed=0:2", "--save f.csv", "--save", "is no flag of sweep"),
        ("seed=0:2", "--fish 3", "--fish", "no flag of sweep"),
        ("trainset_size=4,100", "", "--trainset_size", "at least 5 sequences"),
        (
            "trainset_size=60,1000000000000 seed=0:2",
            "",
            "--trainset_size: takes less: this needs",
            "with --trainset_size=1000000000000 --seed=0\n",
        ),
        ("seed=0:2", "--scheduler tcp://h:1 --jobs 2", "--jobs", "without --scheduler"),
        ("seed=0:2", "--out file/inside", "--out", "a folder to write in"),
        ("seed=0:2", f"--out {'o' * 300}", "--out", "a folder to write in"),
    ],
)
def test_bad_input(axes, rest, named, says, in_folder, capsys):
    (in_folder / "file").write_text("")
    model = "" if "--model" in rest else "--model attnS"
    line = f"--out out {model} --epoch 10 {rest}"
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "--grid", axes, *shlex.split(line)])
    said = capsys.readouterr()
    assert stop.value.code == 2 and not said.out
    assert said.err.count("\n") == 1 and named in said.err and says in said.err
    assert [path.name for path in in_folder.iterdir()] == ["file"]


@pytest.mark.parametrize("many", [2, 14])
def test_the_legend_of_a_sweeps_picture_names_colours_in_order(many, tmp_path):
    """All of few, and of many the first, the last and some between: each with the colour of its curves."""
    rates = [0.001 * n for n in range(1, many + 1)]
    found = sweep(grid(BASE, lr=rates[::-1], seed=(1, 2)), tmp_path / "out")
    (panel,) = picture.swept(found).figure.axes
    legend = panel.get_legend()
    named = [float(text.get_text()) for text in legend.get_texts()]
    assert named == sorted(named) and {rates[0], rates[-1]} <= set(named) <= set(rates)
    assert len(named) == (2 if many == 2 else 6)
    assert legend.get_title().get_text() == ("lr" if many == 2 else "lr, 6 of 14")
    colors = [line.get_color() for line in panel.lines]
    assert len(colors) == 2 * many
    for line in legend.get_lines():
        assert sum(np.array_equal(line.get_color(), color) for color in colors) == 2


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
        assert float(row["loss"]) == history.loss[-1]
        assert (row["seed"], row["rank"]) == (str(history.seed), str(history.model.rank))


def test_a_second_sweep_in_a_folder_says_what_its_table_has_not(in_folder, capsys):
    """Twenty runs' table became one of three, without a word."""
    for seeds in ("0:3", "5:7"):
        line = f"sweep --grid seed={seeds} --out out --model attnS --epoch 3 --trainset_size 60"
        assert main(shlex.split(line)) == 0
    assert "3 other runs lie in out; they are kept" in capsys.readouterr().err
