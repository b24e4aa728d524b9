"""How far the first level of a sample is from that of infinitely many sequences."""

import numpy as np
from jaxtyping import Float, Int

from iclcore.task import RegressionTask


def first_level_deviation(
    task: RegressionTask, sizes: Int[np.ndarray, " P"]
) -> Float[np.ndarray, " P"]:
    """Return the standard deviation of L(M_0) over published draws, for their first P sequences.

    On data, L(M_0) is the mean of y_q². ``sizes`` are the numbers P, and the last of them is the whole draw.
    The variance of y_q² is 2 tr² + 6 tr Λ² with tr = tr Λ + σ², and 2 tr Λ² of it is the variance of wᵀΛw.
    The published draw whitens the task vectors w, so the sum of wᵀΛw over the whole draw is fixed, as in a
    sample without replacement.
    """
    lam = task.eigenvalues
    of_tasks = 2 * (1 - sizes / sizes[-1]) * np.sum(lam**2)
    return np.sqrt((2 * task.label_power**2 + 4 * np.sum(lam**2) + of_tasks) / sizes)
