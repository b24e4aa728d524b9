"""Simulated points on the curves of theory."""

import pytest

from iclbook import plot
from iclcore import RegressionTask, SeparateAttention, train
from iclcore.cli import plots


def test_points_have_the_colour_of_their_theory():
    simulated = {"one": {1: 2.0, 2: 1.0}, "none": {}}
    theory = {"one": {0: 3.0, 3: 0.5}, "bound": {0: 4.0, 3: 4.0}}
    drawn = plot.figure(plot.dots(simulated, theory, xlabel="share", ylabel="error"))
    (axes,) = drawn.figure.axes or drawn.figure.subfigs[0].axes
    dashed, bound, marks = axes.lines
    assert dashed.get_color() == marks.get_color() != bound.get_color()
    assert dashed.is_dashed() and marks.get_linestyle() == "None"
    assert drawn.alt == (
        "Error against share. Dashed, one: from 3 to 0.5. Dashed, bound: at 4. Marks, one: 2 and 1."
    )


def test_a_dashed_curve_says_where_it_begins_and_ends():
    told = {
        "two": ([0, 1, 2], [[1.0, 2.0], [0.5, 2.0], [float("nan"), 2.0]]),
        "flat": ([0, 1], [3.0, 3.0]),
    }
    drawn = plot.figure(plot.lines({"ω": ([0, 1], [1.0, 0.25])}, told, xlabel="time", ylabel="ω"))
    assert drawn.alt.startswith("ω against time: ω from 1 to 0.25. Dashed, ")
    assert drawn.alt.endswith("two from 1 and 2 to 0.5 and 2; flat at 3.")


def test_what_was_not_reached_is_neither_drawn_nor_said():
    never = float("nan")
    drawn = plot.figure(
        plot.dots({"one": {1: 2.0, 2: never}, "none": {1: never}}, {}, ylabel="error")
    )
    assert drawn.alt == "Error against x. Marks, one: 2."
    drawn = plot.figure(
        plot.lines({"one": ([0, 1], [1.0, 0.2])}, levels=[never, 0.5], ylabel="loss")
    )
    assert drawn.alt == "Loss against x: one from 1 to 0.2. Dashed, levels 0.5."


def test_a_run_that_leaves_all_bounds_is_said_to():
    """Past the edge: its last loss is no number to tell, nor is how far it is from theory."""
    task, model = RegressionTask(dim=2, context=9), SeparateAttention(heads=2, init=0.3)
    stays = train(model, task, 300, 0.1)
    with pytest.warns(UserWarning, match="stopped being finite"):
        leaves = train(model, task, 300, 50.0)
    for shown in ([stays, leaves], [leaves]):
        says = plot.losses(shown, leaves).says
        assert "leave all bounds" in says and "nan" not in says and "inf" not in says
    assert plot.values(leaves).says == (
        "Value weights of the 2 heads of one run, which leave all bounds."
    )
    top = plots.run(leaves).axes[0].get_ylim()[1]  # not 1e142, over a flat line
    assert top < 3.5 * leaves.loss[0]
