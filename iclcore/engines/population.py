"""The population engine: gradient descent on infinitely many sequences. A step costs O(H R D²), not O(D⁶).

Suppose that the weights are in the paper's subspace, that there is one output, and that every sequence has
its own task vector w. Then the prediction is ŷ = βᵀ M x_q, and the loss depends on the model through M alone.
In the eigenbasis of Λ, with a_d and b_d from ``moments.rates`` and c_i = E[β_i²] = b_i/λ_i,

    L(M) = E y_q² − 2 Σ_d a_d M_dd + Σ_ij c_i λ_j M_ij²,    ∂L/∂M_ij = 2 (c_i λ_j M_ij − a_i δ_ij).

The gradient in the weights outside the subspace is zero, so the weights stay in it: each such gradient is an
average of terms with an odd number of factors w, which is zero because w and −w are equally likely.
"""

import numpy as np

from iclcore.checks import BadValue
from iclcore.engines.base import Engine
from iclcore.loops import REASSOCIATE, njit
from iclcore.models import Weights
from iclcore.moments import rates
from iclcore.task import RegressionTask


class PopulationEngine(Engine):
    """Train a linear model on a task by plain gradient descent. This engine has no test sets."""

    def prepare(self, train: RegressionTask, tests: list) -> None:
        *parts, v = self.views
        if np.any(parts[0][..., train.dim :]) or np.any(v[..., :-1]):
            zeros = "the label's column of the keys and in the last value row except its last entry"
            raise BadValue("start", f"takes zeros in {zeros} with engine population")
        a, b = rates(train, self.model.divisor)
        self.averages = a, b / train.eigenvalues, train.eigenvalues, train.label_power
        self.floor = train.label_power - float(np.sum(a**2 / b))  # the loss at M_dd = a_d / b_d
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
        """The current weights, rotated from the eigenbasis back to the axes of the inputs."""
        if self.moved:  # before the first step, the two rotations would only add round-off
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
    """Take ``len(losses)`` steps, and return the number of steps recorded.

    ``w`` (H, D²) holds W_h[d, i], for entry d of the query and entry i of the key, at place d D + i. Then
    Mᵀ = Σ_h v_h W_h. Most of the time goes into reading the weights, twice per step.
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
    """Take ``len(losses)`` steps, and return the number of steps recorded.

    ``k`` and ``q`` (H R, D) have R rows for each head, and M = Σ_n u_n k_n q_nᵀ, where u_n is the value
    weight of the head that row n belongs to. If there are more than D rows, we form M. Otherwise we need only
    the products k_n c k_m and q_n λ q_m of the rows, which are fewer than the entries of M.
    """
    rows, dim = k.shape
    rank, few = rows // len(v), rows <= dim
    # kc is k c (or k u) and ql is q λ; dk and dq are the gradients of k and q without the terms in a
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
