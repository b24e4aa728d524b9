"""Multi-head softmax attention with decomposable weights, computed from ω and μ alone.

With decomposable weights (see ``heads.theory``), the prediction depends on a sequence only through
r_i = |q_i| and z_{l,i} = ⟨x_l, q⟩/|q| on group i. Everything else in the sequence is averaged in closed
form. The losses and the training here are therefore exact, but need only I numbers for each token.
``full_model`` trains all matrices.
"""

import numpy as np

from iclcore.checks import whole
from iclcore.heads.schedule import FIGURE_1, Schedule, walk_schedule
from iclcore.heads.theory import MultiTask, PerHead, PerTask, check_shapes, root_width
from iclcore.history import History
from iclcore.models import copied
from iclcore.shapes import Float

PerSequence = Float[np.ndarray, "sequences tasks"]  # such as r or a loss
Inputs = Float[np.ndarray, "sequences tasks context"]  # z
# Sequences are processed in chunks whose arrays fit into a core's cache: a step takes half as long as with
# chunks of 256.
CHUNK = 64


def draw(
    task: MultiTask, sequences: int, rng: np.random.Generator, context: int | None = None
) -> tuple[PerSequence, Inputs]:
    """Return r and z of fresh sequences, with ``context`` tokens if it is given."""
    context = task.context if context is None else whole("context", context, least=2)
    r = np.sqrt(rng.chisquare(task.dims, (sequences, task.tasks)))
    return r, rng.standard_normal((sequences, task.tasks, context))


def random_start(task: MultiTask, heads: int, rng: np.random.Generator) -> tuple[PerHead, PerHead]:
    """Return log-normal ω around 0.01 and μ around 0.05.

    These are the sizes of ``aligned_start``, but no head leans towards a task.
    """
    omega, mu = np.exp(0.5 * rng.normal(size=(2, heads, task.tasks)))
    return 0.01 * omega, 0.05 * mu


def spectral_losses(
    task: MultiTask, omega: PerHead, mu: PerHead, r: PerSequence, z: Inputs
) -> PerSequence:
    """Return the loss of each sequence and task, (s/d) [(r − Σ_h μ^h z·p^h)² + (dφ − 1) |Σ_h μ^h p^h|²].

    The loss is already averaged over what r and z do not determine: g, ε, and the part of x orthogonal to q.
    """
    _, read, gram = _attend(omega, r, z)
    error, spread = r - (mu * read).sum(1), (mu * (gram @ mu)).sum(1)
    return task.s / task.d * (error**2 + (task.d * task.phi - 1) * spread)


def spectral_gradient(
    task: MultiTask, omega: PerHead, mu: PerHead, r: PerSequence, z: Inputs
) -> tuple[float, PerHead, PerHead]:
    """Return the loss, summed over tasks and averaged over sequences, and its derivatives in ω and μ."""
    p, read, gram = _attend(omega, r, z)
    weight, across = task.s / task.d, task.d * task.phi - 1
    error, gram_mu = r - (mu * read).sum(1), gram @ mu
    value = (weight * (error**2 + across * (mu * gram_mu).sum(1))).sum(1).mean()
    grad_mu = 2 * weight * (across * gram_mu - error[:, None] * read).mean(0)
    # First comes the derivative in p^h_l, then that in the scores of the softmax, and then that in ω, with
    # ∂score^h_l/∂ω_i^h = r_i z_{i,l}.
    grad = ((weight * across * mu) @ mu.T) @ p
    grad -= (mu * (weight * error)[:, None]) @ z
    grad -= np.vecdot(p, grad)[:, :, None]
    grad *= p
    grad_omega = 2 * (grad @ z.mT * r[:, None]).mean(0)
    return float(value), grad_omega, grad_mu


