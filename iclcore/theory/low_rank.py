"""Separate key and query of rank R ≥ 2: why a head that has learned one eigenvector learns the next soon.

A head on the eigenvectors d ∈ S has |v|² = |K|² = |Q|² and v k_d q_d = a_d/b_d, so v = (Σ_S a_d/b_d)^(1/3).
A free row of such a head grows along e_{m+1} like exp(2 a_{m+1} v t): v is not small. It has grown
since the head itself began, by k_{m+1} ∝ k_m^(a_{m+1}/a_m), which shortens the wait that is left.
"""

import numpy as np

from iclcore.checks import whole
from iclcore.task import Divisor, RegressionTask
from iclcore.theory.linear import learned, rates


def head_value(task: RegressionTask, learns: range, divisor: Divisor = "one") -> float:
    """|v| of a head that has learned the eigenvectors ``learns`` (counted from 1)."""
    return float(np.cbrt(learned(task, divisor)[np.array(learns) - 1].sum()))


def wait_slope(task: RegressionTask, components: int, rank: int, divisor: Divisor = "one") -> float:
    """What the plateau at M_m costs for each factor e by which the initial weights shrink,

    (1/a_{m+1} − 1/a_m) / (2 v_m), where m = ``components`` is no multiple of the rank: logarithmic, where
    a new head's wait 1/(2 a s₀) is in proportion to 1/init.
    """
    m, rank = whole("components", components), whole("rank", rank)
    if m % rank == 0 or m >= task.dim:
        raise ValueError(
            f"components takes less than {task.dim} and no multiple of the rank {rank}, not {m}"
        )
    a, _ = rates(task, divisor)
    value = head_value(task, range(m - m % rank + 1, m + 1), divisor)
    return float((1 / a[m] - 1 / a[m - 1]) / (2 * value))
