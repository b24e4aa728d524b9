"""Gradient descent on infinitely many sequences without their moments: a step costs O(H R D²), not D⁶.

In the paper's subspace, with one output and a task vector for every sequence, the prediction is
ŷ = βᵀ M x_q, and the loss needs nothing of a model but M. In the eigenbasis of Λ it is, with a_d and b_d
of ``theory.linear`` and c_i = E[β_i²] = b_i/λ_i,

    L(M) = E y_q² − 2 Σ_d a_d M_dd + Σ_ij c_i λ_j M_ij²,    ∂L/∂M_ij = 2 (c_i λ_j M_ij − a_i δ_ij).

What would leave the subspace has no gradient there: all odd averages over task vectors vanish.
"""

import numpy as np
from numba import njit

from iclcore.engines.base import Engine
from iclcore.loops import REASSOCIATE
from iclcore.models import Weights
from iclcore.task import RegressionTask
from iclcore.theory.linear import plateau_losses, rates


class PopulationEngine(Engine):
    """Plain gradient descent of a linear model on a task: there are no tests."""

    engine = "population"

    def prepare(self, train: RegressionTask, tests: list) -> None:
        self.basis, self.moved = train.eigenvectors, False
        if np.any(self.views[0][..., train.dim :]) or np.any(self.views[-1][..., :-1]):
            raise ValueError(
                "engine population takes a start in the paper's subspace: zeros in the keys' label "
                "column and in the last value row but for its last entry; moments takes others"
            )
        levels, lam = plateau_losses(train), train.eigenvalues
        a, b = rates(train, self.model.divisor)
        self.averages = a, b / lam, lam, float(levels[0])
        self.floor = float(levels[-1])  # other features gain nothing there
        *parts, v = self.views
        turned = [part[..., : train.dim] @ self.basis for part in parts]
        if len(parts) == 1:
            turned[0] = self.basis.T @ turned[0]
        self.parts, self.v = [np.ascontiguousarray(part) for part in turned], v[:, 0, -1].copy()
        self.advance(0)  # compiles, or loads what was compiled

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dim, v = len(self.basis), self.v
        losses, values = np.empty(steps), np.empty((steps, len(v)))
        given = (*self.averages, self.lr, losses, values)
        if len(self.parts) == 1:
            done = descend_merged(self.parts[0].reshape(len(v), -1), v, *given)
        else:
            key, query = (part.reshape(-1, dim) for part in self.parts)
            done = descend_separate(key, query, v, *given)
        self.moved |= done > 0
        return losses[:done], np.empty((done, 0)), values[:done]

    @property
    def weights(self) -> Weights:
        """In the axes of the inputs: turned back when they are looked at."""
        if self.moved:  # by rounding alone they would differ from the start
            turned = [part @ self.basis.T for part in self.parts]
            if len(turned) == 1:
                turned[0] = self.basis @ turned[0]
            for view, part in zip(self.views, turned, strict=False):
                view[..., : len(self.basis)] = part
            self.views[-1][:, 0, -1] = self.v
        return self.given


# -- compiled, in the eigenbasis; rows of all heads are one axis, R of them a head ----------------


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def descend_merged(w, v, a, c, lam, power, lr, losses, values):
    """W_h as one row (d, i) of query and key: Mᵀ = Σ_h v_h W_h. Bound by reading the weights, twice."""
    heads, dim = len(v), len(a)
    m = np.empty(dim * dim)
    for step in range(len(losses)):
        values[step] = v
        m[:] = 0.0
        for h in range(heads):
            scale = v[h]
            for p in range(len(m)):
                m[p] += scale * w[h, p]
        total = power
        for d in range(dim):
            total -= 2 * a[d] * m[d * dim + d]
            for i in range(dim):
                pull = lam[d] * c[i] * m[d * dim + i]
                total += pull * m[d * dim + i]
                m[d * dim + i] = 2 * pull
            m[d * dim + d] -= 2 * a[d]
        losses[step] = total
        if not np.isfinite(total):
            return step + 1
        for h in range(heads):
            slope, size = 0.0, lr * v[h]
            for p in range(len(m)):
                slope += w[h, p] * m[p]
                w[h, p] -= size * m[p]
            v[h] -= lr * slope
    return len(losses)


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def descend_separate(k, q, v, a, c, lam, power, lr, losses, values):
    """M = Σ_n u_n k_n q_nᵀ, with u_n the value of row n's head, is formed if there are more rows than D;
    of fewer, k_n c k_m and q_n λ q_m say all: products of R H rows with D², or with (R H) D."""
    rows, dim = k.shape
    rank, few = rows // len(v), rows <= dim
    kc, ql, dk, dq = np.empty_like(k), np.empty_like(k), np.empty_like(k), np.empty_like(k)
    size = rows if few else dim
    m, other = np.empty((size, size)), np.empty((size, size))
    for step in range(len(losses)):
        values[step] = v
        total = power
        for n in range(rows):
            for d in range(dim):
                kc[n, d] = k[n, d] * (c[d] if few else v[n // rank])
                ql[n, d] = lam[d] * q[n, d]
                total -= 2 * v[n // rank] * a[d] * k[n, d] * q[n, d]
        if few:
            np.dot(kc, k.T, m)
            np.dot(ql, q.T, other)
            for n in range(rows):
                for o in range(rows):
                    u = v[o // rank]
                    total += v[n // rank] * u * m[n, o] * other[n, o]
                    m[n, o] *= u
                    other[n, o] *= u
        else:
            np.dot(kc.T, q, m)
            for i in range(dim):
                for j in range(dim):
                    pull = c[i] * lam[j] * m[i, j]
                    total += pull * m[i, j]
                    m[i, j] = pull
        losses[step] = total
        if not np.isfinite(total):
            return step + 1
        if few:
            np.dot(m, ql, dq)
            np.dot(other, kc, dk)
        else:
            np.dot(k, m, dq)
            np.dot(q, m.T, dk)
        for h in range(len(v)):
            slope, u = 0.0, v[h]
            for n in range(h * rank, h * rank + rank):
                for d in range(dim):
                    down = 2 * (dq[n, d] - a[d] * k[n, d])
                    slope += down * q[n, d]
                    k[n, d] -= 2 * lr * u * (dk[n, d] - a[d] * q[n, d])
                    q[n, d] -= lr * u * down
            v[h] -= lr * slope
    return len(losses)
