"""What the closing page claims of linear and softmax attention on the same contexts."""

import numpy as np
import pytest
from conftest import close, recorded

from iclbook import measure
from iclbook.theory import emergence, phases
from iclcore.heads import theory
from iclcore.heads.theory import MultiTask

book = recorded("two_papers")
TASK = MultiTask((6, 6, 6), context=60, signal=(8.0, 4.0, 2.0))
START = theory.aligned_start(TASK, omega=0.015, mu=0.075, own=0.15)
DIGIT = 0.1  # of two numbers printed to .1 each is off by half of it


def test_both_runs_come_to_the_plateaus_of_theory():
    """The noise of batches of 256, and what it adds to the loss, η Tr C/(4 · 256); its stream is torch's."""
    pairs = (book.linear_plateaus, book.linear_levels), (book.softmax_plateaus, book.softmax_levels)
    for found, levels in pairs:
        assert len(found) == len(levels) == 4
        for got, wanted in zip(found, levels, strict=True):
            assert abs(got - wanted) <= 0.06 * (1 + wanted)


def test_the_start_predicts_the_steps():
    late = noise_of_a_wait(batch=256)
    linear = zip(book.linear_times, book.linear_predicted, strict=True)
    softmax = zip(book.softmax_times, book.softmax_predicted, strict=True)
    for got, told in linear:  # no 1/L: noise alone, 1.7% to .9% by the same estimate, of one stream
        assert abs(got - told) <= 0.025 * told + DIGIT
    early = emergence.advance(TASK) / phases.race(TASK, *START)[0]
    for ahead, noise, (got, told) in zip(early, late, softmax, strict=True):
        # 1/L: E Σ p ζ = ω(1 − E|p|²); the advance of the flow, 2.6%; twice the noise
        assert abs(got - told) <= (1 / 60 + ahead + 2 * noise) * told + DIGIT
    assert -1 < book.subtracted < 0  # noise begins it, and the saddle's rate makes it grow


def test_what_softmax_costs():
    assert 2 < book.price < np.e  # e as d/L → 0
    assert book.widest_over_least > 1.3
    assert book.first_head_growth == 0.19


def noise_of_a_wait(batch: int) -> np.ndarray:
    """The relative standard deviation of softmax's waits that comes from batches.

    While ŷ is small, ∂L/∂μ of a context is −2 y_q p·y, of size 2s/√L. A step moves ln μ by 2η/√batch
    of that, so ln μ wanders by 4s √(η t/(L·batch)) up to t, and a wait that depends on μ as μ^−k
    changes by k (1 − t/T) of each step's part: √(1/3) of all.
    """
    omega, mu = START
    wait, _ = phases.race(TASK, omega, mu)
    more, _ = phases.race(TASK, omega, mu * (1 + 0.01 * np.eye(3)))
    power = -np.log(more / wait) / np.log(1.01)
    walk = 4 * TASK.s * np.sqrt(book.lr * wait / (TASK.context * batch))
    return power * walk / np.sqrt(3)


def test_the_races_of_three_tasks_are_the_flow():
    """Half of each is done an advance before its race ends; the start, of Figure 1's size, and an earlier
    winner's heads, which look at more, may take all of the advance (see ``test_heads_phases``)."""
    start = theory.aligned_start(TASK)
    path = theory.flow(TASK, *start, np.linspace(0, 40, 1601))
    done, ends = (path.mu * path.omega).sum(1), 1 / (1 + np.e * TASK.d * TASK.phi / TASK.context)
    half = [measure.crossing(path.t, *each) for each in zip(done.T, ends / 2, strict=True)]
    wait, head = phases.race(TASK, *start)
    advance = emergence.advance(TASK)
    assert np.all(np.abs(half - (wait - advance)) < advance) and head.tolist() == [0, 1, 2]
    # half of a task's own end is what the page calls won; an earlier winner changes that a little
    assert measure.won(path) == pytest.approx(wait, rel=float(np.max(advance / wait)))
    # softmax waits 28% longer than linear attention, whose race has no drag: two formulas
    assert np.all(wait / phases.escape_time(TASK, *start).min(0) > 1.25)


def test_sharpness():
    # what large d and L leave out, 1/d = 5%, and of 4,000 sequences σ = 1%
    assert book.gap < 0.1
    assert book.pair_loss == pytest.approx(book.linear_loss, rel=0.05)  # 1/d
    # both shares m from the overlap itself
    task = MultiTask((20,), 200, 1.0)
    for x in (0.1, 1.0, 1.7):
        for signs, share in (([1.0], x * np.exp(-x)), ([1.0, -1.0], x / np.sinh(x))):
            omega = np.sqrt(x / 20) * np.array(signs)[:, None]
            m = 20 * (omega * np.linalg.solve(theory.overlap(task, omega), omega)).sum()
            close(m, share)


def test_half_and_half_has_a_quarter_of_softmax():
    """B of mixed weights, L E⟨p, p'⟩, on drawn scores of two heads; and where the loss ends."""
    rng, r, covariance = np.random.default_rng(0), 0.5, np.array([[0.5, 0.3], [0.3, 0.4]])
    z = rng.multivariate_normal([0, 0], covariance, 1_000_000)
    p = (1 - r) * z + r * np.exp(z - covariance.diagonal() / 2)
    # 1,000,000 draws of products of size 1
    close((p.T @ p) / len(p), (1 - r**2) * covariance + r**2 * np.exp(covariance), within=0.01)
    assert (
        0.25 < book.half_way < 0.3
    )  # a little over a quarter: the loss rises slower than its noise
