"""Merged key and query: how fast small weights grow and, on white inputs, the loss at each time.

The notation is that of ``theory.linear``. Inputs are white if all eigenvalues of their covariance are equal.
"""

import numpy as np

from iclcore.checks import BadValue, positive
from iclcore.models import Weights
from iclcore.moments import rates
from iclcore.task import Divisor, RegressionTask
from iclcore.theory.linear import Times


def white_start(weights: Weights, dim: int) -> float:
    """Return c₀, the growing part of small merged weights, at which ``white_course`` starts.

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
    """Return the loss of merged attention on white input at each time, shape (t,).

    - ``task``: a task with white inputs. The training data are infinitely many sequences of it.
    - ``c0``: c₀, the start of c, as ``white_start`` returns it.
    - ``time``: the times t, which are learning rate times steps.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    L(t) = tr Λ + σ² − 2ac + bc², where c follows ċ = 4c(a − bc): a logistic rise from c₀ to c* = a/b. Here
    a = √(D/O) a_1 and b = b_1/O, because all directions learn together.

        c(t) = c* c₀/(c₀ (1 − e) + c* e),   e = exp(−4at).

    This form needs no differences of large numbers and no division by c₀.
    """
    a, b = _white_rates(task, divisor)
    end, start = a / b, positive("c0", c0)
    with np.errstate(over="ignore"):  # at times long after the end, or from starts far above c*
        exponent = -4 * a * np.asarray(time, dtype=float)
        c = end * (start / (end * np.exp(exponent) - start * np.expm1(exponent)))
        loss = task.label_power - c * (2 * a - b * c)
    if not np.isfinite(loss).all():
        raise BadValue("c0", f"takes a start whose loss is a finite float, not {c0!r}")
    return loss


def drop_time(task: RegressionTask, c0: float, divisor: Divisor = "one") -> float:
    """Return the time at which ``white_course`` has fallen halfway from its first loss to its last.

    - ``task``: a task with white inputs. The training data are infinitely many sequences of it.
    - ``c0``: c₀, the start of c, below its limit a/b; see ``white_course``.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    At this time c is 1 − 1/√2 of its limit a/b, so t = ln((√2 − 1)(a/(b c₀) − 1))/(4a). If the initial
    weights are ten times smaller, the drop comes later by ln(10)/(2a).
    """
    a, b = _white_rates(task, divisor)
    if not 0 < c0 < a / b:
        raise BadValue("c0", f"takes a start between 0 and its limit, {a / b:.6g}, not {c0!r}")
    return float((np.log((np.sqrt(2) - 1) * (a / b - c0)) - np.log(c0)) / (4 * a))


def growth_rate(task: RegressionTask, divisor: Divisor = "one") -> float:
    """Return the rate r at which small merged weights grow as exp(rt): 2|a|/√O for O outputs.

    - ``task``: the task, with any spectrum. The training data are infinitely many sequences of it.
    - ``divisor``: that of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    |a| is the norm of the vector of all a_d. The value and the key-query weights grow at the same rate.
    """
    return float(2 * np.linalg.norm(rates(task, divisor)[0]) / np.sqrt(task.outputs))
