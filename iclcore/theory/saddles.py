"""From saddle to saddle: when the drops of rank-one heads come, and which head makes each.

Near a fixed point at which a set of eigenvectors is learned the other heads are small and do not
feel one another. In the eigenbasis of Λ each follows, with a_d = 0 for what is learned already,

    v̇ = 2 Σ_d a_d k_d q_d,   k̇_d = 2 a_d v q_d,   q̇_d = 2 a_d v k_d .

The right side is quadratic, so weights ε times as large take 1/ε times as long: plateaus last in
proportion to 1/init. Growth is hyperbolic: one head, and in it one direction, gets away first, the
loss drops, its a_d goes to zero for the others, and they go on from where they are.

Outside of the paper's subspace a head has a second way to the answer, with key and value exchanged: its
key reads the labels, k_y, and its value returns inputs, v_x. Both pull on the same query,

    v̇_y = 2 Σ_d a_d k_d q_d,  k̇_y = 2 Σ_d a_d v_d q_d,  q̇_d = 2 a_d (v_y k_d + k_y v_d),  k̇_d, v̇_d alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iclcore.checks import instance
from iclcore.models import SeparateAttention, Weights
from iclcore.task import Divisor, RegressionTask
from iclcore.theory.linear import rates

HALF = 1 - 1 / np.sqrt(2)  # of a_d/b_d: there half of a drop's loss is gone


@dataclass(frozen=True)
class Drop:
    """One step of the staircase: when half of it is over, whose it is, and what was learned."""

    time: float
    head: int
    component: int  # 1 is the eigenvector of the largest eigenvalue
    labels: bool = False  # it is the key that reads them


def staircase(
    task: RegressionTask, start: Weights, until: float = np.inf, divisor: Divisor = "one"
) -> list[Drop]:
    """The drops up to time ``until`` from initial weights alone, nothing fitted."""
    a, b = rates(task, divisor)
    basis = task.eigenvectors
    shape = np.shape(instance("start", start, Mapping).get("key", ()))
    if shape[1:] != (1, task.dim + 1):
        raise ValueError(
            f"start takes keys of shape (heads, 1, {task.dim + 1}), as rank-one attention has, not {shape}"
        )
    key, query, value = SeparateAttention().factors(start, task.dim)
    pair = np.stack([value[:, 0], key[:, 0]], axis=1)  # one reads what the other returns
    heads, dim = len(pair), task.dim
    inputs = (pair[:, ::-1, :dim] @ basis).reshape(heads, -1)
    state = np.hstack([pair[:, :, dim], inputs, query[:, 0] @ basis])
    force, free = a.copy(), np.ones(heads)
    time, drops = 0.0, []

    def parts(flat):
        """Label entries (H, 2), the other's inputs (H, 2, D), queries (H, D)."""
        each = flat.reshape(heads, -1)
        return each[:, :2], each[:, 2:-dim].reshape(heads, 2, dim), each[:, -dim:]

    def flow(_, flat):
        label, inputs, q = parts(flat)
        pulled = force * q
        of_labels = np.einsum("hcd,hd->hc", inputs, pulled)
        of_inputs = (label[:, :, None] * pulled[:, None]).reshape(heads, -1)
        of_queries = force * np.einsum("hc,hcd->hd", label, inputs)
        return (2 * np.hstack([of_labels, of_inputs, of_queries]) * free[:, None]).ravel()

    def strength(flat):
        label, inputs, q = parts(flat)
        made = np.einsum("hc,hcd->hd", label, inputs) * q
        return np.where((force > 0) & (free[:, None] > 0), made / (HALF * a / b), 0)

    def escaped(_, flat):
        return strength(flat).max() - 1

    escaped.terminal = True
    # here, as in the other rooms: to refuse a flag takes none of it
    from scipy.integrate import solve_ivp

    while time < until and force.any() and free.any():
        path = solve_ivp(
            flow, (time, until), np.ravel(state), "DOP853", events=escaped, rtol=1e-9, atol=1e-14
        )
        time, state = float(path.t[-1]), path.y[:, -1]
        if path.status != 1:
            break
        head, d = np.unravel_index(np.argmax(strength(path.y[:, -1])), (heads, dim))
        label, inputs, _ = parts(state)
        ways = np.abs(label[head] * inputs[head, :, d])
        drops.append(Drop(time, int(head), int(d) + 1, bool(ways[1] > ways[0])))
        force[d], free[head] = 0, 0
    return drops
