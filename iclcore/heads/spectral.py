"""Multi-head softmax attention by its spectral numbers alone: exact losses and training in I scalars.

Of a sequence, decomposable weights (ω, μ: see ``heads.theory``) use only z_{l,i} = ⟨x_l, q⟩/|q| on
group i and r_i = |q_i|; what is left out is averaged in closed form. An exact reduction, not an
approximation. Also here: what ``multihead``, the whole model, records and how it walks a schedule.
"""

import time as clock
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from iclcore.checks import SINGLE, positive, whole
from iclcore.heads.theory import MultiTask, PerHead, PerTask, check, root_width
from iclcore.history import History, describe
from iclcore.models import Weights, copied

# a number of every sequence and task, as r and a loss; and z
PerSequence = Float[np.ndarray, "sequences tasks"]
Inputs = Float[np.ndarray, "sequences tasks context"]
Schedule = Sequence[tuple[float, float]]  # (until this time, at this learning rate)

# smaller steps once the noise of SGD is what is seen
FIGURE_1 = ((4.0, 0.02), (8.0, 0.01), (12.0, 0.004))
# What ``loss`` is in a run's settings; by the mean time is I times that of the sum.
SUM, MEAN = "sum over tasks, mean over contexts", "mean over contexts and tasks"
# Sequences at once: arrays stay in a core's cache, and a step takes half the time it takes on 256.
CHUNK = 64


def draw(
    task: MultiTask, sequences: int, rng: np.random.Generator, context: int | None = None
) -> tuple[PerSequence, Inputs]:
    """r and z of fresh sequences: all that a loss of decomposable weights depends on."""
    context = task.context if context is None else whole("context", context, least=2)
    r = np.sqrt(rng.chisquare(task.dims, (sequences, task.tasks)))
    return r, rng.standard_normal((sequences, task.tasks, context))


def random_start(task: MultiTask, heads: int, rng: np.random.Generator) -> tuple[PerHead, PerHead]:
    """ω and μ log-normal around .01 and .05, the scale of ``aligned_start`` without its lean."""
    omega, mu = np.exp(0.5 * rng.normal(size=(2, heads, task.tasks)))
    return 0.01 * omega, 0.05 * mu


def spectral_losses(
    task: MultiTask, omega: PerHead, mu: PerHead, r: PerSequence, z: Inputs
) -> PerSequence:
    """Each sequence's loss (s/d) [(r − Σ_h μ^h z·p^h)² + (dφ − 1) |Σ_h μ^h p^h|²], task by task.

    The mean over what the reduction leaves out (x across q, g and ε) has been taken in closed form.
    """
    _, seen, gram = _attend(omega, r, z)
    error, spread = r - (mu * seen).sum(1), (mu * (gram @ mu)).sum(1)
    return task.s / task.d * (error**2 + (task.d * task.phi - 1) * spread)


def spectral_gradient(
    task: MultiTask, omega: PerHead, mu: PerHead, r: PerSequence, z: Inputs
) -> tuple[float, PerHead, PerHead]:
    """The mean loss of a batch, all tasks together, and its ∂/∂ω and ∂/∂μ."""
    p, seen, gram = _attend(omega, r, z)
    weight, across = task.s / task.d, task.d * task.phi - 1
    error, pushed = r - (mu * seen).sum(1), gram @ mu
    value = (weight * (error**2 + across * (mu * pushed).sum(1))).sum(1).mean()
    by_mu = 2 * weight * (across * pushed - error[:, None] * seen).mean(0)
    # ∂/∂p^h_l, then through the softmax, then ∂score^h_l/∂ω_i^h = r_i z_{i,l}.
    by_p = ((weight * across * mu) @ mu.T) @ p
    by_p -= (mu * (weight * error)[:, None]) @ z
    by_p -= np.vecdot(p, by_p)[:, :, None]
    by_p *= p
    by_omega = 2 * (by_p @ z.mT * r[:, None]).mean(0)
    return float(value), by_omega, by_mu


