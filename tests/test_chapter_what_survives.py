"""What the chapter on what survives claims."""

import math

import numpy as np
from conftest import close, recorded

from iclcore import RegressionTask, theory

survives = recorded("what_survives")
ROWS = (
    "descent", "momentum", "slow", "adam", "adam with decay", "decay", "fresh", "adam on samples",
    "adam on batches",
)  # fmt: skip
FIRST = dict(zip(ROWS, survives.first_drops, strict=True))
SECOND = dict(zip(ROWS, survives.seconds, strict=True))
EIGENVALUES = (0.4, 0.3, 0.2, 0.1)
CONTEXT = 31


def test_gradient_descent_is_flow_to_first_order():
    whole, half = survives.flow_gap
    # each is rounded by half of its last digit, and the next order is the square of what is left
    assert whole < 0.005 and abs(half / whole - 0.5) < 0.5e-4 / half + whole
    assert survives.halved < 0.01


def test_all_stairs_are_there_but_under_adam():
    """A stair of gradient descent is rested on for as long as weights of this size wait, by thousands;
    by momentum for a tenth of it. Adam crosses all but the last in a few of its steps."""
    descent, momentum, adam = survives.rests_descent, survives.rests_momentum, survives.rests_adam
    assert min(descent) > 1000 and min(survives.rests_decay) > 1000
    assert all(steps > 0 for steps in momentum) and max(momentum) < max(descent) / 9
    for rests in (adam, survives.rests_both):
        assert max(rests[:-1]) < 0.2 * FIRST["adam"] < rests[-1]
    first_level = theory.plateau_losses(RegressionTask())[1]
    close(survives.one_head_loss, first_level, within=1e-4)  # one head stays on the first stair
    assert survives.lowest_on_pattern > first_level


def test_one_head_leads_each_drop_but_under_adam():
    """Five starts. A race from equal odds has no bound below one; momentum runs it in longer steps."""
    for row in ("descent", "momentum", "slow", "decay", "fresh"):
        assert SECOND[row] < 0.1
    assert survives.seconds_descent < 0.5 and survives.seconds_momentum < 0.5
    assert min(survives.seconds_adam, *(SECOND[row] for row in ROWS if "adam" in row)) > 0.9


def test_first_drops_scatter_as_weights_do_but_not_under_adam():
    for (low, high), most in ((survives.starts_descent, 2), (survives.starts_adam, 0.1)):
        assert high < (1 + most) * low


def test_momentum_at_a_tenth_of_the_rate_is_nearly_descent():
    """Both take steps of η = 0.02 in effect; at η/(1 − μ) = 0.2 the last drop comes early by a tenth."""
    plain, slow = survives.drops_descent, survives.drops_slow
    assert len(plain) == 4 and max(abs(b / a - 1) for a, b in zip(plain, slow, strict=True)) < 0.065
    # the lag of the first: (2μ/(1 − μ)) ln(1/s₀) steps, from a leading head of 0.005 to 0.02
    assert 18 * math.log(50) - 10 < slow[0] - plain[0] < 18 * math.log(200) + 10
    assert survives.last_drops[1] < 0.95 * plain[-1] / 10
    swings = zip(survives.swings, survives.swings_slow, strict=True)
    assert all(high >= 0.02 and low < high / 4 for high, low in swings)


def test_what_does_not_come_is_no_number():
    """A drop that a run does not reach is later than its end, up to which the stair before lasts."""
    assert (survives.last_drop_decay, survives.last_drop_batches) == ("> 16,864", "> 6,000")
    before, cut = survives.rests_decay[1:]
    assert before < cut < 16864 - 10000  # the third drop came at 10,801
    cut = survives.rests_batches[-1]
    assert 0.7 * 6000 < cut < 6000 and survives.came_on_batches < survives.batch_runs / 2
    assert survives.spare_latest < 0.5 * cut  # all runs with one head more


def test_waits_are_the_inverse_of_the_initial_weights_but_under_adam():
    """Over two decades of weights; theory is the limit of small ones, to their first order."""
    plain, heavy = survives.waits_descent, survives.waits_momentum
    assert abs(math.log10(plain[1] / plain[0]) - 2) < 0.02  # the largest weights are 3% off
    assert 1.6 < math.log10(heavy[1] / heavy[0]) < 2
    assert abs(survives.waits_adam[0] - survives.waits_adam[1]) <= 2
    assert max(survives.off_descent[-3:]) <= 0.008 and max(survives.off_momentum[-3:]) <= 0.012
    assert survives.off_adam <= 0.03


