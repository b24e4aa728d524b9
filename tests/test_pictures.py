"""A chapter executed again keeps a picture that shows the same, and no picture that does not."""

import copy

import execute
import numpy as np
import pytest
from iclbook.explorers import Task
from iclbook.plot.style import BLUE, Figure, canvas
from iclbook.plot.trace import PIECES, extremes
from nbformat.v4 import new_code_cell, new_notebook, new_output

X = np.linspace(0, 10, 2000)
CURVE = np.sin(X)
ALT = "A sine, and a marker at its end, in blue."


def output(y=CURVE, alt=ALT, color=BLUE, title="", marker=5.0, image=0.5):
    figure, (left, right) = canvas(2)
    left.plot(X, y, color=color)
    left.plot([marker], [0.2], "s", color=color)
    left.set_title(title)
    right.imshow([[0.1, image], [0.7, 1]], vmin=0, vmax=1)
    return shown(Figure(figure, alt)._repr_mimebundle_())


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
        {"y": np.append(CURVE[:-1], np.nan)},
        {"y": CURVE + 1e-3},
        {"color": "#0072B6"},
        {"title": "a sine"},
        {"alt": ALT + " Rising."},
        {"marker": 5.05},
        {"image": 0.52},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_can_be_seen_is_replaced(change):
    before, after = output(), output(**change)
    again = executed_again(before, after)
    assert again == after != before


def test_pixels_count_even_where_the_trace_agrees():
    before, after = output(), output(y=CURVE + 0.01)
    after.metadata["image/png"]["trace"] = before.metadata["image/png"]["trace"]
    assert executed_again(before, after) == after


def test_an_explorers_static_picture_is_kept_and_its_settings_are_not():
    before, same, other = (shown(Task(**s)._repr_mimebundle_()) for s in ({}, {}, {"examples": 7}))
    assert executed_again(before, same) == before
    assert executed_again(before, other) == other != before


@pytest.mark.parametrize("count", [2 * PIECES + 1, 100, 2000])
def test_no_point_of_a_long_path_moves_unseen(count):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(count, 2))
    for place in range(count):
        moved = points.copy()
        moved[place] += 10
        assert np.abs(extremes(moved) - extremes(points)).max() > 5
