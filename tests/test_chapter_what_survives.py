"""What the chapter on what survives claims."""

import math

import pytest
from conftest import recorded

said = recorded("what_survives")
DESCENT, HEAVY, ADAM, DECAY, FRESH = (
    "gradient descent", "momentum 0.9", "Adam", "weight decay", "fresh batches",
)  # fmt: skip


def first(rule):
    return said(f'drops["{rule}"][0] ,.0f')


def rests(rule):
    return said(f'rests["{rule}"] ,d')


def test_gradient_descent_is_flow_to_first_order():
    whole, half = said("late[0] .2%"), said("late[1] .2%")
    # each is rounded by half of its last digit, and the next order is the square of what is left
    assert whole < 0.005 and abs(half / whole - 0.5) < 0.5e-4 / half + whole
    assert said("halved .1%") < 0.01


def test_all_stairs_are_there_but_under_adam():
    """A stair of gradient descent is rested on for as long as weights of this size wait, by thousands;
    by momentum for a tenth of it. Adam crosses all but the last in a few of its steps."""
    assert min(rests(DESCENT)) > 1000 and min(said('rests["weight decay"][:-1] ,d')) > 1000
    assert all(h > 0 for h in rests(HEAVY)) and max(rests(HEAVY)) < max(rests(DESCENT)) / 9
    assert max(rests(ADAM)[:-1]) < 0.1 * first(ADAM) < rests(ADAM)[-1]
    shares = [said(f'seconds["{rule}"] .2f') for rule in (DESCENT, HEAVY, DECAY, FRESH)]
    assert max(shares) < 0.1 and said(f'seconds["{ADAM}"] .2f') > 0.9
    assert said("alone.loss[-1] .4f") == said("levels[1] .4f") == 0.6406


def test_one_head_leads_each_drop_but_under_adam():
    """Five starts. A race from equal odds has no bound below one; momentum runs it in longer steps."""
    for rule, least, most in ((DESCENT, 0, 0.5), (HEAVY, 0, 0.5), (ADAM, 0.9, 1)):
        low, high = (said(f'ranges["{rule}"][{i}] .2f') for i in (0, 1))
        assert least < low <= said(f'seconds["{rule}"] .2f') <= high <= most


def test_momentum_at_a_tenth_of_the_rate_is_nearly_descent():
    """Both take steps of η = 0.02 in effect; at η/(1 − μ) = 0.2 the last drop comes early by a tenth."""
    plain, slow = said('drops["gradient descent"] ,.0f'), said('drops["slow momentum"] ,.0f')
    assert len(plain) == 4 and max(abs(b / a - 1) for a, b in zip(plain, slow, strict=True)) < 0.065
    # the lag of the first: (2μ/(1 − μ)) ln(1/s₀) steps, from a leading head of 0.005 to 0.02
    assert 18 * math.log(50) - 10 < slow[0] - plain[0] < 18 * math.log(200) + 10
    assert said('drops["momentum 0.9"][last] ,.0f') < 0.95 * plain[-1] / 10
    assert said("10 * lr") == 0.2


def test_what_does_not_come_is_no_number():
    """A drop that a run does not reach is later than its end, up to which the stair before lasts."""
    for mark, steps in (("decay_last", 16864), ("batches_last", 6000)):
        with pytest.raises(ValueError, match=f"'> {steps}'"):
            said(mark)
    decayed = said('rests["weight decay"][-1] ,d')
    assert (
        said('rests["weight decay"][:-1] ,d')[-1] < decayed < 16864 - 10000
    )  # the third came at 10,801
    assert said("late_on") == 1 < said("seeds_of[1]") / 2
    steps = said("span_of[1] ,d")
    assert 0.7 * steps < said("on_batches[-1] ,.0f") < steps
    spare = said("np.sort(spare) ,.0f")  # with one head more
    assert len(spare) == said("seeds_of[1]") and max(spare) < 0.5 * said("on_batches[-1] ,.0f")


