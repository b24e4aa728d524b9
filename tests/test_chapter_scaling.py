"""What the chapter on starts, waits and scaling claims."""

import numpy as np
from conftest import recorded

scaling = recorded("scaling")


def test_the_waits_are_predicted_start_by_start():
    """Half of the times to some percents, and the first ones early by what step and size leave."""
    assert max(scaling.half_off_4 + scaling.half_off_8) < 0.05
    assert max(scaling.farthest_4) > 0.5 and max(scaling.farthest_8) > 0.5  # the text's tail
    assert all(0 < early < 0.01 for early in scaling.early_by)
    # a time at the end of a run may be seen on one machine and not on another
    assert scaling.found_again >= scaling.trained_again - 2


def test_the_first_drop_is_early_by_the_step_and_the_size_of_the_start():
    """An error of the first order in the step, on top of one that is not, and both in the start's size."""
    whole, half, quarter = scaling.by_step
    # of first order the second halving takes half of what the first did; each is rounded to 5e-5
    assert abs((whole - half) - 2 * (half - quarter)) < 6 * 5e-5
    left = 2 * quarter - half  # as the step goes to zero
    assert left > 3 * 5e-5
    # steps of x' = x² come late by lr times the logarithm of what x grows by, 1/0.012 here: half of the
    # start doubles the wait, so that this is half of it, and adds ln 2 to the logarithm
    rounding = 1.5 * 5e-5
    most = whole / 2 * (1 + np.log(2) / np.log(1 / 0.012)) + rounding
    assert whole / 2 - rounding < scaling.by_half_size < most


def test_more_than_half_of_the_heads_read_labels_and_the_start_says_which():
    assert scaling.learned > 90
    shares, errors = np.array(scaling.label_share), np.array(scaling.label_share_error)
    # three standard errors, of a coin with the predicted odds for each head that goes one way
    alone = scaling.read_inputs + scaling.read_labels
    error = np.hypot(errors[0], (shares[0] * (1 - shares[0]) / alone) ** 0.5)
    assert abs(scaling.read_labels / alone - shares[0]) < 3 * error
    assert np.all(shares - 0.5 > 3 * errors)
    assert shares[1] - shares[0] > 3 * np.hypot(*errors)
    # a fair coin where the start has the symmetry
    even = np.array(scaling.even_share)
    assert np.all(np.abs(even - 0.5) < 3 * np.array(scaling.even_share_error))
    assert scaling.rate < scaling.least_edge  # past its edge a run goes on as rounding decides
    assert scaling.right_heads >= 0.95 * scaling.called <= scaling.right_ways
    assert scaling.wait_off < 0.03


def test_every_subset_is_reached_and_large_starts_end_alike_in_the_subspace():
    assert scaling.subsets_reached == scaling.subsets == 2**scaling.dim
    assert scaling.large_at_end == scaling.large_runs == 12
    # from everywhere most are a level above, where they still come down: within an eighth of its height
    assert scaling.stuck > scaling.wild_runs / 2
    assert all(abs(above / scaling.last_gain - 1) < 1 / 8 for above in scaling.stuck_above)


def test_four_laws():
    assert scaling.end_losses_right == scaling.end_losses == 15
    # on the way to −1: N λ_D/tr is 8 to 250 there, and its inverse is the next order
    assert all(-1 < power < -0.9 for power in scaling.context_exponents)
    # a balanced start s₀ comes to half of s* earlier by s₀/s* and later by what is cut: some percents
    assert scaling.last_drop_off < 0.08
    exponents = np.subtract(scaling.time_exponents, scaling.time_exponents_theory)
    assert np.all(np.abs(exponents) < 0.05)
    # three standard errors: of eight draws, and of κ, which 200,000 sequences give to some 2%
    error = np.hypot(scaling.fit_cost_error, 0.02 * scaling.fit_cost_theory)
    assert abs(scaling.fit_cost - scaling.fit_cost_theory) < 3 * error
    assert abs(scaling.data_exponent + 1) < 0.1
    assert scaling.few_heads_right == scaling.few_heads == 4


def test_random_starts_take_longer_the_more_dimensions_there_are():
    of_laws = (
        (scaling.slower_linear, scaling.slower_power), scaling.time_exponents_theory,
        scaling.random_exponents, scaling.random_exponents_error,
    )  # fmt: skip
    for slower, balanced, random, error in zip(*of_laws, strict=True):
        assert slower == sorted(slower) and slower[0] > 1
        # from two dimensions to sixteen the exponent is larger by three errors of such a difference
        assert np.log(slower[-1] / slower[0]) > 3 * error * np.log(2)
        # and from eight to sixteen it is what the waits there say, each rounded to 0.05
        assert abs(random - balanced - np.log2(slower[-1] / slower[-2])) < 0.05


def test_many_stairs_make_a_power_law():
    assert scaling.scalar_gap < 0.01
    for size, powers in ((scaling.many, scaling.powers), (1000, scaling.powers_fewer)):
        for alpha, law, power in zip(scaling.alphas, scaling.laws, powers, strict=True):
            assert abs(law + (alpha - 1) / (2 * alpha)) < 0.0006
            # after m drops r = (m/D)^(α−1) of the tail is missing, which makes a power 1/(1 − r) times
            # as large; that the tail is a sum lowers it by up to 1/(2m); m is from 10 to 300
            least, most = (1 / (1 - (m / size) ** (alpha - 1)) for m in (10, 300))
            assert (1 - 1 / 20) * least - 0.002 < power / law < most + 0.002, (size, alpha)
    # N = 100,000 is too short where λ_d < 1/N counts, the more so the steeper the spectrum
    ratios = np.divide(scaling.powers_shorter, scaling.laws)
    assert ratios[0] > 1.3 and ratios[-1] > 1.9
