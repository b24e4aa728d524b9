"""How good the multi-head solution is: bounds, Bayes, ridge, and what carries over to other contexts.

Two descriptions of softmax meet here. Below saturation its average has the closed forms of
``multihead``; ``softmax_moments`` and ``exact_loss`` hold at any sharpness, by quadrature.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv  # scipy.stats has χ, and takes a second to load

from iclcore.checks import positive, whole
from iclcore.heads.theory import (
    LARGEST_EXPONENT,
    MultiTask,
    PerTask,
    Spectrum,
    check,
    water_filling,
)

Points = Float[np.ndarray, "*points"] | float
Curve, Grid = Float[np.ndarray, " points"], Float[np.ndarray, " grid"]

# --- Against the best there is ------------------------------------------------------------------


def gradient_flow_risk(task: MultiTask) -> PerTask:
    """Each task's loss at the limit with one head a task: s ρ/(1+ρ), ρ = e d φ/L."""
    rho = np.e * task.d * task.phi / task.context
    return task.s * rho / (1 + rho)


def equiangular_bound(task: MultiTask, heads: int) -> float:
    """The least total loss of ``heads`` heads with equiangular weights: budget 1/e, then H − 1.

    The budget of several heads is never attained, only approached: ω → 0 and μ → ∞ with Σ_h μ^h = 0.
    Derived here. The paper's Theorem 4 bounds equiangular weights, by its title; that its budget is
    this one is inferred. A search over all decomposable weights found none beyond it.
    """
    budget = 1 / np.e if whole("heads", heads) == 1 else heads - 1
    m = water_filling(task, budget)
    return float((task.s / (1 + task.context * m / (task.phi * task.d))).sum())


def debiased_linear_risk(task: MultiTask) -> PerTask:
    """The limit ω → 0 of zero-sum heads, exactly: linear attention on x less its context mean.

    ŷ = γ Σ_l y_l ⟨x_l − x̄, q⟩ with the best γ; its loss is s (d φ + 1)/(L + d φ).
    """
    return task.s * (task.d * task.phi + 1) / (task.context + task.d * task.phi)


def linear_attention_loss(task: MultiTask, omega: Spectrum, mu: Spectrum) -> PerTask:
    """Each task's loss when scores are not put through softmax but averaged: exact.

    s_i [(1 − M_ii)² + (φ_i/L) Σ_j d_j M_ij² + M_ii²/L], M_ij = Σ_h μ_i^h ω_j^h: but for the last term
    it is ``multihead.loss`` with Σ_j d_j ω_j^h ω_j^h' in place of its exponential B.
    """
    check(task, omega, mu)
    M = mu.T @ omega
    own = M.diagonal()
    variance = task.phi * (M**2 @ task.d) + own**2
    return task.s * ((1 - own) ** 2 + variance / task.context)


def linear_attention_risk(task: MultiTask) -> PerTask:
    """The least of it, with H ≥ I heads: s (dφ + 1)/(L + dφ + 1)."""
    depth = task.d * task.phi + 1
    return task.s * depth / (task.context + depth)


def stieltjes(ratio: Points, z: Points) -> tuple[Points, Points]:
    """m(z) = E 1/(λ+z) and m₂ = −m'(z) = E 1/(λ+z)² for λ an eigenvalue of XXᵀ/L, d/L = ``ratio``.

    Marchenko and Pastur's law: m is the positive root of r z m² + (1 − r + z) m = 1.
    """
    ratio, z = np.broadcast_arrays(np.asarray(ratio, dtype=float), np.asarray(z, dtype=float))
    if not (ratio > 0).all() or not (z > 0).all():
        raise ValueError("ratio and penalty take numbers above 0")
    b = 1 - ratio + z
    root = np.sqrt(b**2 + 4 * ratio * z)
    # The same root with b on the side where nothing cancels.
    m = np.where(b > 0, 2 / (b + root), (root - b) / (2 * ratio * z))
    return m, m * (1 + ratio * m) / (2 * ratio * z * m + b)


def mmse(ratio: Points, signal: float = 1.0, noise: float = 0.0) -> Points:
    """The Bayes risk of one task as d, L → ∞ at d/L = ``ratio``: ridge with penalty r σ²/s."""
    ratio = np.asarray(ratio, dtype=float)
    if positive("signal", signal) and noise == 0:
        return signal * np.maximum(0, 1 - 1 / ratio)
    z = ratio * noise / signal
    return signal * z * stieltjes(ratio, z)[0]


