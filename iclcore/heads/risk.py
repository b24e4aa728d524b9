"""The losses of multi-head softmax attention: formulas, bounds, and exact averages over softmax.

The formulas of the first part hold as long as softmax is not saturated, like those of ``heads.theory``.
``softmax_moments`` and ``exact_loss`` hold at any sharpness; they use quadrature.
"""

from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv  # importing scipy.stats for the χ distribution takes a second

from iclcore.checks import BadValue, whole
from iclcore.heads.theory import MultiTask, PerTask, water_filling
from iclcore.shapes import Float

Curve = Float[np.ndarray, " points"]
Grid = Float[np.ndarray, " grid"]

# --- Losses and bounds --------------------------------------------------------------------------


def gradient_flow_risk(task: MultiTask) -> PerTask:
    """Return the loss of each task at the limit with one head for each, s ρ/(1+ρ) with ρ = e d φ/L."""
    rho = np.e * task.d * task.phi / task.context
    return task.s * rho / (1 + rho)


def equiangular_bound(task: MultiTask, heads: int) -> float:
    """Return a lower bound on the total loss of ``heads`` heads with equiangular weights.

    The bound is the loss of ``water_filling`` with the budget 1/e for one head and H − 1 for H heads.
    Several heads only approach it, as ω → 0 and μ → ∞ with Σ_h μ^h = 0. We derived the bound ourselves.
    According to its title, Theorem 4 of the paper also bounds equiangular weights; we infer that its budget
    is the same. A search over all decomposable weights found none with a smaller loss.
    """
    budget = 1 / np.e if whole("heads", heads) == 1 else heads - 1
    m = water_filling(task, budget)
    return float((task.s / (1 + task.context * m / (task.phi * task.d))).sum())


def debiased_linear_risk(task: MultiTask) -> PerTask:
    """Return the exact loss of heads with Σ_h μ^h = 0 in the limit ω → 0, s (d φ + 1)/(L + d φ).

    These heads are linear attention on inputs from which the mean x̄ over the context is subtracted. They
    predict ŷ = γ Σ_l y_l ⟨x_l − x̄, q⟩, here with the best γ.
    """
    return task.s * (task.d * task.phi + 1) / (task.context + task.d * task.phi)


# --- Softmax at any sharpness -------------------------------------------------------------------


def softmax_moments(beta: Curve, context: int) -> tuple[Curve, Curve]:
    """Return E|p|² and E(Σ_l p_l ζ_l)² of p = softmax(βζ) with ζ_1 … ζ_L ~ N(0, 1), for each β.

    With S = Σ_l e^{βζ_l}, the identity 1/S² = ∫ t e^{−tS} dt turns both into integrals over t of averages
    over single tokens. The results are exact up to quadrature. A third moment follows from them:
    E Σ p ζ = β(1 − E|p|²).
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=float))
    if not (beta >= 0).all() or not np.isfinite(beta).all():
        raise BadValue("beta", "takes finite numbers of at least 0")
    whole("context", context, least=2)
    return tuple(np.transpose([_softmax_moments(float(b), context) for b in beta]))


@lru_cache(1000)  # tasks of equal size need the same values
def _softmax_moments(beta: float, context: int) -> tuple[float, float]:
    """Return the two moments for one β."""
    zeta, weight = normal_grid()
    # We set t = e^{−x}. S is between e^{−10β} and L e^{10β}, and outside this range of x the integrand
    # t² e^{−tS} is below 1e-15.
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


def exact_loss(task: MultiTask, omega: PerTask, mu: PerTask, context: int | None = None) -> PerTask:
    """Return the exact loss of each task if one head with ω_i and μ_i serves it alone.

    ``context`` is the number of tokens, by default ``task.context``. Given r = |q_i| ~ χ_{d_i}, the
    scores are normal with standard deviation ωr. The loss (s/d) E[(r − μ ζ·p)² + (dφ − 1) μ² |p|²] then
    follows from ``softmax_moments`` and a quadrature over r.
    """
    context = task.context if context is None else context
    losses = []
    for d, s, phi, w, m in zip(task.d, task.s, task.phi, omega, mu, strict=True):
        r = np.linspace(*np.sqrt(2 * gammaincinv(d / 2, [1e-12, 1 - 1e-12])), 48)
        # The density of χ, up to a constant factor.
        weight = np.exp((d - 1) * np.log(r / np.sqrt(d)) - (r**2 - d) / 2)
        power, square = softmax_moments(abs(w) * r, context)
        mean = w * r * (1 - power)
        value = r**2 - 2 * m * r * mean + m**2 * (square + (d * phi - 1) * power)
        losses.append(s / d * (weight @ value) / weight.sum())
    return np.array(losses)


def normal_grid(points: int = 401) -> tuple[Grid, Grid]:
    """Return points and weights for averages over N(0, 1).

    For smooth functions the trapezoid rule is exact up to round-off.
    """
    x = np.linspace(-10, 10, points)
    return x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
