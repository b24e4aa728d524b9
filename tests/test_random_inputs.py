"""Random damage to files and random command lines: a correct result, or an error in one line.

The nightly workflow tries thousands of them, with HYPOTHESIS_PROFILE=long (see conftest.py).
"""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclcore import History, RegressionTask, SeparateAttention, train
from iclcore.cli import main
from iclcore.files import DamagedFile


@pytest.fixture(scope="module")
def run():
    return train(SeparateAttention(2), RegressionTask(dim=2, context=5), 30, 0.1, snapshots=3)


@pytest.mark.parametrize("kind", ["csv", "npz"])
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 255))
def test_a_damaged_file_is_refused_or_read(kind, place, flip, run, tmp_path):
    """One byte is changed or, if ``flip`` is 0, the rest of the file is missing."""
    path, read = tmp_path / f"run.{kind}", getattr(History, f"from_{kind}")
    getattr(run, f"to_{kind}")(path)
    content = bytearray(path.read_bytes())
    place = int(place * len(content))
    content[place] ^= flip
    path.write_bytes(content if flip else content[:place])
    try:
        back = read(path)
    except DamagedFile as error:
        assert str(error).startswith(f"{path}: is no ") and "\n" not in str(error)
    else:
        # a CSV has no checksum, so that another digit gives another run
        assert isinstance(back, History) if kind == "csv" else back == run


RUN = {
    "--heads": ["1", "2", "5"],
    "--rank": ["1", "7"],
    "--init": ["1e-6", "0.3", "1e-300", "1e15"],
    "--in_dim": ["1", "5"],
    "--out_dim": ["1", "3"],
    "--spectrum": ["power", "white"],
    "--lr": ["1e-9", "0.05", "1e8", "1e-320"],
    "--vary_len": [None],
    "--softmax": [None],
    "--icl": ["0", "0.3", "1e-12"],
    "--trainset_size": ["1", "2", "inf"],
    "--optimizer": ["sgd", "adam"],
    "--momentum": ["0", "0.9", "1"],
    "--weight_decay": ["0", "5", "1e30"],
    "--engine": ["moments", "population", "autograd", "published"],
    "--seed": ["0", "4294967295", "18446744073709551615"],
}
SHORT = "--epoch=20 --trainset_size=30 --seq_len=5"
COMMANDS = [
    (f"train --model=attnM {SHORT} --save=run.npz", RUN),
    (f"train --model=attnS {SHORT} --save=run.npz", RUN),
    (f"sweep --out=out --grid=seq_len=3,4 --model=attnS {SHORT}", RUN),
]  # fmt: skip
# An odd value of these flags could be a number so large that the run would not end.
LOOPS = {"--heads", "--tasks", "--dims"}
ODD = st.sampled_from(
    ["", " ", "-1", "-0", "nan", "-inf", "1e400", "1e-400", "1_0", "0x10", "1,", "None", "٣", "🙂", "a\nb",
     "../..", "/", "%s", "{0}"]
)  # fmt: skip


@st.composite
def command_lines(draw) -> list[str]:
    """Return a command with some good values and sometimes one odd value."""
    command, flags = draw(st.sampled_from(COMMANDS))
    chosen = draw(st.lists(st.sampled_from(sorted(flags)), max_size=6, unique=True))
    values = {name: draw(st.sampled_from(flags[name])) for name in chosen}
    if draw(st.integers(0, 2)) == 0:
        values[draw(st.sampled_from(sorted({*flags, "--x"} - LOOPS)))] = draw(ODD)
    said = [name if value is None else f"{name}={value}" for name, value in values.items()]
    return [*command.split(), *said]


@given(command_lines())
def test_a_command_writes_finite_numbers_or_one_line(in_folder, capsys, line):
    shutil.rmtree("out", ignore_errors=True)
    for path in in_folder.iterdir():
        path.unlink()
    try:
        status = main(line)
    except SystemExit as stop:
        status = stop.code
    said, files = capsys.readouterr(), [path for path in in_folder.rglob("*") if path.is_file()]
    if status not in (0, 3):
        one_line = said.err.startswith("iclcore ") and said.err.count("\n") == 1
        assert status == 2 and one_line and not said.out and not files, said.err
        return
    assert files and "Traceback" not in said.err
    for path in files:
        if path.suffix == ".npz":
            history = History.from_npz(path)
            last = -1 if history.ended == "diverged" else None
            for series in history.series.values():
                assert np.isfinite(series[:last]).all()