def ridge_risk(ratio: Points, penalty: Points, signal: float = 1.0, noise: float = 0.0) -> Points:
    """Ridge regression's risk, the ``penalty`` z being on XXᵀ/L: s z² m₂ + σ² r (m − z m₂).

    A penalty p in units of XXᵀ/d̄ is z = p d̄/L, one in units of XXᵀ/d is z = p d/L.
    """
    m, m2 = stieltjes(ratio, penalty)
    z = np.asarray(penalty)
    return positive("signal", signal) * z**2 * m2 + noise * np.asarray(ratio) * (m - z * m2)


def risk_curves(
    ratio: Curve,
    tasks: int = 10,
    signal: float = 1.0,
    noise: float = 1.0,
    heads: Sequence[int] = (),
    penalties: Sequence[float] = (0.05, 5.0),
    penalty_unit: float = 1.0,
) -> dict[str, Curve]:
    """Everything of Figures 4 and 5 over r = d̄/L for equal tasks, in units of one task's signal.

    As r → 0 the ratio to Bayes, which tends to r σ²/s, tends to 1 + s/σ² for the bound of H > I heads,
    to e times that for "a head each" (the paper's gradient flow), and to I e times it for "one head".
    ``signal`` is s: 1 for g ~ N(0, I/d̄), 1/I for g ~ N(0, I/d), which is what fits Figure 5. Ridge's
    ``penalties`` are in units of XXᵀ/(``penalty_unit`` · d̄): 1 for XXᵀ/d̄, I for XXᵀ/d.
    """
    ratio = np.asarray(ratio, dtype=float)
    load = (1 + noise / positive("signal", signal)) * ratio
    share = {h: min(h - 1, tasks) / tasks if h > 1 else 1 / np.e / tasks for h in heads}
    return {
        "a head each": np.e * load / (1 + np.e * load),
        "one head": np.e * tasks * load / (1 + np.e * tasks * load),
        "Bayes": mmse(ratio, signal, noise) / signal,
        **{
            f"ridge {p:g}": ridge_risk(ratio, p * penalty_unit * ratio, signal, noise) / signal
            for p in penalties
        },
        **{f"bound, H = {h}": load / (load + t) for h, t in share.items()},
    }


# --- Other contexts, other targets ---------------------------------------------------------------


def length_generalisation(
    task: MultiTask, lengths: Sequence[float] | np.ndarray
) -> Float[np.ndarray, "lengths tasks"]:
    """The limit for contexts of ``task.context``, tested on others: s (ρ² + ρ')/(1+ρ)².

    The bias ρ/(1+ρ) was learnt and stays, the variance ρ' = e d φ/L' goes with the test's length.
    """
    lengths = np.asarray(lengths, dtype=float)[:, None]
    if not (lengths >= 2).all():
        raise ValueError("lengths takes contexts of at least 2 tokens")
    rho = np.e * task.d * task.phi / task.context
    return task.s * (rho**2 + rho * task.context / lengths) / (1 + rho) ** 2


def nonlinear_transfer(
    task: MultiTask, target: Callable[[np.ndarray], np.ndarray], degree: int = 8
) -> dict[str, float | Float[np.ndarray, " coefficients"]]:
    """The one-task limit, trained on linear labels, when the labels are f(⟨g, x⟩), |g|² = s.

    Attention tilts ⟨g, x⟩ to mean ω⟨g, q⟩, so that it answers μ Tf, Tf(u) = E f(ωu + √s ξ), whose
    k-th Hermite coefficient is about ω^k c_k. μω ≈ 1 serves k = 1 alone; the mean comes back μ-fold.
    Returned: ``target`` c_k, ``answer`` the same of μ Tf, ``bias`` E(f − μ Tf)², ``variance``
    (μ² e/L) E(f − Tf)² at twice the tilt, and ``loss``, their sum. To first order in e/L.
    """
    if task.tasks != 1:
        raise ValueError(f"task takes one group for a nonlinear target, not {task.tasks}")
    s, omega = task.s[0], task.d[0] ** -0.5
    share = np.e / task.context
    mu = omega / (omega**2 + share * task.phi[0])
    x, weight = _normal_grid(2001)  # fine enough for a kink
    u = np.sqrt(s) * x

    def tilted(function: Callable[[np.ndarray], np.ndarray], times: int) -> np.ndarray:
        return function(times * omega * u[:, None] + u) @ weight

    once, twice = tilted(target, 1), tilted(target, 2)
    # A ratio of two averages is biased by the covariance of its parts.
    answer = mu * (once - share * (twice - once))
    square = tilted(lambda v: target(v) ** 2, 2)
    bias = weight @ (target(u) - answer) ** 2
    noise = task.noise
    variance = mu**2 * share * (weight @ (square - 2 * twice * once + once**2) + noise)
    return {
        "target": _hermite(target(u), x, weight, degree),
        "answer": _hermite(answer, x, weight, degree),
        "bias": float(bias),
        "variance": float(variance),
        "loss": float(bias + variance),
    }


