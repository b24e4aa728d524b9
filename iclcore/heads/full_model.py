"""Multi-head softmax attention on several tasks, every matrix of every head, trained by SGD.

The model of ``heads.theory``, with nothing assumed of its weights: K, Q, V, O of each head,
whole sequences, fresh batches, in torch (loaded when first used). Weights are dicts of arrays with
the heads in front. ``spectral`` trains the same model when the weights are decomposable.
``train_published`` draws start and sequences as the second paper's code does: a seed is its curve.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from iclcore.checks import whole
from iclcore.extras import needs
from iclcore.heads.spectral import FIGURE_1, MEAN, Schedule, chunks, descend, mean_and_error
from iclcore.heads.theory import MultiTask, PerHead, PerTask, check
from iclcore.history import History
from iclcore.threads import one_torch_thread

Matrices = Mapping[str, Float[np.ndarray, "heads ..."]]  # K, Q, V and O
Tokens, Query = Float[Any, "batch entries context"], Float[Any, "batch entries"]
Answer = Float[Any, "batch tasks"]
Batch = tuple[Tokens, Query, Answer]
# So many contexts of a batch have the same inputs: most time of a step goes into drawing them. Query and
# tasks are each context's own, of either sign, so that slopes of two such contexts hardly go together.
SHARE = 8


def start(task: MultiTask, omega0: PerHead, mu0: PerHead, width: int | None = None) -> Matrices:
    """K, Q (d_e × (d+I)), V (I × (d+I)) and O (I × I) of every head, balanced, with these ω and μ."""
    check(task, omega0, mu0)
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
    """ω and μ of any weights: the means of KᵀQ/√d_e's diagonal on each group, the diagonal of OV_Y."""
    K, Q, V, out = (weights[name] for name in "KQVO")
    first = np.cumsum([0, *task.dims[:-1]])
    diagonal = np.einsum("hea,hea->ha", K[..., : task.dim], Q[..., : task.dim], dtype=float)
    omega = np.add.reduceat(diagonal, first, axis=1) / task.d / np.sqrt(K.shape[1])
    return omega, np.einsum("hij,hji->hi", out, V[..., task.dim :], dtype=float)


def departure(task: MultiTask, weights: Matrices) -> dict[str, float]:
    """How far weights are from decomposable: the largest entry of KᵀQ/√d_e and of OV off ω and μ.

    Q's columns for the labels are left out, as they only meet the query token's zeros.
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
    """ŷ = Σ_h O^h V^h Z softmax(Zᵀ K^hᵀ Q^h z_q / √d_e): only the query's row of attention.

    Without ``softmax`` it is the mean over the tokens, weighted by the scores themselves: linear.
    """
    K, Q, V, out = (weights[name] for name in "KQVO")
    asked = (query @ Q.mT @ K / K.shape[1] ** 0.5).transpose(0, 1)
    scores = asked @ tokens
    p = scores.softmax(-1) if softmax else scores / scores.shape[-1]
    seen = (p @ tokens.mT).transpose(0, 1)
    return (seen @ V.mT @ out.mT).sum(0)


def sequences(task: MultiTask, batch: int, generator: Any, share: int = 1) -> Batch:
    """Z with tokens (x, y) as columns, the query's token (q, 0) and its answers, in float32.

    ``share`` contexts have the same x, each with its own tasks, noise and query.
    """
    with needs("torch"):
        import torch

    d, tasks = task.dim, task.tasks
    group = np.repeat(np.arange(tasks), task.dims)
    power = (np.eye(tasks)[:, group] * np.sqrt(task.s / task.d)[:, None]).astype(np.float32)
    G = torch.from_numpy(power) * torch.randn(batch, 1, d, generator=generator)
    x = torch.randn(-(-batch // share), d, task.context, generator=generator)
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
    """SGD on all matrices, in float32: its round-off is far below the noise of a batch.

    Contexts of a step share inputs (see SHARE), which changes neither its mean nor, visibly, its noise.
    One seed is one stream of contexts, the same with and without ``softmax``.
    """
    with needs("torch"):
        import torch

    whole("batch", batch)
    generator = torch.Generator().manual_seed(seed)
    return _sgd(
        task,
        start(task, omega0, mu0, width),
        lambda: sequences(task, batch, generator, SHARE),
        schedule,
        {"batch": batch, "seed": seed, "softmax": softmax},
    )


def train_published(
    task: MultiTask, schedule: Schedule, *, batch: int = 10_000, seed: int = 0
) -> History:
    """The run of the published code, of this seed: its start, its draws, and its loss, the mean over
    contexts *and* tasks. So time is its sum of learning rates, I times that of the sum over tasks.

    One head a task, groups of one size, signals s_i = d_i, d_e = d + I.
    """
    with needs("torch"):
        import torch

    whole("batch", batch)
    weights = published_start(task)
    generator = torch.Generator().manual_seed(seed)
    heads, width = weights["K"].shape[:2]
    # what its four layers are first filled with, and a number an entry that is then not used
    for rows in (heads * width,) * 3 + (task.tasks * heads, heads):
        torch.empty(rows, width).uniform_(generator=generator)
    return _sgd(
        task,
        weights,
        lambda: _published_sequences(task, batch, generator),
        schedule,
        {"start": "published", "batch": batch, "seed": seed, "softmax": True, "loss": MEAN},
    )


def published_start(task: MultiTask) -> Matrices:
    """K = Q = L^(−3/4) times the identity, on labels too; V on label i, and O, L^(−3/4), twice that for a
    head's own task: ω = L^(−3/2)/√d_e, μ = L^(−3/2) and four times that."""
    if len(set(task.dims)) > 1:
        raise ValueError(
            f"dims takes one size for all tasks at the published start, not {task.dims}"
        )
    if task.signal != task.dims:
        raise ValueError(f"signal takes s = d at the published start, not {task.signal}")
    scale, tasks = task.context**-0.75, task.tasks
    width = task.dim + tasks
    value = np.zeros((tasks, tasks, width))
    value[:, np.arange(tasks), task.dim + np.arange(tasks)] = scale * (1 + np.eye(tasks))
    key = np.tile(scale * np.eye(width), (tasks, 1, 1))
    return {"K": key, "Q": key, "V": value, "O": value[:, :, task.dim :]}


