"""What a head that was trained on linear labels predicts, and loses, when the labels are nonlinear.

The label of a token is f(⟨g, x⟩) + ε with |g|² = s, for one task. Only the chapter on what lies beyond
the second paper's setting uses this.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from iclcore.checks import BadValue, whole
from iclcore.heads.risk import Grid, normal_grid
from iclcore.heads.spectral import chunk_sizes, draw, mean_and_error, softmax_over_tokens
from iclcore.heads.theory import MultiTask

Target = Callable[[np.ndarray], np.ndarray]


def transfer(
    task: MultiTask, target: Target, degree: int = 8
) -> dict[str, float | Float[np.ndarray, " coefficients"]]:
    """Return the predictions and the loss of the one-task limit for labels f(⟨g, x⟩), to first order in e/L.

    Attention shifts the mean of ⟨g, x⟩ to ω⟨g, q⟩. So the head answers μ Tf with
    Tf(u) = E f(ωu + √s ξ), ξ ~ N(0, 1), whose k-th Hermite coefficient is about ω^k times that of f. As
    μω ≈ 1, the answer is right for k = 1 alone; the mean, k = 0, is multiplied by μ.

    The result has the Hermite coefficients up to ``degree`` of f (``target``) and of μ Tf (``answer``),
    the ``bias`` E(f − μ Tf)², the ``variance`` (μ² e/L) E(f − Tf)² under twice the shift, and their sum,
    the ``loss``.
    """
    _check_one_task(task)
    s, omega = task.s[0], task.d[0] ** -0.5
    overlap = np.e / task.context  # E|p|²
    mu = omega / (omega**2 + overlap * task.phi[0])
    x, weight = normal_grid(2001)  # fine enough for a target with a kink
    u = np.sqrt(s) * x

    def shifted(function: Target, times: int) -> np.ndarray:
        return function(times * omega * u[:, None] + u) @ weight

    once, twice = shifted(target, 1), shifted(target, 2)
    # The covariance of its numerator and denominator biases a ratio of two averages.
    answer = mu * (once - overlap * (twice - once))
    square = shifted(lambda v: target(v) ** 2, 2)
    bias = weight @ (target(u) - answer) ** 2
    noise = task.noise
    variance = mu**2 * overlap * (weight @ (square - 2 * twice * once + once**2) + noise)
    return {
        "target": _hermite(target(u), x, weight, degree),
        "answer": _hermite(answer, x, weight, degree),
        "bias": float(bias),
        "variance": float(variance),
        "loss": float(bias + variance),
    }


def measured_loss(
    task: MultiTask,
    target: Target,
    omega: float,
    mu: float,
    sequences: int = 20_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the Monte Carlo loss of one head with these ω and μ, and its standard error.

    Of each token only two numbers are drawn: its component along q, and the one orthogonal to q in the
    plane of q and g.
    """
    _check_one_task(task)
    rng = np.random.default_rng(seed)
    d, s, losses = task.dims[0], task.s[0], []
    for size in chunk_sizes(sequences):
        r, along = (a[:, 0] for a in draw(task, size, rng))
        across, noise = rng.standard_normal((2, *along.shape))
        g = rng.standard_normal((d, size))
        cosine = g[0] / np.linalg.norm(g, axis=0)
        u = np.sqrt(s) * (cosine[:, None] * along + np.sqrt(1 - cosine[:, None] ** 2) * across)
        y = target(u) + np.sqrt(task.noise) * noise
        p = softmax_over_tokens(omega * r[:, None] * along)
        losses.append((target(np.sqrt(s) * r * cosine) - mu * (p * y).sum(1)) ** 2)
    mean, error = mean_and_error(np.concatenate(losses)[:, None])
    return float(mean[0]), float(error[0])


def _check_one_task(task: MultiTask) -> None:
    if task.tasks != 1:
        raise BadValue("task", f"takes one group for a nonlinear target, not {task.tasks}")


def _hermite(
    values: Grid, x: Grid, weight: Grid, degree: int
) -> Float[np.ndarray, " coefficients"]:
    """Return the coefficients c_0 … c_degree in the orthonormal Hermite polynomials He_k/√k!.

    Their own recurrence is used, as √k! alone leaves the range of floats at k = 301.
    """
    basis, before, coefficients = np.ones_like(x), np.zeros_like(x), []
    for k in range(whole("degree", degree, least=0) + 1):
        coefficients.append(basis @ (values * weight))
        basis, before = (x * basis - np.sqrt(k) * before) / np.sqrt(k + 1), basis
    return np.array(coefficients)