def test_waits():
    """1/(weights) for descent and momentum, none for Adam; theory where weights are small."""
    plain = said('[round(n, -1) for n in found["gradient descent"][[0, -1]]] ,.0f')
    heavy = said('found["momentum 0.9"][[0, -1]] ,.0f')
    adam = said('found["Adam"][[0, -1]] ,.0f')
    decades = said("np.log10(inits[0] / inits[-1]) .1f")
    assert abs(math.log10(plain[1] / plain[0]) - decades) < 0.02  # the largest weights are 3% off
    assert 1.6 < math.log10(heavy[1] / heavy[0]) < decades and abs(adam[0] - adam[1]) <= 2
    # the limit of small weights: errors are of their first order, 3e-3 of a limit of 0.4
    assert max(said('off["gradient descent"] .1%')[-3:]) <= 0.008
    heavy_off = said('off["momentum 0.9"] .1%')
    assert max(heavy_off[-3:]) <= 0.012 and heavy_off == sorted(heavy_off, reverse=True)
    assert said('off["Adam"].max() .0%') <= 0.03
    assert said("lowest .2f") > said("levels[1] .4f")


def test_momentum_lags_by_a_logarithm():
    """The next order is that of the weights, hundredths of 1/(1 - μ) steps; each is rounded by 0.05."""
    lags, told, mus = said("lags .1f"), said("lags_told .1f"), said("weights_of")
    for lag, formula, mu in zip(lags, told, mus, strict=True):
        assert abs(formula - 2 * mu / (1 - mu) * math.log(10)) < 0.06
        assert abs(lag - formula) < 0.1 + 0.03 / (1 - mu)


def test_adams_rule_over_axes_and_weights():
    """Starts differ in how they begin, by tiny/lr = 1 step of 90; the pattern taken is only the nearest."""
    assert said("len(farthest)") == 30 and said("np.median(farthest) .1%") < 0.05
    assert 0.1 < said("farthest.max() .0%") < 0.2 and said("tardy .0%") > 0.7
    sizes, least, most = said("sizes .1g"), said("least .0f"), said("most .0f")
    assert sizes[2:4] == [0.03, 1e-5]
    told = said("by_rate ,.0f")[2]
    assert all(abs(n / told - 1) < 0.1 for i in (2, 3) for n in (least[i], most[i]))
    assert all(low < 0.8 * told for low in least[:2]) and least[4] > 1.2 * told


def test_adams_growth_never_reaches_its_limit():
    early, later = said("slopes[40] .2f"), said("slopes[90] .2f")
    assert early < later < said("slopes[10:].max() .2f") < said("5**0.5 .2f") == 2.24
    assert 90 < said("10 + slopes[10:].argmax()") < 1000  # few against what is averaged over


def test_rests_of_adam_hang_on_the_axes():
    """160 runs: a share is known to 0.04. The last stair is rested on for more than the first drop takes."""
    one, two, three = said("(stays[..., 1:] > 100).mean((0, 1)) .0%")
    assert one < 0.1 < 0.2 < two < 0.5 < 0.8 < three
    low, high = said("turns.min(0) ,.0f"), said("turns.max(0) ,.0f")
    assert low[2] > first(ADAM) and high[0] < first(ADAM) and high[1] > 10 * low[1]
    assert max(said("straight ,.0f")) < 0.5 * first(ADAM)  # eigenvectors along the axes


def test_the_last_stair_of_adam_is_its_memory():
    """Medians of 160 runs. A mean over 1,000, 100 or 10 steps: first drops hardly differ, rests do."""
    assert said("list(memories)") == [0.999, 0.99, 0.9]
    steps, drops = said("rest_by ,.0f"), said("in_drops .1f")
    assert (
        steps[0] > 1.4 * steps[1] > 2 * steps[2] and drops[0] > 2 > drops[1] / 1.5 and drops[2] < 1
    )


def test_adam_on_drawn_data_rests_on_the_last_stair_alone():
    for name in ("on_samples", "on_batches"):
        begins = said(f"{name}[0] ,.0f")
        last = said("on_batches[-1] ,.0f") if "batch" in name else said("on_samples[3:] ,.0f")[-1]
        assert abs(begins / first(ADAM) - 1) < 0.3 and last > 2 * rests(ADAM)[-1]


def test_label_weights_hold_up_the_last_stair_alone_and_only_where_no_head_is_to_spare():
    """Medians of five runs. Who is free to turn leaves a stair as soon as in the population, to the factor
    of three by which starts differ; who is not waits for other weights to fade first."""
    rows = {h: [said(f"blocked[{h}][{i}] ,.0f") for i in range(4)] for h in ("dim", "dim + 1")}
    free = [rest[-1] for rest in (*rows["dim"][:2], *rows["dim + 1"])]
    held = [rest[-1] for rest in rows["dim"][2:]]
    assert min(held) > 4 * max(free) and max(free[:2]) < 3 * min(free[:2])
    assert max(max(rest[:-1]) for table in rows.values() for rest in table) < 0.5 * first(ADAM)
    assert rows["dim"][2] == said("on_samples[3:] ,.0f")


