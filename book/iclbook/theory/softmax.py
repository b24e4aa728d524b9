"""Softmax attention while its scores are small: linear attention on centred tokens, with a drag.

For small scores s, softmax(s)_m = (1/T)(1 + s_m − s̄) + O(s²). T = N + 1 is the number of tokens: N labelled
examples and the query, whose label is 0. Head h then contributes v_h (ȳ + x_qᵀ U_h Cov(x, y)) to the
prediction, where mean and covariance are those of the T tokens. Over infinitely many sequences the loss
begins as

    L ≈ tr Λ + σ² − 2 Σ_h v_h ⟨A, U_h⟩ + κ (Σ_h v_h)²,   A = (N/T)² Λ²,   κ = E[ȳ²] = N (tr Λ + σ²)/T².

The drive A is that of linear attention with divisor ``tokens``, (N/T) Λ², times another N/T, because the
tokens are centred. The drag κ does not exist in linear attention: what all heads together say about the mean
label ȳ is an error, and so training drives the sum of their value weights to zero.

U_h is W_h, the matrix of the scores, without its column for labels. That column stays zero, and so do the
value's entries for inputs, because all averages that are odd in the task vector w vanish.
"""

import numpy as np

from iclcore.checks import fraction
from iclcore.engines.base import flat, parted
from iclcore.models import Weights, scoring, scoring_gradients
from iclcore.task import Matrix, RegressionTask
from iclcore.theory.linear import Times


def small_scores(task: RegressionTask) -> tuple[Matrix, float]:
    """Return the drive A, shape (D, D), and the drag κ of a task, for infinitely many sequences."""
    n, lam = task.context, task.covariance
    return (n / (n + 1)) ** 2 * lam @ lam, n * task.label_power / (n + 1) ** 2


def merged_growth(drive: Matrix, drag: float, heads: int) -> tuple[float, float]:
    """Return the rates at which small merged weights grow: differences between heads, and their sum.

    Differences, with Σ_h v_h = 0, grow as in linear attention, at the rate 2|A|. The sums over heads, v of
    values and u of scores along A, obey v̇ = 2|A|u − 2κHv and u̇ = 2|A|v for H heads. They grow at the larger
    root √(4|A|² + κ²H²) − κH, which is less: the drag holds the sum back, and heads grow in opposite pairs.
    """
    driving, damping = 2 * float(np.linalg.norm(drive)), drag * heads
    return driving, float(np.hypot(driving, damping) - damping)


def sum_course(drive: Matrix, drag: float, heads: int, time: Times) -> Times:
    """Return Σ_h v_h(t) over its start, for small merged weights that begin with U_h = 0. Shape (t,).

    It is a sum of exponentials with the rates −κH ± √(4|A|² + κ²H²), and falls at first at the rate 2κH, by
    the drag alone.
    """
    driving, damping = 2 * float(np.linalg.norm(drive)), drag * heads
    rate = np.hypot(driving, damping)
    return np.exp(-damping * time) * (np.cosh(rate * time) - damping / rate * np.sinh(rate * time))


def early_loss(drive: Matrix, drag: float, power: float, weights: Weights, time: Times) -> Times:
    """Return the loss along the gradient flow of its leading terms, shape (t,).

    ``weights`` are the initial weights of a merged or a separate model, and ``power`` is the loss at zero
    weights. The approximation is good while the loss has hardly moved. It becomes negative later, and from
    there on the result is nan.
    """
    course = _flow(drive, drag, power, weights, float(time[-1]), lost=1.0)
    before = time <= course.t[-1]
    losses = np.full(len(time), np.nan)
    losses[before] = [course.loss(t) for t in time[before]]
    return losses


def early_escape(drive: Matrix, drag: float, power: float, weights: Weights, lost: float) -> float:
    """Return when the fraction ``lost`` of the loss is gone, along the flow of ``early_loss``.

    The result is infinity if that takes more than a million units of time.
    """
    course = _flow(drive, drag, power, weights, 1e6, fraction("lost", lost))
    return float(course.t[-1]) if course.status == 1 else float("inf")


def _flow(drive, drag, power, weights, until, lost):
    """Solve v̇_h = 2⟨A, U_h⟩ − 2κ Σ_h v_h and U̇_h = 2A v_h until the fraction ``lost`` of the loss is gone.

    Separate models move through the factors of U_h = Q_hᵀK_h. The result is scipy's, with a method ``loss``
    of time.
    """
    from scipy.integrate import solve_ivp

    matrices = [array for name, array in sorted(weights.items()) if name != "value"]
    dim = len(drive)
    first = [weights["value"][:, -1, -1], *(matrix[..., :dim] for matrix in matrices)]
    if "key_query" in weights:
        first[1] = first[1][:, :dim]

    def velocity(_, state):
        v, *parts = parted(state, first)
        slopes = [2 * np.einsum("da,hda->h", drive, scoring((*parts, v))) - 2 * drag * v.sum()]
        slopes += scoring_gradients((*parts, v), 2 * v[:, None, None] * drive)
        return flat(slopes)

    def loss(state):
        v, *parts = parted(state, first)
        driven = np.einsum("h,da,hda->", v, drive, scoring((*parts, v)))
        return power - 2 * driven + drag * v.sum() ** 2

    def escape(_, state):
        return loss(state) - (1 - lost) * power

    escape.terminal = True
    course = solve_ivp(
        velocity, (0, until), flat(first), rtol=1e-9, atol=1e-14, events=escape, dense_output=True
    )
    course.loss = lambda t: loss(course.sol(t))
    return course
