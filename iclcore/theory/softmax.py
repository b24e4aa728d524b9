"""Softmax attention while its scores are small: linear attention on centred tokens, with a drag.

For small scores softmax(s)_m = (1/T)(1 + s_m − s̄) + O(s²). With T tokens, the query among them with
y = 0, head h then contributes v_h (ȳ + x_qᵀ U_h Cov(x, y)), the mean and the covariance being those
of the T tokens. Over the population of sequences (D, N, Λ as ever) the loss begins as

    L ≈ tr Λ − 2 Σ_h v_h ⟨A, U_h⟩ + κ (Σ_h v_h)²,   A = (N/T)² Λ²,   κ = E[ȳ²] = N (tr Λ + σ²)/T².

A is that of linear attention with divisor ``tokens``, N/T Λ², times N/T: centring costs one token's
share. The drag κ has no counterpart there: what all heads say together about the mean label is
an error, and their value weights learn to sum to zero. U_h is W_h without its y column, which
stays zero, as the x entries of a value do: to them all odd averages over w vanish.
"""

import numpy as np

from iclcore.checks import share
from iclcore.engines.base import flat, parted
from iclcore.models import Weights, scoring, unscored
from iclcore.task import Matrix, RegressionTask
from iclcore.theory.linear import Times


def small_scores(task: RegressionTask) -> tuple[Matrix, float]:
    """A, which drives v_h and U_h, and κ, which drags Σ_h v_h to zero."""
    n, lam = task.context, task.covariance
    return (n / (n + 1)) ** 2 * lam @ lam, n * task.label_power / (n + 1) ** 2


def merged_growth(drive: Matrix, drag: float, heads: int) -> tuple[float, float]:
    """Exponents of small merged weights: of heads that cancel, Σ_h v_h = 0, and of their sum.

    Differences between heads grow as linear attention does, at 2|A|. The sum has v̇ = 2|A|u − 2κHv,
    u̇ = 2|A|v, whose larger root is below that: with the sum held back, heads grow in opposite pairs.
    """
    pull, hold = 2 * float(np.linalg.norm(drive)), drag * heads
    return pull, float(np.hypot(pull, hold) - hold)


def sum_course(drive: Matrix, drag: float, heads: int, time: Times) -> Times:
    """Σ_h v_h, in units of its start, of small merged weights that begin with U_h = 0.

    Of both exponents −κH ± √(4|A|² + κ²H²) a part: it falls at first at the rate 2κH, by the drag alone.
    """
    pull, hold = 2 * float(np.linalg.norm(drive)), drag * heads
    rate = np.hypot(pull, hold)
    return np.exp(-hold * time) * (np.cosh(rate * time) - hold / rate * np.sinh(rate * time))


def early_loss(drive: Matrix, drag: float, power: float, weights: Weights, time: Times) -> Times:
    """The loss along the flow of its leading terms, from the weights of a merged or separate model.

    ``power`` is the loss at zero. Good while it has hardly moved; from where it would be negative, nan.
    """
    course = _flow(drive, drag, power, weights, float(time[-1]), gone=1.0)
    known = time <= course.t[-1]
    losses = np.full(len(time), np.nan)
    losses[known] = [course.loss(t) for t in time[known]]
    return losses


def escape_from(drive: Matrix, drag: float, power: float, weights: Weights, gone: float) -> float:
    """When the share ``gone`` of the loss is gone, along the same flow; inf beyond a million."""
    course = _flow(drive, drag, power, weights, 1e6, share("gone", gone))
    return float(course.t[-1]) if course.status == 1 else float("inf")


def _flow(drive, drag, power, weights, horizon, gone):
    """v̇_h = 2⟨A, U_h⟩ − 2κ Σ v, U̇_h = 2A v_h, or the same through U_h = Q_hᵀK_h, until the event."""
    from scipy.integrate import solve_ivp

    parts = [array for name, array in sorted(weights.items()) if name != "value"]
    dim = len(drive)
    first = [weights["value"][:, -1, -1], *(part[..., :dim] for part in parts)]
    if "key_query" in weights:
        first[1] = first[1][:, :dim]

    def velocity(_, state):
        v, *parts = parted(state, first)
        slow = [2 * np.einsum("da,hda->h", drive, scoring((*parts, v))) - 2 * drag * v.sum()]
        slow += unscored((*parts, v), 2 * v[:, None, None] * drive)
        return flat(slow)

    def loss(state):
        v, *parts = parted(state, first)
        driven = np.einsum("h,da,hda->", v, drive, scoring((*parts, v)))
        return power - 2 * driven + drag * v.sum() ** 2

    def event(_, state):
        return loss(state) - (1 - gone) * power

    event.terminal = True
    course = solve_ivp(
        velocity, (0, horizon), flat(first), rtol=1e-9, atol=1e-14, events=event, dense_output=True
    )
    course.loss = lambda t: loss(course.sol(t))
    return course