def test_momentum_lags_by_a_logarithm():
    """The next order is that of the weights, hundredths of 1/(1 - μ) steps; each is rounded by 0.05."""
    rows = zip(survives.lags, survives.lags_theory, survives.momenta, strict=True)
    for lag, formula, mu in rows:
        assert abs(formula - 2 * mu / (1 - mu) * math.log(10)) < 0.06
        assert abs(lag - formula) < 0.1 + 0.03 / (1 - mu)


def test_adams_rule_over_rates_axes_and_weights():
    """Starts differ in how they begin, by 0.001/lr = 1 step of 90; the pattern is only the nearest."""
    told = survives.rule_steps
    assert len(told) == 5 and told == sorted(told, reverse=True)
    # a start of 0.001 is 0.001/√5 to 0.001/lr steps ahead or behind; and a step is one of told
    rows = zip(survives.rate_off, told, strict=True)
    assert all(off < 0.03 + 1 / steps for off, steps in rows)
    assert survives.axes_off_median < 0.05 and 0.1 < survives.axes_off_most < 0.2
    assert survives.sizes[2:4] == [0.03, 1e-5]
    least, most, own = survives.earliest, survives.latest, told[2]
    assert all(abs(n / own - 1) < 0.1 for i in (2, 3) for n in (least[i], most[i]))
    assert all(low < 0.8 * own for low in least[:2]) and least[4] > 1.2 * own
    assert 2 < survives.steepest < 5**0.5  # the limit of Adam's growth is never reached


def test_rests_of_adam_depend_on_the_axes_and_on_its_memory():
    """160 runs: a share is known to 0.04. A mean over 1,000, 100 or 10 steps."""
    one, two, three = survives.long_rests
    assert one < 0.1 < 0.2 < two < 0.5 < 0.8 < three
    assert survives.last_rest_of_draws[0] > FIRST["adam"] > 2 * max(survives.rests_on_axes)
    assert survives.memories == [0.999, 0.99, 0.9]
    long, middle, short = survives.last_rest_by_memory
    assert long > 1.4 * middle > 2 * short


def test_adam_on_drawn_data_rests_on_the_last_stair_alone():
    for row, rests in (("samples", survives.rests_samples), ("batches", survives.rests_batches)):
        assert abs(FIRST[f"adam on {row}"] / FIRST["adam"] - 1) < 0.3
        assert rests[-1] > 2 * survives.rests_adam[-1]
    assert survives.leak_descent < 0.05 and survives.leak_adam > 0.5


def test_label_weights_hold_up_the_last_stair_where_no_head_is_to_spare():
    """Medians of five runs. Heads that are free to turn leave a stair as soon as in the population, to the
    factor of three by which starts differ; the others wait for other weights to fade first."""
    free, late = survives.label_rests[:2], survives.label_rests[2:]
    assert max(free) < 3 * min(free)
    assert min(late) > 4 * max(*free, *survives.label_rests_spare)
    to_spare = (2, 4, 6)
    pairs = zip(survives.rests_without, survives.rests_with, strict=True)
    for row, (without, labels) in enumerate(pairs):
        assert labels < 2 * without if row in to_spare else labels - 50 > 3 * without


def test_decay_stops_the_clock():
    assert survives.running_came == survives.running > 100
    assert survives.stopped > 30 and survives.stopped_came == 0
    # an error of τ is 1/(1 − γτ)/(−ln(1 − γτ)/γτ) ≤ 2.5 times as large; what is learned keeps a force γ/(2s),
    # under 1.5% of the drive where γτ < 0.8
    assert survives.clock_off < 2.5 * 0.015
    assert survives.clock_off_median < 0.005 and survives.clock_off_most < 0.2


def test_decay_stops_adam_at_a_threshold_and_hardly_slows_adamw():
    """A step of √10 is the grid of decays. AdamW falls behind by γ lr n, a tenth of n steps at γ = 1."""
    assert survives.stop_factors == [10, 32]
    assert abs(FIRST["adam with decay"] - FIRST["adam"]) <= 3  # γ = 0.006, under the threshold
    decays, steps = survives.adamw_decays, survives.adamw_drops
    assert decays == [0, 0.01, 1, 5, 10] and steps == sorted(steps)
    assert steps[0] == steps[1] == FIRST["adam"]
    assert steps[2] < 1.1 * steps[0] < steps[3] and steps[4] < 2 * steps[0]


