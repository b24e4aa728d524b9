"""What the chapter on starts, waits and scaling claims."""

from conftest import recorded

said = recorded("scaling")


def test_the_waits_have_the_predicted_distribution():
    """As far as ten thousand starts and a thousand can tell, and what the start's size leaves at D = 8."""
    noise = said("1.36 * np.sqrt(1 / waits.STARTS + waits.EVERY / waits.STARTS) .3f")
    assert noise == 0.045  # 1.36 √(1/m + 1/n), Kolmogorov's five-percent point
    assert max(said("distances[0] .3f")) < noise and max(said("distances[1] .3f")) < 2 * noise
    assert max(said("[np.nanmedian(np.abs(own - 1)) for own in ratios] .1%")) < 0.05
    alike = said("sum(int(own.sum()) for own in alike)")
    # a time at the end of a run may be seen on one machine and not on another
    assert alike >= said("sum(own.size for own in alike)") - 2


def test_half_of_the_heads_read_labels_and_the_start_says_which():
    learned, labels = said("int(made.sum())"), said("int(by_labels.sum())")
    assert learned > 90
    # a fair coin for each head: three standard deviations
    assert abs(labels / learned - 0.5) < 3 * 0.5 / learned**0.5
    # two standard deviations of a standard deviation from so many starts
    assert (
        abs(said("share.std(ddof=1) .2f") / said("coin .2f") - 1) < 2 / (2 * said("seeds")) ** 0.5
    )
    # past its edge a run goes on as rounding decides
    assert said("rate .3f") < said("min(map(measure.edge, free)) .3f")
    assert said("sum(map(measure.rises, free))") == 0
    drops = said("len(calls)")
    assert said("int(calls[:, 0].sum())") >= 0.95 * drops <= said("int(calls[:, 1].sum())")
    assert said("np.median(np.abs(calls[:, 2] - 1)) .1%") < 0.03


def test_every_subset_is_reached_and_large_starts_end_alike():
    assert said("sum(abs(gap) < 1e-6 for gap in gaps)") == said("len(subsets)") == 2 ** said("dim")
    assert said("sum(gap < 1e-6 for gap in left)") == said("len(left)") == 12


def test_four_exponents():
    final = said("sum(int(np.sum(own < 1e-5)) for own in off)")
    assert final == said("sum(map(len, off))") == 15
    # on the way to −1: N λ_D/tr is 8 to 250 there, and its inverse is the next order
    assert all(-1 < power < -0.9 for power in said("list(in_context.values()) .2f"))
    # a balanced start s₀ comes to half of s* earlier by s₀/s* and later by what is cut: some percents
    assert max(said("[np.max(np.abs(t[:, 1] / t[:, 0] - 1)) for t in times.values()] .0%")) < 0.08
    for seen, told in zip(
        said("list(in_time.values()) .2f"), said("list(told_time.values()) .2f"), strict=True
    ):
        assert abs(seen - told) < 0.05
    # eight draws: a cost varies by a tenth or two, their mean by a third of that
    cost = said("paid[:, -1].mean() .5f") / said("whole.floor() * kappa / draws[-1] .5f")
    assert abs(cost - 1) < 0.2 and abs(said("in_data .2f") + 1) < 0.1
    assert said("int(np.sum(heads_off < 1e-3))") == said("len(few)") == 4


def test_a_thousand_stairs_make_a_power_law():
    assert min(said("passed")) > 5 and said("gap .1%") < 0.05
    # the tail is a sum and not an integral: a relative 1/(2m) at the tenth stair
    for power, law in zip(said("whole_powers .3f"), (-1 / 10, -1 / 6), strict=True):
        assert abs(power / law - 1) < 0.05
    assert max(said("own_powers .2f")) < -0.2  # a thousand dimensions end somewhere
