"""How weight decay and Adam change the staircase of rank-one heads.

Both parts assume linear attention with separate key and query of rank one, on infinitely many sequences. A
head along eigenvector d has |v| = |k| = |q| = s, and a_d, b_d are the rates of ``iclcore.theory.linear``. The
query is not counted in N, and ``divisor`` is what the sum over the context is divided by (``one``: by
nothing). Time is learning rate times steps.

Weight decay γ. While the weights θ are small, gradient flow with decay is θ̇ = Q(θ) − γθ, where Q is
quadratic in θ. Write θ = e^(−γt) u. Then u̇ = e^(−γt) Q(u), so u moves along the path without decay, but in
the slower time

    τ(t) = (1 − e^(−γt))/γ,

which never passes 1/γ. A drop that comes later than 1/γ without decay never comes with it. A head that has
learned eigenvector d stays where its force vanishes, at 2 a_d s − 2 b_d s⁴ = γ.

Adam. Its steps hardly depend on the size of the gradients, so all of |v|, |k_i| and |q_i| grow along one
curve lr · u(step) and the initial weights do not matter. The gradients of small weights grow as u². If u is
linear in the step, the running mean of the gradient is g and the root of the running mean of g² is g/√5, as
long as the run is long against 1/(1 − β₁) steps and short against 1/(1 − β₂) steps. So steps are √5 lr long;
with β₂ = 0.999 they reach at most 2.1 lr. Every entry has the sign of minus its own gradient: v = lr u, and k
and q are ± lr u π, where the pattern of signs π solves π = sign(Aπ) with A = Σ_d a_d e_d e_dᵀ.
"""

import numpy as np
from jaxtyping import Float

from iclcore.checks import positive, whole
from iclcore.optimisers import Adam
from iclcore.task import Divisor, RegressionTask, Vector
from iclcore.theory.linear import Levels, plateau_losses, rates

SIGN_ITERATIONS = 50  # if π = sign(Aπ) has not settled after these, it has no solution near e_1


def decayed_time(time: Float[np.ndarray, "*drops"] | float, decay: float) -> np.ndarray:
    """Return when a drop comes under weight decay γ that comes at ``time`` (τ) without it.

    It is t = −ln(1 − γτ)/γ, and infinity from τ = 1/γ on.
    """
    scaled = positive("decay", decay) * np.asarray(time, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scaled < 1, -np.log1p(-scaled) / decay, np.inf)


def largest_decay(task: RegressionTask, divisor: Divisor = "one") -> Vector:
    """Return for each eigenvector the weight decay above which no head can hold it.

    The force 2 a_d s − 2 b_d s⁴ is largest at s³ = a_d/(4 b_d), where it is (3/2) a_d (a_d/(4 b_d))^(1/3).
    """
    a, b = rates(task, divisor)
    return 1.5 * a * np.cbrt(a / (4 * b))


def decayed_head_limit(task: RegressionTask, decay: float, divisor: Divisor = "one") -> Vector:
    """Return |v| = |k| = |q| of a head that has learned eigenvector d, for each d, under weight decay γ.

    It is the larger root s of 2 a_d s − 2 b_d s⁴ = γ, or 0 if there is none.
    """
    from scipy.optimize import brentq

    limits = np.zeros(task.dim)
    for d, (a, b) in enumerate(zip(*rates(task, divisor), strict=True)):
        low, high = np.cbrt(a / (4 * b)), np.cbrt(a / b)

        def force(s: float, a: float = a, b: float = b) -> float:
            return 2 * a * s - 2 * b * s**4 - decay

        if force(low) > 0:
            limits[d] = brentq(force, low, high, xtol=1e-14)
    return limits


def decayed_losses(task: RegressionTask, decay: float, divisor: Divisor = "one") -> Levels:
    """Return the plateau losses under weight decay, with 0 to D eigenvectors learned.

    The matrix M has the eigenvalues m_d = s_d³, the cubes of ``decayed_head_limit``, and the loss is tr Λ +
    σ² − Σ_d (2 a_d m_d − b_d m_d²), summed over the learned eigenvectors.
    """
    a, b = rates(task, divisor)
    learned = decayed_head_limit(task, decay, divisor) ** 3
    return task.label_power - np.concatenate([[0], np.cumsum(2 * a * learned - b * learned**2)])


def adam_growth(steps: int, optimizer: Adam | None = None) -> Float[np.ndarray, " steps"]:
    """Return u before each of ``steps`` steps of Adam: of a weight u whose gradient is −u².

    The learning rate is 1, eps is left out, and u starts at almost zero.
    """
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
    """Return the step at which Adam's loss is halfway to the first plateau, from weights far below lr.

    All heads grow together, so that M = m ππᵀ with m = H (lr u)³. The loss is tr Λ + σ² − 2mp + m²r with p =
    πᵀAπ and r = (πᵀCπ)(πᵀΛπ), where A has the eigenvalues a_d and C = E[ββᵀ] the eigenvalues b_d/λ_d. The
    result is nan if the loss along π never comes down halfway.
    """
    a, b = rates(task, divisor)
    basis, lam = task.eigenvectors, task.eigenvalues
    drive, limit = (basis * a) @ basis.T, (basis * (b / lam)) @ basis.T
    sign = np.sign(basis[:, 0])
    for _ in range(SIGN_ITERATIONS):
        sign = np.sign(drive @ sign)
    p, r = sign @ drive @ sign, (sign @ limit @ sign) * (sign @ task.covariance @ sign)
    levels = plateau_losses(task)
    discriminant = p**2 - r * (levels[0] - levels[1]) / 2
    if discriminant < 0:
        return np.nan
    u = np.cbrt((p - np.sqrt(discriminant)) / r / heads) / lr
    course = adam_growth(int(2 * u) + 100, optimizer)
    return float(np.interp(u, course, np.arange(len(course))))
