"""Heads of rank R ≥ 2: how long a plateau gets, and how far the first level of a sample is off.

A head that has learned the eigenvectors d ∈ S has |v|² = |K|² = |Q|² and v k_d q_d = a_d/b_d for each of
them, with the rates of ``iclcore.theory.linear``. So v³ = Σ_{d ∈ S} a_d/b_d, which is not small. A row of its
key and query that is still small therefore grows along the next eigenvector e_{m+1} as exp(2 a_{m+1} v t),
and not hyperbolically. It has grown since the head itself began, as k_{m+1} ∝ k_m^(a_{m+1}/a_m), and that
shortens the wait that is left.
"""

import numpy as np
from jaxtyping import Float, Int

from iclcore.checks import BadValue, whole
from iclcore.task import Divisor, RegressionTask
from iclcore.theory.linear import learned, rates


def head_value(task: RegressionTask, components: range, divisor: Divisor = "one") -> float:
    """Return |v| of a head that has learned the eigenvectors ``components``, counted from 1.

    It is (Σ_d a_d/b_d)^(1/3), summed over these eigenvectors.
    """
    return float(np.cbrt(learned(task, divisor)[np.array(components) - 1].sum()))


def wait_slope(task: RegressionTask, components: int, rank: int, divisor: Divisor = "one") -> float:
    """Return how much longer the plateau at M_m gets if the initial weights are smaller by a factor e.

    It is (1/a_{m+1} − 1/a_m)/(2 v_m), where m = ``components`` is not a multiple of the rank, so that a head
    with a row to spare learns the next eigenvector. Its wait is logarithmic in 1/init; that of a new head,
    1/(2 a s₀), is proportional to 1/init.
    """
    m, rank = whole("components", components), whole("rank", rank)
    if m % rank == 0 or m >= task.dim:
        raise BadValue(
            "components", f"takes less than {task.dim} and no multiple of the rank {rank}, not {m}"
        )
    a, _ = rates(task, divisor)
    value = head_value(task, range(m - m % rank + 1, m + 1), divisor)
    return float((1 / a[m] - 1 / a[m - 1]) / (2 * value))


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
