"""Damaged and foreign files: each is read as what was written, or refused in one line that names the file."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from iclcore import History, RegressionTask, SeparateAttention, train
from iclcore.files import DamagedFile, read_npz


@pytest.fixture(scope="module")
def run():
    return train(SeparateAttention(2), RegressionTask(dim=2, context=5), 30, 0.1, snapshots=3)


@pytest.mark.parametrize("place", np.linspace(0.02, 0.98, 12))
def test_a_flipped_byte(place, run, tmp_path):
    path = tmp_path / "run.npz"
    run.to_npz(path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0xFF
    path.write_bytes(content)
    try:
        back = History.from_npz(path)
    except DamagedFile as error:
        assert str(error).startswith(f"{path}: is no npz file") and "\n" not in str(error)
        return
    # nothing reads the date of a file in a zip
    for group in ("series", "start", "snapshots", "final"):
        for name, array in getattr(run, group).items():
            np.testing.assert_array_equal(getattr(back, group)[name], array)


class Pickled:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def truncated(run):
    run.to_npz("run.npz")
    content = Path("run.npz").read_bytes()
    Path("run.npz").write_bytes(content[: len(content) // 2])


def foreign_zip(run):
    with zipfile.ZipFile("run.npz", "w") as stored:
        stored.writestr("letter.txt", "Dear reader")


def foreign_arrays(run):
    np.savez("run.npz", x=np.ones((3, 4)))


def pickled(run):
    np.savez("run.npz", loss=np.array([Pickled()]))


def one_array(run):
    np.save("run.npy", np.ones(3))
    os.rename("run.npy", "run.npz")


def empty(run):
    Path("run.npz").touch()


def csv(run):
    run.to_csv("run.npz")


@pytest.mark.parametrize(
    "make", [truncated, foreign_zip, foreign_arrays, pickled, one_array, empty, csv]
)
def test_what_is_no_run(make, run, in_folder):
    make(run)
    with pytest.raises(DamagedFile, match=r"^run.npz: is no npz file [^\n]+$"):
        History.from_npz("run.npz")
    if make is pickled:
        with pytest.raises(DamagedFile, match="pickle"):
            read_npz("run.npz")
    assert not os.path.exists("executed")


def test_a_truncated_csv(run, tmp_path):
    path = tmp_path / "run.csv"
    run.to_csv(path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], lines[-1].rsplit(",", 1)[0]]))
    with pytest.raises(DamagedFile, match=r"^.*run.csv: is no CSV file of a run, or is damaged: "):
        History.from_csv(path)
