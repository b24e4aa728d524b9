"""The population engine: gradient descent on infinitely many sequences, in O(H R D²) a step instead of D⁶.

In the paper's subspace, with one output and a task vector of its own for every sequence, the prediction is
ŷ = βᵀ M x_q, and the loss depends on the model through M alone. In the eigenbasis of Λ, with a_d and b_d of
``moments.rates`` and c_i = E[β_i²] = b_i/λ_i,

    L(M) = E y_q² − 2 Σ_d a_d M_dd + Σ_ij c_i λ_j M_ij²,    ∂L/∂M_ij = 2 (c_i λ_j M_ij − a_i δ_ij).

Weights that would leave the subspace have no gradient there. It would be an average with an odd number of
factors w, and such averages are zero, because w and −w are equally likely.
"""

import numpy as np
from numba import njit

from iclcore.checks import BadValue
from iclcore.engines.base import Engine
from iclcore.loops import REASSOCIATE
from iclcore.models import Weights
from iclcore.moments import rates
from iclcore.task import RegressionTask


class PopulationEngine(Engine):
    """Train a linear model on a task by plain gradient descent. There are no tests."""

    def prepare(self, train: RegressionTask, tests: list) -> None:
        *parts, v = self.views
        if np.any(parts[0][..., train.dim :]) or np.any(v[..., :-1]):
            zeros = "the label's column of the keys, and the last value row but for its last entry"
            raise BadValue("start", f"takes zeros in {zeros} with engine population")
        a, b = rates(train, self.model.divisor)
        self.averages = a, b / train.eigenvalues, train.eigenvalues, train.label_power
        self.floor = train.label_power - float(np.sum(a**2 / b))  # at M_dd = a_d / b_d
        self.basis, self.moved = train.eigenvectors, False
        parts = [part[..., : train.dim] @ self.basis for part in parts]
        if len(parts) == 1:
            parts[0] = self.basis.T @ parts[0]
        self.parts, self.v = [np.ascontiguousarray(part) for part in parts], v[:, 0, -1].copy()

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dim, heads = len(self.basis), len(self.v)
        losses, values = np.empty(steps), np.empty((steps, heads))
        rest = self.v, *self.averages, self.lr, losses, values
        if len(self.parts) == 1:
            done = train_merged(self.parts[0].reshape(heads, dim * dim), *rest)
        else:
            done = train_separate(*(part.reshape(-1, dim) for part in self.parts), *rest)
        self.moved |= done > 0
        return losses[:done], np.empty((done, 0)), values[:done]

    @property
    def weights(self) -> Weights:
        """The weights in the axes of the inputs, to which they are turned back when they are asked for."""
        if self.moved:  # before the first step, turning there and back would only round the start
            parts = [part @ self.basis.T for part in self.parts]
            if len(parts) == 1:
                parts[0] = self.basis @ parts[0]
            for view, part in zip(self.views, parts, strict=False):
                view[..., : len(self.basis)] = part
            self.views[-1][:, 0, -1] = self.v
        return self.given


# -- compiled, in the eigenbasis -------------------------------------------------------------------


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def train_merged(w, v, a, c, lam, power, lr, losses, values):
    """Take as many steps as there are ``losses``, and return the number of steps recorded.

    w (H, D²) has the entry W_h[d, i] of query and key at d D + i, and Mᵀ = Σ_h v_h W_h. What takes time is
    reading the weights, twice a step.
    """
    heads, dim = len(v), len(a)
    m = np.empty(dim * dim)  # first Mᵀ, then its gradient
    for step in range(len(losses)):
        values[step] = v
        m[:] = 0.0
        for h in range(heads):
            for p in range(len(m)):
                m[p] += v[h] * w[h, p]
        loss = power
        for d in range(dim):
            loss -= 2 * a[d] * m[d * dim + d]
            for i in range(dim):
                slope = lam[d] * c[i] * m[d * dim + i]
                loss += slope * m[d * dim + i]
                m[d * dim + i] = 2 * slope
            m[d * dim + d] -= 2 * a[d]
        losses[step] = loss
        if not np.isfinite(loss):
            return step + 1
        for h in range(heads):
            dv, rate = 0.0, lr * v[h]
            for p in range(len(m)):
                dv += w[h, p] * m[p]
                w[h, p] -= rate * m[p]
            v[h] -= lr * dv
    return len(losses)


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def train_separate(k, q, v, a, c, lam, power, lr, losses, values):
    """Take as many steps as there are ``losses``, and return the number of steps recorded.

    k and q (H R, D) have R rows of each head, and M = Σ_n u_n k_n q_nᵀ, where u_n is the value of the head of
    row n. M is formed if there are more rows than D. If not, the products k_n c k_m and q_n λ q_m
    suffice, which are fewer.
    """
    rows, dim = k.shape
    rank, few = rows // len(v), rows <= dim
    # first k c (or k u) and q λ, later the gradients of k and q without the part of a
    kc, ql, dk, dq = np.empty_like(k), np.empty_like(k), np.empty_like(k), np.empty_like(k)
    size = rows if few else dim
    m, other = np.empty((size, size)), np.empty((size, size))
    for step in range(len(losses)):
        values[step] = v
        loss = power
        for n in range(rows):
            u = v[n // rank]
            for d in range(dim):
                kc[n, d] = k[n, d] * (c[d] if few else u)
                ql[n, d] = lam[d] * q[n, d]
                loss -= 2 * u * a[d] * k[n, d] * q[n, d]
        if few:
            np.dot(kc, k.T, m)
            np.dot(ql, q.T, other)
            for n in range(rows):
                for o in range(rows):
                    u = v[o // rank]
                    loss += v[n // rank] * u * m[n, o] * other[n, o]
                    m[n, o] *= u
                    other[n, o] *= u
        else:
            np.dot(kc.T, q, m)
            for i in range(dim):
                for j in range(dim):
                    slope = c[i] * lam[j] * m[i, j]
                    loss += slope * m[i, j]
                    m[i, j] = slope
        losses[step] = loss
        if not np.isfinite(loss):
            return step + 1
        if few:
            np.dot(m, ql, dq)
            np.dot(other, kc, dk)
        else:
            np.dot(k, m, dq)
            np.dot(q, m.T, dk)
        for h in range(len(v)):
            dv, u = 0.0, v[h]
            for n in range(h * rank, h * rank + rank):
                for d in range(dim):
                    slope = 2 * (dq[n, d] - a[d] * k[n, d])
                    dv += slope * q[n, d]
                    k[n, d] -= 2 * lr * u * (dk[n, d] - a[d] * q[n, d])
                    q[n, d] -= lr * u * slope
            v[h] -= lr * dv
    return len(losses)
