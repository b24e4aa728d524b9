"""What a run left, in files: it comes back as it was, or an error says that it cannot."""

import os
import stat

import numpy as np
import pytest

from iclcore import History, RegressionTask, SeparateAttention, train
from iclcore import history as files
from iclcore.cli_common import writable

TASK = RegressionTask(dim=3, context=6)


def small(**others):
    """A history of three steps and two heads."""
    series = {"loss": np.array([3.5, 2.25, 1.1]), "value": np.arange(6.0).reshape(3, 2)}
    weights = {"key": np.ones((2, 1, 4))}
    return History(
        **{"series": series, "settings": {"seed": 4, "lr": 0.1}, "engine": "moments", "final": weights,
           "snapshots": {"key": np.ones((1, 2, 1, 4))}, "snapshot_steps": np.array([1])} | others
    )  # fmt: skip


def same(one, other, weights=True):
    """Every number and word; a CSV has no weights."""
    kinds = ("series", "snapshots", "final")[: 3 if weights else 1]
    return one.record() == other.record() and all(
        left.keys() == right.keys()
        and all(np.array_equal(left[name], right[name], equal_nan=True) for name in left)
        for left, right in [
            *((getattr(one, kind), getattr(other, kind)) for kind in kinds),
            ({"steps": one.steps}, {"steps": other.steps}),
        ]
    )


def test_history_travels(tmp_path):
    model = SeparateAttention(heads=3)
    history = train(
        model, TASK.sample(20), 30, 0.01, seed=4, tests={"test_in_context": TASK.sample(5)},
        snapshots=[3, 9],
    )  # fmt: skip
    history.to_csv(tmp_path / "run.csv")
    history.to_npz(tmp_path / "run.npz")
    from_csv, from_npz = (
        History.from_csv(tmp_path / "run.csv"),
        History.from_npz(tmp_path / "run.npz"),
    )
    for back in (from_csv, from_npz):
        assert back.record() == history.record() and back.seed == 4
        np.testing.assert_array_equal(back.steps, history.steps)
        for name, array in history.series.items():
            np.testing.assert_array_equal(back.series[name], array)
    for kind in ("snapshots", "final"):
        for name, array in getattr(history, kind).items():
            np.testing.assert_array_equal(getattr(from_npz, kind)[name], array)
    assert not list(tmp_path.glob("*.partial"))


def test_half_written_files_do_not_appear(tmp_path, monkeypatch):
    history = train(SeparateAttention(), TASK.sample(20), 3, 0.01)
    monkeypatch.setattr(np, "savez_compressed", lambda file, **_: (file.write(b"half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        history.to_npz(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


def test_no_file_of_another_is_touched(tmp_path, monkeypatch):
    """Neither by a trial whether a path can be written to, nor by writing."""
    others = [tmp_path / f"run.{kind}.partial" for kind in ("csv", "npz")]
    for path in others:
        path.write_text("mine")
    before = os.listdir(tmp_path)
    assert writable(str(tmp_path / "run.csv")) == tmp_path / "run.csv"
    assert os.listdir(tmp_path) == before
    small().to_csv(tmp_path / "run.csv")
    small().to_npz(tmp_path / "run.npz")
    monkeypatch.setattr(files, "token_hex", lambda _: "0" * 8)
    taken = tmp_path / "run.csv.00000000.partial"
    taken.write_text("mine")
    with pytest.raises(FileExistsError):
        small().to_csv(tmp_path / "run.csv")
    assert {path.read_text() for path in (*others, taken)} == {"mine"}
    assert len(os.listdir(tmp_path)) == 5


def test_permissions_are_those_of_open(tmp_path):
    mask = os.umask(0o027)
    try:
        new, private = tmp_path / "new.csv", tmp_path / "private.csv"
        private.touch(0o600)
        for path in (new, private):
            small().to_csv(path)
    finally:
        os.umask(mask)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (new, private)] == [0o640, 0o600]


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_pipe_is_written_to_directly(kind, tmp_path):
    """As /dev/stdout is, whose link in /proc leads to no path."""
    reads, writes = os.pipe()
    path = f"/proc/self/fd/{writes}"
    assert str(writable(path)) == path
    getattr(small(), f"to_{kind}")(path)
    os.close(writes)
    with open(reads, "rb") as pipe:
        (tmp_path / "run").write_bytes(pipe.read())
    assert same(getattr(History, f"from_{kind}")(tmp_path / "run"), small(), kind == "npz")
