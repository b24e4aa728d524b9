"""What the chapter on the task claims."""

import numpy as np
from conftest import close, recorded

from iclcore import RegressionTask, theory

said = recorded("task")


def test_least_squares_finds_the_answer():
    assert said('said["least squares"] .2f') == said("answer .2f") != 0
    assert said('measured["least squares"][dim] .3f') == 0


def test_attention_by_hand():
    """β = (5, 4)/3 and x_q = (1, −1): with M = 2I two thirds, with the own inverse the answer."""
    assert said("column[2] .3f") == 0.667 and said("beta @ own @ X[:2, 3] .3f") == 1


def test_errors_are_those_of_theory():
    assert said("off.max() .1f") < 4  # standard errors, 20,000 sequences
    assert said("expected .3f")[:2] == [0, 0.136]
    assert said('closed["attention"][context] .3f') == 0.136


def test_more_examples():
    # 4,000 sequences a length, squared errors with a deviation below 1.7: a standard error of .027
    assert said("apart .2f") < 0.1
    more, most = (theory.plateau_losses(RegressionTask(context=n)) for n in (100, 200))
    close(most[-1] * 200 / (more[-1] * 100), 1, within=0.05)  # falls like 1/N
    assert (
        said("task.eigenvalues[few:].sum() .2g")
        < said('closed[f"PCR, m = {few}"][200] .3f')
        < more[2]
    )
    assert np.all(most[1:] < more[1:])
