"""The times of the drops of the loss for rank-one heads, predicted from the initial weights.

During training, rank-one heads move from one fixed point to the next. Near a fixed point, some heads have
learned an eigenvector each. All other heads are still small and do not influence one another. In the
eigenbasis of Λ, each small head follows

    v̇ = 2 Σ_d a_d k_d q_d,   k̇_d = 2 a_d v q_d,   q̇_d = 2 a_d v k_d,

with the rates a_d of ``theory.linear``, except that a_d = 0 for the eigenvectors that are learned already.
The right side is quadratic, so weights that are ε times as large need 1/ε times the time. The length of a
plateau is therefore proportional to 1/init. Because the growth is hyperbolic, one head grows large before all
others, along one eigenvector. The loss drops, and the a_d of this eigenvector becomes zero for the other
heads, which continue from their present weights.

If a head starts outside the paper's subspace, it can produce its answer in a second way, in which key and
value exchange their roles: the key reads the labels (k_y) and the value returns inputs (v_x). Both ways use
the same query:

    v̇_y = 2 Σ_d a_d k_d q_d,   k̇_y = 2 Σ_d a_d v_d q_d,   q̇_d = 2 a_d (v_y k_d + k_y v_d),
    k̇_d = 2 a_d v_y q_d,       v̇_d = 2 a_d k_y q_d.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iclcore.checks import BadValue
from iclcore.extras import needs
from iclcore.models import SeparateAttention, Weights
from iclcore.task import Divisor, RegressionTask
from iclcore.theory.linear import rates

HALF = 1 - 1 / np.sqrt(2)  # half of a drop is over when this fraction of a_d/b_d is learned


@dataclass(frozen=True)
class Drop:
    """One drop of the loss.

    - ``time``: the time at which half of the drop is over, as learning rate times steps.
    - ``head``: the head that learns, counted from 0.
    - ``component``: the number of the eigenvector that is learned; 1 has the largest eigenvalue.
    - ``labels``: True if the key of the head reads the labels.
    """

    time: float
    head: int
    component: int
    labels: bool = False


def staircase(
    task: RegressionTask, start: Weights, until: float = np.inf, divisor: Divisor = "one"
) -> list[Drop]:
    """Return all drops up to time ``until``, predicted from the initial weights of rank-one heads.

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``start``: the initial weights of a SeparateAttention of rank 1, as ``History.start`` holds them.
    - ``until``: drops after this time are left out. A time is the learning rate times the number of steps.
    - ``divisor``: the divisor of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    No parameter is fitted. The equations of the small heads are integrated until one head has completed half
    of a drop. This head and its eigenvector are then left out, and the integration continues with the others.
    """
    with needs():
        from scipy.integrate import solve_ivp

    a, b = rates(task, divisor)
    basis, dim = task.eigenvectors, task.dim
    if not isinstance(start, Mapping):
        takes = "takes initial weights, such as run.start, not"
        raise BadValue("start", f"{takes} {type(start).__name__}")
    shape = np.shape(start.get("key", ()))
    if shape[1:] != (1, dim + 1):
        takes = f"takes keys of shape (heads, 1, {dim + 1}), as rank-one attention has"
        raise BadValue("start", f"{takes}, not {shape}")
    key, query, value = SeparateAttention().factors(start, dim)
    pair = np.stack([value[:, 0], key[:, 0]], axis=1)  # (H, 2, D + 1): the two ways to the answer
    heads = len(pair)
    # each way combines the label entry of one matrix with the input entries of the other
    inputs = (pair[:, ::-1, :dim] @ basis).reshape(heads, -1)
    state = np.hstack([pair[:, :, dim], inputs, query[:, 0] @ basis])
    force = a.copy()  # a_d, or 0 for the eigenvectors that are learned
    small = np.ones(heads)  # 0 for the heads that have escaped
    time, drops = 0.0, []

    def split(flat):
        """Return label entries (H, 2), input entries (H, 2, D) and queries (H, D)."""
        rows = flat.reshape(heads, -1)
        return rows[:, :2], rows[:, 2:-dim].reshape(heads, 2, dim), rows[:, -dim:]

    def flow(_, flat):
        """Return the time derivative of the weights of all heads that are still small."""
        labels, inputs, q = split(flat)
        driven = force * q
        of_labels = np.einsum("hcd,hd->hc", inputs, driven)
        of_inputs = (labels[:, :, None] * driven[:, None]).reshape(heads, -1)
        of_queries = force * np.einsum("hc,hcd->hd", labels, inputs)
        return (2 * np.hstack([of_labels, of_inputs, of_queries]) * small[:, None]).ravel()

    def progress(flat):
        """Return how far each head is along each eigenvector: 1 is half of a drop. Shape (H, D)."""
        labels, inputs, q = split(flat)
        product = np.einsum("hc,hcd->hd", labels, inputs) * q
        return np.where((force > 0) & (small[:, None] > 0), product / (HALF * a / b), 0)

    def escape(_, flat):
        return progress(flat).max() - 1

    escape.terminal = True
    while time < until and force.any() and small.any():
        path = solve_ivp(
            flow, (time, until), np.ravel(state), "DOP853", events=escape, rtol=1e-9, atol=1e-14
        )
        time, state = float(path.t[-1]), path.y[:, -1]
        if path.status != 1:  # no head has escaped
            break
        head, d = np.unravel_index(np.argmax(progress(state)), (heads, dim))
        labels, inputs, _ = split(state)
        by_value, by_key = np.abs(labels[head] * inputs[head, :, d])
        drops.append(Drop(time, int(head), int(d) + 1, bool(by_key > by_value)))
        force[d], small[head] = 0, 0
    return drops
