"""What a run left, in files: it comes back as it was, or an error says that it cannot."""

import json
import os
import stat
import tracemalloc
import zipfile

import numpy as np
import pytest

from iclcore import History, RegressionTask, SeparateAttention, files, train
from iclcore.cli.parser import writable
from iclcore.files import DamagedFile

TASK = RegressionTask(dim=3, context=6)


def small(**others):
    """A history of three steps and two heads."""
    series = {"loss": np.array([3.5, 2.25, 1.1]), "value": np.arange(6.0).reshape(3, 2)}
    weights = {"key": np.ones((2, 1, 4))}
    return History(
        **{"series": series, "settings": {"seed": 4, "lr": 0.1}, "engine": "moments", "final": weights,
           "snapshots": {"key": np.ones((1, 2, 1, 4))}, "kept": np.array([1])} | others
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


def test_a_run_says_on_one_line_what_it_was_and_where_its_loss_rises():
    task = RegressionTask(dim=3, context=10, spectrum=(2 / 3, 1 / 4, 1 / 12))
    calm, wild = (
        repr(train(SeparateAttention(heads=3, init=0.05), task, 2000, lr, seed=1))
        for lr in (0.05, 0.3)
    )
    assert (
        "SeparateAttention(heads=3" in calm and "lr 0.05; finished at step 1,999, loss 1 to" in calm
    )
    assert "spectrum=[0.6667, 0.25, 0.08333]" in calm  # 17 digits each, and a basis is a wall
    assert "first rising at step" in wild and "rising" not in calm + wild.replace(
        "first rising", ""
    )


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


def spoilt(content):
    """Bytes with one bit flipped, and bytes cut short, at a few hundred places."""
    rng = np.random.default_rng(0)
    for place in rng.choice(8 * len(content), 400, replace=False):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        yield bytes(flipped)
    for end in rng.choice(len(content), 200, replace=False):
        yield content[:end]


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_what_is_damaged_is_never_read_as_something_else(kind, tmp_path):
    path, read = tmp_path / f"run.{kind}", getattr(History, f"from_{kind}")
    getattr(small(), f"to_{kind}")(path)
    refused = 0
    for content in spoilt(path.read_bytes()):
        path.write_bytes(content)
        try:
            assert same(read(path), small(), kind == "npz")
        except DamagedFile as error:
            refused += 1
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
    # a zip that was cut has no directory; it has bits that nobody reads, as its members' dates
    assert refused == 600 if kind == "csv" else refused >= 200


def test_a_member_that_left_the_directory_of_a_zip_is_missed(tmp_path):
    """No checksum is on that. A weight was left out that had lost the slash of its name there, or that
    a comment of the member before it had swallowed."""
    path = tmp_path / "run.npz"
    small().to_npz(path)
    content = path.read_bytes()
    name = content.rindex(b"final/key.npy")
    entry = name - 46
    comment = content.rindex(b"PK\x01\x02", 0, entry) + 32  # its length, two bytes
    swallowed = (46 + len(b"final/key.npy")).to_bytes(2, "little")
    for wrong, says in [
        (content[:name] + b"final.key.npy" + content[name + 13 :], "name in directory"),
        (content[:comment] + swallowed + content[comment + 2 :], "has other arrays"),
    ]:
        path.write_bytes(wrong)
        with pytest.raises(DamagedFile, match=says):
            History.from_npz(path)


class Pickled:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def header(shape, extra=""):
    """An npy of a few bytes that says what it likes."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, {extra}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 24


def forge(path, **members):
    """An npz of ``small`` with other members: arrays, or the bytes of a file; None leaves it out."""
    small().to_npz(path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files} | members
    arrays = {name: array for name, array in arrays.items() if array is not None}
    if "record" not in members:
        record = json.loads(arrays["record"].item())
        arrays["record"] = np.array(
            json.dumps(record | {"arrays": sorted(arrays.keys() - {"record"})})
        )
    with zipfile.ZipFile(path, "w") as stored:
        for name, array in arrays.items():
            with stored.open(f"{name}.npy", "w") as member:
                if isinstance(array, bytes):
                    member.write(array)
                else:
                    np.lib.format.write_array(member, array)


@pytest.mark.parametrize(
    "members, says",
    [
        ({"series/loss": None}, "no loss"),
        ({"series/loss": np.array(["3", "2", "1"])}, "real numbers as loss"),
        ({"series/loss": np.array([3, 2, 1])}, "real numbers as loss"),
        ({"series/loss": np.array([3, 2, 1j])}, "real numbers as loss"),
        ({"series/loss": np.ones((3, 1))}, "real numbers as loss"),
        ({"series/value": np.ones((3, 1, 1))}, "real numbers as value"),
        ({"series/loss": np.array([3, np.nan, 1])}, "finite loss"),
        ({"series/loss": np.array([3, 2, np.inf])}, "finite loss"),
        ({"series/loss": np.ones(2)}, "2 rows of loss, but 3 steps"),
        ({"series/value": np.ones((4, 2))}, "4 rows of value, but 3 steps"),
        ({"steps": np.array([0, 2, 1])}, "steps that rise"),
        ({"steps": np.arange(3.0)}, "whole numbers"),
        ({"steps": None}, "steps"),
        ({"snapshots/key": np.ones((2, 2, 1, 4))}, "one key for each"),
        ({"final/key": np.array("text")}, "real numbers as key"),
        ({"other/key": np.ones(1)}, "other"),
        ({"another": np.ones(1)}, "another"),
        ({"record": None}, "record"),
        ({"record": np.array("{}")}, "arrays"),
        ({"record": np.array("[" * 100_000)}, "RecursionError"),
        ({"record": np.array(json.dumps({"arrays": []}))}, "other arrays"),
        ({"record": np.array([Pickled()])}, "array of Python objects"),
        ({"series/loss": np.array([Pickled()])}, "array of Python objects"),
        ({"series/loss": header((10**13,))}, "loss has more or less bytes than"),
        ({"series/loss": header((2,))}, "loss has more or less bytes than"),
        ({"series/loss": header((3,), "(")}, "Error"),
        ({"series/loss": b"no array"}, "magic"),
    ],
)
def test_what_is_no_run_is_refused(members, says, in_folder):
    forge("run.npz", **members)
    with pytest.raises(DamagedFile, match=f"(?s)^run.npz: .*({says})") as refused:
        History.from_npz("run.npz")
    assert "\n" not in str(refused.value) and not (in_folder / "executed").exists()


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_file_that_memory_cannot_hold_is_not_called_damaged(kind, tmp_path, monkeypatch):
    """A sweep would set it aside."""
    path = tmp_path / f"run.{kind}"
    getattr(small(), f"to_{kind}")(path)
    for home, name in ((np, "array"), (np.lib.format, "read_array")):
        monkeypatch.setattr(home, name, lambda *_, **__: bytearray(2**62))
    with pytest.raises(MemoryError):
        getattr(History, f"from_{kind}")(path)


@pytest.mark.parametrize("content", [b"", b"step,loss\n0,1.0\n", b"\x93NUMPY\x01\x00"])
def test_what_is_no_npz_is_refused(content, tmp_path):
    (tmp_path / "run.npz").write_bytes(content)
    with pytest.raises(DamagedFile, match="is no run's file, or damaged"):
        History.from_npz(tmp_path / "run.npz")
    with pytest.raises(FileNotFoundError):
        History.from_npz(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "header step"),
        ("step,loss\n", "header step"),
        ("step,error\n0,1.0\n", "no loss"),
        ("step,loss\n0,one\n", "one"),
        ("step,loss\n0.5,1.0\n", "0.5"),
        ("step,loss\n0,1.0\n1\n", "as many numbers"),
        ("step,loss,loss\n0,1.0,2.0\n", "names that differ"),
        ("step,loss,value,value_1\n0,1.0,2.0,3.0\n", "value as one column and as several"),
        ("step,loss\n0,nan\n1,1.0\n", "finite loss"),
        ("# settings\nstep,loss\n0,1.0\n", "line 1 takes"),
        ("# fish: 1\nstep,loss\n0,1.0\n", "fish"),
        ("# settings: 1\nstep,loss\n0,1.0\n", "settings of its record is unknown, or of type int"),
        ('# floor: "low"\nstep,loss\n0,1.0\n', "floor of its record"),
        ('# ended: "later"\nstep,loss\n0,1.0\n', "ended takes one of"),
        ("step,loss\n99999999999999999999,1.0\n", "OverflowError"),
    ],
)
def test_a_csv_that_is_none_of_a_run_is_refused(text, says, tmp_path):
    (tmp_path / "run.csv").write_text(text)
    with pytest.raises(DamagedFile, match=f"run.csv: .*{says}"):
        History.from_csv(tmp_path / "run.csv")


def test_a_csv_from_elsewhere_is_read(tmp_path):
    """Without comment lines, steps as exact as integers are, and nothing said of what made it."""
    last = 2**53 + 1
    (tmp_path / "run.csv").write_text(
        f"step,loss,test_2,v_1,v_2\r\n0,1,2,3,4\r\n{last},5,6,7,8\r\n"
    )
    back = History.from_csv(tmp_path / "run.csv")
    assert back.steps.tolist() == [0, last] and back.versions == {}
    assert {name: array.tolist() for name, array in back.series.items()} == {
        "loss": [1, 5], "test_2": [2, 6], "v": [[3, 4], [7, 8]]
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_run_that_diverged_comes_back(kind, tmp_path):
    """Its last loss is not finite. What else it recorded may leave a float's range before the loss does."""
    series = {"loss": np.array([1.0, 1e300, np.nan]), "test": np.array([1.0, np.inf, np.nan])}
    run = small(series=series, ended="diverged")
    getattr(run, f"to_{kind}")(tmp_path / "run")
    assert same(getattr(History, f"from_{kind}")(tmp_path / "run"), run, kind == "npz")


def test_a_long_run_is_never_text_as_a_whole(tmp_path, monkeypatch):
    """Ten times its memory at the end of a run that could just be held would cost the run."""
    monkeypatch.setattr(files, "PART", 100)
    path, loss = tmp_path / "run.csv", np.random.default_rng(0).random(20_000)
    run = small(series={"loss": loss}, snapshots={}, final={})
    tracemalloc.start()
    run.to_csv(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size
    np.testing.assert_array_equal(History.from_csv(path).loss, loss)