def measure(
    task: MultiTask,
    omega: PerHead,
    mu: PerHead,
    sequences: int = 20_000,
    seed: int = 0,
    context: int | None = None,
) -> tuple[PerTask, PerTask]:
    """Each task's true loss by Monte Carlo, and its standard error; ``context`` to test on another L."""
    check(task, omega, mu)
    rng = np.random.default_rng(seed)
    drawn = (draw(task, size, rng, context) for size in chunks(sequences))
    return mean_and_error(np.concatenate([spectral_losses(task, omega, mu, *d) for d in drawn]))


def train_spectral(
    task: MultiTask,
    omega0: PerHead,
    mu0: PerHead,
    schedule: Schedule = FIGURE_1,
    *,
    batch: int = 256,
    width: int | None = None,
    seed: int = 0,
    pairs: int | None = None,
) -> History:
    """SGD on balanced decomposable weights, in float64: K = ±Q and O = ±Vᵀ are multiples of identities.

    A step on k = √(|ω|√d_e) with ω's sign in Q multiplies it by 1 − η sign(ω) ∂Loss/∂ω/(d√d_e).

    ``pairs`` of a context and its mirror image, z and −z, may stand for ``batch``: of a slope's part
    that is odd in z the share √(pairs/batch) is left. While ω is small nearly all noise is odd, and
    then it is that of ``batch`` contexts; the mean is right at any time.
    """
    check(task, omega0, mu0)
    whole("batch", batch)
    drawn = batch if pairs is None else whole("pairs", pairs)
    rng, sizes = np.random.default_rng(seed), chunks(drawn)
    odd = np.sqrt(drawn / batch)
    omega, mu = np.array(omega0, dtype=float), np.array(mu0, dtype=float)
    root = root_width(task, width) * task.d

    def slopes(size: int) -> tuple[float, np.ndarray, np.ndarray]:
        r, z = draw(task, size, rng)
        seen = spectral_gradient(task, omega, mu, r, z)
        if pairs is None:
            return seen
        mirrored = spectral_gradient(task, omega, mu, r, -z)
        both = zip(seen, mirrored, strict=True)
        return tuple(((1 + odd) * a + (1 - odd) * b) / 2 for a, b in both)

    def step(rate: float) -> float:
        parts = [slopes(size) for size in sizes]
        value, by_omega, by_mu = (
            sum(size * part[k] for size, part in zip(sizes, parts, strict=True)) / drawn
            for k in range(3)
        )
        omega[:] *= (1 - rate * np.sign(omega) * by_omega / root) ** 2
        mu[:] *= (1 - rate * np.sign(mu) * by_mu) ** 2
        return value

    weights = {"omega": omega, "mu": mu}
    settings = {"batch": batch, "width": width or task.dim, "seed": seed}
    settings |= {"pairs": pairs} if pairs else {}
    return descend("spectral", task, schedule, settings, weights, lambda: copied(weights), step)


def nonlinear_loss(
    task: MultiTask,
    target: Callable[[np.ndarray], np.ndarray],
    omega: float,
    mu: float,
    sequences: int = 20_000,
    seed: int = 0,
) -> tuple[float, float]:
    """The loss, and its standard error, of one head when labels are f(⟨g, x⟩) + ε with |g|² = s.

    Two numbers a token: x_l along q, and across it in the plane of q and g.
    """
    if task.tasks != 1:
        raise ValueError(f"task takes one group for a nonlinear target, not {task.tasks}")
    rng = np.random.default_rng(seed)
    d, s, losses = task.dims[0], task.s[0], []
    for size in chunks(sequences):
        r, along = (a[:, 0] for a in draw(task, size, rng))
        across, noise = rng.standard_normal((2, *along.shape))
        g = rng.standard_normal((d, size))
        cosine = g[0] / np.linalg.norm(g, axis=0)
        u = np.sqrt(s) * (cosine[:, None] * along + np.sqrt(1 - cosine[:, None] ** 2) * across)
        y = target(u) + np.sqrt(task.noise) * noise
        p = _softmax(omega * r[:, None] * along)
        losses.append((target(np.sqrt(s) * r * cosine) - mu * (p * y).sum(1)) ** 2)
    mean, error = mean_and_error(np.concatenate(losses)[:, None])
    return float(mean[0]), float(error[0])


