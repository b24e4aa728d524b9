"""In-weight against in-context learning near zero weights, merged key and query, one output.

To first order the loss is power − 2 Σ_h ⟨T, W_h ⊗ v_h⟩ with T[(d, a), b] = E[y_q x_q[d] S[a, b]], so
Ẇ_h = 2 T v_h and v̇_h = 2 Tᵀ W_h: small weights grow as exp(2σt) along T's singular vectors, fastest along
the first pair. T of a mixture is the mean of its kinds' T, weighted by their shares.
"""

import numpy as np
from jaxtyping import Float

from iclcore.models import Factors
from iclcore.moments import Moments
from iclcore.task import Divisor, RegressionTask, divide_by


def pull(moments: Moments) -> Float[np.ndarray, "DE E"]:
    """T: the cross moment of one output as a matrix between W (rows) and v (columns)."""
    kind = moments.features
    dense = moments.cross.reshape(kind.dim, kind.pairs)[:, kind.pair]
    return dense.reshape(-1, dense.shape[-1])


def first_pair(moments: Moments) -> Float[np.ndarray, "DE E"]:
    """The outer product of T's first singular vectors: what grows first."""
    left, _, right = np.linalg.svd(pull(moments))
    return np.outer(left[:, 0], right[0])


def gain(test: Moments, direction: Float[np.ndarray, "DE E"]) -> float:
    """By how much a test error falls, per unit of a small step of W ⊗ v along ``direction``, halved."""
    return float(np.sum(pull(test) * direction))


def lone_rates(task: RegressionTask, divisor: Divisor = "one") -> tuple[float, float]:
    """σ of in-context and of labelled in-weight sequences, each alone: N|Λ²| and N|Λw| λ_max(Σ).

    Σ is the covariance of a token (x, w·x). The second leaves out the query's own part of S, a
    fraction of order 1/N. For white input and |w|² = D their ratio is 1 + D.
    """
    cov, w = task.covariance, task.shared[:, 0]
    n = task.context / divide_by(divisor, task.context + 1)
    tie = np.vstack([np.eye(task.dim), w])
    spread = np.linalg.eigvalsh(tie @ cov @ tie.T)[-1]
    return float(n * np.linalg.norm(cov @ cov)), float(n * np.linalg.norm(cov @ w) * spread)


def leaving_step(start: Factors, moments: Moments, lr: float, part: float = 0.01) -> float:
    """When gradient descent from small (W, v) has lost ``part`` of its loss, by the first pair alone.

    Along the pair p_h = (l·W_h + r·v_h)/2 is multiplied by 1 + 2σ·lr a step, and the loss has fallen by
    2σ Σ_h p_h².
    """
    left, sigma, right = np.linalg.svd(pull(moments))
    w, v = start
    along = (w.reshape(len(w), -1) @ left[:, 0] + v[:, 0] @ right[0]) / 2
    wanted = part * moments.power / (2 * sigma[0])
    return float(np.log(wanted / np.sum(along**2)) / (2 * np.log1p(2 * sigma[0] * lr)))
