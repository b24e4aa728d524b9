"""What the chapter on task allocation claims.

A printed number is held to half a unit of its last digit. Where no reason stands beside a bound, it is
the claim itself, of numbers that are integrated to 1e-8 or come from one stream of numpy's or torch's.
"""

import numpy as np
import pytest
from conftest import recorded

from iclbook import measure
from iclcore.heads import theory

book = recorded("task_allocation")


def test_three_phases():
    # The race says when half of a task is done; without its drag it would end 22% before.
    assert book.race_end == pytest.approx(book.half_done, abs=0.1)
    assert book.without_drag == 5.2
    # The winner's ω settles at .674, the loss at no one rate: the losers' ω falls as 1/t. Without them
    # it would be twice .674 at any time: at 8 they take 8% of it, at 11 more than half.
    assert book.early_rate > 1.8 * book.settling_rate > 1.8 * 2 * book.late_rate
    assert book.formula_low == 0.09 and (book.formula, book.exact) == (6.41, 7.06)
    assert book.published_wait > 40 * book.race_end
    assert 7 < book.phase_ends[1] < 8


def test_training_ends_at_the_limit():
    # Steps of .02 and softmax's 1/L take .108 (see ``test_heads``); batches of 256 spread it by .035
    assert 0.08 < book.lead < 0.15
    # Batches of 256 keep the weights moving by η Tr C/(4 · 256) of the loss, 2%, C the covariance of one
    # context's gradient at the limit; .4% is of losers' ω, .8% the error of the last 200 batches.
    assert book.end_loss == pytest.approx(book.exact, rel=0.05)
    assert book.omega_gap < 0.05


def test_training_departs_from_decomposable_weights_by_noise():
    # twice as far with a quarter of the contexts; a mean over some tens of independent times
    assert all(1.5 < ratio < 2.7 for ratio in book.noisier)
    assert book.off_form[0] < 0.05 * book.omega and book.off_form[1] < 0.05 * book.mu


def test_half_of_a_task_is_done_where_race_and_advance_say():
    """See ``test_heads_phases`` for the bounds: first order in the start; batches."""
    assert book.race_gap < 0.01
    # ∂Loss/∂μ of a context has the variance 4s²(φ + 2/d)/L, the reduction a d-th of it. Least is known of
    # L = 10, φ = 3 on 1,088 contexts: ln μ wanders by 40 √(.02 · 34 · 3/(10 · 10 · 1088)) = .17, and a wait
    # by √(1/3) of at most as much. Three of these, and steps: 3/4 · .02 · 4 of 5.
    assert book.trained_gap < 3 * 0.17 / 3**0.5 + 0.012


def test_a_tie():
    assert book.root_a == 1.28  # √(1 + 2aφ/L), a = 10^{3/2}
    assert book.size_gap < 0.002  # first order in the size, of which the largest is .1
    assert book.strip < 0.02


def test_the_published_start():
    # where it stands in the golden run, as a mean over both tasks; the bounds are those of its format
    assert (book.their_omega, book.others_mu) == (0.52, -0.7)
    assert book.their_loss < book.their_limit == 1.04
    assert 60 < book.passed < 90


def test_the_published_start_at_the_published_size():
    # d_e = 33, of which the race of Figure 1's own start knows nothing, and three times the sum's clock
    assert book.slow_race == pytest.approx(3 * book.published_wait / (1 - 1 / 100), rel=0.01)
    # of 10,000 whole contexts a step at rate .01: 2√(ηt Var/n), Var = 4s²(φ + 2/d)/(9L)
    wander = 2 * (0.01 * 869 * 4 * 100 * 1.2 / 900 / 10_000) ** 0.5
    assert book.wander == pytest.approx(wander, abs=0.005)
    # ln μ wanders until the race ends, a wait by √(1/3) of at most as much; three of these
    for half in book.half_times:
        assert abs(half - book.slow_race) < 3 * 869 * wander / 3**0.5
    assert book.limit_of_three == pytest.approx(book.exact / 3, abs=0.01)
    enough = 10 * 1.2 * (100 * 33) ** 0.5 / 3
    assert book.enough == pytest.approx(enough, abs=0.5)
    assert enough > 128 and book.enough_published < 10_000


def test_one_task():
    # μ starts on its best, falls behind while ω rises, and has caught up after the fastest point.
    assert book.share_of_best == [0.51, 0.72, 0.98]
    assert (book.top_speed, book.fastest_omega, book.early) == (0.165, 0.094, 0.732)


def test_starts():
    # Winners are no close call: no runner-up's μω is above 1e-4 of the best.
    assert book.right > 0.92 and book.time_gap < 0.02
    assert book.wrong == pytest.approx(300 * (1 - book.right), abs=1.5)  # half a percent
    assert book.wrong_but_busy > book.wrong / 2
    assert (book.all_share, book.one_wins_two, book.one_wins_all) == (32, 63, 5)
    assert book.start_limits == [6.41, 9.18, 13.5]


def test_who_won_and_when():
    """Three tasks, two heads: the first head takes two of them, the second has been named for one."""
    task = theory.MultiTask([4, 4, 4], 50)
    mu = np.array([[0.2, 0.05, 0.11], [0.02, 0.2, 0.1]])
    path = theory.flow(task, np.full((2, 3), 0.05), mu, np.linspace(0, 60, 601))
    when = measure.won(path)
    assert path.owner.tolist() == [0, 1, 0] and np.all(np.isfinite(when))
    done = (path.mu * path.omega).sum(1)
    for i in range(3):
        assert np.interp(when[i], path.t, done[:, i]) == pytest.approx(0.5, abs=1e-9)
    starts = theory.flow(task, np.full((1, 2, 3), 0.05), mu[None], path.t)
    named = np.array([[0, 1, 1]])
    assert measure.busy(starts, named, when[None]).tolist() == [when[1] < when[2]]
    ends = measure.owned(path.owner, path.omega)[-1]
    assert ends.tolist() == [path.omega[-1, h, i] for i, h in enumerate(path.owner)]
    assert np.isnan(measure.exact_limit(task, path.owner))
    assert measure.lead(path, _as_run(path)) == pytest.approx(0, abs=1e-9)


def _as_run(path):
    from iclcore import History

    series = {"loss": path.loss.sum(-1), "time": path.t, "omega": path.omega, "mu": path.mu}
    return History(series)


def test_ridge_of_no_penalty_and_of_an_endless_one():
    """Without noise a small penalty finds w; an endless one answers 0 and loses all of the signal."""
    task = theory.MultiTask([8], 200, 2.0)
    little, endless = measure.ridge(task, [1e-9, 1e9], 200)
    assert little < 1e-15
    # |w|² of 200 draws of 8 numbers: √(2/8/200) = 3.5%
    assert endless == pytest.approx(2.0, rel=4 * 0.035)
