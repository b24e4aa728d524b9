"""Context lengths: one predictor for many lengths is ridge regression with one effective length.

With divisor ``tokens`` (β is the sum over the context divided by T = n + 1) the best predictor for n
examples is M = (Λ + (tr Λ/T) I)⁻¹: λ_d³ and λ_d² of ``rates`` combine because (n² + n)/T² = n/T. The
same holds for any mixture of lengths, with 1/T replaced by ⟨n/T²⟩/⟨n/T⟩.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from iclcore.task import Matrix, RegressionTask
from iclcore.theory.linear import plateau_losses, population_loss


def effective_tokens(task: RegressionTask) -> float:
    """T_eff: training on all of a task's lengths gives the predictor that is best at this one."""
    tokens = np.array(task.lengths)
    share = (tokens - 1) / tokens
    return float(share.mean() / (share / tokens).mean())


def ridge_predictor(task: RegressionTask, tokens: float) -> Matrix:
    """(Λ + (tr Λ + σ²)/T I)⁻¹: the best M for T tokens where β is divided by the number of tokens."""
    basis, lam = task.eigenvectors, task.eigenvalues
    return (basis / (lam + task.label_power / tokens)) @ basis.T


def losses_at(
    task: RegressionTask, predictor: Matrix, context: Sequence[int] | Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    """L_n(M) = tr Λ − 2⟨A_n, M⟩ + tr(Mᵀ C_n M Λ) of one M at each number n of examples."""
    tasks = [replace(task, context=int(n), every_length=False) for n in context]
    return np.array([population_loss(each, predictor, "tokens") for each in tasks])


def best_at(
    task: RegressionTask, context: Sequence[int] | Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    """The least loss at each number of examples, each with an M of its own."""
    tasks = [replace(task, context=int(n), every_length=False) for n in context]
    return np.array([plateau_losses(each)[-1] for each in tasks])
