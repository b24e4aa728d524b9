"""What the chapter on task allocation claims, from the same studies.

A printed number is held to half a unit of its last digit. Where no reason stands beside a bound, it is
the claim itself, of numbers that are integrated to 1e-8 or come from one stream of numpy's or torch's:
other processors' differ from the seventh digit on.
"""

import numpy as np
import pytest

from iclbook.studies import optimality, task_allocation


@pytest.fixture(scope="module")
def run():
    """At a quarter of the batch, to t = 32: the claims of the page, with more noise."""
    return task_allocation.three_phases("quick")


def test_three_phases(run):
    facts = run.facts
    # The race says when half of a task is done; without its drag it would end 22% before.
    assert facts["predicted"] == pytest.approx(facts["won"], rel=0.02)
    assert facts["escape"] == pytest.approx(5.2010796, abs=5e-8)
    assert facts["drag"] == pytest.approx(10 * 30**0.5 / 100)
    # The winner's ω settles at .674, the loss at no one rate: the losers' ω falls as 1/t. Without them
    # it would be twice .674 at any time: at 8 they take 8% of it, at 11 more than half.
    assert facts["loss_rate_8"] > 1.8 * facts["rate"] > 1.8 * 2 * facts["loss_rate_11"]
    assert facts["formula_low"] == pytest.approx(1 - 6.411908 / 7.063971, abs=2e-7)
    assert facts["published"] > 40 * facts["predicted"]
    assert 7 < facts["emergence_ends"] < 8
    assert facts["formula"] == pytest.approx(6.411908, abs=5e-7)
    assert facts["exact"] == pytest.approx(7.063971, abs=5e-7)
    # Steps of .02 and softmax's 1/L take .108 (see ``test_multihead``); batches of 64 spread it by .07
    assert 0.08 < facts["lead"] < 0.15
    # Batches of 64 keep the weights moving: at 256 the loss ends 2% above, here 9%. In theory by
    # η Tr C/(4 · 64), 7%, C the covariance of one context's gradient at the limit, and .4% of losers' ω.
    assert facts["full_end"] == pytest.approx(facts["exact"], rel=0.12)
    assert facts["omega_gap"] < 0.05
    assert run.full.series["time"][run.end] == pytest.approx(
        12, abs=0.0041
    )  # the row before the last step, of .004


def test_after_the_end(run):
    """Negative μ off the diagonal, a loss below the limit's, between it and the bound."""
    facts = run.facts
    # Noise seeds what grows by e^{.99 t}: late, the flow of its seed is far from either end's level.
    assert facts["negative"] == 6
    assert facts["bound"] < facts["leaving_end"] < 4.5 < facts["late_test"] < facts["exact"] - 0.3
    assert facts["sum_share"] < 0.5 < 0.99 < facts["sum_share_before"]
    assert facts["saddle_rate"] == pytest.approx(0.9946, abs=5e-5)


def test_two_numbers():
    facts = task_allocation.two_numbers("quick").facts
    # μ starts on its best, falls behind while ω rises, and has caught up after the fastest point.
    shares = [facts[f"share_{w}"] for w in ("01", "05", "10", "15")]
    np.testing.assert_allclose(shares, [1.011, 0.508, 0.719, 0.983], rtol=0, atol=5e-4)
    assert facts["fastest"] == pytest.approx(0.164584, abs=5e-7)
    assert facts["fastest_at"] == pytest.approx(0.09395, abs=2e-4)  # the grid's step is 1.6e-4
    assert facts["equation_leads"] == pytest.approx(0.73, abs=5e-3)
    assert abs(facts["run_lags"]) < 0.1  # noise of 64 contexts a step, of one stream


def test_starts():
    facts = task_allocation.starts().facts
    # 100 starts of one stream. Winners are no close call: no runner-up's μω is above 1e-4 of the best.
    assert facts["right"] > 0.92 and facts["correlation"] > 0.95
    assert facts["near"] < 0.02 and abs(facts["late"]) < 0.05
    assert (
        facts["wrong"] == round(300 * (1 - facts["right"])) and facts["busy"] > facts["wrong"] / 2
    )
    assert (facts["three"], facts["two"], facts["one"]) == (32, 63, 5)
    assert facts["best"] == pytest.approx(facts["level_3"], abs=0.01)  # losers' ω: .005


