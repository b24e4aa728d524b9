"""Full-batch gradient descent for softmax attention: one fused pass over the query's row.

Softmax has no finite moments, so a step must visit the data. It need not form values or the other
rows: Σ_m p_m V token_m = V (Σ_m p_m token_m). Sequences are kept in blocks of BLOCK, innermost, so
that every inner loop is a vector loop across sequences; a block's scores stay in cache.
float32 within a block as in the published code; sums over blocks and the weights are float64.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from numba import get_num_threads, njit

from iclcore.models import Model, Weights
from iclcore.task import Sequences, divide_by

BLOCK = 128
LINE = 16  # float32 numbers in a cache line
PARTS = 16  # shares of the blocks, handed to the threads: sums do not depend on how many there are
BLOCKS_A_THREAD = 16  # fewer are done before another thread has woken


class RowDescent:
    """Gradient descent of one softmax model from ``weights``, in place, recorded at every step."""

    engine = "rows"

    def __init__(
        self, model: Model, weights: Weights, train: Sequences, tests: list[Sequences], lr: float
    ):
        self.weights, self.lr = weights, lr
        self.views = model.factors(weights, train.x.shape[2])
        self.train, self.tests = _blocks(train, model), [_blocks(test, model) for test in tests]
        self.advance(0)

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``steps`` steps: losses (steps,), test errors (steps, tests) and values (steps, H),
        each from before its step. Shorter where the loss is no longer finite."""
        *scoring, v = self.views
        loss, errors = np.empty(steps), np.empty((steps, len(self.tests)))
        values = np.empty((steps, len(v)))
        for step in range(steps):
            values[step] = v[:, -1, -1]
            w = (
                scoring[0]
                if len(scoring) == 1
                else np.einsum("hrd,hra->hda", scoring[1], scoring[0])
            )
            errors[step] = [row_pass(w, v, test)[0] for test in self.tests]
            loss[step], dw, dv = row_pass(w, v, self.train)
            if not np.isfinite(loss[step]):
                return loss[: step + 1], errors[: step + 1], values[: step + 1]
            v -= self.lr * dv
            if len(scoring) == 1:
                w -= self.lr * dw
            else:
                key, query = scoring
                pull = np.einsum("hrd,hda->hra", query, dw)
                query -= self.lr * np.einsum("hra,hda->hrd", key, dw)
                key -= self.lr * pull
        if steps == 0:  # compiles, or loads what was compiled
            w = np.zeros((len(v), self.train[0][0].shape[1] - v.shape[1], v.shape[2]))
            row_pass(w, v, [(t[:1], y[:1], d) for t, y, d in self.train[:1]])
        return loss, errors, values


def _blocks(data: Sequences, model: Model) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Per length: tokens (blocks, E, n, BLOCK), targets (blocks, O + 1, BLOCK), divisor.

    The last target row weighs a sequence: 1, or 0 for those that only fill the last block.
    """
    lengths = []
    for tokens, target in data.prefixes():
        fill = -len(tokens) % BLOCK
        rows = np.pad(tokens, ((0, fill), (0, 0), (0, 0))).astype(np.float32)
        answers = np.concatenate([target, np.ones((len(target), 1))], axis=1)
        answers = np.pad(answers, ((0, fill), (0, 0))).astype(np.float32)
        shape = (-1, BLOCK)
        parts = (
            rows.reshape(*shape, *rows.shape[1:]).transpose(0, 3, 2, 1),
            answers.reshape(*shape, answers.shape[1]).transpose(0, 2, 1),
        )
        held = [_aligned(part.size).reshape(part.shape) for part in parts]
        for place, part in zip(held, parts, strict=True):
            place[...] = part
        lengths.append((*held, divide_by(model.divisor, tokens.shape[1])))
    return lengths


def row_pass(w: np.ndarray, v: np.ndarray, lengths: list) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean squared error and its gradients in W (H, D, E) and v (H, O, E)."""
    w32, v32 = (np.ascontiguousarray(each, dtype=np.float32) for each in (w, v))
    loss, dw, dv, count = 0.0, np.zeros(w.shape), np.zeros(v.shape), 0.0
    for tokens, target, divisor in lengths:
        count += float(target[:, -1].sum()) * v.shape[1]
        losses, dws, dvs = _shared_out(w32, v32, tokens, target, np.float32(1 / divisor))
        with np.errstate(all="ignore"):  # a diverging run ends by its loss, not by a warning
            loss, dw, dv = loss + losses.sum(), dw + dws.sum(axis=0), dv + dvs.sum(axis=0)
    return loss / count, 2 / count * dw, 2 / count * dv


