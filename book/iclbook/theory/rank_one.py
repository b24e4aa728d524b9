"""How the fixed points of rank-one heads differ from principal component regression.

N counts the labelled examples of the context and not the query. λ_d are the eigenvalues of Λ, the covariance
of the inputs, and σ² is the variance of the noise in the labels.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from iclcore.checks import whole
from iclcore.task import Divisor, RegressionTask
from iclcore.theory.linear import learned, rates


class Regression(NamedTuple):
    """The loss of principal component regression, and how far its predictions are from those of M_m."""

    loss: float
    distance: float


def regression(task: RegressionTask, components: int) -> Regression:
    """Return the loss of principal component regression with m = ``components``, and its distance from M_m.

    It is the least-squares fit of y to the first m coordinates of x in one context, ŵ = G⁻¹ Σ_n y_n x_n with
    G = Σ_n x_n x_nᵀ. What the other coordinates add to y acts as noise, so that its variance is τ = σ² + Σ_{d
    > m} λ_d and E[(ŵ − w)(ŵ − w)ᵀ | G] = τ G⁻¹ in these coordinates. M_m has β = G ŵ/N (1/N convention) where
    the regression has ŵ. A Wishart matrix has E G = NΛ, E G² = N(N + 1)Λ² + N tr Λ Λ and E G⁻¹ = Λ⁻¹/(N − m −
    1). From these follow the loss τ(1 + m/(N − m − 1)) and the distance, which is the root mean square of the
    difference between the two predictions.

    For N = m and N = m + 1 both are infinite, because E G⁻¹ is, unless τ = 0. For N < m both are nan, because
    ŵ is not unique.
    """
    whole("components", components)
    n, m = task.context, components
    lam, gain = task.eigenvalues[:m], learned(task, "context")[:m]
    noise = task.eigenvalues[m:].sum() + task.noise
    spread = noise * m / (n - m - 1) if n > m + 1 else np.inf if noise else 0.0
    spread = spread if n >= m else np.nan
    square = gain**2 * ((1 + 1 / n) * lam**2 + lam * (lam.sum() + noise) / n)
    distance2 = np.sum(lam * (square - 2 * gain * (lam + noise / n) + 1)) + spread
    return Regression(float(noise + spread), float(np.sqrt(distance2)))


def rms_prediction(
    task: RegressionTask, predictor: Float[np.ndarray, "... D D"], divisor: Divisor = "one"
) -> np.ndarray | float:
    """Return the root mean square of ŷ = βᵀ M x_q over infinitely many sequences, for each M.

    In the eigenbasis of Λ it is the root of Σ_ij M_ij² (b_i/λ_i) λ_j. For the difference of two matrices it
    is how far apart their predictions are.
    """
    _, b = rates(task, divisor)
    basis, lam = task.eigenvectors, task.eigenvalues
    return np.sqrt(np.einsum("...ij,i,j->...", (basis.T @ predictor @ basis) ** 2, b / lam, lam))
