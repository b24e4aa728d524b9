"""The three phases of the gradient flow of ``multihead``, each with its own small equation.

Warm-up: both numbers grow as replicators until one head per task runs ahead. Emergence: μ follows ω
along μ ≈ ω/(ω² + v), and ω rises to d^(−1/2). Convergence: an exponential. Beyond it: the limit is
a saddle once μ may be negative. Throughout a = d_i √d_e, κ = 4 s_i/a, v = (φ_i/L) e^{d_i ω²}.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.integrate import solve_ivp
from scipy.special import exprel, xlog1py

from iclcore.theory.multihead import TOLERANCE, Flow, MultiTask, check, limit, loss, root_width


def escape_time(
    task: MultiTask,
    omega0: Float[np.ndarray, "*starts heads tasks"],
    mu0: Float[np.ndarray, "*starts heads tasks"],
    width: int | None = None,
) -> Float[np.ndarray, "*starts heads tasks"]:
    """When each head alone would blow up on each task: t_w = ln(aω0/μ0) / (κ(aω0 − μ0)).

    While the loss has not moved, ω̇ = κωμ and μ̇ = aκωμ: aω − μ is conserved and the rest is a
    logistic equation with the pole t_w. Weights of opposite signs shrink instead: infinite.
    """
    check(task, omega0, mu0)
    root = root_width(task, width)
    a = task.d * root
    with np.errstate(divide="ignore", invalid="ignore"):
        # ln(1+y)/y keeps its digits where aω0 = μ0.
        y = a * np.abs(omega0 / mu0) - 1
        time = np.where(y == 0, 1.0, xlog1py(1 / y, y)) * root * task.d / (4 * task.s * np.abs(mu0))
    return np.where(omega0 * mu0 > 0, time, np.inf)


def winner(
    task: MultiTask,
    omega0: Float[np.ndarray, "*starts heads tasks"],
    mu0: Float[np.ndarray, "*starts heads tasks"],
    width: int | None = None,
) -> Int[np.ndarray, "*starts tasks"]:
    """The head predicted to win each task: the one with the least escape time."""
    return escape_time(task, omega0, mu0, width).argmin(-2)


def warm_up(
    task: MultiTask,
    omega0: Float[np.ndarray, "heads tasks"],
    mu0: Float[np.ndarray, "heads tasks"],
    t: Sequence[float] | np.ndarray,
    width: int | None = None,
) -> tuple[Float[np.ndarray, "times heads tasks"], Float[np.ndarray, "times heads tasks"]]:
    """(ω, μ) while the loss has not moved, in closed form: with C = aω0 − μ0, g = e^{κCt},

    aω = C aω0 / (aω0 − μ0 g),   μ = C μ0 g / (aω0 − μ0 g), up to the first escape time.
    """
    if not (np.all(omega0 > 0) and np.all(mu0 > 0)):
        raise ValueError("omega0 and mu0 take positive numbers for the warm-up's closed form")
    t = np.asarray(t, dtype=float)[:, None, None]
    first = escape_time(task, omega0, mu0, width).min()
    if t.min() < 0 or t.max() >= first:
        raise ValueError(f"t takes times from 0 to before the first escape at {first:.6g}")
    a = task.d * root_width(task, width)
    C, x = a * omega0 - mu0, 4 * task.s / a * t
    # exprel(y) = (e^y − 1)/y: no division by a C that may be 0.
    below = 1 - mu0 * x * exprel(C * x)
    return omega0 / below, mu0 * np.exp(C * x) / below


def emergence_speed(
    task: MultiTask, omega: Float[np.ndarray, "*points tasks"], width: int | None = None
) -> Float[np.ndarray, "*points tasks"]:
    """ω̇ = κ v ω² (1 − dω²)/(ω² + v)² of the head that won, with μ at its best for that ω."""
    v = task.phi / task.context * np.exp(task.d * omega**2)
    kappa = 4 * task.s / (task.d * root_width(task, width))
    return kappa * v * omega**2 * (1 - task.d * omega**2) / (omega**2 + v) ** 2


def emergence(
    task: MultiTask,
    omega0: Float[np.ndarray, " tasks"],
    t: Sequence[float] | np.ndarray,
    width: int | None = None,
) -> tuple[Float[np.ndarray, "times tasks"], Float[np.ndarray, "times tasks"]]:
    """(ω, μ) of the winners by the one-variable equation, from ``omega0`` at the first time."""
    t = np.asarray(t, dtype=float)
    if not (np.asarray(omega0) > 0).all():
        raise ValueError("omega0 takes positive numbers, one a task")
    if t.ndim != 1 or t.size < 2 or (np.diff(t) <= 0).any():
        raise ValueError("t takes at least two increasing times")
    path = solve_ivp(
        lambda _, omega: emergence_speed(task, omega, width),
        (t[0], t[-1]),
        omega0,
        "DOP853",
        t,
        rtol=TOLERANCE,
        atol=TOLERANCE,
    )
    omega = path.y.T
    return omega, omega / (omega**2 + task.phi / task.context * np.exp(task.d * omega**2))


def convergence_rate(task: MultiTask, width: int | None = None) -> Float[np.ndarray, " tasks"]:
    """How fast the winner's distance to its limit decays, task by task, one head a task.

    The lesser eigenvalue of the two-variable flow in (log ω, log μ), linearised at the limit.
    """
    omega = task.d**-0.5
    v = np.e * task.phi / task.context
    mu = omega / (omega**2 + v)
    fast = 4 * task.s * omega
    slow = 4 * task.s / (task.d * root_width(task, width)) * mu**2 * omega
    trace = slow * (1 + 3 * task.d * v) + fast
    determinant = 2 * slow * fast * task.d * v
    return 2 * determinant / (trace + np.sqrt(trace**2 - 4 * determinant))


def saddle_rate(task: MultiTask) -> Float[np.ndarray, " tasks"]:
    """How fast other heads' |μ_i| change at the limit, ω_i of theirs being 0: 4 s_i (φ_i/L) μ_i.

    The head that won leaves a variance that any other head can cancel with a negative μ_i. So a
    positive μ_i decays at this rate and a negative one grows: the limit is a saddle of the model,
    reached because the balanced flow keeps signs. Noise of the gradient does not.
    """
    omega = task.d**-0.5
    mu = omega / (omega**2 + np.e * task.phi / task.context)
    return 4 * task.s * task.phi / task.context * mu


def crossing(
    t: Float[np.ndarray, " times"], values: Float[np.ndarray, " times"], level: float
) -> float:
    """The first time at which ``values`` reach ``level`` from below, between the two recorded ones."""
    reached = np.flatnonzero(values >= level)
    if not reached.size:
        raise ValueError(
            f"level takes what is reached, at most {values.max():.4g}, not {level:.4g}"
        )
    k = max(reached[0], 1)
    return float(np.interp(level, values[k - 1 : k + 1], t[k - 1 : k + 1]))


@dataclass(frozen=True)
class Phases:
    """Emergence is the time in which the loss makes the middle nine tenths of its drop."""

    warm_up_ends: float
    emergence_ends: float
    predicted: Float[np.ndarray, " tasks"]
    rate: Float[np.ndarray, " tasks"]


def phases(path: Flow, width: int | None = None) -> Phases:
    """The phases along a flow, and the escape times that the start alone predicts.

    The paper has no thresholds; 5% and 95% of the drop from the first loss to the limit's are ours.
    """
    heads = path.omega.shape[-2]
    end = limit(path.task, path.owner, heads)
    done = path.loss.sum(-1)
    done = (done[0] - done) / (done[0] - loss(path.task, *end).sum())
    if done[-1] < 0.95:
        raise ValueError(
            f"path takes a flow past its emergence, not one that ends at {done[-1]:.0%}"
        )
    times = [crossing(path.t, done, share) for share in (0.05, 0.95)]
    start = path.omega[0], path.mu[0]
    predicted = path.t[0] + escape_time(path.task, *start, width).min(-2)
    return Phases(*times, predicted, convergence_rate(path.task, width))