def test_sharing():
    facts = task_allocation.sharing().facts
    assert facts["gap"] < 1e-3  # the losers' ω falls only as 1/t
    losses = [facts[f"heads_{n}"] for n in (1, 2, 3, 4)]
    np.testing.assert_allclose(losses, [13.475, 9.182, 6.413, 6.413], rtol=0, atol=5e-4)
    assert facts["tied"] == pytest.approx(9.587, abs=5e-4)
    assert facts["pair_gap"] < 0.01 and facts["loser"] < 1e-3
    assert 0.6 < facts["split"] < 0.65 < 0.95 < facts["split_closer"] < 0.96


def test_saturation():
    facts = task_allocation.saturation("quick").facts
    # the true loss is least at ω√d = 1.007, and steps of .03 on 32 contexts add as much
    assert facts["back_furthest"] < 0.02
    # to first order in 1/L, (2(e² − 1) − 3(e − 1))/L = .0762; the second order has the other sign
    assert abs(facts["exponential_1"] / facts["exact_1"] - 1) < 0.08
    assert facts["exponential_2"] > 4 * facts["exact_2"]
    assert facts["edge"] ** 2 == pytest.approx(np.log(100) / 2)
    assert facts["edge_high"] == pytest.approx(0.58, abs=5e-3)
    # Even weights have 90 carriers, give or take one as the 90th's sum rounds; |p|² = Σ p² ≥
    # share²/carriers, by Cauchy and Schwarz.
    assert task_allocation.carriers(1e-9) == pytest.approx(90, abs=1)
    assert 90 > facts["carriers_2"] > 0.9**2 / facts["exact_2"]
    assert facts["carriers_2"] == pytest.approx(27, abs=0.5) and facts["carriers_frozen"] < 11


def test_bounds_and_risks():
    facts = optimality.bounds().facts
    # bound/Bayes tends to 1 + s/σ² in long contexts: r(1 + σ²/s) over rσ²/s
    assert facts["flow_over_bound"] < np.e
    for signal, name in ((0.1, "bound_over_bayes"), (1, "over_bayes_1"), (10, "over_bayes_10")):
        assert 1 + 0.9 * signal < facts[name] < 1 + signal
    found = optimality.risks()
    facts = found.facts
    # 1/d = 1.7%, and σ: |w|² of 100 draws √(2/60)/10 = 1.8%, of 1,000 sequences for heads .6%. It is
    # the worst of 35, of one stream of numpy's.
    assert facts["off"] < 0.06
    stored = {"bayes": 0.512492, "ridge_005": 0.989671, "ridge_5": 0.727250}
    stored |= {"gradient_flow": 0.749380, "one_head": 0.967639, "flow_at_1": 0.967639}
    for name, value in stored.items():
        assert facts[name] == pytest.approx(value, abs=5e-7)
    # the scaling of g decides whether gradient flow is close to ridge 5, the unit hardly
    assert facts["reading"] < facts["other_unit"] < facts["other_scaling"] / 10
    assert facts["peak"] > 3 and 5 < facts["gain"] < facts["gain_limit"]
    for name in ("gradient flow", "ridge 5", "Bayes"):
        assert np.all(np.diff(found.curves[name]) > 0)


def test_other_contexts():
    facts = optimality.lengths("quick").facts
    exact = [facts[f"at_{n}"] for n in (50, 200, 400, 1000)]
    np.testing.assert_allclose(exact, [0.3965, 0.1462, 0.0980, 0.0673], rtol=0, atol=5e-5)
    assert (
        facts["off"] < 0.06
    )  # what batches of 64 leave in the weights, and 5,000 sequences: σ = 1%
    facts = optimality.targets().facts
    # relu's mean √(s/2π) comes back times μ√(1 + ω²), the spread of ωu + ξ, but for terms in e/L
    # e/L = .7%, twice that in a square
    gain = 20**0.5 / (1 + np.e * 20 / 400) * 1.05**0.5
    assert facts["mean_gain"] == pytest.approx(gain, rel=np.e / 400)
    expected = (gain - 1) ** 2 / (2 * np.pi) / facts["relu_predicted"]
    assert facts["mean_share"] == pytest.approx(expected, rel=2 * np.e / 400)
    for name, predicted in (("tanh", 0.0724), ("sin", 0.4664), ("relu", 1.5701)):
        assert facts[f"{name}_predicted"] == pytest.approx(predicted, abs=5e-5)
        # 2%: e/L; the error of 10,000 sequences, of one stream of numpy's, is 1.4%, 1.1% and .5%
        assert facts[f"{name}_measured"] == pytest.approx(predicted, rel=0.03)
