"""Files damaged at random: each is read as what was written or refused in a line; a sweep does it again."""

import json
import re
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attack.conftest import inputs, share
from iclcore import History, MergedAttention, RegressionTask, SeparateAttention, Sequences, train
from iclcore.cli import main
from iclcore.files import DamagedFile
from iclcore.sweep import sweep
from iclcore.sweep import Plan, grid

HARM = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 10**6), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.integers(0, 10**6), st.just(0)),
    st.tuples(st.just("join"), st.integers(0, 10**6), st.integers(1, 40)),
    st.tuples(st.just("zero"), st.integers(0, 10**6), st.integers(1, 40)),
)


def harmed(content: bytes, kind: str, place: int, number: int) -> bytes:
    """A bit flipped, the end lost, a piece twice, a piece of zeros."""
    data, place = bytearray(content), place % len(content)
    if kind == "flip":
        data[place] ^= 1 << number
    elif kind == "cut":
        del data[place:]
    elif kind == "join":
        data[place:place] = data[place : place + number]
    else:
        data[place : place + number] = bytes(len(data[place : place + number]))
    return bytes(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Both kinds of file of one run."""
    folder = tmp_path_factory.mktemp("written")
    run = train(SeparateAttention(2), RegressionTask(dim=2, context=5), 30, 0.1, snapshots=3)
    run.to_npz(folder / "run.npz")
    run.to_csv(folder / "run.csv")
    return folder


@pytest.mark.parametrize("kind", ["npz", "csv"])
@inputs(2000)
@given(harm=HARM)
def test_runs(kind, harm, written, tmp_path, tally):
    read = getattr(History, f"from_{kind}")
    content = (written / f"run.{kind}").read_bytes()
    file = tmp_path / f"run.{kind}"
    file.write_bytes(harmed(content, *harm))
    tally(f"damages of a run's {kind}")
    try:
        history = read(file)
    except DamagedFile as error:
        assert "\n" not in str(error) and file.name in str(error)
        return
    before = read(written / f"run.{kind}")  # what was harmed says nothing, as the date in a zip
    assert history.record() == before.record()
    for name, series in before.series.items():
        assert np.array_equal(history.series[name], series)
    for name, array in before.final.items():
        assert np.array_equal(history.final[name], array)


@inputs(600)
@given(harm=HARM)
def test_own_arrays(harm, tmp_path_factory, capsys, tally):
    folder = tmp_path_factory.getbasetemp()
    rng = np.random.default_rng(0)
    np.savez(folder / "good.npz", x=rng.standard_normal((4, 5, 2)), y=rng.standard_normal((4, 5)))
    (folder / "own.npz").write_bytes(harmed((folder / "good.npz").read_bytes(), *harm))
    tally("damages of one's own arrays")
    try:
        status = main(
            [
                "train",
                f"--data={folder / 'own.npz'}",
                "--epoch=3",
                "--lr=0.001",
                f"--json={folder / 'out.json'}",
            ]
        )
    except SystemExit as end:
        told = capsys.readouterr().err
        assert end.code == 2 and told.count("\n") == 1 and "argument --data: " in told
        return
    assert status in (0, 3) and "NaN" not in (folder / "out.json").read_text()


SHAPES = st.sampled_from([(1, 2, 1), (3, 5, 2), (40, 7, 3)])
SIZES = st.sampled_from([0.0, 1e-300, 1e-30, 1e-6, 1.0, 1e3, 1e12, 1e40, 1e60, 1e300])
MODELS = st.sampled_from(
    ["attnM", "attnS", "attnS --rank=2", "attnS --softmax", "mlp --cubic_feat"]
)
RULES = st.sampled_from(["", "--lr=0.01", "--lr=1e-30", "--optimizer=adam", "--engine=autograd"])


@inputs(200)
@given(x=SIZES, y=SIZES, model=MODELS, rule=RULES, heads=st.integers(1, 3), shape=SHAPES)
def test_arrays_of_any_size(x, y, model, rule, heads, shape, tmp_path, capsys, tally):
    """A finite result, or one line: without a rate it offers one, and what is offered is taken."""
    sequences, tokens, dim = shape
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((sequences, tokens, dim)), rng.standard_normal((sequences, tokens))
    np.savez(tmp_path / "own.npz", x=x * arrays[0], y=y * arrays[1])
    tally("arrays of one's own, of any size")
    line = f"train --data={tmp_path / 'own.npz'} --epoch=9 --heads={heads} --model={model} {rule}"

    def told(line):
        try:
            status = main([*line.split(), f"--json={tmp_path / 'out.json'}"])
        except SystemExit as end:
            status = end.code
        return status, capsys.readouterr().err

    status, err = told(line)
    assert err.count("\n") == bool(err) and "Warning" not in err, err
    if status == 2:
        assert re.search("argument --(data|lr|init): ", err), err
        if offered := re.search("needed with --data; (.*) keeps", err):
            status, err = told(f"{line} --lr={offered[1]}")
            assert (status, err) == (0, "")
    if status != 2:
        assert status in (0, 3) and "NaN" not in (tmp_path / "out.json").read_text()


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    plan = Plan(RegressionTask(dim=2, context=4), MergedAttention(2), sequences=10, steps=5)
    runs = grid(plan, seed=(0, 1), lr=(0.01, 0.1))
    folder = tmp_path_factory.mktemp("swept") / "out"
    sweep(runs, folder)
    return runs, folder


@inputs(400)
@given(
    harm=HARM, which=st.integers(0, 3), kind=st.sampled_from(["bytes", "folder", "link", "nothing"])
)
def test_sweep_folders(harm, which, kind, swept, tmp_path, tally):
    """What is no run of these is done again, to the same bytes."""
    runs, folder = swept
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    shutil.copytree(folder, tmp_path / "out")
    file = sorted((tmp_path / "out" / "runs").glob("*.npz"))[which]
    content = file.read_bytes()
    if kind == "bytes":
        file.write_bytes(harmed(content, *harm))
    else:
        file.unlink()
    if kind == "folder":
        file.mkdir()
    if kind == "link":
        file.symlink_to(file)
    tally("damages of a sweep's folder")
    sweep(runs, tmp_path / "out")
    for name in ("table.csv", "table.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()
    assert file.is_file() and len(list(file.parent.glob("*.npz"))) == 4


@inputs(500)
@given(
    record=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["settings", "ended", "engine", "seconds", "x"]), inner
            )
        ),
        max_leaves=6,
    )
)
def test_records_of_others(record, tmp_path, tally):
    """A CSV with a record that another program wrote."""
    tally("records of another's CSV")
    lines = record.items() if isinstance(record, dict) else [("settings", record)]
    text = "".join(f"# {name}: {json.dumps(value)}\n" for name, value in lines)
    (tmp_path / "run.csv").write_text(f"{text}step,loss\n0,1.0\n1,0.5\n")
    try:
        history = History.from_csv(tmp_path / "run.csv")
    except DamagedFile as error:
        assert "\n" not in str(error)
        return
    assert history.loss.tolist() == [1.0, 0.5] and repr(history)


def test_sequences_keep_their_digest(tally):
    """Other numbers, another name: a sweep never takes one's arrays for others."""
    rng, seen = np.random.default_rng(0), set()
    count = share(2000)
    x, y = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4, 1))
    for _ in range(count):
        place = tuple(int(rng.integers(n)) for n in x.shape)
        x[place] = np.nextafter(x[place], np.inf)
        seen.add(Sequences(x.copy(), y).digest)
    assert len(seen) == count
    tally("changes in the last bit of one's own arrays", count)
