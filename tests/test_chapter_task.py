"""What the chapter on the task claims."""

import numpy as np
from conftest import close, recorded

from iclcore import RegressionTask, theory

task = recorded("task")


def test_errors_are_those_of_theory():
    assert task.standard_errors_off < 4
    assert task.expected[:2] == [0, 0.136] and task.measured[0] == 0


def test_more_examples_leave_what_the_other_eigenvalues_hold():
    # 4,000 sequences a length, squared errors with a deviation below 1.7: a standard error of .027
    assert task.gap < 0.1
    more, most = (theory.plateau_losses(RegressionTask(context=n)) for n in (100, 200))
    close(most[-1] * 200 / (more[-1] * 100), 1, within=0.05)  # falls like 1/N
    assert task.left_over < task.stays < more[2]
    assert np.all(most[1:] < more[1:])
