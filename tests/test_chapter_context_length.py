"""What the chapter on context lengths claims."""

import numpy as np
from conftest import close, recorded

said = recorded("context_length")


def test_all_lengths_are_slower_by_the_ratio_of_rates():
    for kind in ("merged", "separate"):
        # a tenth of the loss, finite steps
        close(said(f"{kind}_later .4f"), said("later .4f"), within=2e-3)


def test_training_ends_on_the_ridge():
    assert 10 < said("effective .1f") < 11  # a closed form, no measurement
    gap = 'np.abs(along(drops[k]) / theory.learned(tasks[k], "tokens") - 1)'
    assert said(f"np.max([{gap} for k in tasks]) .1%") < 0.05  # 5,000 sequences
    levels = [said(f'levels["{k}"][-1]') for k in ("all", "one")]
    for runs in ("drops", "stairs"):
        # one draw of 5,000, whose level has a standard deviation of 0.006 or less
        close(said(f"[run.loss[-1] for run in {runs}.values()] .4f"), levels, within=0.015)


def test_linear_attention_lies_on_its_formula():
    gap = "abs(linear[k][n] / cost(k, [n])[0] - 1)"
    # 2,000 fresh sequences, 5,000 trained on
    assert said(f"max({gap} for k in tasks for n in ns) .1%") < 0.12


def test_softmax_makes_the_same_compromise():
    assert said('softmax["all"][1]') < said('softmax["one"][1]')
    for k in ("all", "one"):  # a matrix fixed for shorter contexts: no softmax goes to zero
        assert said(f'distant["{k}"][1000]') > 3 * said("context_length.best_at(one, [1000])[0]")
    mean = [said(f'cost("{k}", range(1, context + 1)).mean()') for k in ("all", "one")]
    assert said("context_length.best_at(one, range(1, context + 1)).mean()") < mean[0] < mean[1]
    # with one example both matrices are worse than zero, whose error is the trace, 1
    assert said('cost("one", [1])[0]') > said('cost("all", [1])[0]') > 1
    assert np.all(np.array(said("context_length.best_at(one, [1])[0]")) < 1)
