"""What the chapter on optimality claims.

Where no reason stands beside a bound, the bound is the claim itself.
"""

import re
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
from conftest import recorded

from iclbook.explorers import Optimality
from iclbook.theory import baselines
from iclcore.heads import risk, theory

good = recorded("optimality")


def test_what_one_head_gives_up():
    # the closed form is where water-filling leaves the second task: just below it, not just above
    threshold = good.given_up
    shares = [
        theory.one_head(theory.MultiTask([10, 20], 100, (1.0, s), 1.0))[0][0, 1]
        for s in (threshold - 0.01, threshold + 0.01)  # two decimals are printed
    ]
    assert threshold == 0.42 and shares[0] == 0 < shares[1]
    # what is given up fades as 1/t: at t = 160 the flow has .022 and .00024 of it left. dω² of a head
    # that steps by batches of 64 spreads by some .03.
    assert 0 <= good.poor_share < 0.1 and 0 <= good.first_share < 0.1
    assert 1 < good.shared_price < 2  # two tasks: I at most


def test_the_excess_over_bayes():
    """I e (1 + s/σ²) for one head and e (1 + s/σ²) for a head each, by quadrature of the softmax too."""
    assert good.one_head_tends == pytest.approx(np.e * 10 * 1.1, abs=0.05)
    assert good.head_each_tends == pytest.approx(np.e * 1.1, abs=0.05)
    # 200 inputs in 2,000,000 examples: Bayes fits them, at σ² d/L; 1/(dφ) is what the formula leaves out
    task = theory.MultiTask([200], 2_000_000, 0.1, noise=1.0)
    alone = risk.exact_loss(task, *(each[0] for each in theory.limit(task)))[0]
    rho = np.e * 200 * 11 / 2_000_000
    assert alone / (200 / 2_000_000) == pytest.approx(np.e * 1.1, rel=1 / (200 * 11) + rho)
    found = baselines.risk_curves(np.geomspace(1e-5, 1e3, 2000), 10, 0.1, 1.0)
    ratio, above = found["one head"] / found["Bayes"], found["one head"] - found["Bayes"]
    # below the limit by ρ I/s to first order in r = 1e-5, ρ = e r · 11
    limit = np.e * 10 * 1.1
    assert 0 <= limit - ratio[0] <= limit * np.e * 11e-5 * 10
    assert good.largest_gap == pytest.approx(above.max(), abs=0.006)
    assert np.all(np.diff(ratio) < 0) and ratio[-1] == pytest.approx(1, abs=1e-3)
    assert max(above[0], above[-1]) < 0.01


def test_what_is_said_of_the_links_is_so():
    """Until the head gives the third up, and it alone; taken back; with much noise the second is left."""
    text = Path(__file__, "../../book/optimality.ipynb").resolve().read_text(encoding="utf-8")
    links = re.findall(r'href=\\"#optimality\?([^"\\]+)', text)
    kept = {
        link: tuple(np.flatnonzero(theory.one_head(set_by(link).task())[0][0]) + 1)
        for link in links
    }
    assert kept == {
        "s3=0.3": (1, 2),
        "d3=60": (1, 2),
        "noise=3": (1, 2),
        "noise=3&context=300": (1, 2, 3),
        "noise=10": (2,),
    }


def set_by(link: str) -> Optimality:
    return Optimality(
        **{name: type(getattr(Optimality(), name))(float(each)) for name, each in parse_qsl(link)}
    )


@pytest.mark.parametrize("phi", [1, 2, 3])
def test_noise_in_the_labels_counts_as_phi(phi):
    sharp, trained, told = (
        each[phi - 1] for each in (good.noisy_sharpness, good.noisy_mu, good.noisy_mu_formula)
    )
    loss, exact = good.noisy_loss[phi - 1], good.noisy_loss_exact[phi - 1]
    task = theory.MultiTask([10], 100, noise=10.0 * (phi - 1))
    assert told == pytest.approx(theory.limit(task)[1][0, 0], abs=0.005)
    # the formula leaves out 1/(dφ) and e/L; with them the best ω and μ move by half as much
    slack = 1 / (10 * phi) + np.e / 100
    assert 0 < 1 - risk.gradient_flow_risk(task)[0] / exact < slack
    assert abs(sharp - 1) < slack / 2 and abs(trained / told - 1) < slack / 2
    # 500 batches of 128 have 1% of error, the steps on them add less, and a tenth is printed
    assert abs(loss / exact - 1) < 0.03 + 0.05 / exact


def test_the_end_with_a_head_each_is_a_saddle():
    """Negative μ off the diagonal, a loss below the limit's, between it and the bound."""
    # Noise seeds what grows by e^{.99 t}: late, the flow of its seed is far from either end's level.
    assert good.negative == 1 and good.rate == 0.995
    assert good.bound < good.flow_end < 4.5 < good.fresh_loss < good.limit_loss - 0.3
    assert good.sum_after < 0.5 < 0.99 < good.sum_before


def test_one_head_more_than_tasks_is_enough():
    floors = good.floors
    assert floors[2] == floors[3]  # no head beyond I + 1 lowers the bound
    assert good.one_more == pytest.approx(floors[1] / floors[2], abs=0.01)
    for least, floor in zip(good.reached, floors, strict=True):
        # x = dω² falls as 1/t; what it leaves above the bound is of order x, and nothing is below
        assert 0.999 < least / floor < 1.15
    assert good.arrived[3] > good.starts / 2 > good.arrived[2] > good.arrived[1]
    assert good.uneven < 0.05  # columns that sum to zero, with a head that serves both tasks
    # the zero-sum end is exactly 1 + 1/(dφ) above the formula's bound
    phi = 1 + 0.5 / 5
    assert good.zero_sum / floors[2] == pytest.approx(1 + 1 / (5 * phi), abs=0.01)


def test_sharing():
    assert good.ends == [13.5, 9.18, 6.41, 6.41]
    assert (good.tied, good.shares) == (9.59, 0.636)


def test_bounds_and_risks():
    # bound/Bayes tends to 1 + s/σ² in long contexts: r(1 + σ²/s) over rσ²/s
    assert good.over_bound < np.e
    for signal, factor in zip(
        (0.1, 10), (good.bound_over_bayes, good.over_bayes_less_noise), strict=True
    ):
        assert 1 + 0.9 * signal < factor < 1 + signal
    # 1/d = 1.7%, and σ: |w|² of 100 draws √(2/60)/10 = 1.8%, of 1,000 sequences for heads .6%. It is
    # the worst of 35, of one stream of numpy's.
    assert good.formula_gap < 0.06
    assert good.near_ridge < 0.01  # gradient flow is close to ridge 5
    assert good.ridge_peak > 3 and 5 < good.gain < good.crowd