def test_the_count_holds_where_it_was_not_found():
    """Stair H - 1 is held up by label weights if H is at most D: by more than starts differ, three."""
    for case in ("fewer heads", "fewer inputs"):
        free, held = (said(f'counted["{case}"][{i}] ,.0f') for i in (0, 1))
        assert held > 3 * free
    for case in (
        "axes 1",
        "axes 2",
        "β₂ 0.9",
    ):  # in hundreds, as the processor's last bits leave it
        free = said(f'counted["{case}"][0] ,.0f')
        assert said(f'round(counted["{case}"][1], -2) ,.0f') - 50 > 3 * free
    for case in ("and a head to spare", "axes 1, to spare", "axes 2, to spare"):
        free, held = (said(f'counted["{case}"][{i}] ,.0f') for i in (0, 1))
        assert held < 2 * free


def test_adam_at_five_rates():
    rates, told = said("rates .2g"), said("by_rate ,.0f")
    off = said("rate_off .0%")
    assert len(rates) == 5 and told == sorted(told, reverse=True)
    # a start of 0.001 is 0.001/√5 to 0.001/lr steps ahead or behind; and a step is one of told
    assert all(each < 0.03 + 1 / steps for each, steps in zip(off, told, strict=True))


def test_decay_stops_adam_at_a_threshold():
    """Within a step of √10 of those tried it goes as the larger of weights and rate; descent's as weights."""
    assert said("scaled .1g") == [1e-2, 1e-3, 1e-4]
    for mark, rate in (("stops .1g", 1e-3), ("slower .1g", 1e-4)):
        for size, least in zip((1e-2, 1e-3, 1e-4), said(mark), strict=True):
            assert 8 < least / max(size, rate) < 40
    assert said("lowest_stop .0f") == 10 and said("highest_stop .0f") == 32  # as the grid has them
    assert said("clocks .1g") == [0.04, 0.004, 0.0004]
    decayed = said('drops["Adam, decay"][0] ,.0f')
    assert abs(decayed - first(ADAM)) <= 3  # γ = 0.006, under the threshold: as without
    assert max(rests("Adam, decay")[:-1]) < 0.2 * first(ADAM) < rests("Adam, decay")[-1]


def test_adamw_hardly_notices_decay():
    """A weight that is pulled back by γ of itself falls behind by γ lr n, a tenth of n steps at γ = 1."""
    decays, steps = said("apart_decays"), said("decoupled_drops .0f")
    assert decays == [0, 0.01, 1, 5, 10] and steps == sorted(steps)
    assert steps[0] == steps[1] == first(ADAM) and steps[2] < 1.1 * steps[0] < steps[3]
    assert steps[4] < 2 * steps[0]


def test_adam_leaves_the_subspace_on_finite_data():
    assert said("leaks[0] .3f") < 0.05 and said("leaks[1] .2f") > 0.5


def test_decay_stops_the_clock():
    few, all_of_them = said("int(there[share < 0.8].sum())"), said("int((share < 0.8).sum())")
    assert few == all_of_them > 30 and said("int(there[share > 1].sum())") == 0
    assert said("int((share > 1).sum())") > 10
    # an error of τ is 1/(1 − γτ)/(−ln(1 − γτ)/γτ) ≤ 2.5 times as large; what is learned keeps a force γ/(2s),
    # under 1.5% of the drive where γτ < 0.8
    assert said("np.array(gap)[share < 0.8].max() .1%") < 2.5 * 0.015
    assert said("int(near_end.sum())") == said("len(near_end)") == 2
    # five more starts: of them some have drops close behind one another, for which there are more clocks
    assert said("len(clock_off)") == said("int((odds < 0.8).sum())") > 60
    assert (
        said("np.median(clock_off) .1%") < 0.005
        and said("np.quantile(clock_off, 0.9) .1%") < 0.0375
    )
    assert said("clock_off.max() .0%") < 0.2
    assert said("max(crowded, default=np.nan) .1f") < 2.5 and said("len(crowded)") >= 3
    others = "np.median(behind[within][(clock_off < 0.015) & (behind[within] > 1)]) .1f"
    assert said(others) > said("max(crowded, default=np.nan) .1f")
    assert said("int((odds > 1).sum())") > 20
    assert said("int(np.isfinite(by_clock[odds > 1]).sum())") == 0
    limits = said("optimisers.largest_decay(task) .2f")
    assert limits == sorted(limits, reverse=True)


