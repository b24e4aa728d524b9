"""Many context lengths: the best single predictor is ridge regression with one effective length.

Here β = Σ_n y_n x_n/T is divided by the number of tokens, T = n + 1: the n labelled examples and the query
(divisor ``tokens``). The best matrix for n examples is then M = (Λ + ((tr Λ + σ²)/T) I)⁻¹, because the terms
λ_d³ and λ_d² of the rates of ``theory.linear`` combine by (n² + n)/T² = n/T. The same holds for any mixture
of lengths, if 1/T is replaced by 1/T_eff = ⟨n/T²⟩/⟨n/T⟩, with means over the lengths.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from iclcore.checks import positive
from iclcore.task import Matrix, RegressionTask
from iclcore.theory.linear import plateau_losses, population_loss


def effective_tokens(task: RegressionTask) -> float:
    """Return T_eff = ⟨n/T⟩/⟨n/T²⟩, a number of tokens: query included.

    Training on all of a task's lengths leads to the predictor that is best for this one length.
    """
    tokens = np.array(task.lengths)
    labelled = (tokens - 1) / tokens
    return float(labelled.mean() / (labelled / tokens).mean())


def ridge_predictor(task: RegressionTask, tokens: float) -> Matrix:
    """Return (Λ + ((tr Λ + σ²)/T) I)⁻¹, the best M for T = ``tokens`` tokens. Shape (D, D)."""
    basis, lam = task.eigenvectors, task.eigenvalues
    return (basis / (lam + task.label_power / positive("tokens", tokens))) @ basis.T


def losses_at(
    task: RegressionTask, predictor: Matrix, context: Sequence[int] | Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    """Return the loss of one M (D, D) at each number n of labelled examples, with β divided by n + 1.

    L_n(M) = tr Λ + σ² − 2⟨A_n, M⟩ + tr(Mᵀ C_n M Λ), as in ``linear.population_loss``.
    """
    tasks = [replace(task, context=int(n), every_length=False) for n in context]
    return np.array([population_loss(each, predictor, "tokens") for each in tasks])


def best_at(
    task: RegressionTask, context: Sequence[int] | Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    """Return the least loss at each number of labelled examples, each with the M that is best for it."""
    tasks = [replace(task, context=int(n), every_length=False) for n in context]
    return np.array([plateau_losses(each)[-1] for each in tasks])
