"""Inputs that are not independent Gaussian draws: only what limits learning changes, not what drives it.

x_n = √u_n z_n with E u = 1 is an elliptical input of kurtosis κ = E u² (1 if Gaussian), and along the context
⟨z_n z_mᵀ⟩ = ρ^|n−m| Λ; the query is drawn apart. Then E[β x_qᵀ y_q] = Λ² as ever, and

    C = E[ββᵀ] = Λ² + (R − 1/N) (Λ² + tr Λ Λ) + (κ (2Λ² + tr Λ Λ) − Λ²)/N + σ²Λ/N,   R = Σ_nm ρ^(2|n−m|)/N² ,

in the convention with 1/N. With κ = 1 it is that of 1/R independent examples, but for the noise.
"""

import numpy as np

from iclcore.checks import least, whole
from iclcore.task import RegressionTask
from iclcore.theory.linear import Levels


def effective_examples(context: int, correlation: float = 0.0) -> float:
    """1/R: N examples whose inputs are correlated as ρ^|n−m| limit learning as so many independent ones."""
    apart = np.arange(whole("context", context))
    pairs = np.where(apart == 0, 1, 2) * (context - apart)  # of two examples so far apart
    return float(context**2 / np.sum(pairs * float(correlation) ** (2 * apart)))


def plateaus_with(task: RegressionTask, kurtosis: float = 1.0, correlation: float = 0.0) -> Levels:
    """L(M_0) … L(M_D) of such inputs: tr Λ + σ² − Σ_{d ≤ m} λ_d³/c_d, c_d the eigenvalues of C."""
    lam, n = task.eigenvalues, task.context
    least("kurtosis", kurtosis, 1)
    if task.in_context != 1 or task.every_length:
        raise ValueError("task takes in_context = 1 and one length for these inputs")
    pair, same = lam**2 + lam.sum() * lam, 2 * lam**2 + lam.sum() * lam
    shared = 1 / effective_examples(n, correlation) - 1 / n
    limit = lam**2 + shared * pair + (kurtosis * same - lam**2 + task.noise * lam) / n
    return task.label_power - np.concatenate([[0], np.cumsum(lam**3 / limit)])