# --- Walking a schedule, for this and for the whole model ----------------------------------------


def spectra(
    history: History,
) -> tuple[Float[np.ndarray, "steps heads tasks"], Float[np.ndarray, "steps heads tasks"]]:
    """ω and μ of every recorded step."""
    tasks = sum(name.startswith("omega_task") for name in history.series)
    return tuple(
        np.stack([history.series[f"{name}_task{i + 1}"] for i in range(tasks)], axis=2)
        for name in ("omega", "mu")
    )


def share(history: History) -> float:
    """What the loss of a run is of the sum over tasks: all, or by the published mean 1/I."""
    return 1 / history.task.tasks if history.settings["loss"] == MEAN else 1.0


def descend(
    engine: str,
    task: MultiTask,
    schedule: Schedule,
    settings: dict,
    weights: Weights,
    read: Callable[[], dict[str, np.ndarray | float]],
    step: Callable[[float], float],
) -> History:
    """Walk the schedule: each step moves ``weights`` in place and says the loss, kept with what was read."""
    rates = learning_rates(schedule)
    before = clock.perf_counter()
    rows, ended = [], "finished"
    try:
        for rate in rates:
            row = read()
            with np.errstate(over="ignore", invalid="ignore"):
                rows.append({"loss": step(rate)} | row)
            if not np.isfinite(rows[-1]["loss"]):
                ended = "diverged"
                break
    except KeyboardInterrupt:
        if not rows:
            raise
        ended = "interrupted"
    series = {"time": np.concatenate([[0.0], rates.cumsum()])[: len(rows)]}
    for name in rows[0]:
        column = np.array([row[name] for row in rows])
        many = column.ndim > 1  # heads × tasks
        parts = {f"{name}_task{i + 1}": column[:, :, i] for i in range(task.tasks * many)}
        series |= parts if many else {name: column}
    walked = {"schedule": [list(map(float, part)) for part in schedule], "loss": SUM}
    return History(
        series,
        describe(task) | walked | settings,
        ended=ended,
        engine=engine,
        seconds={"training": clock.perf_counter() - before},
        final=copied(weights),
    )


def learning_rates(schedule: Schedule) -> Float[np.ndarray, " steps"]:
    """The rate of every step of a schedule of (until this time, at this rate)."""
    rates, now = [], 0.0
    for until, rate in schedule:
        positive("schedule", rate, SINGLE)
        if not until > now:
            raise ValueError(f"schedule takes increasing times, not {until!r} after {now:g}")
        rates += [rate] * round((until - now) / rate)
        now = until
    if not rates:
        raise ValueError("schedule takes at least one (time, rate)")
    return np.array(rates)


def _attend(
    omega: np.ndarray, r: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each head's attention weights p, what it sees of each task, z·p, and the gram of all p."""
    p = _softmax((r[:, None] * omega) @ z)
    return p, p @ z.mT, p @ p.mT


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Over the tokens, the last axis; in place."""
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores


def chunks(sequences: int) -> list[int]:
    """``sequences`` in parts of at most CHUNK."""
    whole("sequences", sequences)
    full, rest = divmod(sequences, CHUNK)
    return [CHUNK] * full + [rest] * (rest > 0)


def mean_and_error(losses: PerSequence) -> tuple[PerTask, PerTask]:
    """Over the sequences, with the standard error of the mean."""
    return losses.mean(0), losses.std(0, ddof=1) / np.sqrt(len(losses))