def test_noise_of_batches_goes_as_rate_over_batch():
    """Five draws of each; what is neglected is of first order in the ratio, so twice at the larger."""
    seen = [said(f"excess_mean[{i}] .4f") for i in range(4)]
    told = [said(f"told_excess[{i}] .4f") for i in range(4)]
    noise = [said(f"excess_error[{i}] .4f") / 5**0.5 for i in range(4)]
    apart = (seen[0] - seen[1]) / (noise[0] ** 2 + noise[1] ** 2) ** 0.5
    mark = "(excess_mean[0] - excess_mean[1]) / np.sqrt((excess_error[:2] ** 2).sum() / draws) .1f"
    assert abs(apart - said(mark)) < 0.2 and apart > 2  # at one ratio: the rate's own order
    assert told[0] == told[1] and abs(told[2] / told[0] - 0.5) < 0.01
    whole, half = (abs(1 - told[i] / seen[i]) for i in (0, 2))
    assert half < 0.2 and whole < 2 * half + 3 * noise[0] / seen[0]
    for i in range(4):
        assert abs(seen[i] - told[i]) < 0.15 * seen[i] + 4 * noise[i]
    # tr Σ makes the difference that noise in the labels makes, at one ratio
    with_noise, without = said('spread["noisy"] .0f'), said('spread["clean"] .0f')
    assert with_noise > 2.5 * without and 2 < seen[3] / seen[0] < with_noise / without


def test_the_excess_shrinks_as_noise_drifts_to_flatter_minima():
    """What the formula neglects is of first order in the rate: half as much at half of it, to the errors
    of three draws; with the first trace it would miss by what the trace fell."""
    seen, told = (
        [said(f"{kind}[{i}] .4f") for i in (0, 1)] for kind in ("later_mean", "later_told")
    )
    error = [said(f"later_error[{i}] .4f") / 3**0.5 / seen[i] for i in (0, 1)]
    off = [1 - b / a for a, b in zip(seen, told, strict=True)]
    assert 0 < off[1] < 0.12 + 2 * error[1] and abs(off[0] - 2 * off[1]) < 3 * (
        error[0] + 2 * error[1]
    )
    assert all(seen[i] < 0.75 * said(f"excess_mean[{2 * i}] .4f") for i in (0, 1))
    first, later = said('spread["clean"] .0f'), said("later_spread .0f")
    assert later[0] < later[1] < 0.75 * first  # the more noise, the further
    for i, rate in enumerate((0.02, 0.01)):
        assert abs(told[i] - rate / 64 * later[i] / 4) < 1e-4
        wrong = abs(rate / 64 * first / 4 / seen[i] - 1)
        assert wrong > off[i] + 3 * error[i]


def test_batches_hardly_shift_the_waits_and_scatter_them():
    """Ten starts: a median is known to 1.25 standard deviations by the root of ten."""
    middle, sooner = said("middling_moves .2f"), said("sooner")
    spread = said("moves.std(axis=0, ddof=1) .2f")
    assert len(middle) == 3 and spread == sorted(spread) and 3 * spread[0] < spread[2]
    for ratio, count, wide in zip(middle, sooner, spread, strict=True):
        assert abs(ratio - 1) < 2 * 1.25 * wide / 10**0.5 + 0.005
        assert 1 < count < 9  # of ten fair coins one in 46 is beyond


def test_data_move_heights_and_not_the_first_wait():
    firsts = said("[each[0] for each in firsts.values()] .1f")
    # 100,000 sequences know the drive to 1/√100,000 times some two, 0.6%
    assert max(abs(time / firsts[0] - 1) for time in firsts) < 0.01
    lam, n, far = (0.4, 0.3, 0.2, 0.1), 31, []
    for shape in (
        lambda x: 1 + (1 + 1.5 / x) / n,
        lambda x: 1 + (2 * (2 + 1 / x) - 1) / n,
        lambda x: 1 + (1 + 1 / x) / said("examples .1f"),
    ):
        far.append(sum(x / (1 + (1 + 1 / x) / n) - x / shape(x) for x in lam))
    far[0] += 0.5
    found = said("list(bends.values())[1:] .2f")
    assert all(abs(a - b) < 0.01 for a, b in zip(found, far, strict=True))
    assert said("max(shift.values()) .2f") <= 0.02


