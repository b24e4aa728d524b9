"""How the gradient flow of ``heads.theory`` begins and ends: the race of the heads, and the limit.

In the warm-up the heads race for each task, and one of them outgrows the others. Its ω then rises to
d^(−1/2), its μ follows the best value for this ω, and both approach their limits exponentially. The limit is
a saddle if μ may become negative.

Throughout, a = d_i √d_e and κ = 4 s_i/a. The parameter ``width`` is d_e, by default d.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.integrate import solve_ivp
from scipy.special import xlog1py

from iclcore.checks import BadValue
from iclcore.heads.theory import EXACTLY, MultiTask, PerTask, Spectrum, check_shapes, root_width


def race(
    task: MultiTask, omega0: Spectrum, mu0: Spectrum, width: int | None = None
) -> tuple[Float[np.ndarray, "*starts tasks"], Int[np.ndarray, "*starts tasks"]]:
    """Return, for each task, the time at which a head wins it and the number of that head.

    The result depends only on the start. As long as the loss has not fallen, tasks do not influence one
    another and B = 1, so for each task

        ω̇_h = κ ω_h μ_h,   μ̇_h = 4s μ_h (ω_h − (φ/L) Σ_g μ_g).

    The last term is the drag: the noise of heads that do not yet attend to any token in particular. Both
    terms of μ̇ are quadratic, so the drag is equally important for small and large starts, and a start c
    times smaller takes c times longer. The head that wins diverges at a finite time, which is returned.
    To reach it we integrate in the variable τ with dτ = (κ Σ_h μ_h + 4s Σ_h ω_h) dt. There the divergence
    is at τ = ∞, and t converges.
    """
    check_shapes(task, omega0, mu0)
    for name, value in (("omega0", omega0), ("mu0", mu0)):
        if not np.all(value > 0):
            raise BadValue(name, "takes positive numbers for a race")
    a = task.d * root_width(task, width)
    kappa, drag = 4 * task.s / a, task.phi / task.context
    logs = np.log(np.stack([omega0, mu0]))
    times = np.zeros(logs[0, ..., :1, :].shape)

    def speed(_: float, u: np.ndarray) -> np.ndarray:
        omega, mu = np.exp(u[: logs.size].reshape(logs.shape))
        total = mu.sum(-2, keepdims=True)
        dt = 1 / (kappa * total + 4 * task.s * omega.sum(-2, keepdims=True))
        slopes = dt * kappa * mu, dt * 4 * task.s * (omega - drag * total)
        return np.concatenate([np.ravel(slopes), dt.ravel()])

    # H heads that are tied end on ω = (1/a + Hφ/L) μ; the remaining time falls as e^{−τ/H(2 + Haφ/L)}.
    heads = logs.shape[-2]
    far = 30 * heads * np.max(2 + heads * a * drag) + np.ptp(logs)
    start = np.concatenate([logs.ravel(), times.ravel()])
    path = solve_ivp(speed, (0, far), start, t_eval=[far], **EXACTLY)
    omega, mu = path.y[: logs.size, -1].reshape(logs.shape)
    return path.y[logs.size :, -1].reshape(times.shape)[..., 0, :], (omega + mu).argmax(-2)


def escape_time(
    task: MultiTask, omega0: Spectrum, mu0: Spectrum, width: int | None = None
) -> Spectrum:
    """Return the time at which each head would win each ``race`` without drag, ln(aω0/μ0) / (κ(aω0 − μ0)).

    This is the limit aφ/L → 0 of long contexts. It also holds for linear attention with contexts of any
    length, because the overlap B of linear attention is 0 at ω = 0, where that of softmax is 1. Without the
    drag aω − μ is conserved, and a logistic equation remains, which has a pole at this time. Weights of
    opposite signs shrink, so their time is infinite.
    """
    check_shapes(task, omega0, mu0)
    root = root_width(task, width)
    a = task.d * root
    with np.errstate(divide="ignore", invalid="ignore"):
        # ln(1+y)/y remains accurate where aω0 is close to μ0.
        y = a * np.abs(omega0 / mu0) - 1
        time = np.where(y == 0, 1.0, xlog1py(1 / y, y)) * root * task.d / (4 * task.s * np.abs(mu0))
    return np.where(omega0 * mu0 > 0, time, np.inf)


def convergence_rate(task: MultiTask, width: int | None = None) -> PerTask:
    """Return the rate at which ω and μ of each task approach their limit, with one head for each task.

    It is the smaller eigenvalue of the flow in (log ω, log μ), linearised at the limit. In the end the
    loss converges more slowly than at this rate: the ω of heads that lost a task decay only as 1/t, and
    their part of the loss decays as 1/t².
    """
    omega = task.d**-0.5
    v = np.e * task.phi / task.context
    mu = omega / (omega**2 + v)
    fast = 4 * task.s * omega
    slow = 4 * task.s / (task.d * root_width(task, width)) * mu**2 * omega
    trace = slow * (1 + 3 * task.d * v) + fast
    determinant = 2 * slow * fast * task.d * v
    return 2 * determinant / (trace + np.sqrt(trace**2 - 4 * determinant))


def saddle_rate(task: MultiTask) -> PerTask:
    """Return the rate at which the |μ_i| of the other heads change at the limit, 4 s_i (φ_i/L) μ_i.

    The μ_i in the formula belongs to the head that won task i, and the ω_i of the other heads are 0. The
    answer of the winner has a variance, which any other head can reduce with a negative μ_i of its own. So a
    positive μ_i of another head decays at this rate, and a negative one grows. The limit is therefore a
    saddle of the model. The balanced flow reaches it because it keeps signs; the noise of stochastic
    gradients does not.
    """
    omega = task.d**-0.5
    mu = omega / (omega**2 + np.e * task.phi / task.context)
    return 4 * task.s * task.phi / task.context * mu
