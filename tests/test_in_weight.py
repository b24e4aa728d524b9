"""Mixtures of in-context and shared sequences: their averages, growth and optimum."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import close

from iclbook import measure
from iclbook.theory import in_weight
from iclbook.theory.in_weight import optimum, populations, pull_matrix
from iclcore import MergedAttention, RegressionTask, published, train
from iclcore.moments import mix, of_population, of_sequences

WHITE, MODEL = RegressionTask(spectrum="white"), MergedAttention(heads=8, init=1e-6)


@pytest.mark.parametrize("spectrum", ["white", "power"])
@pytest.mark.parametrize("dim", [2, 5])
def test_rates_of_unmixed_sequences(dim, spectrum):
    task = RegressionTask(dim=dim, context=300, spectrum=spectrum)
    parts = populations(task, MODEL)
    context, weights = in_weight.unmixed_rates(task)
    close(np.linalg.norm(pull_matrix(parts.in_context), 2), context)
    # the query's own part of S is of order 1/N
    close(np.linalg.norm(pull_matrix(parts.shared), 2) / weights, 1, within=2 / task.context)
    if spectrum == "white":
        close(weights / context, 1 + dim)


def test_a_mixture_has_the_averages_of_sequences_drawn_at_its_share():
    """So its floor is theirs too."""
    task = replace(WHITE, in_context=0.3)
    mixture = populations(WHITE, MODEL).mixture(0.3)
    close(mixture.gram, of_population(task, MODEL).gram)
    close(mixture.loss(optimum(mixture)), mixture.floor())
    sampled = of_sequences(task.sample(40_000, seed=1), MODEL)
    # four standard deviations of 0.0011 for 40,000 sequences, and 0.0003 by which a fit lowers its own loss
    close(mixture.floor(), sampled.floor(), within=0.005)


def test_a_mean_of_averages_has_a_task_only_if_all_its_parts_have_the_same():
    """Otherwise its levels would be computed for the first task."""
    one, two, other = (
        of_sequences(task.sample(9, seed=seed), MODEL)
        for task, seed in ((WHITE, 1), (WHITE, 2), (replace(WHITE, context=5), 1))
    )
    assert mix([(1, one), (1, two)]).task == WHITE
    assert mix([(1, one), (1, other)]).task is None


def test_the_floor_rises_with_the_share():
    parts = populations(WHITE, MODEL)
    assert np.all(np.diff([parts.mixture(share).floor() for share in np.arange(1, 101) / 100]) > 0)


def test_the_escape_step_and_the_crossover_are_those_of_training():
    """The weights are so small that σ₁ alone counts. When a hundredth of the loss is gone, the next order
    is a hundredth of that. Twice as much shifts the step by 0.1, at a growth of a fifth a step; linear
    interpolation within the step adds 0.03. On either side of the crossover another test error falls
    first."""
    task = replace(WHITE, dim=2, context=10)
    parts = populations(task, MODEL)
    turn = in_weight.crossover_share(parts)
    for share, weights_first in ((turn - (1 - turn) / 8, True), (turn + (1 - turn) / 8, False)):
        mixture, small = parts.mixture(share), replace(MODEL, init=1e-8)
        rate = 0.05 / np.linalg.norm(pull_matrix(mixture), 2)
        start = small.start(task.dim, seed=1)
        step = in_weight.escape_step(small, start, mixture, rate)
        run = train(small, mixture, int(1.3 * step), rate, start=start, tests=parts.tests)
        assert abs(measure.fallen(run.loss, 0.01) - step) < 0.13
        falls = [measure.fallen(run.series[test], 1e-3) for test in parts.tests]
        assert measure.ascending(falls) == weights_first


def test_model_errors_are_those_that_a_run_records():
    parts = populations(replace(WHITE, context=5), MODEL)
    run = train(MODEL, parts.mixture(0.3), 301, 0.01, tests=parts.tests, snapshots=[300])
    weights = {name: array[0] for name, array in run.snapshots.items()}
    errors = parts.model_errors(MODEL, weights)
    close([errors[test] for test in parts.tests], [run.series[test][-1] for test in parts.tests])
    close(0.3 * errors["in_context"] + 0.7 * errors["shared"], run.loss[-1])


def test_the_border_is_where_both_errors_of_the_optimum_are_equal():
    for length, least in ((1, 0.7), (4, 0.2), (20, 0.005)):
        parts = populations(replace(WHITE, context=length), MODEL)
        share = in_weight.optimum_border(parts)
        errors = parts.errors(optimum(parts.mixture(share)))
        # the share is found to 2e-9, and the errors have slopes
        close(errors["in_weight"], errors["in_context"], within=1e-6)
        assert share > least
    assert in_weight.equal_error_share(lambda share: {"in_weight": 1.0, "in_context": 0.5}) == 0
    for step in (0.2, 0.37, 0.61):  # a jump is found by bisection alone, to least/10
        found = in_weight.equal_error_share(
            lambda share: {"in_weight": float(share > step), "in_context": 0.5}  # noqa: B023
        )
        assert abs(found - step) <= 1e-4


def test_the_shared_sequences_of_a_draw():
    """In floats 100 · .29 is a little less than 29, and the published code rounds down."""
    draw = published.sample(replace(WHITE, in_context=0.29), 100)
    own = measure.shared(draw)["shared"]
    assert len(own) == 72 and own.task == draw.task
    solved = np.linalg.lstsq(own.x.reshape(-1, 4), own.y.reshape(-1), rcond=None)[1]
    close(solved, [0.0], within=1e-9)  # one vector fits them all, to float32
    for share in (0, 1):
        assert not measure.shared(published.sample(replace(WHITE, in_context=share), 20))
