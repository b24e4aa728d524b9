"""Linear attention on in-context regression: fixed points, time courses, conservation laws.

In the paper's subspace the prediction is ŷ = βᵀ M x_q with β = Σ_n y_n x_n / divisor, and over the
population the loss is, in the eigenbasis of Λ, a sum over directions: everything below is a function of

    a_d = g λ_d²           (how fast direction d is learned: E[y_q β_d x_d])
    b_d = g₂ λ_d³ + h λ_d² (λ_d + tr Λ + σ²)     (what limits it: E[(β_d x_d)²], σ² the labels' noise)

with the means over context lengths n of g = ⟨n/divisor⟩, g₂ = ⟨(n/divisor)²⟩, h = ⟨n/divisor²⟩. In the
paper's convention (divisor = N) this is b_d = λ_d³ (1 + (1 + tr Λ/λ_d)/N). Time is learning rate times
steps. N counts labelled examples, not the query. Losses are for one output or the mean over outputs.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from iclcore.checks import instance, positive, whole
from iclcore.models import MergedAttention, SeparateAttention, Weights
from iclcore.moments import Data, Moments, averages, of_matrix, rates
from iclcore.task import Divisor, Matrix, RegressionTask, Sequences, Vector

Times, Levels = Float[np.ndarray, " t"], Float[np.ndarray, " levels"]
LEAST = 1e-300  # of a head's start in units of its limit: what 1/x and 4/x can hold


# -- fixed points ---------------------------------------------------------------------------------


def learned(task: RegressionTask, divisor: Divisor = "one") -> Vector:
    """What M is along each eigenvector once it is learned: a_d/b_d, or 1/(λ_d(1 + (1 + tr/λ_d)/N))."""
    a, b = rates(task, divisor)
    return a / b


def plateau_losses(data: Data) -> Levels:
    """L(M_0) … L(M_D): tr Λ + σ² − Σ_{d ≤ m} a_d²/b_d with the m largest eigenvectors learned.

    The loss does not depend on the divisor, except that lengths are averaged with it. Sequences and
    averages whose task is known have levels of their own: the least losses of M = Σ_{d ≤ m} μ_d e_d e_dᵀ.
    """
    instance("data", data, RegressionTask, Sequences, Moments)
    if isinstance(data, RegressionTask):
        a, b = rates(data, "tokens" if data.every_length else "context")
        power, gains = data.label_power, a**2 / b
    else:
        if isinstance(data, Sequences):
            divisor = "tokens" if data.every_length else "one"  # that of runs, which share them
            data = averages(data, MergedAttention(divisor=divisor))
        if data.task is None:
            raise ValueError("data takes averages or sequences whose task is known")
        from scipy.linalg import solve_triangular

        directions = (np.outer(e, e) for e in data.task.eigenvectors.T)
        c = np.concatenate([of_matrix(direction, data.features) for direction in directions])
        try:
            root = np.linalg.cholesky(c @ data.gram @ c.T)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"data takes at least {data.dim} different sequences, so that one M fits them best"
            ) from None
        power, gains = data.power, solve_triangular(root, c @ data.cross[0], lower=True) ** 2
    return power - np.concatenate([[0], np.cumsum(gains)])


def top_spread(task: RegressionTask, sizes: Int[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """Standard deviation of L(M_0), the mean of y_q², over the first P sequences of a published set;
    the last of ``sizes`` is all of it.

    Var y_q² = 2 tr² + 6 tr Λ², and of this 2 tr Λ² is that of wᵀΛw. The published draw whitens w, so
    that the sum of wᵀΛw over the whole set is fixed: as in a sample without replacement.
    """
    lam = task.eigenvalues
    own = 2 * (1 - sizes / sizes[-1]) * np.sum(lam**2)
    return np.sqrt((2 * task.label_power**2 + 4 * np.sum(lam**2) + own) / sizes)


def pcr_predictor(task: RegressionTask, components: int, divisor: Divisor = "one") -> Matrix:
    """M_m of ŷ = βᵀ M_m x_q: principal component regression in context with m components.

    In the limit of long contexts it is principal component regression; see ``regression``.
    """
    whole("components", components, least=0)
    kept = task.eigenvectors[:, :components]
    return (kept * learned(task, divisor)[:components]) @ kept.T


class Regression(NamedTuple):
    """What principal component regression proper has: its loss, and its predictions' distance from M_m's."""

    loss: float
    distance: float


def regression(task: RegressionTask, components: int) -> Regression:
    """Principal component regression proper, for one context: its loss, and its distance from M_m.

    Least squares of y on the first m coordinates of x, ŵ = G⁻¹ Σ_n y_n x_n with G = Σ_n x_n x_nᵀ. What
    the other coordinates add to y is noise to it, of variance τ = σ² + Σ_{d > m} λ_d, so that
    E[(ŵ − w)(ŵ − w)ᵀ | G] = τ G⁻¹ in these coordinates. M_m has β where it has ŵ: β = G ŵ/N. With
    E G = NΛ, E G² = N(N+1)Λ² + N tr Λ Λ and E G⁻¹ = Λ⁻¹/(N − m − 1) of a Wishart matrix follow the loss
    τ(1 + m/(N − m − 1)) and the mean square of the difference of the two predictions. Both are infinite
    from N = m + 1 down, where E G⁻¹ is, unless there is no noise, and nan below m, where ŵ is not unique.
    """
    whole("components", components)
    n, m = task.context, components
    lam, gain = task.eigenvalues[:m], learned(task, "context")[:m]
    noise = task.eigenvalues[m:].sum() + task.noise
    spread = noise * m / (n - m - 1) if n > m + 1 else np.inf if noise else 0.0
    spread = spread if n >= m else np.nan
    square = gain**2 * ((1 + 1 / n) * lam**2 + lam * (lam.sum() + noise) / n)
    apart = np.sum(lam * (square - 2 * gain * (lam + noise / n) + 1)) + spread
    return Regression(float(noise + spread), float(np.sqrt(apart)))


def population_loss(task: RegressionTask, predictor: Matrix, divisor: Divisor = "one") -> float:
    """L(M) = tr Λ + σ² − 2⟨A, M⟩ + tr(Mᵀ C M Λ), A = E[y_q β x_qᵀ], C = E[ββᵀ]."""
    a, b = rates(task, divisor)
    basis, lam = task.eigenvectors, task.eigenvalues
    m = basis.T @ predictor @ basis
    return float(task.label_power - 2 * a @ np.diag(m) + np.einsum("ij,i,j->", m**2, b / lam, lam))


def rms(
    task: RegressionTask, predictor: Float[np.ndarray, "... D D"], divisor: Divisor = "one"
) -> np.ndarray | float:
    """Root mean square over the task of βᵀ M x_q, E[(β_i x_j)²] = (b_i/λ_i) λ_j in the eigenbasis.

    Of a difference of two predictors it is how far apart their answers are.
    """
    _, b = rates(task, divisor)
    basis, lam = task.eigenvectors, task.eigenvalues
    return np.sqrt(np.einsum("...ij,i,j->...", (basis.T @ predictor @ basis) ** 2, b / lam, lam))


# -- merged key and query, white input ------------------------------------------------------------


def white_start(weights: Weights, dim: int) -> float:
    """c₀ = Σ_h ((v_h + u_h)/2)², u_h = tr(U_h)/√D: what small weights hold of the growing direction.

    U_h is the block of KQ_h between the query's x and the context's x, v_h = tr(V_h)/√O that of the value
    between the O outputs.
    """
    outputs = weights["value"].shape[-1] - dim
    blocks = weights["value"][:, -outputs:, -outputs:], weights["key_query"][:, :dim, :dim]
    v, u = (np.trace(each, axis1=1, axis2=2) / np.sqrt(each.shape[-1]) for each in blocks)
    return float(np.sum((v + u) ** 2) / 4)


def _white(task: RegressionTask, divisor: Divisor) -> tuple[float, float]:
    if np.ptp(task.eigenvalues) > 1e-12 * task.eigenvalues[0]:
        raise ValueError(f"spectrum takes white for this closed form, not {task.spectrum!r}")
    # of the mean over outputs, along a direction that all have a part in
    a, b = rates(task, divisor)
    return float(a[0] * np.sqrt(task.dim / task.outputs)), float(b[0] / task.outputs)


def white_course(task: RegressionTask, c0: float, time: Times, divisor: Divisor = "one") -> Times:
    """Loss L(t) = tr Λ − 2ac + bc² along ċ = 4c(a − bc), a logistic rise from c₀ to c* = a/b.

    c = c* c₀/(c₀ (1 − e) + c* e), e = exp(−4at): no difference of large numbers, no division by c₀.
    """
    a, b = _white(task, divisor)
    end, start = a / b, positive("c0", c0)
    with np.errstate(over="ignore"):  # of a time beyond all ends, and a start far above c*
        left = -4 * a * np.asarray(time, dtype=float)
        c = end * (start / (end * np.exp(left) - start * np.expm1(left)))
        loss = task.label_power - c * (2 * a - b * c)
    if not np.isfinite(loss).all():
        raise ValueError(f"c0 takes a start whose loss a float holds, not {c0!r}")
    return loss


def drop_time(task: RegressionTask, c0: float, divisor: Divisor = "one") -> float:
    """When half of the loss that will go has gone: c has reached 1 − 1/√2 of its limit a/b.

    t = ln((√2 − 1)(a/(b c₀) − 1))/(4a): later by ln(10)/(2a) for each decade of the initial weights.
    """
    a, b = _white(task, divisor)
    if not 0 < c0 < a / b:
        raise ValueError(f"c0 takes a start between 0 and its end, {a / b:.6g}, not {c0!r}")
    return float((np.log((np.sqrt(2) - 1) * (a / b - c0)) - np.log(c0)) / (4 * a))


def growth_rate(task: RegressionTask, divisor: Divisor = "one") -> float:
    """How fast small merged weights grow, for any spectrum: value and KQ, along a, as exp(2|a|t/√O)."""
    return float(2 * np.linalg.norm(rates(task, divisor)[0]) / np.sqrt(task.outputs))


# -- separate key and query -----------------------------------------------------------------------


def head_limit(task: RegressionTask, divisor: Divisor = "one") -> Vector:
    """|v| = |k| = |q| of a rank-one head that has learned eigenvector d alone: (a_d/b_d)^(1/3)."""
    return np.cbrt(learned(task, divisor))


def head_course(
    task: RegressionTask,
    component: int,
    time: Times,
    s0: float | None = None,
    divisor: Divisor = "one",
    half_at: float | None = None,
) -> Times:
    """s(t) of ds/dt = 2(a s² − b s⁵) for eigenvector ``component`` (1 is the largest).

    Either from s(0) = ``s0``, or placed so that half of the limit is reached at time ``half_at``.
    Not by a solver: with x = s/s* the ODE separates, 2 a s* t = F(x) − F(x₀) with F in closed form,
    which is inverted by bisection to double precision, however long the plateau.
    """
    whole("component", component)
    a, b = (float(each[component - 1]) for each in rates(task, divisor))
    end = np.cbrt(a / b)
    if (s0 is None) == (half_at is None):
        raise ValueError("head_course takes s0 or half_at, one of them")
    if half_at is not None:
        s0, time = end / 2, np.asarray(time, dtype=float) - half_at
    if not 0 < s0 < end:
        raise ValueError(f"s0 takes a start between 0 and {end:.6g}, not {s0!r}")
    if s0 < LEAST * end:
        raise ValueError(f"s0 takes a start of at least {LEAST * end:.6g}, not {s0!r}")
    with np.errstate(over="ignore"):  # of a time beyond all ends
        elapsed = 2 * a * end * np.asarray(time, dtype=float)
    first = escape_integral(s0 / end)
    x = np.array([_invert(first + tau) for tau in elapsed])
    return end * x


def escape_integral(
    x: Float[np.ndarray, "*points"] | float,
) -> Float[np.ndarray, "*points"] | float:
    """An antiderivative of 1/(x²(1 − x³)), in partial fractions: rises from −∞ at 0 to ∞ at 1."""
    root = np.sqrt(3)
    return (
        -1 / x - np.log1p(-x) / 3 + np.log(x * x + x + 1) / 6 - np.arctan((2 * x + 1) / root) / root
    )


def _invert(level: float) -> float:
    """x in (0, 1) with escape_integral(x) = level."""
    from scipy.optimize import brentq

    # 1 − x is resolved down to e^−40; beyond that s has reached its limit to double precision
    high = 1 - np.exp(-36)
    if escape_integral(high) <= level:
        return 1.0
    # of 1/x, which is above 1: so that the tolerance is relative however small x is
    return 1 / brentq(
        lambda inverse: escape_integral(1 / inverse) - level,
        1 / high, 2 * (2 + abs(level)), xtol=1e-15, rtol=1e-15,
    )  # fmt: skip


def escape_time(task: RegressionTask, component: int, s0: float, divisor: Divisor = "one") -> float:
    """t ≈ 1/(2 a_d s₀): growth is hyperbolic, so a plateau lasts as 1/init, not as log(1/init)."""
    a, _ = rates(task, divisor)
    whole("component", component)
    with np.errstate(over="ignore"):
        time = float(1 / (2 * a[component - 1] * positive("s0", s0)))
    if not np.isfinite(time):
        raise ValueError(f"s0 takes a start whose time a float holds, not {s0!r}")
    return time


def conserved(
    weights: Weights, dim: int
) -> tuple[Float[np.ndarray, " H"], Float[np.ndarray, " H"]]:
    """|v_h|² − |K_h|² and |K_h|² − |Q_h|² (Frobenius), which gradient flow keeps for any rank and data.

    They are of all that can move: v_h the whole last row of the value, K_h with its column for labels,
    Q_h the columns for inputs. The parts of v_h and K_h alone that the paper's subspace has are kept
    only where the others stay zero, as on infinitely many sequences.
    """
    key, query, v = SeparateAttention().factors(weights, dim)
    sizes = [np.sum(each**2, axis=(1, 2)) for each in (v, key, query)]
    return sizes[0] - sizes[1], sizes[1] - sizes[2]