def test_noise_of_batches_goes_as_rate_over_batch():
    """What is neglected is of first order in the ratio, so twice at the larger; so many draws each."""
    seen, told = np.array(survives.excess), np.array(survives.excess_theory)
    noise = survives.excess_spread / np.sqrt([5, 5, 5, 5, 3, 3])
    assert told[0] == told[1] and abs(told[2] / told[0] - 0.5) < 0.01
    assert np.all(np.abs(seen - told) < 0.15 * seen + 4 * noise)
    assert np.all(np.divide(survives.excess_rates, survives.excess_batches)[[0, 1]] == 0.02 / 64)
    # tr Σ makes the difference that noise in the labels makes, at one ratio
    clean, noisy = survives.traces
    assert noisy > 2.5 * clean and 2 < seen[3] / seen[0] < noisy / clean


def test_the_excess_shrinks_as_noise_drifts_to_flatter_minima():
    """With the first trace the formula would miss by what the trace fell."""
    seen, told = np.array(survives.excess)[[0, 2, 4, 5]], survives.excess_theory[4:]
    error = survives.excess_spread[4:] / seen[2:] / 3**0.5
    off = 1 - told / seen[2:]
    assert 0 < off[1] < 0.12 + 2 * error[1]
    assert abs(off[0] - 2 * off[1]) < 3 * (error[0] + 2 * error[1])
    assert np.all(seen[2:] < 0.75 * seen[:2])
    first, later = survives.traces[0], survives.later_traces
    assert later[0] < later[1] < 0.75 * first  # the more noise, the further
    for rate, trace, formula in zip((0.02, 0.01), later, told, strict=True):
        assert abs(formula - rate / 64 * trace / 4) < 1e-4


def test_batches_hardly_shift_the_waits_and_scatter_them():
    """Ten starts: a median is known to 1.25 standard deviations by the root of ten."""
    ratios = survives.wait_ratios + survives.small_ratios
    spread = survives.wait_scatter
    assert len(spread) == 3 and spread == sorted(spread) and 3 * spread[0] < spread[2]
    for ratio, wide in zip(ratios, spread + survives.small_scatter, strict=True):
        assert abs(ratio - 1) < 2 * 1.25 * wide / 10**0.5 + 0.005
    assert min(survives.small_scatter) > spread[0]


def test_data_move_heights_and_not_the_first_wait():
    firsts = survives.data_first_drops
    # 100,000 sequences know the drive to 1/√100,000 times some two, 0.6%
    assert max(abs(time / firsts[0] - 1) for time in firsts) < 0.01
    rises = []
    for shape in (
        lambda x: 1 + (1 + 1.5 / x) / CONTEXT,
        lambda x: 1 + (2 * (2 + 1 / x) - 1) / CONTEXT,
        lambda x: 1 + (1 + 1 / x) / survives.effective_examples,
    ):
        rises.append(sum(x / (1 + (1 + 1 / x) / CONTEXT) - x / shape(x) for x in EIGENVALUES))
    rises[0] += 0.5
    assert np.all(np.abs(np.subtract(survives.level_rises, rises)) < 0.01)
    assert survives.levels_off <= 0.02
    assert survives.noise_moves < 0.005 and survives.data_seconds < 0.05


def test_small_draws_tell_little_of_later_drops():
    clean, tails, correlated = np.subtract(survives.six_latest, survives.six_earliest)
    assert correlated <= clean < 0.5 * tails


def test_a_query_in_the_chain_drives_faster():
    far = sum(survives.rho ** (2 * k) for k in range(1, CONTEXT + 1)) / CONTEXT
    told = [1 + far + far / x for x in EIGENVALUES]
    assert np.all(np.abs(np.subtract(survives.drive, told)) <= 0.005)
    # 100,000 sequences know the drive to some 0.6% and its gain to some 2% of it
    assert abs(survives.chain_ratio - 1 / told[0]) < 0.02
    assert abs(survives.chain_ratio_theory - 1 / told[0]) < 0.006
    clean, in_line, apart = survives.end_levels
    assert clean + 0.1 < in_line < apart - 0.02


def test_few_sequences():
    """Least squares is worst where it just fits; stairs come with sequences."""
    assert survives.worst == survives.features == 60 and survives.gaussian_off < 0.25
    stairs = survives.stairs_left
    assert stairs[0] == 0 and stairs == sorted(stairs) and stairs[-1] == 4
    assert (survives.fewest, survives.all_but_one_from, survives.all_from) == (15, 120, 480)
    assert survives.overfit_end > 1.5 * survives.overfit_least
    assert survives.decay_rise < 1e-4
