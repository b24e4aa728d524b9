"""Simulated points on the curves of theory."""

from iclbook import plot


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
