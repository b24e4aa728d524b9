"""Gradient descent on infinitely many sequences without their moments: a step costs O(H R D²), not D⁶.

In the paper's subspace, with one output and a task vector for every sequence, the prediction is
ŷ = βᵀ M x_q, and the loss needs nothing of a model but M. In the eigenbasis of Λ it is, with a_d and b_d
of ``theory.linear`` and c_i = E[β_i²] = b_i/λ_i,

    L(M) = E y_q² − 2 Σ_d a_d M_dd + Σ_ij c_i λ_j M_ij²,    ∂L/∂M_ij = 2 (c_i λ_j M_ij − a_i δ_ij).

What would leave the subspace has no gradient there: all odd averages over task vectors vanish.
"""

import numpy as np
from numba import njit

from iclcore.compiled import REASSOCIATE
from iclcore.models import Factors, Model, Weights, predictor
from iclcore.task import RegressionTask
from iclcore.theory import linear


class PopulationDescent:
    """Gradient descent of one linear model from ``weights``, in place, recorded at every step."""

    engine = "population"

    def __init__(
        self, model: Model, weights: Weights, train: RegressionTask, tests: list, lr: float
    ):
        self.weights, self.lr, self.basis = weights, lr, train.eigenvectors
        self.views = model.factors(weights, train.dim)
        check_subspace(self.views, train.dim)
        self.floor = float(linear.plateau_losses(train)[-1])  # other features gain nothing there
        self.power, *self.averages = averages(train, model)
        *parts, v = self.views
        turned = [part[..., : train.dim] @ self.basis for part in parts]
        if len(parts) == 1:
            turned[0] = self.basis.T @ turned[0]
        self.parts, self.v = [np.ascontiguousarray(part) for part in turned], v[:, 0, -1].copy()
        self.advance(0)  # compiles, or loads what was compiled

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``steps`` steps: losses (steps,), no test errors (steps, 0) and values (steps, H), each from
        before its step. Shorter where the loss is no longer finite."""
        dim, v = len(self.basis), self.v
        losses, values = np.empty(steps), np.empty((steps, len(v)))
        given = (*self.averages, self.power, self.lr, losses, values)
        if len(self.parts) == 1:
            done = descend_merged(self.parts[0].reshape(len(v), -1), v, *given)
            turned = [self.basis @ self.parts[0] @ self.basis.T]
        else:
            key, query = (part.reshape(-1, dim) for part in self.parts)
            loop = descend_few if len(key) <= dim else descend_many
            done = loop(key, query, v, *given)
            turned = [part @ self.basis.T for part in self.parts]
        if done:  # turned there and back they would differ by rounding
            for view, part in zip(self.views, turned, strict=False):
                view[..., :dim] = part
            self.views[-1][:, 0, -1] = v
        return losses[:done], np.empty((done, 0)), values[:done]


def averages(
    task: RegressionTask, model: Model
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """E y_q² and, along the eigenvectors, a, c and λ."""
    a, b = linear.rates(task, model.divisor)
    return float(linear.plateau_losses(task)[0]), a, b / task.eigenvalues, task.eigenvalues


def check_subspace(factors: Factors, dim: int) -> None:
    """Key's label column and value's input columns are zero, or M is not all that counts."""
    *parts, v = factors
    if np.any(parts[0][..., dim:]) or np.any(v[..., :-1]):
        raise ValueError(
            "engine population takes a start in the paper's subspace: zeros in the keys' label column "
            "and in the last value row but for its last entry; moments takes others"
        )


def gradient(factors: Factors, task: RegressionTask, model: Model) -> Factors:
    """∂L/∂factors, written plainly, in the axes of the inputs: what the compiled steps must agree with."""
    _, a, c, lam = averages(task, model)
    basis = task.eigenvectors
    *parts, v = factors
    m = basis.T @ predictor(factors) @ basis
    pull = np.zeros((task.dim, parts[0].shape[-1]))  # (D of the query, the key's entries)
    pull[:, : task.dim] = basis @ (2 * (m * np.outer(c, lam) - np.diag(a))).T @ basis.T
    u = v[:, 0, -1, None, None]
    if len(parts) == 1:
        slopes = [u * pull]
        dv = np.einsum("hda,da->h", parts[0], pull)
    else:
        key, query = parts
        slopes = [u * (query @ pull), u * (key @ pull.T)]
        dv = np.einsum("hra,hrd,da->h", key, query, pull)
    dlast = np.zeros(v.shape)
    dlast[:, 0, -1] = dv
    return (*slopes, dlast)


# -- compiled, in the eigenbasis; rows of all heads are one axis, R of them a head ------------------


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
def descend_many(k, q, v, a, c, lam, power, lr, losses, values):
    """M = Σ_n u_n k_n q_nᵀ is formed: three products of R H rows with D²."""
    rows, dim = k.shape
    rank = rows // len(v)
    uk, m = np.empty_like(k), np.empty((dim, dim))
    dk, dq = np.empty_like(k), np.empty_like(k)
    for step in range(len(losses)):
        values[step] = v
        for n in range(rows):
            for d in range(dim):
                uk[n, d] = v[n // rank] * k[n, d]
        np.dot(uk.T, q, m)
        total = power
        for i in range(dim):
            total -= 2 * a[i] * m[i, i]
            for j in range(dim):
                pull = c[i] * lam[j] * m[i, j]
                total += pull * m[i, j]
                m[i, j] = 2 * pull
            m[i, i] -= 2 * a[i]
        losses[step] = total
        if not np.isfinite(total):
            return step + 1
        np.dot(k, m, dq)
        np.dot(q, m.T, dk)
        take(k, q, v, dk, dq, lr)
    return len(losses)


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def descend_few(k, q, v, a, c, lam, power, lr, losses, values):
    """With fewer rows than D, M is never formed: k_n c k_m and q_n λ q_m say all, four products of R H
    rows with (R H) D."""
    rows, dim = k.shape
    rank = rows // len(v)
    kc, ql, dk, dq = np.empty_like(k), np.empty_like(k), np.empty_like(k), np.empty_like(k)
    keys, queries = np.empty((rows, rows)), np.empty((rows, rows))
    for step in range(len(losses)):
        values[step] = v
        for n in range(rows):
            for d in range(dim):
                kc[n, d] = c[d] * k[n, d]
                ql[n, d] = lam[d] * q[n, d]
        np.dot(kc, k.T, keys)
        np.dot(ql, q.T, queries)
        total = power
        for n in range(rows):
            both, made = 0.0, 0.0
            for o in range(rows):
                u = v[o // rank]
                both += u * keys[n, o] * queries[n, o]
                keys[n, o] *= u
                queries[n, o] *= u
            for d in range(dim):
                made += a[d] * k[n, d] * q[n, d]
            total += v[n // rank] * (both - 2 * made)
        losses[step] = total
        if not np.isfinite(total):
            return step + 1
        np.dot(keys, ql, dq)
        np.dot(queries, kc, dk)
        for n in range(rows):
            for d in range(dim):
                dq[n, d] = 2 * (dq[n, d] - a[d] * k[n, d])
                dk[n, d] = 2 * (dk[n, d] - a[d] * q[n, d])
        take(k, q, v, dk, dq, lr)
    return len(losses)


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def take(k, q, v, dk, dq, lr):
    """The step: dq_n and dk_n are k_n ∂L/∂M and q_n ∂L/∂Mᵀ, all from before it."""
    rows, dim = k.shape
    rank = rows // len(v)
    for h in range(len(v)):
        slope, u = 0.0, v[h]
        for n in range(h * rank, h * rank + rank):
            for d in range(dim):
                slope += dq[n, d] * q[n, d]
                q[n, d] -= lr * u * dq[n, d]
                k[n, d] -= lr * u * dk[n, d]
        v[h] -= lr * slope