def _published_sequences(task: MultiTask, batch: int, generator: Any) -> Batch:
    """As ``sequences``, in the published order: x, the query, β of all inputs, noise even if it is none."""
    import torch

    d, tasks, context = task.dim, task.tasks, task.context
    own = torch.eye(tasks).repeat_interleave(d // tasks, 0)
    x = torch.randn(batch, context, d, generator=generator)
    q = torch.randn(batch, 1, d, generator=generator)
    beta = torch.randn(batch, d, tasks, generator=generator) * own
    noise = torch.randn(batch, context, tasks, generator=generator)
    tokens = torch.cat([x, x @ beta + task.noise**0.5 * noise], -1).mT
    return tokens, torch.cat([q[:, 0], torch.zeros(batch, tasks)], -1), (q @ beta)[:, 0]


def _sgd(
    task: MultiTask,
    start: Mapping[str, np.ndarray],
    draw: Callable[[], Batch],
    schedule: Schedule,
    settings: dict,
) -> History:
    """Steps on fresh batches, down the loss summed over the tasks, or its MEAN."""
    import torch

    share = 1 / task.tasks if settings.get("loss") == MEAN else 1
    kind = {"dtype": torch.float32, "requires_grad": True}
    weights = {name: torch.tensor(value, **kind) for name, value in start.items()}
    arrays = {name: weight.detach().numpy() for name, weight in weights.items()}  # the same memory

    def step(rate: float) -> float:
        tokens, query, answer = draw()
        said = predict(weights, tokens, query, settings["softmax"])
        value = share * (said - answer).square().sum(1).mean()
        slopes = torch.autograd.grad(value, list(weights.values()))
        with torch.no_grad():
            for weight, slope in zip(weights.values(), slopes, strict=True):
                weight.sub_(slope, alpha=rate)
        return value.item()

    def read() -> dict[str, np.ndarray | float]:
        omega, mu = spectrum(task, arrays)
        off = {f"departure_{name}": size for name, size in departure(task, arrays).items()}
        return {"omega": omega, "mu": mu} | off

    settings = settings | {"width": arrays["K"].shape[1]}
    with one_torch_thread():
        return descend("full", task, schedule, settings, arrays, read, step)


def test_loss(
    task: MultiTask, weights: Matrices, count: int = 20_000, seed: int = 1
) -> tuple[PerTask, PerTask]:
    """Each task's loss of the whole model on fresh sequences, and its standard error."""
    with needs("torch"):
        import torch

    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.tensor(w, dtype=torch.float32) for name, w in weights.items()}
    losses = []
    with one_torch_thread():
        for size in chunks(count):
            tokens, query, answer = sequences(task, size, generator)
            losses.append((predict(tensors, tokens, query) - answer).square().double().numpy())
    return mean_and_error(np.concatenate(losses))
