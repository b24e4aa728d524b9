"""A chapter executed again keeps a picture that shows the same, and no picture that does not."""

import copy
from functools import cache

import build
import execute
import numpy as np
import pictures
import pytest
from matplotlib.path import Path
from matplotlib.transforms import IdentityTransform
from nbformat.v4 import new_code_cell, new_notebook, new_output
from pace import slow
from PIL import Image

from iclbook.explorers import Task
from iclbook.explorers.data import float32
from iclbook.plot.style import BLUE, Figure, canvas, png
from iclbook.plot.trace import straight, trace
from iclbook.widgets import Run

X = np.linspace(0, 10, 2000)
CURVE = np.sin(X)
PIXEL = 1 / 119  # in the curve's y, at the trace's 100 dots an inch
ALT = "A sine, and a marker at its end, in blue."


def output(y=CURVE, alt=ALT, color=BLUE, title="", marker=5.0, image=0.5, level=0.5):
    figure, (left, right) = canvas(2)
    left.plot(X, y, color=color)
    left.axhline(level, color=color)
    left.plot([marker], [0.2], "s", color=color)
    left.set_title(title)
    right.imshow([[0.1, image], [0.7, 1]], vmin=0, vmax=1)
    return shown(Figure(figure, alt)._repr_mimebundle_())


@cache
def first_output():
    return output()


def shown(bundle):
    data, metadata = bundle
    data = {kind: value for kind, value in data.items() if kind != execute.WIDGET_VIEW}
    return new_output("display_data", data, metadata=metadata)


def executed_again(before, after):
    """The output that stands in the notebook when a cell that gave ``before`` has given ``after``."""
    source, run = (
        new_notebook(cells=[new_code_cell("draw()", id="a", outputs=[copy.deepcopy(each)])])
        for each in (before, after)
    )
    run.cells[0].execution_count = 1
    execute.canonical(source, run)
    return source.cells[0].outputs[0]


@slow
def test_round_off_changes_no_picture():
    """A marker that rounding takes across the middle of a pixel changes whole pixels of its edge."""
    here, there = 5.0, 5.05  # less than two pixels apart
    first = output(marker=here)
    assert output(marker=there).data != first.data
    while there - here > 1e-5:
        middle = (here + there) / 2
        same = output(marker=middle).data == first.data
        here, there = (middle, there) if same else (here, middle)
    before, after = output(marker=here), output(y=CURVE * (1 + 1e-12), marker=there)
    assert before.data != after.data
    assert executed_again(before, after) == before


@pytest.mark.parametrize(
    "change",
    [
        {"y": CURVE + 0.01},
        {"y": np.where(X[777] == X, 0.9, CURVE)},
        {"y": np.where(X[777] == X, CURVE + 3 * PIXEL, CURVE)},
        {"y": np.append(CURVE[:-1], np.nan)},
        {"y": CURVE + 1e-3},
        {"color": "#0072B6"},
        {"title": "a sine"},
        {"alt": ALT + " Rising."},
        {"marker": 5.05},
        {"image": 0.52},
        {"level": 0.5 + 0.6 * PIXEL},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_can_be_seen_is_replaced(change):
    before, after = first_output(), output(**change)
    again = executed_again(before, after)
    assert again == after != before


def test_pixels_count_even_where_the_trace_agrees():
    before, after = first_output(), output(y=CURVE + 0.01)
    after.metadata["image/png"]["trace"] = before.metadata["image/png"]["trace"]
    assert executed_again(before, after) == after


def test_an_explorers_static_picture_is_kept_and_its_settings_are_not():
    before, same, other = (shown(Task(**s)._repr_mimebundle_()) for s in ({}, {}, {"examples": 7}))
    assert executed_again(before, same) == before
    assert executed_again(before, other) == other != before


def test_a_panels_last_picture_is_kept_and_its_settings_are_not():
    few = {"sequences": 20, "steps": 5, "seeds": 1, "dim": 2, "context": 5}
    before, same, other = (
        shown(Run(**few | s)._repr_mimebundle_()) for s in ({}, {}, {"steps": 6})
    )
    assert before.metadata["text/html"]["trace"]
    assert executed_again(before, same) == before
    assert executed_again(before, other) == other != before


def test_an_explorers_averages_are_compared_as_numbers():
    def averages(*last):
        output = shown(Task()._repr_mimebundle_())
        output.data["text/html"] += float32(np.array([2.0, *last]))
        return output

    before, same = averages(1e-3), averages(1e-3 + 1e-6)
    assert executed_again(before, same) == before != same
    for other in (averages(1e-3 + 4e-6), averages(1e-3, 1e-3), averages(np.nan)):
        assert executed_again(before, other) == other


def drawn(late=0.0, up=0.0, height=0.8, turn=0.0):
    """The trace of a step so steep that it moves up 43 pixels for each to the right, and of a line."""
    figure, axes = canvas()
    axes.plot(X, np.tanh(20 * (X - 5 - late)) + up)
    axes.plot([7, 7 + turn], [0, height])
    axes.set(xlim=(0, 10), ylim=(-1.2, 1.2))
    png(figure, 100)
    return trace(figure)


def test_a_steep_line_may_move_along_itself():
    """By two pixels up, where it moves by a twentieth of one to its side: all that can be seen."""
    first, later = drawn(), drawn(late=1e-3)
    assert first != later and pictures.drawn_alike(first, later)


@pytest.mark.parametrize(
    "change",
    [{"late": 0.01}, {"up": 0.005}, {"height": 0.805}, {"height": 0.795}, {"turn": 0.01}],
    ids=str,
)
def test_a_line_moved_by_half_a_pixel_is_not_the_same(change):
    """To its side, or one end of it: whatever its pixels do."""
    assert not pictures.drawn_alike(drawn(), drawn(**change))


def test_a_path_without_a_point_is_no_line():
    """Contours and filled areas can have some: none is to be measured from."""
    assert straight(Path(np.full((4, 2), np.nan)), IdentityTransform()) == []


def test_a_built_picture_weighs_less_and_looks_the_same(tmp_path):
    rng = np.random.default_rng(0)
    grey = rng.integers(0, 200, (200, 300), dtype=np.uint8)
    line = Image.fromarray(np.dstack([grey, grey, grey, np.full_like(grey, 255)]))
    noise = rng.integers(0, 256, (200, 300, 3), dtype=np.uint8)
    for name, image in {"line": line, "noise": Image.fromarray(noise)}.items():
        path = tmp_path / f"{name}.png"
        image.save(path)
        before = path.read_bytes()
        build.lighten(path)
        now = np.asarray(Image.open(path).convert("RGB"), dtype=int)
        assert np.abs(now - np.asarray(image.convert("RGB"))).max() <= pictures.VISIBLE
        assert (path.read_bytes() == before) == (name == "noise")  # too many colours for 256
