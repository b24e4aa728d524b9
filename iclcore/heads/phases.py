"""The three phases of the gradient flow of ``multihead``, each with its own small equation.

Warm-up: the heads race for each task, and one of them runs away. Emergence: ω rises to d^(−1/2) and
μ follows towards its best, ω/(ω² + v). Convergence: the winner's numbers settle exponentially.
Beyond it: the limit is a saddle once μ may be negative. Throughout a = d_i √d_e, κ = 4 s_i/a,
v = (φ_i/L) e^{d_i ω²}.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.integrate import solve_ivp
from scipy.special import xlog1py

from iclcore.heads.theory import EXACTLY, MultiTask, PerTask, Spectrum, check, root_width


def race(
    task: MultiTask, omega0: Spectrum, mu0: Spectrum, width: int | None = None
) -> tuple[Float[np.ndarray, "*starts tasks"], Int[np.ndarray, "*starts tasks"]]:
    """When each task is won, by the start alone, and by which head.

    While the loss has not moved, tasks do not feel each other and B = 1:

    ω̇_h = κ ω_h μ_h,   μ̇_h = 4s μ_h (ω_h − (φ/L) Σ_g μ_g).

    Both terms of μ̇ are quadratic, so the second, the noise of heads that look nowhere yet, keeps its
    share however small the start is, and a start c times smaller waits c times longer. The leader
    blows up: that is the time. In τ with dτ = (κ Σμ + 4s Σω) dt it takes for ever, and t converges.
    """
    check(task, omega0, mu0)
    if not (np.all(omega0 > 0) and np.all(mu0 > 0)):
        raise ValueError("omega0 and mu0 take positive numbers for a race")
    a = task.d * root_width(task, width)
    kappa, drag = 4 * task.s / a, task.phi / task.context
    logs = np.log(np.stack([omega0, mu0]))
    waits = np.zeros(logs[0, ..., :1, :].shape)

    def speed(_: float, u: np.ndarray) -> np.ndarray:
        omega, mu = np.exp(u[: logs.size].reshape(logs.shape))
        total = mu.sum(-2, keepdims=True)
        clock = 1 / (kappa * total + 4 * task.s * omega.sum(-2, keepdims=True))
        slopes = clock * kappa * mu, clock * 4 * task.s * (omega - drag * total)
        return np.concatenate([np.ravel(slopes), clock.ravel()])

    # H heads in a tie end on ω = (1/a + Hφ/L) μ; what is left of t falls as e^{−τ/H(2 + Haφ/L)}.
    heads = logs.shape[-2]
    far = 30 * heads * np.max(2 + heads * a * drag) + np.ptp(logs)
    start = np.concatenate([logs.ravel(), waits.ravel()])
    path = solve_ivp(speed, (0, far), start, t_eval=[far], **EXACTLY)
    omega, mu = path.y[: logs.size, -1].reshape(logs.shape)
    return path.y[logs.size :, -1].reshape(waits.shape)[..., 0, :], (omega + mu).argmax(-2)


def advance(task: MultiTask, width: int | None = None) -> PerTask:
    """How long before the ``race`` ends half of a task is done, as starts go to 0; one head a task.

    The winner leaves the warm-up on one curve, whatever the start: ω = gμ, g = 1/a + φ/L, whence the
    race takes another g/(κω). On it ω̇ = κωμ(1 − μω(1 + dv)), μ̇ = 4sμ(ω − vμ − μω²), here in ln ω up to
    μω = ½/(1+ρ). The race leads by less than it takes from there. A start's size changes it in proportion.
    """
    a = task.d * root_width(task, width)
    found = []
    for d, s, share, size in zip(task.d, task.s, task.phi / task.context, a, strict=True):
        g, kappa, half = 1 / size + share, 4 * s / size, 0.5 / (1 + np.e * d * share)

        def slopes(log_omega, u, d=d, s=s, share=share, g=g, kappa=kappa):
            omega, mu = np.exp(log_omega), np.exp(u[0])
            v = share * np.exp(d * omega**2)
            pace = kappa * mu * (1 - mu * omega * (1 + d * v))
            return [4 * s * (omega - v * mu - mu * omega**2) / pace, 1 / pace - g / kappa / omega]

        def done(log_omega, u, half=half):
            return u[0] + log_omega - np.log(half)

        done.terminal = True
        first = np.log(1e-5 * d**-0.5)  # what lies below is a share of 1e-5
        span = (first, np.log(d**-0.5))
        path = solve_ivp(slopes, span, [first - np.log(g), 0], events=done, **EXACTLY)
        (end,), (log_omega,) = path.y_events[0], path.t_events[0]
        found.append(g / kappa * np.exp(-log_omega) - end[1])
    return np.array(found)


def escape_time(
    task: MultiTask, omega0: Spectrum, mu0: Spectrum, width: int | None = None
) -> Spectrum:
    """When each head would win each ``race`` without its drag: t_w = ln(aω0/μ0) / (κ(aω0 − μ0)).

    The limit aφ/L → 0 of long contexts, and linear attention at any length, whose B is 0 where that
    of softmax is 1. Then aω − μ is conserved and the rest is a logistic equation with the pole t_w.
    Weights of opposite signs shrink instead: infinite.
    """
    check(task, omega0, mu0)
    root = root_width(task, width)
    a = task.d * root
    with np.errstate(divide="ignore", invalid="ignore"):
        # ln(1+y)/y keeps its digits where aω0 = μ0.
        y = a * np.abs(omega0 / mu0) - 1
        time = np.where(y == 0, 1.0, xlog1py(1 / y, y)) * root * task.d / (4 * task.s * np.abs(mu0))
    return np.where(omega0 * mu0 > 0, time, np.inf)


def emergence_speed(
    task: MultiTask, omega: Float[np.ndarray, "*points tasks"], width: int | None = None
) -> Float[np.ndarray, "*points tasks"]:
    """ω̇ = κ v ω² (1 − dω²)/(ω² + v)² of the head that won, with μ at its best for that ω."""
    v = task.phi / task.context * np.exp(task.d * omega**2)
    kappa = 4 * task.s / (task.d * root_width(task, width))
    return kappa * v * omega**2 * (1 - task.d * omega**2) / (omega**2 + v) ** 2


def emergence(
    task: MultiTask, omega0: PerTask, t: Sequence[float] | np.ndarray, width: int | None = None
) -> tuple[Float[np.ndarray, "times tasks"], Float[np.ndarray, "times tasks"]]:
    """(ω, μ) of the winners by the one-variable equation, from ``omega0`` at the first time."""
    t = np.asarray(t, dtype=float)
    if not (np.asarray(omega0) > 0).all():
        raise ValueError("omega0 takes positive numbers, one a task")
    if t.ndim != 1 or t.size < 2 or (np.diff(t) <= 0).any():
        raise ValueError("t takes at least two increasing times")

    def speed(_: float, omega: np.ndarray) -> np.ndarray:
        return emergence_speed(task, omega, width)

    omega = solve_ivp(speed, (t[0], t[-1]), omega0, t_eval=t, **EXACTLY).y.T
    return omega, omega / (omega**2 + task.phi / task.context * np.exp(task.d * omega**2))


def convergence_rate(task: MultiTask, width: int | None = None) -> PerTask:
    """How fast the winner's ω and μ near their limit, task by task, one head a task.

    The lesser eigenvalue of the two-variable flow in (log ω, log μ), linearised at the limit. The
    loss is slower in the end: the ω of the heads that lost falls only as 1/t, their share as 1/t².
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
    """How fast other heads' |μ_i| change at the limit, ω_i of theirs being 0: 4 s_i (φ_i/L) μ_i.

    The head that won leaves a variance that any other head can cancel with a negative μ_i. So a
    positive μ_i decays at this rate and a negative one grows: the limit is a saddle of the model,
    reached because the balanced flow keeps signs. Noise of the gradient does not.
    """
    omega = task.d**-0.5
    mu = omega / (omega**2 + np.e * task.phi / task.context)
    return 4 * task.s * task.phi / task.context * mu
