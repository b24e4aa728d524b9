"""Two random generators with PyTorch's numbers: one written in NumPy, and PyTorch's own.

Both classes return the float32 numbers of PyTorch's CPU generator. The class in NumPy does not need PyTorch,
but the last bits of its normal numbers can differ from PyTorch's.
"""

from math import cos, log1p, pi, prod, sin, sqrt

import numpy as np

from iclcore.extras import needs
from iclcore.shapes import Float

BLOCK = 16  # PyTorch draws this many or more normal numbers in blocks of this size


class NumpyGenerator:
    """PyTorch's CPU generator in NumPy: the Mersenne Twister and the Box-Muller transform.

    Uniform numbers equal PyTorch's in every bit. PyTorch computes normal numbers in float32, and their last
    bits depend on the processor. This class computes them in float64 and rounds once. The result differs from
    PyTorch's by at most 5e-7, one unit in the last place of the largest numbers, or by at most 3e-6 if
    PyTorch runs on a processor without AVX2.
    """

    library = np  # for calculations with the numbers

    def __init__(self, seed: int):
        self.twister = np.random.RandomState(seed)
        self.kept: float | None = None  # the second number of a pair, until it is used

    def uniform(self, count: int) -> Float[np.ndarray, " n"]:
        """Return uniform numbers from 0 to 1, each made from the lower 24 bits of one 32-bit word."""
        return (self._words(count) & (2**24 - 1)) * 2.0**-24

    def normal(self, shape: tuple[int, ...], std: float = 1.0) -> Float[np.ndarray, "..."]:
        """Return normal numbers with mean zero."""
        count = prod(shape)
        if count < BLOCK:
            numbers = np.array([self._single() for _ in range(count)])
        else:
            uniform = self.uniform(count)
            numbers = _box_muller(uniform[: count - count % BLOCK])
            if count % BLOCK:  # if the last block is not full, PyTorch draws the last 16 again
                numbers = np.append(numbers[: count - BLOCK], _box_muller(self.uniform(BLOCK)))
        return (std * numbers).astype(np.float32).reshape(shape)

    def _words(self, count: int) -> np.ndarray:
        return np.frombuffer(self.twister.bytes(4 * count), "<u4")

    def _single(self) -> float:
        """Return one normal number. It draws two at once and keeps the second for the next call."""
        if self.kept is not None:
            number, self.kept = self.kept, None
            return number
        words = self._words(4).astype(np.uint64)
        u, v = ((words[::2] << 32 | words[1::2]) & (2**53 - 1)) * 2.0**-53
        angle, radius = 2 * pi * u, sqrt(-2 * log1p(-v))
        self.kept = radius * sin(angle)
        return radius * cos(angle)


def _box_muller(uniform: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return normal numbers: eight radii and eight angles give eight cosines, then eight sines."""
    u, v = uniform.reshape(-1, 2, BLOCK // 2).swapaxes(0, 1)
    radius = np.sqrt(-2 * np.log(1 - u))
    # PyTorch's code for AVX2 rounds the angle to float32, which moves a number by up to 2e-6. So do we.
    angle = (np.float32(2 * pi) * v.astype(np.float32)).astype(float)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()


class TorchGenerator:
    """PyTorch's own CPU generator, for runs in which the last bit of a number matters."""

    def __init__(self, seed: int):
        with needs("torch"):
            import torch
        self.generator = torch.Generator().manual_seed(seed)

    @property
    def library(self):
        """PyTorch, the library of the tensors that this generator returns."""
        import torch

        return torch

    def uniform(self, count: int):
        """Return uniform numbers from 0 to 1."""
        return self.library.empty(count).uniform_(generator=self.generator)

    def normal(self, shape: tuple[int, ...], std: float = 1.0):
        """Return normal numbers with mean zero."""
        return self.library.empty(shape).normal_(std=std, generator=self.generator)
