"""The path through the book: each stop asks first, and what it says should be seen is seen."""

import re
from pathlib import Path

import numpy as np
import pytest
from test_explorers import LINK, follow

from iclcore import RegressionTask, theory
from iclcore.heads import theory as heads_theory

BOOK = Path(__file__).resolve().parent.parent / "book"
PAGE = (BOOK / "path.md").read_text()
_, *STOPS = re.split(r"^## (?=\d)", PAGE.partition("## From here")[0], flags=re.MULTILINE)
PARTS = ("**Read** ", "**Claim.** ", "**Guess.** ", "?", "<details><summary>What", "**Exercise")


def explorer(name, **settings):
    """As the page's link sets it, or with other settings than that."""
    (query,) = (query for _, of, query in LINK.findall(PAGE) if of == name)
    asked = follow(name, query)
    return type(asked)(**{**asked.settings(), **settings})


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop[:1])
def test_a_stop_asks_before_its_link_and_answers_after_it(stop):
    places = [stop.find(part) for part in PARTS]
    assert -1 not in places and places == sorted(places)
    assert places[2] < LINK.search(stop).start() < places[4]  # after the guess, before the answer
    typed = re.sub(r"\{said\}`[^`]+`|<a href[^>]+>", "", stop)
    assert not re.search(r"\d\.\d", typed), "a number that is typed"


def passes(history, level):
    return history.time[np.argmax(history.loss < level)]


def test_large_weights_leave_no_stairs():
    def waits(**settings):
        """For the first of the stairs, in units of the wait for the drop."""
        times = []
        for name, end in (("merged", -1), ("separate", 1)):
            history = explorer("front", **settings).history(name, 1000)
            levels = theory.plateau_losses(history.task)
            times.append(passes(history, (levels[0] + levels[end]) / 2))
        return times[1] / times[0]

    assert waits() < 2 and waits(init=0.03) > 8


def test_two_components_rest_at_what_the_others_hold():
    asked = explorer("task")
    w, x, y = asked.context()
    learned = theory.learned(RegressionTask(context=len(x), spectrum=asked.eigenvalues), "context")
    learned[asked.components :] = 0
    parts = np.array(asked.eigenvalues) * (learned * (x.T @ y) / len(x) - w) ** 2
    assert asked.components == 2 and parts[2:].sum() > 0.7 * parts.sum()


def test_each_tenth_of_merged_weights_costs_the_same_time():
    sizes = [explorer("merged").init * scale for scale in (10, 1, 0.1)]
    runs = [(asked := explorer("merged", init=size), asked.history()) for size in sizes]
    times = [passes(history, asked.levels().mean()) for asked, history in runs]
    first, second = np.diff(times)
    assert first > 0 and abs(second / first - 1) < 0.01


@pytest.mark.parametrize("heads", [1, 2, 3, 4])
def test_each_rank_one_head_goes_one_plateau_further(heads):
    assert explorer("rank_one").heads == 2
    asked = explorer("rank_one", heads=heads)
    end = asked.history().loss[-1]
    assert abs(end - asked.levels()[heads]) < 1e-3


def test_two_heads_of_four_rows_learn_eight_eigenvectors():
    for heads, learned in ((1, 4), (2, 8), (3, 8)):
        asked = explorer("low_rank", heads=heads)
        loss, levels = asked.history().loss, asked.levels()
        assert abs(loss[-1] - levels[learned]) < 1e-3
        if heads == 2:
            rests = np.sort(spent := (np.abs(loss[:, None] - levels[1:-1]) < 0.006).sum(0))
            assert spent.argmax() + 1 == 4 and rests[-1] > 5 * rests[-2]


def test_one_softmax_head_learns_one_direction():
    asked = explorer("softmax")
    values = tuple(asked.eigenvalues)
    levels = theory.plateau_losses(RegressionTask(context=asked.context, spectrum=values))
    for softmax in (True, False):
        end = asked.history(softmax).loss[-1]
        assert np.abs(levels - end).argmin() == 1


def test_scattered_starts_exchange_two_tasks():
    def owners(**settings):
        asked = explorer("task_allocation", **settings)
        path = heads_theory.flow(*asked.setting(), np.linspace(0, asked.horizon, 50))
        assert asked.finished(path).all()
        return path.owner.tolist()

    assert owners() == [2, 1, 0] and owners(spread=0) == [0, 1, 2]


def test_softmax_delays_each_step_by_nearly_the_same_factor():
    def halves(**settings):
        asked = explorer("two_papers", **settings)
        times = np.linspace(0, asked.horizon, 500)
        omega, mu = asked.flow(times)
        done = np.einsum("thi,thi->ti", omega, mu)
        return times[(done > 0.5).argmax(0)], asked.ends().sum()

    (late, high), (soon, low) = halves(), halves(share=0)
    factors = late / soon
    assert factors.min() > 1.2 and np.ptp(factors) < 0.05 and high > 1.5 * low
