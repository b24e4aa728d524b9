"""What the run of every chapter with other settings tries, and what it takes for wrong."""

import nbformat
import other_settings
import pytest
from execute import Result
from nbformat.v4 import new_code_cell, new_notebook, new_output

GOOD = "Losses of one run, from 1 to 0.5, falling."


def result(alt=GOOD, stream="stdout", levels="0.5"):
    """A chapter that shows a picture and says a number."""
    shown = new_output("display_data", {"image/png": ""}, metadata={"image/png": {"alt": alt}})
    said = new_output("stream", name=stream, text=f"levels = {levels}\n")
    cell = new_code_cell("quote.say(levels=levels)\nplot.figure(a)", outputs=[shown, said])
    return Result(nbformat.writes(new_notebook(cells=[cell])))


@pytest.mark.parametrize(
    "wrong, found",
    [
        (Result(failure="one: cell 3 failed"), ["one: cell 3 failed"]),
        (result(alt="A run."), ["cell 1 has a picture whose alternative text is 'A run.'"]),
        (result(levels="inf"), ["the number levels is inf"]),
        (result(stream="stderr"), ["cell 1 warns: levels = 0.5"]),
        (result(levels="–"), []),
        (result(), []),
    ],
)
def test_what_goes_wrong_is_found(wrong, found):
    assert list(other_settings.problems(wrong)) == found


def test_an_alternative_text_without_a_number_is_found():
    (problem,) = other_settings.problems(result(alt=GOOD.replace("0.5", "nan")))
    assert "nan, falling" in problem
