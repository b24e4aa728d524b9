"""Plateau losses for inputs that are heavy-tailed, or correlated along the context.

A heavy-tailed (elliptical) input is x_n = √u_n z_n, where z_n is Gaussian with covariance Λ and the random
scale u_n has mean 1. Its kurtosis is κ = E u², which is 1 for Gaussian inputs. Inputs are correlated along
the context if E[z_n z_mᵀ] = ρ^|n−m| Λ. The query is independent of the context in both cases.

With β = Σ_n y_n x_n/N, where N counts the labelled examples and not the query, such inputs leave the drive
E[β x_qᵀ y_q] = Λ² as it is. They change only what limits learning,

    C = E[ββᵀ] = Λ² + (R − 1/N) (Λ² + tr Λ Λ) + (κ (2Λ² + tr Λ Λ) − Λ²)/N + σ²Λ/N,   R = Σ_nm ρ^(2|n−m|)/N².

With κ = 1 and without noise (σ² = 0) this is C for 1/R independent Gaussian examples.
"""

import numpy as np

from iclcore.checks import BadValue, least, whole
from iclcore.task import RegressionTask
from iclcore.theory.linear import Levels


def effective_examples(context: int, correlation: float = 0.0) -> float:
    """Return 1/R: how many independent examples limit learning as much as N correlated ones do.

    ``context`` is N, and inputs n and m are correlated as ρ^|n−m|, where ``correlation`` is ρ.
    """
    distance = np.arange(whole("context", context))
    pairs = np.where(distance == 0, 1, 2) * (context - distance)  # (n, m) with |n − m| = distance
    return float(context**2 / np.sum(pairs * float(correlation) ** (2 * distance)))


def plateau_losses(task: RegressionTask, kurtosis: float = 1.0, correlation: float = 0.0) -> Levels:
    """Return L(M_0) … L(M_D) for such inputs: tr Λ + σ² − Σ_{d ≤ m} λ_d³/c_d for m = 0 … D.

    λ_d are the eigenvalues of Λ from the largest down, and c_d those of C.
    """
    lam, n = task.eigenvalues, task.context
    least("kurtosis", kurtosis, 1)
    if task.in_context != 1 or task.every_length:
        raise BadValue("task", "takes in_context = 1 and one context length for these inputs")
    pair, same = lam**2 + lam.sum() * lam, 2 * lam**2 + lam.sum() * lam
    excess = 1 / effective_examples(n, correlation) - 1 / n
    limit = lam**2 + excess * pair + (kurtosis * same - lam**2 + task.noise * lam) / n
    return task.label_power - np.concatenate([[0], np.cumsum(lam**3 / limit)])
