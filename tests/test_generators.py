"""The generator in NumPy gives PyTorch's numbers, up to their last bits."""

from math import log, sqrt

import numpy as np
import pytest
from conftest import close

from iclcore import CubicMLP, MergedAttention, RegressionTask, SeparateAttention, published
from iclcore.generators import NumpyGenerator, TorchGenerator

SEEDS = 0, 3, 10, 12345, 2**32 - 1
# A normal number is a radius, at most √(−2 ln 2⁻²⁴), times a cosine or sine. On different processors,
# PyTorch's angles differ by up to 2⁻²¹, a unit in the last place near 2π. The logarithm, the root, the cosine
# and the product have relative rounding errors of at most 2⁻²⁴ each. (The largest differences found are
# 4.8e-7 with PyTorch's code for AVX2 and AVX-512, and 2.6e-6 with its code for older processors.)
WITHIN = sqrt(48 * log(2)) * (2**-21 + 4 * 2**-24)


def both(seed):
    return NumpyGenerator(seed), TorchGenerator(seed)


def same_normal_numbers(ours, theirs, shape, std=1.0):
    mine, exact = ours.normal(shape, std), theirs.normal(shape, std).numpy()
    assert mine.dtype == exact.dtype == np.float32 and mine.shape == exact.shape == shape
    if mine.size < 16:  # both compute in float64 and round once
        np.testing.assert_allclose(mine, exact, rtol=2**-23)
    else:
        np.testing.assert_allclose(mine, exact, rtol=0, atol=std * WITHIN)


@pytest.mark.parametrize("seed", SEEDS)
def test_normal_numbers_of_every_size(seed):
    """Small and large draws are mixed, because an odd small draw keeps one number for the next."""
    ours, theirs = both(seed)
    for size in (*range(1, 41), 100_003):
        same_normal_numbers(*both(seed), (size,))
        same_normal_numbers(ours, theirs, (size,), std=0.5)
    for size in np.random.default_rng(seed).integers(1, 41, size=200).tolist():
        if size % 3 == 0:
            np.testing.assert_array_equal(ours.uniform(size), theirs.uniform(size))
        same_normal_numbers(ours, theirs, (size % 5 + 1, size))


def test_uniform_numbers_have_the_bits_of_torch():
    ours, theirs = both(7)
    for size in (1, 15, 16, 17, 100_003):
        np.testing.assert_array_equal(ours.uniform(size), theirs.uniform(size))


@pytest.mark.parametrize("in_context", [0, 0.29, 1])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("spectrum", ["white", "linear", "power"])
def test_a_draw_is_that_of_torch(spectrum, outputs, in_context):
    """The inputs, the labels and the initial weights of all models are compared."""
    task = RegressionTask(4, 7, outputs, spectrum, in_context)
    ours, theirs = (published.sample(task, 100, 3, 20, torch_bits) for torch_bits in (False, True))
    assert ours.task == theirs.task
    for data, exact in [(ours, theirs), *((ours.tests[n], theirs.tests[n]) for n in theirs.tests)]:
        assert data.x.dtype == data.y.dtype == np.float32
        # Both round the same float64 numbers to float32, and then subtract the means in float32.
        close(data.x, exact.x, within=2**-23)
        # PyTorch whitens in float32, NumPy in float64. There are six operations: a covariance, its
        # eigenvectors and four products. Each rounds about four terms by 2⁻²⁴, and together these terms are
        # at most three times as large as 1 + |y|. (The largest difference found is 1.8e-6.)
        close(data.y, exact.y, within=6 * 4 * 3 * 2**-24)
    for model in (MergedAttention(3), SeparateAttention(2, rank=3), CubicMLP(5)):
        starts = zip(ours.starts(model).items(), theirs.starts(model).values(), strict=True)
        layers = {layer.name: layer.std for layer in model.layers(4, outputs)}
        for (name, weights), exact in starts:
            np.testing.assert_allclose(weights, exact, rtol=0, atol=layers[name] * WITHIN)
