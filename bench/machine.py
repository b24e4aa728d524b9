"""The limits of the machine: how fast BLAS, memory and the vector units are."""

import numpy as np
from numba import njit, prange

from bench.naive import best_seconds

FAST = {"reassoc", "contract", "arcp", "nsz"}


@njit
def _products(a, x, y, times):
    for _ in range(times):
        np.dot(a, x, y)
        x[0] += 1e-12 * y[0]


def matrix_vector(size: int, times: int = 3000) -> float:
    """Return the seconds of a BLAS matrix-vector product, called without Python in between."""
    a, x, y = np.random.default_rng(0).standard_normal((size, size)), np.ones(size), np.empty(size)
    _products(a, x, y, 1)
    return best_seconds(lambda: _products(a, x, y, times), 5) / times


def rank_k(sequences: int, size: int) -> float:
    """Return the seconds of φᵀφ for φ (sequences, size) in float64: BLAS syrk."""
    phi = np.random.default_rng(0).standard_normal((sequences, size))
    return best_seconds(lambda: phi.T @ phi, 2)


@njit(fastmath=FAST, parallel=True)
def _stream(a, b, c):
    for i in prange(len(a)):
        a[i] = b[i] + 3.0 * c[i]


def bandwidth() -> float:
    """Return the bytes a second, on all cores, of a sum over arrays far larger than the caches."""
    a, b, c = (np.ones(20_000_000) for _ in range(3))
    return 3 * a.nbytes / best_seconds(lambda: _stream(a, b, c), 5)


@njit(fastmath=FAST)
def _polynomials(x, times):
    """Evaluate a polynomial of degree 24 in each entry, again and again; the entries stay in the cache."""
    for _ in range(times):
        for k in range(len(x)):
            value = x[k]
            for _ in range(24):
                value = value * x[k] + np.float32(0.25)
            x[k] = value


def peak() -> float:
    """Return the float32 operations a second of one core, with two in each multiply-add."""
    x, times = np.full(1024, 0.5, dtype=np.float32), 2000
    return 2 * 24 * len(x) * times / best_seconds(lambda: _polynomials(x, times), 5)
