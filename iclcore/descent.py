"""Full-batch gradient descent on moments, compiled: a step costs one symmetric product gram·c.

Inside, the two indices (d, a) of W_h[d, a] and of c[d, a, b] are one axis, the last and the
contiguous one, so that every inner loop is a vector loop. No loop may assume finite numbers
(a diverged run must be seen), hence the list of permitted float transformations.
"""

import numpy as np
from numba import njit

from iclcore.models import Factors, Model, Weights
from iclcore.moments import Features, Moments, coefficients

REASSOCIATE = {"reassoc", "contract", "arcp", "nsz"}


class MomentDescent:
    """Gradient descent of one linear model from ``weights``, in place, recorded at every step."""

    engine = "moments"

    def __init__(
        self, model: Model, weights: Weights, train: Moments, tests: list[Moments], lr: float
    ):
        self.weights, self.lr, self.kind = weights, lr, train.features
        self.views = model.factors(weights, self.kind.dim)
        self.factors = [np.ascontiguousarray(view, dtype=float) for view in self.views]
        every = [train, *tests]
        self.gram = np.stack([m.gram for m in every])
        self.cross = np.stack([m.cross for m in every])
        self.power = np.array([m.power for m in every])
        self.pair = _pair_rows(self.kind)
        self.advance(0)  # compiles, or loads what was compiled

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``steps`` steps: losses (steps,), test errors (steps, tests) and values (steps, H),
        each from before its step. Shorter where the loss is no longer finite."""
        errors = np.empty((steps, len(self.power)))
        values = np.empty((steps, self.factors[-1].shape[0]))
        if len(self.factors) == 2:
            w, v = self.factors
            key = query = np.empty((len(w), 0, 0))
            w = w.reshape(len(w), -1)
        else:
            key, query, v = self.factors
            w = np.empty((len(v), query.shape[2] * key.shape[2]))
        done = _descend(
            w, key, query, v, self.gram, self.cross, self.power, self.pair, self.lr, errors, values
        )  # fmt: skip
        for view, factor in zip(self.views, self.factors, strict=True):
            view[...] = factor
        return errors[:done, 0], errors[:done, 1:], values[:done]


def gradient(factors: Factors, moments: Moments) -> Factors:
    """∂L/∂factors, written plainly: what the compiled step must agree with."""
    kind = moments.features
    c = coefficients(factors, kind)
    pull = 2 / len(c) * (c @ moments.gram - moments.cross)
    pull = pull.reshape(len(c), kind.dim, kind.pairs)[:, :, kind.pair]  # (O, D, A, B)
    *scoring, v = factors
    if len(scoring) == 1:
        (w,) = scoring
        return np.einsum("odab,hob->hda", pull, v), np.einsum("odab,hda->hob", pull, w)
    key, query = scoring
    w, dw = np.einsum("hrd,hra->hda", query, key), np.einsum("odab,hob->hda", pull, v)
    return (
        np.einsum("hrd,hda->hra", query, dw),
        np.einsum("hra,hda->hrd", key, dw),
        np.einsum("odab,hda->hob", pull, w),
    )


def _pair_rows(kind: Features) -> np.ndarray:
    """Where c[b, (d, a)] stands among the features: (B, D·A)."""
    a, b = kind.pair.shape
    place = np.arange(kind.dim)[:, None, None] * kind.pairs + kind.pair  # (D, A, B)
    return np.ascontiguousarray(place.reshape(kind.dim * a, b).T)


@njit(cache=True, fastmath=REASSOCIATE)
def symmetric_product(a, x, y):
    """y = a x for symmetric a, from its lower triangle alone, four rows at a time.

    The product is bound by reading a: half of it, read once, takes half the time of BLAS gemv.
    """
    n = len(x)
    whole = n - n % 4
    y[:] = 0.0
    for i in range(0, whole, 4):
        a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(i):
            b0, b1, b2, b3, xj = a0[j], a1[j], a2[j], a3[j], x[j]
            s0 += b0 * xj
            s1 += b1 * xj
            s2 += b2 * xj
            s3 += b3 * xj
            y[j] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        y[i] = s0 + a0[i] * x0 + a1[i] * x1 + a2[i] * x2 + a3[i] * x3
        y[i + 1] = s1 + a1[i] * x0 + a1[i + 1] * x1 + a2[i + 1] * x2 + a3[i + 1] * x3
        y[i + 2] = s2 + a2[i] * x0 + a2[i + 1] * x1 + a2[i + 2] * x2 + a3[i + 2] * x3
        y[i + 3] = s3 + a3[i] * x0 + a3[i + 1] * x1 + a3[i + 2] * x2 + a3[i + 3] * x3
    for i in range(whole, n):
        s, xi = 0.0, x[i]
        for j in range(i):
            s += a[i, j] * x[j]
            y[j] += a[i, j] * xi
        y[i] = s + a[i, i] * xi


@njit(cache=True, fastmath=REASSOCIATE)
def _collect(w, v, o, pair, c):
    """c of output o:  c[pair] += Σ_h v_h[b] w_h[(d, a)]."""
    heads, rows = w.shape
    line = np.empty(rows)
    c[:] = 0.0
    for b in range(v.shape[2]):
        line[:] = 0.0
        for h in range(heads):
            scale = v[h, o, b]
            for k in range(rows):
                line[k] += scale * w[h, k]
        for k in range(rows):
            c[pair[b, k]] += line[k]


@njit(cache=True, fastmath=REASSOCIATE)
def _spread(w, v, o, pair, pull, dw, dv):
    """The gradient in c, carried to w (added up over outputs) and to v."""
    heads, rows = w.shape
    line = np.empty(rows)
    for b in range(v.shape[2]):
        for k in range(rows):
            line[k] = pull[pair[b, k]]
        for h in range(heads):
            scale, total = v[h, o, b], 0.0
            for k in range(rows):
                dw[h, k] += scale * line[k]
                total += w[h, k] * line[k]
            dv[h, o, b] = total


@njit(cache=True, fastmath=REASSOCIATE)
def _compose(key, query, w):
    """w_h = Q_hᵀ K_h, rows (d, a)."""
    heads, rank, size = key.shape
    w[:] = 0.0
    for h in range(heads):
        for r in range(rank):
            for d in range(query.shape[2]):
                scale = query[h, r, d]
                for a in range(size):
                    w[h, d * size + a] += scale * key[h, r, a]


@njit(cache=True, fastmath=REASSOCIATE)
def _step_key_query(key, query, dw, lr):
    """K_h −= lr Q_h dW_h and Q_h −= lr K_h dW_hᵀ, both from the weights before the step."""
    heads, rank, size = key.shape
    pull = np.empty(size)
    for h in range(heads):
        for r in range(rank):
            pull[:] = 0.0
            for d in range(query.shape[2]):
                scale, total = query[h, r, d], 0.0
                for a in range(size):
                    pull[a] += scale * dw[h, d * size + a]
                    total += key[h, r, a] * dw[h, d * size + a]
                query[h, r, d] -= lr * total
            for a in range(size):
                key[h, r, a] -= lr * pull[a]


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def _descend(w, key, query, v, gram, cross, power, pair, lr, errors, values):
    """As many steps as ``errors`` has rows; returns how many were recorded.

    Row 0 of gram, cross and power is the training set, the others only measure. A step whose
    training loss is not finite is the last one recorded.
    """
    outputs, size = cross.shape[1], cross.shape[2]
    c, product = np.empty((outputs, size)), np.empty(size)
    pull, dw, dv = np.empty(size), np.empty_like(w), np.empty_like(v)
    separate = key.shape[2] > 0
    for step in range(len(errors)):
        if separate:
            _compose(key, query, w)
        values[step] = v[:, -1, -1]
        dw[:] = 0.0
        for o in range(outputs):
            _collect(w, v, o, pair, c[o])
        for m in range(len(power)):
            total = 0.0
            for o in range(outputs):
                symmetric_product(gram[m], c[o], product)
                for f in range(size):
                    total += c[o, f] * (product[f] - 2 * cross[m, o, f])
                if m == 0:
                    for f in range(size):
                        pull[f] = 2 / outputs * (product[f] - cross[0, o, f])
                    _spread(w, v, o, pair, pull, dw, dv)
            errors[step, m] = power[m] + total / outputs
        if not np.isfinite(errors[step, 0]):
            return step + 1
        for h in range(len(v)):
            for o in range(outputs):
                for b in range(v.shape[2]):
                    v[h, o, b] -= lr * dv[h, o, b]
        if separate:
            _step_key_query(key, query, dw, lr)
        else:
            for h in range(len(w)):
                for k in range(w.shape[1]):
                    w[h, k] -= lr * dw[h, k]
    return len(errors)
