"""Command lines that are generated: each ends in a finite result, or in one line that names the argument."""

import re
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attack.conftest import inputs
from iclbook import chapter
from iclcore import History
from iclcore.cli import main

# what a run of a moment takes
SMALL = {
    "--heads": ["1", "2", "5"],
    "--head_num": ["3"],
    "--rank": ["1", "2", "7"],
    "--init": ["1e-6", "0.01", "0.3", "2", "1e-300", "1e150"],
    "--in_dim": ["1", "2", "3", "5"],
    "--out_dim": ["1", "2", "3"],
    "--seq_len": ["2", "3", "8", "12"],
    "--spectrum": ["linear", "power", "white"],
    "--epoch": ["1", "2", "17", "60"],
    "--lr": ["1e-9", "1e-3", "0.05", "0.7", "3", "1e8", "1e-320"],
    "--icl": ["0", "0.3", "1", "1e-12"],
    "--trainset_size": ["1", "2", "30", "inf"],
    "--testset_size": ["0", "1", "9"],
    "--optimizer": ["sgd", "adam"],
    "--momentum": ["0", "0.9", "1"],
    "--weight_decay": ["0", "0.01", "5", "1e300"],
    "--engine": ["auto", "moments", "population", "autograd", "published"],
    "--seed": ["0", "7", "4294967295", "18446744073709551615"],
}
SWITCHES = ["--white_cov", "--vary_len", "--softmax", "--cubic_feat", "--track_value"]
HEADS = {
    "--tasks": ["1", "2", "3"],
    "--heads": ["1", "2", "4"],
    "--dims": ["1", "3", "2,3", "1,2,3"],
    "--in_dim": ["2", "6", "9"],
    "--seq_len": ["3", "4", "11"],
    "--noise": ["0", "0.5", "1e300"],
    "--signal": ["1", "0.1,3", "1,2,3", "1e300"],
    "--start": ["aligned", "random", "published"],
    "--width": ["1", "6", "12"],
    "--batch": ["1", "2", "33"],
    "--lr": ["1e-3", "0.5", "50", "1e300"],
    "--epoch": ["1", "3", "20"],
    "--engine": ["full", "spectral"],
    "--seed": ["0", "5"],
}
ODD = st.one_of(
    st.sampled_from(
        ["", " ", "-1", "0", "-0", "nan", "-nan", "inf", "-inf", "1e400", "1e-400", "1_0", "0x10", "1,",
         ",", "1,,2", "None", "True", "٣", "½", "-", "=", "1e3", "1.0", "9" * 18, "9" * 40, "1/2",
         "[1]", "🙂", "a\nb", "../..", "/", "%s", "{0}", "linear,white", "0:3"]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.integers(-(2**70), 0).map(str),
    st.integers(2**40, 2**70).map(str),
)  # fmt: skip


LOOPS = ("--epoch", "--heads", "--head_num", "--tasks", "--batch", "--width", "--dims")


def lines(flags: dict[str, list[str]], switches: list[str]) -> st.SearchStrategy[list[str]]:
    """Generate a few flags with values that a run takes, sometimes one with a value that none does.

    No number in LOOPS is so large that the run would never end.
    """
    given_flags = st.dictionaries(st.sampled_from(sorted(flags)), st.integers(0, 9), max_size=6)
    said = st.sets(st.sampled_from(switches), max_size=2) if switches else st.just(set())
    wrong = st.one_of(
        st.none(), st.none(), st.tuples(st.sampled_from([*flags, *switches, "--x"]), ODD)
    )

    def line(flags_given: dict[str, int], set_switches: set[str], odd) -> list[str]:
        if odd and odd[0] in LOOPS and len(odd[1]) > 4:
            odd = None
        pairs = [f"{name}={flags[name][k % len(flags[name])]}" for name, k in flags_given.items()]
        return [*pairs, *sorted(set_switches), *([f"{odd[0]}={odd[1]}"] if odd else [])]

    return st.builds(line, given_flags, said, wrong)


MODELS = st.sampled_from(
    ["--model=attnM", "--model=attnS", "--model=mlp --cubic_feat", "--model=attnX"]
)


def ends_well(argv: list[str], capsys) -> int:
    """Return the exit status. A refusal is one line that names a flag, and no warning comes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            status = main(argv)
        except SystemExit as end:
            status = end.code
    told = capsys.readouterr()
    assert "nan" not in told.out.lower(), told.out
    if status in (1, 2):
        one = told.err.removesuffix("\n")
        assert "\n" not in one and one.startswith("iclcore "), told.err
        assert status == 1 or "argument -" in one or "required" in one, told.err  # 1: no memory
        assert not told.out
    else:
        assert status in (0, 3), (status, told.err)
        assert "Traceback" not in told.err
    return status


def finite(path: Path, diverged: bool) -> None:
    """Check that all rows are finite, but for the last one of a run that diverged."""
    for read in (History.from_csv, History.from_npz):
        if (file := path / f"curve.{read.__name__[5:]}").exists():
            history = read(file)
            assert (history.ended == "diverged") == diverged
            rows = slice(None, -1 if diverged else None)
            for name, series in history.series.items():
                assert np.isfinite(series[rows]).all(), name


@pytest.fixture
def folder(in_folder):
    """Emptied after each line."""

    def empty() -> Path:
        for each in in_folder.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        return in_folder

    return empty


@inputs(3000)
@given(model=MODELS, rest=lines(SMALL, SWITCHES), kind=st.sampled_from(["csv", "npz"]))
def test_train(model, rest, kind, folder, capsys):
    small = ["--epoch=20", "--trainset_size=20", "--seq_len=6"]
    here = folder()
    argv = ["train", *model.split(), *small, *rest, f"--save=curve.{kind}", "--json=run.json"]
    status = ends_well(argv, capsys)
    assert (status in (1, 2)) != (here / f"curve.{kind}").exists()
    if status not in (1, 2):
        finite(here, status == 3)
        assert "NaN" not in (here / "run.json").read_text()


@inputs(1000)
@given(rest=lines(HEADS, ["--track_value"]))
def test_train_of_several_heads(rest, folder, capsys):
    here = folder()
    small = ["--epoch=10", "--lr=0.01", "--batch=8", "--dims=2", "--seq_len=6"]
    status = ends_well(["train", "--model=multihead", *small, *rest, "--save=curve.csv"], capsys)
    if status not in (1, 2):
        finite(here, status == 3)


@inputs(1500)
@given(model=MODELS, rest=lines({k: v for k, v in SMALL.items() if k in (
    "--heads", "--rank", "--init", "--in_dim", "--out_dim", "--seq_len", "--spectrum", "--epoch", "--lr")},
    ["--white_cov", "--vary_len", "--softmax"]))  # fmt: skip
def test_theory(model, rest, folder, capsys):
    here = folder()
    status = ends_well(["theory", *model.split(), *rest, "--save=table.csv"], capsys)
    if status == 0:
        rows = [row.split(",") for row in (here / "table.csv").read_text().splitlines()[2:]]
        assert np.isfinite([float(row[3]) for row in rows]).all()


AXES = st.dictionaries(st.sampled_from([*(name[2:] for name in SMALL), "x", "softmax", ""]), st.one_of(
    st.sampled_from(["1", "1,2", "0:2", "2:0", "0:9:-1", "0:10:0", "a:b", "1,1", "linear,white",
                     "0.1,0.2", ""]),
    ODD.filter(lambda text: " " not in text and len(text) < 5)), max_size=2)  # fmt: skip


@inputs(600)
@given(model=MODELS, rest=lines(SMALL, SWITCHES), axes=AXES)
def test_sweep(model, rest, axes, folder, capsys):
    here = folder()
    grid = " ".join(f"{name}={values}" for name, values in axes.items())
    small = ["--epoch=5", "--trainset_size=8", "--seq_len=5"]
    rest = [each for each in rest if each.split("=")[0][2:] not in axes]
    status = ends_well(
        ["sweep", "--out=swept", f"--grid={grid}", *model.split(), *small, *rest], capsys
    )
    if status in (1, 2):
        assert not (here / "swept").exists()
    else:
        assert (here / "swept" / "table.csv").exists()
        for each in (here / "swept" / "runs").glob("*.npz"):
            history = History.from_npz(each)
            assert np.isfinite(history.loss[:-1]).all()


CHAPTERS = {path.stem: chapter.read(path) for path in sorted(chapter.BESIDE.glob("*.ipynb"))}
PARAMETERS = sorted(
    (name, each) for name, cells in CHAPTERS.items() for each in chapter.parameters(cells)
)


@inputs(3000)
@given(
    which=st.sampled_from(PARAMETERS),
    text=st.one_of(
        ODD, st.sampled_from(["1", "2", "3", "0.01", "1e-3", "[1, 2]", "(1, 2)", "True"])
    ),
)
def test_settings_of_chapters(which, text):
    """A setting becomes a value of its type within its range, or is refused in a line that names it."""
    (name, key), cells = which, CHAPTERS[which[0]]
    own = chapter.parameters(cells)[key]
    try:
        value = chapter.settings(name, cells, [f"{key}={text}"])[key]
    except ValueError as error:
        assert re.match(rf"{name}: {key} takes .*, not ", str(error), re.DOTALL)
        assert "\n" not in str(error)
        return
    assert type(value) is type(own.default)
    _, least, most = own.range
    assert all(least <= each <= most for each in np.ravel(value)) or isinstance(value, str)
    said = f"{key}: {type(value).__name__} = {value!r}  # {own.comment}"
    chapter.begin({"In": [said], key: value})