def _shared_out(w, v, tokens, target, scale):
    """The pass over all blocks: (losses, dW, dv) of each part, on as many threads as have work."""
    parts = min(PARTS, len(tokens))
    threads = max(1, min(get_num_threads(), len(tokens) // BLOCKS_A_THREAD))
    sums = np.zeros(parts), np.zeros((parts, *w.shape)), np.zeros((parts, *v.shape))
    others = [
        _pool().submit(_pass, w, v, tokens, target, scale, *sums, thread, threads)
        for thread in range(1, threads)
    ]
    _pass(w, v, tokens, target, scale, *sums, 0, threads)
    for other in others:
        other.result()
    return sums


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor()


@njit(cache=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, inline="always")
def _exponential(x):
    """e^x for x ≤ 0 in float32: 2^n by its exponent bits, 2^r by a polynomial; error 2e-7."""
    t = max(x, np.float32(-87.0)) * np.float32(1.4426950408889634)
    n = np.floor(t + np.float32(0.5))
    r = (t - n) * np.float32(0.6931471805599453)
    p = np.float32(1 / 720)
    p = p * r + np.float32(1 / 120)
    p = p * r + np.float32(1 / 24)
    p = p * r + np.float32(1 / 6)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p, n


@njit(cache=True)
def _aligned(size):
    """A float32 array that starts with a cache line: a vector across two lines is loaded at half speed."""
    room = np.empty(size + LINE, dtype=np.float32)
    first = -(room.ctypes.data // 4) % LINE
    return room[first : first + size]


@njit(cache=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, nogil=True)
def _pass(w, v, tokens, target, scale, losses, dws, dvs, thread, threads):
    """Summed squared error and half its gradients, added to every ``threads``-th part of them."""
    heads, dim, size = w.shape
    outputs, n, parts = v.shape[1], tokens.shape[2], len(losses)
    for part in range(thread, parts, threads):
        p = _aligned(heads * n * BLOCK).reshape((heads, n, BLOCK))
        context = _aligned(heads * size * BLOCK).reshape((heads, size, BLOCK))
        u, du = (
            _aligned(size * BLOCK).reshape((size, BLOCK)),
            _aligned(size * BLOCK).reshape((size, BLOCK)),
        )
        pull, residual = (
            _aligned(size * BLOCK).reshape((size, BLOCK)),
            _aligned(outputs * BLOCK).reshape((outputs, BLOCK)),
        )
        top, mass, slope, power = _aligned(BLOCK), _aligned(BLOCK), _aligned(BLOCK), _aligned(BLOCK)
        bits = power.view(np.int32)
        for block in range(part, len(tokens), parts):
            token, answer = tokens[block], target[block]
            residual[:] = 0
            for h in range(heads):
                # score_m = (x_qᵀ W_h) token_m
                for e in range(size):
                    for k in range(BLOCK):
                        u[e, k] = 0
                    for d in range(dim):
                        c = w[h, d, e]
                        for k in range(BLOCK):
                            u[e, k] += c * token[d, n - 1, k]
                for k in range(BLOCK):
                    top[k] = -np.inf
                for m in range(n):
                    row = p[h, m]
                    for k in range(BLOCK):
                        row[k] = 0
                    for e in range(size):
                        for k in range(BLOCK):
                            row[k] += u[e, k] * token[e, m, k]
                    for k in range(BLOCK):
                        top[k] = max(top[k], row[k])
                for k in range(BLOCK):
                    mass[k] = 0
                for m in range(n):
                    row = p[h, m]
                    for k in range(BLOCK):
                        q, exponent = _exponential(row[k] - top[k])
                        row[k] = q
                        bits[k] = (np.int32(exponent) + np.int32(127)) << np.int32(23)
                    for k in range(BLOCK):
                        row[k] *= power[k]
                        mass[k] += row[k]
                for k in range(BLOCK):
                    mass[k] = np.float32(1) / mass[k]
                for m in range(n):
                    for k in range(BLOCK):
                        p[h, m, k] *= mass[k]
                # context = Σ_m p_m token_m, prediction += scale · v·context
                for e in range(size):
                    row = context[h, e]
                    for k in range(BLOCK):
                        row[k] = 0
                    for m in range(n):
                        for k in range(BLOCK):
                            row[k] += p[h, m, k] * token[e, m, k]
                    for o in range(outputs):
                        c = v[h, o, e] * scale
                        for k in range(BLOCK):
                            residual[o, k] += c * row[k]
            for o in range(outputs):
                total = np.float32(0)
                for k in range(BLOCK):
                    residual[o, k] = (residual[o, k] - answer[o, k]) * answer[outputs, k]
                    total += residual[o, k] * residual[o, k]
                losses[part] += total
            for h in range(heads):
                # d context = scale Σ_o residual_o v_o;  d score_m = p_m (d context·token_m − slope)
                for k in range(BLOCK):
                    slope[k] = 0
                for e in range(size):
                    for k in range(BLOCK):
                        pull[e, k] = 0
                        du[e, k] = 0
                    for o in range(outputs):
                        c = v[h, o, e] * scale
                        total = np.float32(0)
                        for k in range(BLOCK):
                            pull[e, k] += c * residual[o, k]
                            total += residual[o, k] * context[h, e, k]
                        dvs[part, h, o, e] += total * scale
                    for k in range(BLOCK):
                        slope[k] += pull[e, k] * context[h, e, k]
                for m in range(n):
                    for k in range(BLOCK):
                        mass[k] = -slope[k]
                    for e in range(size):
                        for k in range(BLOCK):
                            mass[k] += pull[e, k] * token[e, m, k]
                    for k in range(BLOCK):
                        mass[k] *= p[h, m, k]
                    for e in range(size):
                        for k in range(BLOCK):
                            du[e, k] += mass[k] * token[e, m, k]
                for d in range(dim):
                    for e in range(size):
                        total = np.float32(0)
                        for k in range(BLOCK):
                            total += token[d, n - 1, k] * du[e, k]
                        dws[part, h, d, e] += total
