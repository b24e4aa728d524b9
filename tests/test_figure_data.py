"""The numbers that are read off a figure are those that it draws, each with the name of its curve."""

from collections import defaultdict

import numpy as np
import pytest
from conftest import close

from iclbook import plot
from iclbook.plot import data
from iclcore import RegressionTask, SeparateAttention, train


def test_the_numbers_are_those_that_are_drawn():
    """This holds to the last digit, for each kind of thing that panels draw."""
    x, third = np.geomspace(1, 100, 7), 1 / 3
    panels = [
        plot.lines({"a": (x, third * x)}, {"a": (x, x)}, levels=[third], xlabel="t", ylabel="loss"),
        plot.dots({"b": (x[:2], x[:2], [third, 0.5])}, {"b, theory": (x, -x)}),
        plot.bars({"least squares": third, "none": 0.0}, 2.0),
        plot.coefficients(np.array([0, third]), np.array([1.0, -1]), "of a target"),
        plot.chart(x[:3], x, np.outer(x, x[:3]) / 1e4, {"edge": (x, x)}, "beta", "alpha", "share"),
        plot.winners(np.array([1, 1]), x[:2], x[:2], "loss"),
    ]
    whole = plot.figure(*(panels[i : i + 2] for i in (0, 2, 4)))
    found = defaultdict(list)
    for panel, series, curve, drawn, *point in data.rows(whole.figure):
        found[panel, series, drawn, curve].append(point)
    points = {key: list(map(list, zip(*rows, strict=True))) for key, rows in found.items()}
    none = [None] * 7
    assert points["a", "a", "line", 1] == [list(x), list(third * x), none]
    assert points["a", "a, theory", "dashed", 1] == [list(x), list(x), none]
    assert points["a", "level 0", "dashed", 1] == [[None], [third], [None]]
    assert points["b", "b", "marks", 1][:2] == [list(x[:2])] * 2
    ends = [x[0] - third, x[0] + third, x[1] - 0.5, x[1] + 0.5]
    assert points["b", "b, error", "error bar", 1][:2] == [[x[0]] * 2 + [x[1]] * 2, ends]
    assert points["b", "b, theory", "dashed", 1][1] == list(-x)
    assert points["c", "prediction", "bar", 1][:2] == [[third, 0.0], [0.0, 1.0]]
    assert points["c", "answer", "dashed", 1] == [[2.0], [None], [None]]
    assert points["d", "target", "bar", 1][:2] == [[-0.2, 0.8], [0, third]]
    across, up, value = points["e", "share", "cell", 1]
    # the centres of cells are computed from edges that have 12 digits
    close(across, np.tile(x[:3], 7), 1e-11)
    close(up, np.repeat(x, 3), 1e-11)
    assert value == list(np.ravel(np.outer(x, x[:3]) / 1e4))
    assert points["f", "runs, moved sideways", "marks", 1][1] == list(x[:2])
    said = {name: data.words(axes) for name, axes in data.panels(whole.figure).items()}
    assert said["a"] == {"x": "t", "y": "loss"} and said["e"]["value"] == "share"
    assert said["c"]["y ticks"] == {"0": "least squares", "1": "none"}


def test_a_picture_is_saved_whole_or_not_at_all(tmp_path):
    run = train(SeparateAttention(2), RegressionTask(dim=3, context=6), 9, 0.1)
    picture = plot.figure(plot.values(run))
    for suffix in picture.suffixes:
        picture.save(tmp_path / f"x{suffix}")
        assert (tmp_path / f"x{suffix}").read_bytes() == picture.file(suffix)
    with pytest.raises(ValueError, match=r"^suffix takes one of \.png, \.svg, \.csv, not '\.pdf'$"):
        picture.save(tmp_path / "x.pdf")
    assert {path.name for path in tmp_path.iterdir()} == {"x.png", "x.svg", "x.csv"}
    with pytest.raises(ValueError, match=r"^keys: this run kept none; train\(.*, snapshots=10\)"):
        plot.keys(run, [0])
