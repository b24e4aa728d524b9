"""A chapter that is executed again keeps its pictures, unless a reader could see a difference."""

import copy
from functools import cache

import execute
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from iclbook.plot.style import BLUE, Figure, canvas

X = np.linspace(0, 10, 2000)
CURVE = np.sin(X)
ALT = "A sine, and a marker at its end, in blue."


def output(y=CURVE, alt=ALT, marker=5.0, image=0.5):
    figure, (left, right) = canvas(2)
    left.plot(X, y, color=BLUE)
    left.plot([marker], [0.2], "s", color=BLUE)
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
    """The output in the notebook, if a cell that once showed ``before`` now shows ``after``."""
    source, run = (
        new_notebook(cells=[new_code_cell("draw()", id="a", outputs=[copy.deepcopy(each)])])
        for each in (before, after)
    )
    run.cells[0].execution_count = 1
    execute.canonical(source, run)
    return source.cells[0].outputs[0]


def test_round_off_changes_no_picture():
    before, after = first_output(), output(y=CURVE + 1e-4)
    assert before.data != after.data
    assert executed_again(before, after) == before


@pytest.mark.parametrize(
    "change",
    [
        {"y": CURVE + 0.01},
        {"alt": ALT + " Rising."},
        {"marker": 5.05},
        {"image": 0.52},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_picture_that_looks_different_is_replaced(change):
    before, after = first_output(), output(**change)
    again = executed_again(before, after)
    assert again == after != before
