"""The line that ``train`` prints if a run ended on a plateau: when theory expects the next drop."""

import numpy as np

from iclcore.history import History
from iclcore.models import Model, SeparateAttention, Weights
from iclcore.moments import features
from iclcore.optimisers import PLAIN
from iclcore.stability import stable_rate
from iclcore.sweep_plan import Plan, training_data
from iclcore.task import RegressionTask, Sequences

# A loss is on a plateau if it falls by less than this fraction in the last tenth of the steps.
FLAT = 0.01
QUICK = 1000  # with more features than this, a stable learning rate takes a second to compute
MOST_STEPS = 1e12  # nobody waits for a later drop
MARGIN = 1.5  # thousands of drawn sequences move a drop by some 10%, and the drop itself takes time


def next_drop(plan: Plan, history: History) -> str | None:
    """Return a line for the user if the run ended on a plateau that is not the last, else None."""
    loss, model, task = history.loss, plan.model, plan.task
    known = task and task.in_context == 1 and model.linear and plan.optimizer == PLAIN
    flat = loss[-1] > (1 - FLAT) * loss[-1 - len(loss) // 10]
    if not known or not flat or history.ended != "finished" or history.first_rise is not None:
        return None
    from iclcore import theory

    data = training_data(plan)
    learned, levels = theory.plateau_levels(model, task)
    if isinstance(data, Sequences):  # the mean of y² in these data differs from that of the task
        levels *= np.square(data.y[:, data.lengths[0] - 1 :]).mean() / levels[0]
        task = data.task
    passed = int(np.abs(levels - loss[-1]).argmin())
    line = f"the loss is on a plateau, {learned[passed]:g} of {task.dim} eigenvectors are learned"
    if passed == len(levels) - 1:
        heads_are_few = isinstance(model, SeparateAttention) and learned[passed] < task.dim
        return f"{line}: that is all that these heads can learn" if heads_are_few else None
    latest = MOST_STEPS * plan.lr
    times = drop_times(task, model, history.start, latest)
    if passed >= len(times) or not times[passed] < latest:
        return f"{line}: a larger --epoch, --lr or --init takes the run further"
    step = times[passed] / plan.lr
    epoch = float(f"{MARGIN * max(step, plan.steps):.2g}")
    line += f": theory expects the next drop at about step {step:.0f}"
    if step < plan.steps:
        return f"{line}, and it is late; try --epoch {epoch:.0f}"
    line += f". --epoch {epoch:.0f} shows it"
    if features(model, task.dim, task.outputs).size > QUICK:
        return line
    return f"{line}, or fewer steps with a larger --lr, up to {stable_rate(task, model) / 2:.2g}"


@np.errstate(all="ignore")  # weights can be so small that their products are 0
def drop_times(task: RegressionTask, model: Model, start: Weights, latest: float) -> list[float]:
    """Return the times of the drops up to ``latest``. The list is empty if theory cannot predict them."""
    from iclcore import theory

    merged = not isinstance(model, SeparateAttention)
    if task.outputs > 1:
        return []
    try:
        if merged:
            return [theory.merged_drop(task, model, start)]
        if model.rank > 1:
            one = theory.staircase(task, as_rank_one(task, start), latest, model.divisor)
            return [drop.time for drop in one[:1]]
        return [drop.time for drop in theory.staircase(task, start, latest, model.divisor)]
    except ModuleNotFoundError:  # scipy is not installed; the run itself did not need it
        return []


def as_rank_one(task: RegressionTask, start: Weights) -> Weights:
    """Return weights of rank one whose heads grow as those of ``start`` do until the first drop.

    Let u_d and w_d be the sum and the difference of k_d and q_d, the columns of K and Q along eigenvector d.
    Then 2 v̇ = Σ_d a_d (|u_d|² − |w_d|²), u̇_d = 2 a_d v u_d and ẇ_d = −2 a_d v w_d, so only norms matter.
    """
    basis = task.eigenvectors
    key, query = (start[name][..., : task.dim] @ basis for name in ("key", "query"))
    u, w = (np.linalg.norm(key + sign * query, axis=1, keepdims=True) for sign in (1, -1))
    rows = {"key": (u + w) / 2 @ basis.T, "query": (u - w) / 2 @ basis.T}
    return start | {name: np.pad(row, [(0, 0), (0, 0), (0, 1)]) for name, row in rows.items()}
