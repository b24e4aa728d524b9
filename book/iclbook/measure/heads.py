"""Several heads on several tasks: who has which, when it is won, what other methods would lose."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from iclbook.measure.curves import crossing
from iclcore import History
from iclcore.heads import full_model, risk, spectral, theory
from iclcore.heads.theory import Flow, MultiTask


def owned(
    owner: Int[np.ndarray, " tasks"], values: Float[np.ndarray, "*times heads tasks"]
) -> Float[np.ndarray, "*times tasks"]:
    """Of the numbers of every head and task those of the head ``owner[i]`` on task i."""
    return values[..., owner, np.arange(len(owner))]


def won(path: Flow) -> Float[np.ndarray, "*starts tasks"]:
    """When half of each task is done, Σ_h μω = ½; nan if never."""
    done = (path.mu * path.omega).sum(-2)
    return np.apply_along_axis(lambda each: crossing(path.t, each, 0.5), 0, done)


def busy(
    path: Flow, named: Int[np.ndarray, "starts tasks"], when: Float[np.ndarray, "starts tasks"]
) -> Bool[np.ndarray, " wrong"]:
    """Of each wrongly ``named`` head: whether it had won another task before that one was won."""
    return np.array(
        [
            np.any((path.owner[k] == named[k, i]) & (when[k] < when[k, i]))
            for k, i in np.argwhere(named != path.owner)
        ],
        dtype=bool,
    )


def exact_limit(task: MultiTask, owner: Int[np.ndarray, " tasks"]) -> float:
    """The true loss where the flow ends, by quadrature; nan if one head has two tasks."""
    if len(set(owner.tolist())) < task.tasks:
        return float("nan")
    limit = theory.limit(task, owner)
    return float(risk.exact_loss(task, *(owned(owner, each) for each in limit)).sum())


def lead(path: Flow, run: History) -> float:
    """How much earlier ω comes to half of its limit in the flow than in a run, mean over the tasks."""
    half = owned(path.owner, theory.limit(path.task, path.owner)[0]) / 2
    flows, runs = (
        [crossing(t, each, level) for each, level in zip(owned(path.owner, omega).T, half, strict=True)]
        for t, omega in ((path.t, path.omega), (run.time, run.series["omega"]))
    )  # fmt: skip
    return float(np.mean(runs) - np.mean(flows))


def ridge(
    task: MultiTask, penalties: Sequence[float], draws: int, seed: int = 0
) -> Float[np.ndarray, " penalties"]:
    """Ridge regressions solved on drawn contexts of one task, penalties on XXᵀ/L: mean squared errors."""
    (dim,), length, rng = task.dims, task.context, np.random.default_rng(seed)
    losses = np.zeros(len(penalties))
    for _ in range(draws):
        x = rng.standard_normal((length, dim))
        w = rng.standard_normal(dim) * np.sqrt(task.s[0] / dim)
        y = x @ w + np.sqrt(task.noise) * rng.standard_normal(length)
        gram, cross = x.T @ x / length, x.T @ y / length
        found = [np.linalg.solve(gram + z * np.eye(dim), cross) for z in penalties]
        losses += ((np.array(found) - w) ** 2).sum(1) / draws
    return losses


def fresh_loss(
    task: MultiTask, weights: full_model.Matrices, count: int = 20_000, seed: int = 1
) -> tuple[Float[np.ndarray, " tasks"], Float[np.ndarray, " tasks"]]:
    """Return the loss of each task on ``count`` fresh sequences, and its standard error."""
    import torch

    from iclcore.engines.autograd import one_torch_thread

    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.tensor(w, dtype=torch.float32) for name, w in weights.items()}
    losses = []
    with one_torch_thread():
        for size in spectral.chunk_sizes(count):
            tokens, query, answer = full_model.sequences(task, size, generator)
            error = full_model.predict(tensors, tokens, query) - answer
            losses.append(error.square().double().numpy())
    return spectral.mean_and_error(np.concatenate(losses))