# --- Softmax at any sharpness --------------------------------------------------------------------


def softmax_moments(beta: Curve, context: int) -> tuple[Curve, Curve]:
    """E|p|² and E(Σ_l p_l ζ_l)² for p = softmax(βζ), ζ_1 … ζ_L ~ N(0, 1). E Σ p ζ = β(1 − E|p|²).

    1/S² = ∫ t e^{−tS} dt turns both into ∫ t (one token's average)^{L−1} dt: exact up to quadrature.
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=float))
    if not (beta >= 0).all() or not np.isfinite(beta).all():
        raise ValueError("beta takes finite numbers of at least 0")
    whole("context", context, least=2)
    return tuple(np.transpose([_softmax_moments(float(b), context) for b in beta]))


@lru_cache(1000)  # tasks of one size ask for the same
def _softmax_moments(beta: float, context: int) -> tuple[float, float]:
    zeta, weight = _normal_grid()
    # t = e^{−x}: S lies between e^{−10β} and L e^{10β}, and t² e^{−tS} is below 1e-15 outside.
    x = np.arange(-10 * beta - 5, np.log(context) + 10 * beta + 20, 0.1)[:, None]
    tilt = beta * zeta - x
    with np.errstate(under="ignore"):
        score = np.exp(np.minimum(tilt, 50))
        left = np.exp(-score) * weight
        factor = score * left
        rest, first = left.sum(1), factor @ zeta
        factor *= score
        square, second = factor.sum(1), factor @ zeta**2
        own = context * rest ** (context - 1)
        pairs = context * (context - 1) * rest ** (context - 2)
    # dt · t · e^{2βζ} = dx · e^{2(βζ − x)}.
    return 0.1 * own @ square, 0.1 * (own @ second + pairs @ first**2)


def participation(beta: Curve, context: int) -> dict[str, Curve]:
    """E|p|² of L scores of variance β²: exact, and in the two regimes of softmax.

    ``exponential`` e^{β²}/L holds well below β² = ½ ln L, where the largest scores begin to make the
    sum of squares (at L = 100 it is 58% high there). Past β² = 2 ln L they have all the weight:
    ``saturated`` 1 − √(2 ln L)/β (the random energy model's frozen phase, as L → ∞).
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=float))
    frozen = np.sqrt(2 * np.log(context))
    return {
        "exact": softmax_moments(beta, context)[0],
        "exponential": np.exp(np.minimum(beta**2, LARGEST_EXPONENT)) / context,
        "saturated": 1 - frozen / np.maximum(beta, frozen),
    }


def exact_loss(task: MultiTask, omega: PerTask, mu: PerTask, context: int | None = None) -> PerTask:
    """Each task's true loss when one head serves it alone, with ω_i and μ_i: no approximation.

    Given r = |q_i| ~ χ_{d_i}, the scores are normal of standard deviation ωr; then
    (s/d) E[(r − μ ζ·p)² + (dφ − 1) μ² |p|²] needs only ``softmax_moments``.
    """
    context = task.context if context is None else context
    losses = []
    for d, s, phi, w, m in zip(task.d, task.s, task.phi, omega, mu, strict=True):
        r = np.linspace(*np.sqrt(2 * gammaincinv(d / 2, [1e-12, 1 - 1e-12])), 48)
        # χ's density, but for a factor
        weight = np.exp((d - 1) * np.log(r / np.sqrt(d)) - (r**2 - d) / 2)
        power, square = softmax_moments(abs(w) * r, context)
        mean = w * r * (1 - power)
        value = r**2 - 2 * m * r * mean + m**2 * (square + (d * phi - 1) * power)
        losses.append(s / d * (weight @ value) / weight.sum())
    return np.array(losses)


def _hermite(
    values: Grid, x: Grid, weight: Grid, degree: int
) -> Float[np.ndarray, " coefficients"]:
    """c_0 … c_degree in the orthonormal Hermite polynomials He_k/√k!, by their recurrence: √k! alone
    leaves what a float holds at k = 301, and k! at 171."""
    basis, before, coefficients = np.ones_like(x), np.zeros_like(x), []
    for k in range(whole("degree", degree, least=0) + 1):
        coefficients.append(basis @ (values * weight))
        basis, before = (x * basis - np.sqrt(k) * before) / np.sqrt(k + 1), basis
    return np.array(coefficients)


def _normal_grid(points: int = 401) -> tuple[Grid, Grid]:
    """Points and weights of N(0, 1); for smooth functions the trapezoid rule is exact to round-off."""
    x = np.linspace(-10, 10, points)
    return x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
