"""What other rules than gradient descent make of the waits and of the stairs of rank-one heads.

Weight decay γ. Small weights follow θ̇ = Q(θ) − γθ with Q quadratic, and θ = e^(−γt) u has u̇ = e^(−γt) Q(u):
the path without decay, in the time τ = (1 − e^(−γt))/γ, which ends at 1/γ. A head along eigenvector d rests
where 2 a_d s − 2 b_d s⁴ = γ.

Adam. While a head is small its gradients grow as the square of the weights, and the rule, blind to their
size, takes all of |v|, |k_i|, |q_i| along one curve lr · u(step). With u linear in the step the gradient's
running mean is g and the root of that of g² is g/√5, as long as the run is long against 1/(1 − β₁) and short
against 1/(1 − β₂): steps of √5 lr, at most 2.1 lr with β₂ = 0.999. In coordinates v = lr u and k, q =
±lr u π, with the signs that their own gradient has, π = sign Aπ.
"""

import numpy as np
from jaxtyping import Float

from iclcore.checks import positive, whole
from iclcore.optimisers import Adam
from iclcore.task import Divisor, RegressionTask, Vector
from iclcore.theory.linear import Levels, plateau_losses, rates

SETTLED = 50  # a pattern of signs that has not come back to itself by then has no fixed point


def decayed_time(time: Float[np.ndarray, "*drops"] | float, decay: float) -> np.ndarray:
    """When a drop comes that comes at ``time`` without decay: −ln(1 − γτ)/γ, and never from τ = 1/γ on."""
    share = positive("decay", decay) * np.asarray(time, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(share < 1, -np.log1p(-share) / decay, np.inf)


def decay_limit(task: RegressionTask, divisor: Divisor = "one") -> Vector:
    """γ_d beyond which no head holds eigenvector d: the top of 2as − 2bs⁴, at s³ = a/(4b)."""
    a, b = rates(task, divisor)
    return 1.5 * a * np.cbrt(a / (4 * b))


def decayed_limit(task: RegressionTask, decay: float, divisor: Divisor = "one") -> Vector:
    """|v| = |k| = |q| of a head that holds eigenvector d: the larger root, or 0 where there is none."""
    from scipy.optimize import brentq

    ends = np.zeros(task.dim)
    for d, (a, b) in enumerate(zip(*rates(task, divisor), strict=True)):
        low, high = np.cbrt(a / (4 * b)), np.cbrt(a / b)

        def left(s: float, a: float = a, b: float = b) -> float:
            return 2 * a * s - 2 * b * s**4 - decay

        if left(low) > 0:
            ends[d] = brentq(left, low, high, xtol=1e-14)
    return ends


def decayed_losses(task: RegressionTask, decay: float, divisor: Divisor = "one") -> Levels:
    """The plateaus that weight decay shifts, M's eigenvalues being the cubes of ``decayed_limit``."""
    a, b = rates(task, divisor)
    held = decayed_limit(task, decay, divisor) ** 3
    return task.label_power - np.concatenate([[0], np.cumsum(2 * a * held - b * held**2)])


def adam_growth(steps: int, optimizer: Adam | None = None) -> Float[np.ndarray, " steps"]:
    """u before each step: Adam with learning rate 1 and without eps on the gradient −u²."""
    rule = optimizer or Adam()
    mean = square = 0.0
    u, course = 1e-30, np.empty(whole("steps", steps))
    for step in range(steps):
        course[step] = u
        mean = rule.beta1 * mean + (1 - rule.beta1) * u**2
        square = rule.beta2 * square + (1 - rule.beta2) * u**4
        root = np.sqrt(square / (1 - rule.beta2 ** (step + 1)))
        u += mean / (1 - rule.beta1 ** (step + 1)) / root
    return course


def adam_drop(
    task: RegressionTask,
    heads: int,
    lr: float,
    optimizer: Adam | None = None,
    divisor: Divisor = "one",
) -> float:
    """The step at which the loss under Adam is halfway to the first plateau, from weights far below lr.

    All heads are at M = H (lr u)³ ππᵀ together, π the pattern nearest to the first eigenvector, where the
    loss is tr Λ + σ² − 2mp + m²r with p = πᵀAπ and r = πᵀCπ πᵀΛπ. nan where a pattern goes less far.
    """
    a, b = rates(task, divisor)
    basis, lam = task.eigenvectors, task.eigenvalues
    drive, limit = (basis * a) @ basis.T, (basis * (b / lam)) @ basis.T
    sign = np.sign(basis[:, 0])
    for _ in range(SETTLED):
        sign = np.sign(drive @ sign)
    p, r = sign @ drive @ sign, (sign @ limit @ sign) * (sign @ task.covariance @ sign)
    levels = plateau_losses(task)
    missing = p**2 - r * (levels[0] - levels[1]) / 2
    if missing < 0:
        return np.nan
    size = np.cbrt((p - np.sqrt(missing)) / r / heads) / lr
    course = adam_growth(int(2 * size) + 100, optimizer)
    return float(np.interp(size, course, np.arange(len(course))))
