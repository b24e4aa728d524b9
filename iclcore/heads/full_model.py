"""Multi-head softmax attention on several tasks with all matrices of all heads, trained by SGD in torch.

The model is that of ``heads.theory`` without any assumption on the weights. A set of weights is a dict of
the arrays K, Q, V and O, whose first axis is the head. Training draws a fresh batch of sequences at each
step. ``spectral`` trains the same model faster if the weights are decomposable. ``train_published``
takes its start and its sequences as the second paper's code does: the same seed gives the same curve.
Torch is imported when a function first needs it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from iclcore import checks
from iclcore.checks import BadValue, whole
from iclcore.extras import needs
from iclcore.heads.schedule import FIGURE_1, Schedule, walk_schedule
from iclcore.heads.theory import MultiTask, PerHead, check_shapes
from iclcore.history import History
from iclcore.shapes import Float

Matrices = Mapping[str, Float[np.ndarray, "heads ..."]]  # K, Q, V and O
Tokens = Float[Any, "batch entries context"]
Query = Float[Any, "batch entries"]
Answer = Float[Any, "batch tasks"]
Batch = tuple[Tokens, Query, Answer]
# Drawing the inputs takes most of the time of a step, so groups of this many contexts share their inputs.
# Each context has its own tasks g, with random signs, and its own query, so the gradients are hardly
# correlated.
CONTEXTS_PER_INPUT = 8


def decomposable_weights(
    task: MultiTask, omega0: PerHead, mu0: PerHead, width: int | None = None
) -> Matrices:
    """Return balanced decomposable weights with these ω and μ.

    For each head, K and Q have the shape (d_e, d+I), V has (I, d+I), and O has (I, I). ``width`` is d_e,
    by default d.
    """
    check_shapes(task, omega0, mu0)
    width = task.dim if width is None else whole("width", width, least=task.dim)
    heads, tasks = np.shape(omega0)
    key = np.zeros((heads, width, task.dim + tasks))
    value = np.zeros((heads, tasks, task.dim + tasks))
    axis, group = np.arange(task.dim), np.repeat(np.arange(tasks), task.dims)
    key[:, axis, axis] = np.sqrt(np.abs(omega0[:, group]) * np.sqrt(width))
    value[:, np.arange(tasks), task.dim + np.arange(tasks)] = np.sqrt(np.abs(mu0))
    query = key.copy()
    query[:, axis, axis] *= np.sign(omega0[:, group])
    output = value[:, :, task.dim :] * np.sign(mu0)[:, :, None]
    return {"K": key, "Q": query, "V": value, "O": output}


def spectrum(task: MultiTask, weights: Matrices) -> tuple[PerHead, PerHead]:
    """Return ω and μ of any weights.

    ω_i is the mean of the diagonal of KᵀQ/√d_e on group i, and μ is the diagonal of O V_Y, where V_Y is
    the part of V that reads labels.
    """
    K, Q, V, out = (weights[name] for name in "KQVO")
    first = np.cumsum([0, *task.dims[:-1]])
    diagonal = np.einsum("hea,hea->ha", K[..., : task.dim], Q[..., : task.dim], dtype=float)
    omega = np.add.reduceat(diagonal, first, axis=1) / task.d / np.sqrt(K.shape[1])
    return omega, np.einsum("hij,hji->hi", out, V[..., task.dim :], dtype=float)


def departure(task: MultiTask, weights: Matrices) -> dict[str, float]:
    """Return how far weights are from decomposable: the largest deviations in KᵀQ/√d_e and in OV.

    We subtract ω and μ from these products and return the largest absolute values of the rest. The columns
    of Q for the labels are left out, because they are multiplied by the zeros of the query's token.
    """
    K, Q, V, out = (np.asarray(weights[name], dtype=float) for name in "KQVO")
    omega, mu = spectrum(task, weights)
    W, U = K.swapaxes(1, 2) @ Q[..., : task.dim] / np.sqrt(K.shape[1]), out @ V
    axis, tasks = np.arange(task.dim), np.arange(task.tasks)
    W[:, axis, axis] -= np.repeat(omega, task.dims, axis=1)
    U[:, tasks, task.dim + tasks] -= mu
    return {"KQ": float(np.abs(W).max()), "OV": float(np.abs(U).max())}


def predict(
    weights: Mapping[str, Any], tokens: Tokens, query: Query, softmax: bool = True
) -> Answer:
    """Return ŷ = Σ_h O^h V^h Z softmax(Zᵀ K^hᵀ Q^h z_q / √d_e), for weights that are torch tensors.

    If ``softmax`` is False, attention is linear: the weights of the L tokens are their scores over L.
    """
    K, Q, V, out = (weights[name] for name in "KQVO")
    keys = (query @ Q.mT @ K / K.shape[1] ** 0.5).transpose(0, 1)  # Kᵀ Q z_q / √d_e
    scores = keys @ tokens
    p = scores.softmax(-1) if softmax else scores / scores.shape[-1]
    average = (p @ tokens.mT).transpose(0, 1)
    return (average @ V.mT @ out.mT).sum(0)


def sequences(task: MultiTask, batch: int, generator: Any, contexts_per_input: int = 1) -> Batch:
    """Return Z with the tokens (x, y) as columns, the query's token (q, 0), and the answers, in float32.

    ``contexts_per_input`` contexts share each input x, but each context has its own tasks, noise and query.
    """
    import torch

    d, tasks = task.dim, task.tasks
    group = np.repeat(np.arange(tasks), task.dims)
    scale = (np.eye(tasks)[:, group] * np.sqrt(task.s / task.d)[:, None]).astype(np.float32)
    G = torch.from_numpy(scale) * torch.randn(batch, 1, d, generator=generator)
    x = torch.randn(-(-batch // contexts_per_input), d, task.context, generator=generator)
    tokens = torch.empty(batch, d + tasks, task.context)
    for part in tokens.split(len(x)):
        part[:, :d] = x[: len(part)]
    tokens[:, d:] = G @ tokens[:, :d]
    if task.noise:
        noise = torch.randn(batch, tasks, task.context, generator=generator)
        tokens[:, d:] += task.noise**0.5 * noise
    query = torch.randn(batch, d + tasks, generator=generator)
    query[:, d:] = 0
    return tokens, query, (G @ query[:, :d, None])[..., 0]


def train_full(
    task: MultiTask,
    omega0: PerHead,
    mu0: PerHead,
    schedule: Schedule = FIGURE_1,
    *,
    batch: int = 256,
    width: int | None = None,
    seed: int = 0,
    softmax: bool = True,
) -> History:
    """Train all matrices by SGD from balanced decomposable weights, and return the History.

    - ``task``: the task.
    - ``omega0`` and ``mu0``: ω and μ of the initial weights, both of shape (heads, tasks).
    - ``schedule``: pairs (end time, learning rate until then). Time is the sum of the learning rates.
    - ``batch``: the number of fresh contexts at each step. CONTEXTS_PER_INPUT of them share inputs, which
      leaves the mean of the gradient and, as far as we could measure, its noise unchanged.
    - ``width``: the number d_e of rows of K and Q, by default d.
    - ``seed``: the seed of the contexts, which are the same with and without softmax.
    - ``softmax``: True for softmax attention, False for linear attention.

    Numbers are float32, because their round-off is far below the noise of a batch. The series ``omega`` and
    ``mu`` have the shape (steps, heads, tasks); ``departure_KQ`` and ``departure_OV`` hold what the function
    ``departure`` returns.
    """
    with needs("torch"):
        import torch

    batch, seed = int(whole("batch", batch)), int(checks.seed("seed", seed))
    generator = torch.Generator().manual_seed(seed)
    return _train_by_sgd(
        task,
        decomposable_weights(task, omega0, mu0, width),
        lambda: sequences(task, batch, generator, CONTEXTS_PER_INPUT),
        schedule,
        {"batch": batch, "seed": seed, "softmax": softmax},
    )


def train_published(
    task: MultiTask, schedule: Schedule, *, batch: int = 10_000, seed: int = 0
) -> History:
    """Train as the published code does with a given seed, and return the History.

    - ``task``: the task. All groups must have one size, and signals are s_i = d_i.
    - ``schedule``: pairs (end time, learning rate until then). Time is the sum of the learning rates.
    - ``batch``: the number of fresh contexts at each step.
    - ``seed``: the seed of the published code.

    The start, the random numbers and the loss are those of the published code. Its loss is the mean over
    contexts *and* tasks, so times are I times as long as for the sum over tasks. There is one head for
    each task, and d_e = d + I.
    """
    with needs("torch"):
        import torch

    batch, seed = int(whole("batch", batch)), int(checks.seed("seed", seed))
    weights = published_start(task)
    generator = torch.Generator().manual_seed(seed)
    heads, width = weights["K"].shape[:2]
    # Before the published code sets the start, it draws values for its four layers and then one number for
    # each row of K. We draw these numbers too, so that the sequences are the same.
    for rows in (heads * width,) * 3 + (task.tasks * heads, heads):
        torch.empty(rows, width).uniform_(generator=generator)
    settings = {"loss": "mean over contexts and tasks", "loss_scale": 1 / task.tasks}
    return _train_by_sgd(
        task,
        weights,
        lambda: _published_sequences(task, batch, generator),
        schedule,
        {"start": "published", "batch": batch, "seed": seed, "softmax": True} | settings,
    )


def published_start(task: MultiTask) -> Matrices:
    """Return the initial weights of the published code.

    With c = L^(−3/4), K and Q are c times the identity, also on labels. V is c on the label of each task,
    and O is c times the identity; both are 2c for a head's own task. So ω = L^(−3/2)/√d_e, and μ is
    L^(−3/2), or four times that for a head's own task.
    """
    if len(set(task.dims)) > 1:
        raise BadValue(
            "dims", f"takes one size for all tasks at the published start, not {task.dims}"
        )
    if task.signal != task.dims:
        raise BadValue("signal", f"takes s = d at the published start, not {task.signal}")
    scale, tasks = task.context**-0.75, task.tasks
    width = task.dim + tasks
    value = np.zeros((tasks, tasks, width))
    value[:, np.arange(tasks), task.dim + np.arange(tasks)] = scale * (1 + np.eye(tasks))
    key = np.tile(scale * np.eye(width), (tasks, 1, 1))
    return {"K": key, "Q": key, "V": value, "O": value[:, :, task.dim :]}


def _published_sequences(task: MultiTask, batch: int, generator: Any) -> Batch:
    """Return a batch as ``sequences`` does, but drawn in the order of the published code.

    That code draws x, the query, task vectors β for all inputs, and the noise even if its variance is 0.
    """
    import torch

    d, tasks, context = task.dim, task.tasks, task.context
    own = torch.eye(tasks).repeat_interleave(d // tasks, 0)
    x = torch.randn(batch, context, d, generator=generator)
    q = torch.randn(batch, 1, d, generator=generator)
    beta = torch.randn(batch, d, tasks, generator=generator) * own
    noise = torch.randn(batch, context, tasks, generator=generator)
    tokens = torch.cat([x, x @ beta + task.noise**0.5 * noise], -1).mT
    return tokens, torch.cat([q[:, 0], torch.zeros(batch, tasks)], -1), (q @ beta)[:, 0]


def _train_by_sgd(
    task: MultiTask,
    start: Mapping[str, np.ndarray],
    draw: Callable[[], Batch],
    schedule: Schedule,
    settings: dict,
) -> History:
    """Train by SGD on the batches that ``draw`` returns, with the loss that ``settings`` describes."""
    import torch

    from iclcore.engines.autograd import one_torch_thread

    scale = settings.get("loss_scale", 1)
    weights = {
        name: torch.tensor(value, dtype=torch.float32, requires_grad=True)
        for name, value in start.items()
    }
    arrays = {name: weight.detach().numpy() for name, weight in weights.items()}  # the same memory

    def step(rate: float) -> float:
        tokens, query, answer = draw()
        prediction = predict(weights, tokens, query, settings["softmax"])
        value = scale * (prediction - answer).square().sum(1).mean()
        gradient = torch.autograd.grad(value, list(weights.values()))
        with torch.no_grad():
            for weight, slope in zip(weights.values(), gradient, strict=True):
                weight.sub_(slope, alpha=rate)
        return value.item()

    def read() -> dict[str, np.ndarray | float]:
        omega, mu = spectrum(task, arrays)
        far = {f"departure_{name}": size for name, size in departure(task, arrays).items()}
        return {"omega": omega, "mu": mu} | far

    settings = settings | {"width": arrays["K"].shape[1]}
    with one_torch_thread():
        return walk_schedule("full", task, schedule, settings, arrays, read, step)
