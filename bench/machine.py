"""The machine's own limit: what BLAS, memory and the vector units do here."""

import numpy as np
from numba import njit, prange

from bench.naive import best_seconds
from iclcore.engines.lanes import WIDTH, across, add, dot, spread, spread_rows

FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit
def _products(a, x, y, times):
    for _ in range(times):
        np.dot(a, x, y)
        x[0] += 1e-12 * y[0]


def matrix_vector(size: int, times: int = 3000) -> float:
    """Seconds of a BLAS matrix-vector product, called without Python in between."""
    a, x, y = np.random.default_rng(0).standard_normal((size, size)), np.ones(size), np.empty(size)
    _products(a, x, y, 1)
    return best_seconds(lambda: _products(a, x, y, times), 5) / times


def rank_k(sequences: int, size: int) -> float:
    """Seconds of φᵀφ, φ (sequences, size) in float64: BLAS syrk."""
    phi = np.random.default_rng(0).standard_normal((sequences, size))
    return best_seconds(lambda: phi.T @ phi, 2)


@njit(fastmath=FAST, parallel=True)
def _stream(a, b, c):
    for i in prange(len(a)):
        a[i] = b[i] + 3.0 * c[i]


def bandwidth() -> float:
    """Bytes a second of a triad over arrays far larger than the caches, both cores."""
    a, b, c = (np.ones(20_000_000) for _ in range(3))
    return 3 * a.nbytes / best_seconds(lambda: _stream(a, b, c), 5)


@njit
def _chains(start, axes, times):
    """Multiply-adds of registers alone, in as many chains as hide how long one takes."""
    first = spread_rows(start, (0,), axes)
    half, sums = spread(np.float32(0.5)), first
    for _ in range(times):
        sums = add(half, sums, first)
    return across(dot(sums, first, half))


def peak() -> float:
    """float32 operations a second of one core."""
    axes, times = (0,) * 12, 200_000
    start = np.ones((1, len(axes)), dtype=np.float32)
    taken = best_seconds(lambda: _chains(start, axes, times), 5)
    return 2 * len(axes) * WIDTH * times / taken
