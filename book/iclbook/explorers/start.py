"""The page's random numbers and starting weights in Python: maths/engine.mjs, number for number."""

import numpy as np
from jaxtyping import Float

from iclcore.models import MergedAttention, Model, SeparateAttention, Weights

WORD = 0xFFFFFFFF


def normals(seed: int, count: int) -> Float[np.ndarray, " count"]:
    """Standard normal numbers: sfc32 of the seed, then Box and Muller on pairs of uniforms."""
    a, b, c, d = 0, 0, seed & WORD, 1
    words = []
    for _ in range(12 + count + count % 2):
        word = (a + b + d) & WORD
        d = (d + 1) & WORD
        a, b = b ^ (b >> 9), (c + (c << 3)) & WORD
        c = (((c << 21) | (c >> 11)) + word) & WORD
        words.append(word)
    uniform = (np.array(words[12:]) + 0.5) / 2**32
    radius, angle = np.sqrt(-2 * np.log(uniform[::2])), 2 * np.pi * uniform[1::2]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).ravel()[:count]


def start(model: Model, basis: Float[np.ndarray, "D D"], seed: int) -> Weights:
    """The start that the page draws, which is in the eigenbasis, in the coordinates of x.

    A head's numbers follow one another: v, then U (merged), or K and Q, row by row.
    """
    dim, heads = len(basis), model.heads
    size = dim + 1
    value = np.zeros((heads, size, size))
    if isinstance(model, MergedAttention):
        draws = model.init * normals(seed, heads * (1 + dim**2)).reshape(heads, -1)
        key_query = np.zeros((heads, size, size))
        u = draws[:, 1:].reshape(heads, dim, dim)
        key_query[:, :dim, :dim] = basis @ u.transpose(0, 2, 1) @ basis.T
        value[:, -1, -1] = draws[:, 0]
        return {"key_query": key_query, "value": value}
    assert isinstance(model, SeparateAttention)
    draws = normals(seed, heads * (1 + 2 * model.rank * dim)).reshape(heads, -1)
    value[:, -1, -1] = model.init * draws[:, 0]
    rows = draws[:, 1:].reshape(heads, 2, model.rank, dim) @ basis.T
    rows *= model.init / np.sqrt(model.rank * size)
    key, query = np.zeros((2, heads, model.rank, size))
    key[..., :dim], query[..., :dim] = rows[:, 0], rows[:, 1]
    return {"key": key, "query": query, "value": value}
