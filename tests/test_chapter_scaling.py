"""What the chapter on starts, waits and scaling claims."""

import numpy as np
from conftest import recorded

said = recorded("scaling")


def test_the_waits_are_predicted_start_by_start():
    """Half of the times to some percents, and the first ones early by what step and size leave."""
    for dim in (4, 8):
        half, wide = said(f"within({dim}, 0.5) .1%"), said(f"within({dim}, 0.9) .1%")
        assert max(half) < 0.05 and max(wide) < 0.2
        assert max(said(f"within({dim}, 1) .0%")) > 0.5  # the tail that the text speaks of
    early, starts = (
        said("[int(np.sum(own[:, 0] < 1)) for own in ratios.values()]"),
        said("len(starts)"),
    )
    assert min(early) > 0.99 * starts
    alike = said("sum(int(own.sum()) for own in alike)")
    # a time at the end of a run may be seen on one machine and not on another
    assert alike >= said("sum(own.size for own in alike)") - 2


def test_the_first_drop_is_early_by_the_step_and_the_size_of_the_start():
    """An error of the first order in the step, on top of one that is not, and both in the start's size."""
    whole, half, quarter = said("by_step .2%")
    # of first order the second halving takes half of what the first did; each is rounded to 5e-5
    assert abs((whole - half) - 2 * (half - quarter)) < 6 * 5e-5
    left = 2 * quarter - half  # as the step goes to zero
    assert left > 3 * 5e-5
    # steps of x' = x² come late by lr times the logarithm of what x grows by, 1/0.012 here: half of the
    # start doubles the wait, so that this is half of it, and adds ln 2 to the logarithm
    size, rounding = said("by_size[0] .2%"), 1.5 * 5e-5
    assert whole / 2 - rounding < size < whole / 2 * (1 + np.log(2) / np.log(1 / 0.012)) + rounding


def test_more_than_half_of_the_heads_read_labels_and_the_start_says_which():
    learned, labels = said("int(made.sum())"), said("int(by_labels.sum())")
    assert learned > 90
    told, off = (said(f"[own[{n}] for own in by_theory.values()] .1%") for n in (0, 1))
    even, off_even = (said(f"[own[{n}] for own in if_even.values()] .1%") for n in (0, 1))
    alone = said("int(by_inputs.sum())") + labels
    # three standard errors, of a coin with the predicted odds for each head that goes one way
    assert (
        abs(labels / alone - told[0]) < 3 * (off[0] ** 2 + told[0] * (1 - told[0]) / alone) ** 0.5
    )
    for share, error in zip(told, off, strict=True):
        assert share - 0.5 > 3 * error
    assert told[1] - told[0] > 3 * (off[0] ** 2 + off[1] ** 2) ** 0.5
    # as the text: a fair coin where the start has the symmetry
    for share, error in zip(even, off_even, strict=True):
        assert abs(share - 0.5) < 3 * error
    # two standard deviations of a standard deviation from so many starts
    assert abs(said("varies .2f") / said("coin .2f") - 1) < 2 / (2 * said("seeds")) ** 0.5
    # past its edge a run goes on as rounding decides
    assert said("rate .3f") < said("min(map(measure.edge, free)) .3f")
    assert said("sum(map(measure.rises, free))") == 0
    drops = said("len(calls)")
    assert said("int(calls[:, 0].sum())") >= 0.95 * drops <= said("int(calls[:, 1].sum())")
    assert said("np.median(np.abs(calls[:, 2] - 1)) .1%") < 0.03


def test_every_subset_is_reached_and_large_starts_end_alike_in_the_subspace():
    assert said("sum(abs(gap) < 1e-6 for gap in gaps)") == said("len(subsets)") == 2 ** said("dim")
    assert said("sum(gap < 1e-6 for gap in left)") == said("len(left)") == 12
    # from everywhere most are a level above, where they still come down: within an eighth of its height
    gain = said("gains[-1] .3f")
    assert said("len(stuck)") > said("len(wild)") / 2
    for above in said("[min(stuck, default=np.nan), max(stuck, default=np.nan)] .3f"):
        assert abs(above / gain - 1) < 1 / 8


def test_four_laws():
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
    # three standard errors: of eight draws, and of κ, which 200,000 sequences give to some percents
    cost, told = said("paid[:, -1].mean() .5f"), said("whole.floor() * kappa / draws[-1] .5f")
    off = said("error .0f") / said("kappa .0f")
    assert off < 0.03
    noise = said("paid[:, -1].std(ddof=1) / 8**0.5 .5f")
    assert abs(cost - told) < 3 * (noise**2 + (told * off) ** 2) ** 0.5
    assert abs(said("in_data .2f") + 1) < 0.1
    assert said("int(np.sum(heads_off < 1e-3))") == said("len(few)") == 4


def test_random_starts_take_longer_the_more_dimensions_there_are():
    told, found, off = (
        said("list(told_time.values()) .2f"),
        said("list(in_random.values()) .2f"),
        said("off_random .2f"),
    )
    for law, balanced, random, error in zip(("linear", "power"), told, found, off, strict=True):
        slower = said(f'slower["{law}"] .1f')
        assert slower == sorted(slower) and slower[0] > 1
        # from two dimensions to sixteen the exponent is larger by three errors of such a difference
        assert np.log(slower[-1] / slower[0]) > 3 * error * np.log(2)
        # and from eight to sixteen it is what the waits there say, each rounded to 0.05
        assert abs(random - balanced - np.log2(slower[-1] / slower[-2])) < 0.05


def test_many_stairs_make_a_power_law():
    assert min(said("passed")) > 5 and said("gap .1%") < 0.01
    alphas, laws = said("list(alphas)"), said("list(straight.values()) .3f")
    dims = (said("many"), 1000)
    for size, powers in zip(dims, (said("powers .3f"), said("fewer .3f")), strict=True):
        for alpha, law, power in zip(alphas, laws, powers, strict=True):
            # after m drops r = (m/D)^(α−1) of the tail is missing, which makes a power 1/(1 − r) times
            # as large; that the tail is a sum lowers it by up to 1/(2m); m is from 10 to 300
            least, most = (1 / (1 - (m / size) ** (alpha - 1)) for m in (10, 300))
            assert (1 - 1 / 20) * least - 0.002 < power / law < most + 0.002, (size, alpha)
    # N = 100,000 is too short where λ_d < 1/N counts, the more so the steeper the spectrum
    ratios = [short / law for short, law in zip(said("shorter .3f"), laws, strict=True)]
    assert ratios[0] > 1.3 and ratios[-1] > 1.9
