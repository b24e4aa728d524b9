"""How the head that has won a task learns it: the phase between the race of the heads and their limit.

The ω of this head rises to d^(−1/2), and its μ follows the best value for this ω, ω/(ω² + v). Throughout,
a = d_i √d_e, κ = 4 s_i/a and v = (φ_i/L) e^{d_i ω²}. The parameter ``width`` is d_e, by default d. The
chapter on task allocation uses this.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from iclcore.checks import BadValue
from iclcore.heads.theory import EXACTLY, MultiTask, PerTask, root_width


def advance(task: MultiTask, width: int | None = None) -> PerTask:
    """Return how long before the end of ``phases.race`` half of each task is learned, for vanishing starts.

    Half of a task is learned when μω is half of its limit 1/(1+ρ) with one head for each task. Whatever
    the start, the head that wins leaves the warm-up on one curve. It begins on the ray ω = gμ with
    g = 1/a + φ/L, from which the race takes another g/(κω). On the curve ω̇ = κωμ(1 − μω(1 + dv)) and
    μ̇ = 4sμ(ω − vμ − μω²), which we integrate over ln ω. The result is the difference of the two times.
    A start of finite size changes it in proportion to its size.
    """
    a = task.d * root_width(task, width)
    leads = []
    for d, s, drag, size in zip(task.d, task.s, task.phi / task.context, a, strict=True):
        g, kappa, half = 1 / size + drag, 4 * s / size, 0.5 / (1 + np.e * d * drag)

        def slopes(log_omega, u, d=d, s=s, drag=drag, g=g, kappa=kappa):
            omega, mu = np.exp(log_omega), np.exp(u[0])
            v = drag * np.exp(d * omega**2)
            pace = kappa * mu * (1 - mu * omega * (1 + d * v))
            return [4 * s * (omega - v * mu - mu * omega**2) / pace, 1 / pace - g / kappa / omega]

        def half_learned(log_omega, u, half=half):
            return u[0] + log_omega - np.log(half)

        half_learned.terminal = True
        first = np.log(1e-5 * d**-0.5)  # beginning here costs a relative error of 1e-5
        span = (first, np.log(d**-0.5))
        path = solve_ivp(slopes, span, [first - np.log(g), 0], events=half_learned, **EXACTLY)
        (end,), (log_omega,) = path.y_events[0], path.t_events[0]
        leads.append(g / kappa * np.exp(-log_omega) - end[1])
    return np.array(leads)


def speed(
    task: MultiTask, omega: Float[np.ndarray, "*points tasks"], width: int | None = None
) -> Float[np.ndarray, "*points tasks"]:
    """Return ω̇ = κ v ω² (1 − dω²)/(ω² + v)² of the head that won, with the best μ for its ω."""
    v = task.phi / task.context * np.exp(task.d * omega**2)
    kappa = 4 * task.s / (task.d * root_width(task, width))
    return kappa * v * omega**2 * (1 - task.d * omega**2) / (omega**2 + v) ** 2


def course(
    task: MultiTask, omega0: PerTask, t: Sequence[float] | np.ndarray, width: int | None = None
) -> tuple[Float[np.ndarray, "times tasks"], Float[np.ndarray, "times tasks"]]:
    """Return ω and μ of the heads that won, by the equation of ``speed``.

    ``omega0`` is their ω at the time ``t[0]``.
    """
    t = np.asarray(t, dtype=float)
    if not (np.asarray(omega0) > 0).all():
        raise BadValue("omega0", "takes positive numbers, one for each task")
    if t.ndim != 1 or t.size < 2 or (np.diff(t) <= 0).any():
        raise BadValue("t", "takes at least two increasing times")

    def slope(_: float, omega: np.ndarray) -> np.ndarray:
        return speed(task, omega, width)

    omega = solve_ivp(slope, (t[0], t[-1]), omega0, t_eval=t, **EXACTLY).y.T
    return omega, omega / (omega**2 + task.phi / task.context * np.exp(task.d * omega**2))
