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
        low, high = said(f'ranges["{rule}"] .2f')
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
    assert said('off["gradient descent"][-3:].max() .1%') <= 0.008
    assert said('off["momentum 0.9"][-3:].max() .1%') <= 0.012
    assert said('off["Adam"][1:].max() .0%') <= 0.03
    assert (
        abs(said("lag[0] - lag[1] .0f") - said("18 * np.log(10) .0f")) <= 3
    )  # as in test_optimisers
    assert said("lowest .2f") > said("levels[1] .4f")


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


def test_adam_at_five_rates():
    rates, told = said("rates .2g"), said("by_rate ,.0f")
    off = said("rate_off .0%")
    assert len(rates) == 5 and told == sorted(told, reverse=True)
    # a start of 0.001 is 0.001/√5 to 0.001/lr steps ahead or behind; and a step is one of told
    assert all(each < 0.03 + 1 / steps for each, steps in zip(off, told, strict=True))


def test_decay_stops_adam_at_a_threshold():
    """Its own does not follow weights below its rate; that of descent does."""
    adam, descent = said("stops[:, 0] .1g"), said("stops[:, 1] .1g")
    assert adam[0] > adam[1] == adam[2] and [round(descent[0] / each) for each in descent] == [
        1,
        10,
        100,
    ]
    decayed = said('drops["Adam, decay"][0] ,.0f')
    assert abs(decayed - first(ADAM)) <= 3  # γ = 0.006, under the threshold: as without
    assert max(rests("Adam, decay")[:-1]) < 0.2 * first(ADAM) < rests("Adam, decay")[-1]


def test_adam_leaves_the_subspace_on_finite_data():
    assert said("leaks[0] .3f") < 0.05 and said("leaks[1] .2f") > 0.5


def test_decay_stops_the_clock():
    few, all_of_them = said("int(there[share < 0.8].sum())"), said("int((share < 0.8).sum())")
    assert few == all_of_them > 30 and said("int(there[share > 1].sum())") == 0
    assert said("int((share > 1).sum())") > 10
    # an error of τ is 1/(1 − γτ)/(−ln(1 − γτ)/γτ) ≤ 2.5 times as large; what is learned keeps a force γ/(2s),
    # under 1.5% of the drive where γτ < 0.8
    assert said("np.array(gap)[share < 0.8].max() .1%") < 2.5 * 0.015
    limits = said("theory.decay_limit(task) .2f")
    assert limits == sorted(limits, reverse=True)


def test_noise_of_batches_goes_as_rate_over_batch():
    """Five draws of each; what is neglected is of first order in the ratio, so twice at the larger."""
    seen = [said(f"excess_mean[{i}] .4f") for i in range(4)]
    told = [said(f"told_excess[{i}] .4f") for i in range(4)]
    noise = [said(f"excess_error[{i}] .4f") / 5**0.5 for i in range(4)]
    assert told[0] == told[1] and abs(told[2] / told[0] - 0.5) < 0.01
    whole, half = (abs(1 - told[i] / seen[i]) for i in (0, 2))
    assert half < 0.2 and whole < 2 * half + 3 * noise[0] / seen[0]
    for i in range(4):
        assert abs(seen[i] - told[i]) < 0.15 * seen[i] + 4 * noise[i]
    # tr Σ makes the difference that noise in the labels makes, at one ratio
    with_noise, without = said('spread["noisy"] .0f'), said('spread["clean"] .0f')
    assert with_noise > 2.5 * without and 2 < seen[3] / seen[0] < with_noise / without


def test_batches_leave_the_first_wait_and_scatter_later_ones():
    firsts, third = said("came[:, 0] .1f"), said("came[:, 2] .0f")
    assert max(abs(time - said("quiet[0] .1f")) for time in firsts) <= 0.3
    assert max(third) - min(third) > 0.2 * said("quiet[2] .0f")
    assert 0 < said("int(last_came.sum())") < said("draws") == 5


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
    # a tenth of the sequences are off by √10 times as much; the sizes of five averages vary by some halves
    small = said("moved .2f")
    assert len(small) == 4 and max(small) <= 2 * 10**0.5 * 0.015
    lasts = said("[each[min(dim, heads) - 1] for each in came_at] .0f")
    assert max(lasts) - min(lasts) > 20  # they tell little of the last drop


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
