"""Figures of simulated points on the curves of theory, and what their alt texts say."""

import pytest

from iclbook import plot
from iclcore import RegressionTask, SeparateAttention, train
from iclcore.cli import plots

NEVER = float("nan")  # a level that was not reached


def test_points_have_the_colour_of_their_theory():
    simulated = {"one": {1: 2.0, 2: 1.0}, "none": {}}
    theory = {"one": {0: 3.0, 3: 0.5}, "bound": {0: 4.0, 3: 4.0}}
    drawn = plot.figure(plot.dots(simulated, theory, xlabel="share", ylabel="error"))
    (axes,) = drawn.figure.axes or drawn.figure.subfigs[0].axes
    dashed, bound, marks = axes.lines
    assert dashed.get_color() == marks.get_color() != bound.get_color()
    assert dashed.is_dashed() and marks.get_linestyle() == "None"
    text = (
        "Error against share. Dashed, one: from 3 to 0.5. Dashed, bound: at 4. Marks, one: 2 and 1."
    )
    assert drawn.alt == text


def test_a_dashed_curve_is_told_by_where_it_begins_and_ends():
    dashed = {
        "two": ([0, 1, 2], [[1.0, 2.0], [0.5, 2.0], [NEVER, 2.0]]),
        "flat": ([0, 1], [3.0, 3.0]),
    }
    drawn = plot.figure(plot.lines({"ω": ([0, 1], [1.0, 0.25])}, dashed, xlabel="time", ylabel="ω"))
    assert drawn.alt.startswith("ω against time: ω from 1 to 0.25. Dashed, ")
    assert drawn.alt.endswith("two from 1 and 2 to 0.5 and 2; flat at 3.")


def test_what_was_not_reached_is_neither_drawn_nor_told():
    dots = plot.dots({"one": {1: 2.0, 2: NEVER}, "none": {1: NEVER}}, {}, ylabel="error")
    assert plot.figure(dots).alt == "Error against x. Marks, one: 2."
    lines = plot.lines({"one": ([0, 1], [1.0, 0.2])}, levels=[NEVER, 0.5], ylabel="loss")
    assert plot.figure(lines).alt == "Loss against x: one from 1 to 0.2. Dashed, levels 0.5."


def test_a_run_that_diverges_is_told_without_its_last_numbers():
    task, model = RegressionTask(dim=2, context=9), SeparateAttention(heads=2, init=0.3)
    stays = train(model, task, 300, 0.1)
    with pytest.warns(UserWarning, match="stopped being finite"):
        leaves = train(model, task, 300, 50.0)
    for shown in ([stays, leaves], [leaves]):
        text = plot.losses(shown, leaves).says
        assert "leave all bounds" in text and "nan" not in text and "inf" not in text
    expected = "Value weights of the 2 heads of one run, which leave all bounds."
    assert plot.values(leaves).says == expected
    assert plots.run(leaves).axes[0].get_ylim()[1] < 3.5 * leaves.loss[0]  # not 1e142