def measure(
    task: MultiTask,
    omega: PerHead,
    mu: PerHead,
    sequences: int = 20_000,
    seed: int = 0,
    context: int | None = None,
) -> tuple[PerTask, PerTask]:
    """Return the Monte Carlo loss of each task and its standard error.

    ``context`` is the number of tokens of the sequences, by default ``task.context``.
    """
    check_shapes(task, omega, mu)
    rng = np.random.default_rng(whole("seed", seed, least=0))
    drawn = (draw(task, size, rng, context) for size in chunk_sizes(sequences))
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
    """Train balanced decomposable weights by SGD, in float64, and return the History.

    - ``task``: the task.
    - ``omega0`` and ``mu0``: ω and μ of the initial weights, both of shape (heads, tasks).
    - ``schedule``: pairs (end time, learning rate until then). Time is the sum of the learning rates.
    - ``batch``: the number of fresh sequences at each step.
    - ``width``: the number d_e of rows of K and Q, by default d.
    - ``seed``: the seed of the sequences.
    - ``pairs``: if it is given, this many sequences and their mirror images, with −z instead of z, stand for
      ``batch`` sequences.

    For each task, K = ±Q is a multiple of an isometry and O = ±Vᵀ is one number. A step with learning rate η
    therefore multiplies K by 1 − η sign(ω) ∂Loss/∂ω/(d√d_e), V by 1 − η sign(μ) ∂Loss/∂μ, and ω and μ by the
    squares of these factors. The series ``omega`` and ``mu`` have the shape (steps, heads, tasks).

    With ``pairs`` the part of the gradient that is odd in z is multiplied by √(pairs/batch), which gives this
    part the noise of ``batch`` sequences. As long as ω is small, it has nearly all of the noise. The mean of
    the gradient is right at any ω.
    """
    check_shapes(task, omega0, mu0)
    batch, seed = int(whole("batch", batch)), int(whole("seed", seed, least=0))
    drawn = batch if pairs is None else whole("pairs", pairs)
    rng, sizes = np.random.default_rng(seed), chunk_sizes(drawn)
    odd = np.sqrt(drawn / batch)
    omega, mu = np.array(omega0, dtype=float), np.array(mu0, dtype=float)
    root = root_width(task, width) * task.d

    def gradient(size: int) -> tuple[float, np.ndarray, np.ndarray]:
        r, z = draw(task, size, rng)
        plain = spectral_gradient(task, omega, mu, r, z)
        if pairs is None:
            return plain
        mirrored = spectral_gradient(task, omega, mu, r, -z)
        both = zip(plain, mirrored, strict=True)
        return tuple(((1 + odd) * a + (1 - odd) * b) / 2 for a, b in both)

    def step(rate: float) -> float:
        parts = [gradient(size) for size in sizes]
        value, grad_omega, grad_mu = (
            sum(size * part[k] for size, part in zip(sizes, parts, strict=True)) / drawn
            for k in range(3)
        )
        omega[:] *= (1 - rate * np.sign(omega) * grad_omega / root) ** 2
        mu[:] *= (1 - rate * np.sign(mu) * grad_mu) ** 2
        return value

    weights = {"omega": omega, "mu": mu}
    settings = {"batch": batch, "width": width or task.dim, "seed": seed}
    settings |= {"pairs": pairs} if pairs else {}
    return walk_schedule(
        "spectral", task, schedule, settings, weights, lambda: copied(weights), step
    )


def _attend(
    omega: np.ndarray, r: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the attention weights p^h, what each head reads for each task (z·p^h), and all p^h·p^h'."""
    p = softmax_over_tokens((r[:, None] * omega) @ z)
    return p, p @ z.mT, p @ p.mT


def softmax_over_tokens(scores: np.ndarray) -> np.ndarray:
    """Return the softmax over the last axis, computed in place."""
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return scores


def chunk_sizes(sequences: int) -> list[int]:
    """Return the sizes of the chunks, at most CHUNK each, that ``sequences`` sequences are divided into."""
    whole("sequences", sequences)
    full, rest = divmod(sequences, CHUNK)
    return [CHUNK] * full + [rest] * (rest > 0)


def mean_and_error(losses: PerSequence) -> tuple[PerTask, PerTask]:
    """Return the mean over the sequences and its standard error."""
    return losses.mean(0), losses.std(0, ddof=1) / np.sqrt(len(losses))
