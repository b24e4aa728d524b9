"""Theory of merged attention: the time of its drop of the loss and, for white inputs, the loss at each time.

The notation is that of ``theory.linear``. Inputs are white if all eigenvalues of their covariance are equal.
"""

import numpy as np

from iclcore.checks import BadValue, positive
from iclcore.extras import needs
from iclcore.models import Model, Weights
from iclcore.moments import rates
from iclcore.task import Divisor, RegressionTask
from iclcore.theory.linear import Times


def white_start(weights: Weights, dim: int) -> float:
    """Return c₀, the start of ``white_course``: the growing part of small merged weights.

    - ``weights``: the initial weights of a MergedAttention, as ``History.start`` holds them.
    - ``dim``: the dimension D of the inputs.

    c₀ = Σ_h ((v_h + u_h)/2)² with u_h = tr(U_h)/√D and v_h = tr(V_h)/√O for D inputs and O outputs. U_h is
    the D x D block of the key-query matrix between the query's x and the context's x, and V_h is the O x O
    block of the value matrix between labels and outputs.
    """
    outputs = weights["value"].shape[-1] - dim
    blocks = weights["value"][:, -outputs:, -outputs:], weights["key_query"][:, :dim, :dim]
    v, u = (np.trace(each, axis1=1, axis2=2) / np.sqrt(each.shape[-1]) for each in blocks)
    return float(np.sum((v + u) ** 2) / 4)


def _white_rates(task: RegressionTask, divisor: Divisor) -> tuple[float, float]:
    """Return a and b of ċ = 4c(a − bc), where c = √(DO) m if M = m I for each of the O outputs."""
    if np.ptp(task.eigenvalues) > 1e-12 * task.eigenvalues[0]:
        raise BadValue("spectrum", f"takes white for this closed form, not {task.spectrum!r}")
    a, b = rates(task, divisor)
    return float(a[0] * np.sqrt(task.dim / task.outputs)), float(b[0] / task.outputs)


def white_course(task: RegressionTask, c0: float, time: Times, divisor: Divisor = "one") -> Times:
    """Return the loss of merged attention on white inputs at each time, of shape (t,).

    - ``task``: a task with white inputs. The training data are infinitely many sequences of it.
    - ``c0``: c₀, the start of c, as ``white_start`` returns it.
    - ``time``: the times t. A time is the learning rate times the number of steps.
    - ``divisor``: the divisor of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    The loss is L(t) = tr Λ + σ² − 2ac + bc². In it c follows ċ = 4c(a − bc), so c rises logistically from c₀
    to c* = a/b. All directions learn together; therefore a = √(D/O) a_1 and b = b_1/O. The solution is

        c(t) = c* c₀/(c₀ (1 − e) + c* e),   e = exp(−4at).

    This form needs neither differences of large numbers nor a division by c₀.
    """
    a, b = _white_rates(task, divisor)
    end, start = a / b, positive("c0", c0)
    with np.errstate(over="ignore"):  # long after the end, or if c₀ is far above c*
        exponent = -4 * a * np.asarray(time, dtype=float)
        c = end * (start / (end * np.exp(exponent) - start * np.expm1(exponent)))
        loss = task.label_power - c * (2 * a - b * c)
    if not np.isfinite(loss).all():
        raise BadValue("c0", f"takes a start whose loss is a finite float, not {c0!r}")
    return loss


def drop_time(task: RegressionTask, c0: float, divisor: Divisor = "one") -> float:
    """Return the time at which the loss of ``white_course`` is halfway between its first and last value.

    - ``task``: a task with white inputs. The training data are infinitely many sequences of it.
    - ``c0``: c₀, the start of c, which must be below the limit a/b; see ``white_course``.
    - ``divisor``: the divisor of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    At this time c is 1 − 1/√2 of its limit a/b, so t = ln((√2 − 1)(a/(b c₀) − 1))/(4a). With ten times
    smaller initial weights, the drop happens later by ln(10)/(2a).
    """
    a, b = _white_rates(task, divisor)
    if not 0 < c0 < a / b:
        raise BadValue("c0", f"takes a start between 0 and its limit, {a / b:.6g}, not {c0!r}")
    return float((np.log((np.sqrt(2) - 1) * (a / b - c0)) - np.log(c0)) / (4 * a))


def growth_rate(task: RegressionTask, divisor: Divisor = "one") -> float:
    """Return the rate r at which small merged weights grow as exp(rt): 2|a|/√O for O outputs.

    - ``task``: the task, with any spectrum. The training data are infinitely many sequences of it.
    - ``divisor``: the divisor of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    |a| is the norm of the vector of all a_d. The value weights and the key-query weights grow at this rate.
    """
    return float(2 * np.linalg.norm(rates(task, divisor)[0]) / np.sqrt(task.outputs))


def merged_drop(task: RegressionTask, model: Model, start: Weights) -> float:
    """Return the time at which half of the only drop of the loss of merged attention or the MLP is over.

    - ``task``: a task with one output. The training data are infinitely many sequences of it.
    - ``model``: a MergedAttention or a CubicMLP.
    - ``start``: the initial weights of the model, as ``History.start`` holds them.

    No parameter is fitted. In every head, v and the part u of W along the vector a of all a_d grow together,
    and the ratios between the heads do not change. All heads together therefore act as one head. The matrix M
    of this head has the eigenvalues v w_d, and

        v̇ = 2 Σ_d w_d (a_d − b_d v w_d),   ẇ_d = 2 v (a_d − b_d v w_d).

    The head starts at v = |w| = √c₀ with c₀ = Σ_h ((v_h + u_h)/2)², and w is parallel to a. The parts of the
    weights that do not grow are left out. They change the time by some percent if ``init`` is 0.01, and by
    less if ``init`` is smaller.
    """
    a, b = rates(task, model.divisor)
    along = a / np.linalg.norm(a)
    w, value = model.factors(start, task.dim)
    basis = task.eigenvectors
    u = np.einsum("hij,id,jd,d->h", w[:, :, : task.dim], basis, basis, along)
    c0 = ((u + value[:, 0, -1]) ** 2).sum() / 4

    def flow(_, state):
        left = a - b * state[0] * state[1:]
        return 2 * np.append(state[1:] @ left, state[0] * left)

    def half(_, state):
        m = state[0] * state[1:]
        return (2 * a * m - b * m**2 - a**2 / b / 2).sum()

    half.terminal = True
    with needs():
        from scipy.integrate import solve_ivp

    # As long as v w_d is below this size, it grows as exp(4|a|t).
    small = 1e-8 * np.linalg.norm(a / b)
    growing = max(0, np.log(small / c0) / (4 * np.linalg.norm(a)))
    begin = np.sqrt(max(c0, small)) * np.append(1, along)
    path = solve_ivp(flow, (0, np.inf), begin, "DOP853", events=half, rtol=1e-9, atol=1e-14)
    return float(growing + path.t[-1])