def test_small_draws_tell_little_of_later_drops():
    """A tenth of the sequences are off by √10 times as much, and six draws by two more; clean ones too."""
    for name in ("clean", "Laplace", "correlated"):
        assert said(f'moved["{name}"] .2f') <= 2 * 10**0.5 * 0.015
    low, high = ({k: said(f'came_at["{k}"][0].{end}() .1f') for k in ("clean", "Laplace", "correlated")}
                 for end in ("min", "max"))  # fmt: skip
    wide = {name: high[name] - low[name] for name in low}
    assert wide["correlated"] <= wide["clean"] < 0.5 * wide["Laplace"]
    ends = said("[int(np.isfinite(each[1]).sum()) for each in came_at.values()]")
    assert len(ends) == 3 and all(0 < each < 6 for each in ends)


def test_a_query_in_the_chain_drives_faster():
    lam, n, rho = (0.4, 0.3, 0.2, 0.1), 31, 0.8
    far = sum(rho ** (2 * k) for k in range(1, n + 1)) / n
    told = [((1 + far) * x * x + far * x) / (x * x) for x in lam]
    found = said("chained(rho) .2f")
    assert all(abs(a - b) <= 0.005 for a, b in zip(found, told, strict=True))
    soon, apart = said("soon[0] .1f"), said('firsts["correlated"][0] .1f')
    # each is rounded by 0.05, and 100,000 sequences know the drive to some 0.6% and its gain to some 2% of it
    assert abs(soon / apart - 1 / told[0]) < 0.1 / apart + 0.01
    assert (
        abs(said('soon[0] / firsts["correlated"][0] .2f') - said("1 / chained(rho)[0] .2f")) <= 0.02
    )
    clean, apart = said("levels[-1] .2f"), said('heights["correlated"][-1] .2f')
    assert clean + 0.1 < said("follows.loss[-1] .2f") < apart - 0.02
    assert said("soon[last] .0f") < 0.8 * said('firsts["correlated"][last] .0f')


def test_few_sequences():
    """Least squares is worst where it just fits; stairs come with sequences."""
    assert said("worst") == said("count") == 60
    assert said("close .0%") < 0.25
    stairs = said("stairs_left")
    assert stairs[0] == 0 and stairs == sorted(stairs) and stairs[-1] == 4
    assert said("few[np.argmax(np.array(stairs_left) >= dim - 1)] ,d") == 120
    assert said("few[np.argmax(np.array(stairs_left) >= dim)] ,d") == 480
    # runs are long enough to have turned, and what is trained on goes on after it
    assert said('ends["separate"][wide, 3].max() .0%') < 0.5
    assert said("long[1] .2f") > 1.5 * said("long[2] .2f")


def test_momentum_swings_back_and_less_at_a_small_rate():
    large, small = said("swung[0] .2f"), said("swung[1] .3f")
    assert len(large) == len(small) == 3
    assert all(high >= 0.02 and low < high / 4 for high, low in zip(large, small, strict=True))


def test_first_drops_over_five_starts():
    """Those of descent scatter as weights do, Adam's do not."""
    for rule, most in ((DESCENT, 2), (HEAVY, 2), (ADAM, 0.1)):
        low, high = said(f'spans["{rule}"] ,.0f')
        assert low <= first(rule) <= high < (1 + most) * low


def test_small_batches_scatter_the_first_drop():
    """Ten starts, as for batches of 64, of a median known to 1.25 deviations by the root of ten."""
    middle = said("np.median(small_moves, axis=1) .2f")
    for ratio, wide in zip(middle, said("np.std(small_moves, axis=1, ddof=1) .2f"), strict=True):
        assert abs(ratio - 1) < 2 * 1.25 * wide / 10**0.5 + 0.005
        assert wide > said("moves.std(axis=0, ddof=1) .2f")[0]


def test_data_leave_later_drops_nearly_where_they_were():
    """Noise moves none: what it adds to C is nothing to a small head; drawn averages, some percents."""
    assert said('others_by_clean[f"noise {noise:g}"] .1%') < 0.005
    assert max(said('[others_by_clean[k] for k in ("Laplace", "correlated")] .0%')) < 0.08
    assert max(said("list(leads.values()) .2f")) < 0.05
    assert min(said("raised .2f")) > 0
    assert said("(optimisers.decayed_losses(task, decay) - levels).max() .0e") < 1e-4
