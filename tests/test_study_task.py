"""What the chapter on the task claims."""

import numpy as np
from conftest import close

from iclbook.studies import task


def test_example():
    found = task.example()
    close(found.facts["least_squares"], found.answer)
    assert found.tokens[-1, -1] == 0 != found.answer


def test_errors_are_those_of_theory():
    facts = task.scatter().facts
    assert facts["worst_score"] < 4  # standard errors, 20,000 sequences
    close(facts["attention_theory"], 0.1359950716, within=1e-9)


def test_lengths():
    found = task.lengths("quick")
    assert found.facts["gap"] < 0.1  # 400 sequences a length
    close(found.facts["least_squares_at_4"], 0)
    n, attention = found.contexts, found.theory["attention"]
    close(attention[-1] * n[-1] / (attention[-2] * n[-2]), 1, within=0.05)  # falls like 1/N
    assert np.all(np.diff(found.theory["PCR, 2 components"]) < 0)
