"""The risks of Bayes and of ridge regression, and the second paper's heads beside them, for large d and L.

The chapter on optimality and its explorer use them. ``ratio`` is r = d/L, the dimension of one task over
the length of the context.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from iclcore.checks import BadValue, positive

Points = Float[np.ndarray, "*points"] | float
Curve = Float[np.ndarray, " points"]


def stieltjes(ratio: Points, z: Points) -> tuple[Points, Points]:
    """Return m(z) = E 1/(λ+z) and m₂(z) = −m'(z) = E 1/(λ+z)² over the eigenvalues λ of XXᵀ/L.

    By the law of Marchenko and Pastur, m is the positive root of r z m² + (1 − r + z) m = 1.
    """
    ratio, z = np.broadcast_arrays(np.asarray(ratio, dtype=float), np.asarray(z, dtype=float))
    for name, value in (("ratio", ratio), ("penalty", z)):
        if not (value > 0).all():
            raise BadValue(name, "takes numbers above 0")
    b = 1 - ratio + z
    root = np.sqrt(b**2 + 4 * ratio * z)
    # Two expressions for the same root: for each sign of b, one of them has no cancellation.
    m = np.where(b > 0, 2 / (b + root), (root - b) / (2 * ratio * z))
    return m, m * (1 + ratio * m) / (2 * ratio * z * m + b)


def mmse(ratio: Points, signal: float = 1.0, noise: float = 0.0) -> Points:
    """Return the Bayes risk of one task, which is that of ridge regression with the penalty r σ²/s."""
    ratio = np.asarray(ratio, dtype=float)
    if positive("signal", signal) and noise == 0:
        return signal * np.maximum(0, 1 - 1 / ratio)
    z = ratio * noise / signal
    return signal * z * stieltjes(ratio, z)[0]


def ridge_risk(ratio: Points, penalty: Points, signal: float = 1.0, noise: float = 0.0) -> Points:
    """Return the risk of ridge regression, s z² m₂ + σ² r (m − z m₂), where the penalty z is on XXᵀ/L.

    A penalty p on XXᵀ/d̄ is z = p d̄/L, and a penalty p on XXᵀ/d is z = p d/L.
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
    """Return all curves of the second paper's Figures 4 and 5 over r = d̄/L, for tasks of equal size d̄.

    Losses are divided by ``signal``, the signal s of one task: s = 1 for g ~ N(0, I/d̄) and s = 1/I for
    g ~ N(0, I/d), which fits Figure 5. The curves are "a head each" (the limit with one head for each
    task, which the paper calls gradient flow), "one head", "Bayes", "ridge p" for each p in
    ``penalties``, and "bound, H = h" for each h in ``heads``. The penalties are on
    XXᵀ/(``penalty_unit`` · d̄), so that the unit is 1 for XXᵀ/d̄ and I for XXᵀ/d.

    The Bayes risk tends to r σ²/s as r → 0. The bound of H > I heads then tends to 1 + s/σ² times the
    Bayes risk, "a head each" to e times that bound, and "one head" to I e times it.
    """
    ratio = np.asarray(ratio, dtype=float)
    load = (1 + noise / positive("signal", signal)) * ratio
    budgets = {h: min(h - 1, tasks) if h > 1 else 1 / np.e for h in heads}
    return {
        "a head each": np.e * load / (1 + np.e * load),
        "one head": np.e * tasks * load / (1 + np.e * tasks * load),
        "Bayes": mmse(ratio, signal, noise) / signal,
        **{
            f"ridge {p:g}": ridge_risk(ratio, p * penalty_unit * ratio, signal, noise) / signal
            for p in penalties
        },
        **{f"bound, H = {h}": load / (load + budget / tasks) for h, budget in budgets.items()},
    }
