"""When small weights leave zero on a mixture of sequences, what they learn first, and where the border lies.

The notation is that of ``iclcore.theory.in_weight``: T is the pull of a mixture, and small weights grow as
exp(2σt) along pairs of singular vectors of T with singular value σ.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from iclcore.models import Model, Weights
from iclcore.moments import Moments
from iclcore.task import Divisor, RegressionTask, divide_by
from iclcore.theory.in_weight import Errors, Populations, optimum, pull_matrix


def first_pair(moments: Moments) -> Float[np.ndarray, "DE E"]:
    """Return the outer product l rᵀ of the first singular vectors of T: the direction that grows first."""
    left, _, right = np.linalg.svd(pull_matrix(moments))
    return np.outer(left[:, 0], right[0])


def pull_along(test: Moments, direction: Float[np.ndarray, "DE E"]) -> float:
    """Return ⟨T, direction⟩ with the pull T of a test's sequences.

    A small step W ⊗ v = ε · direction lowers the error of that test by 2ε times this.
    """
    return float(np.sum(pull_matrix(test) * direction))


def unmixed_rates(task: RegressionTask, divisor: Divisor = "one") -> tuple[float, float]:
    """Return σ, half the rate of growth, for in-context sequences alone and for shared ones alone.

    These largest singular values of T are g|Λ²| (Frobenius) and g|Λw| λ_max(Σ), where w is the shared task
    vector, Σ the covariance of a token (x, w·x), and g = N/divisor, which is N by default. N does not count
    the query, whose own part of S the second form leaves out, a fraction of order 1/N. For white input and
    |w|² = D the second rate is 1 + D times the first.
    """
    cov, w = task.covariance, task.shared[:, 0]
    n = task.context / divide_by(divisor, task.context + 1)
    token = np.vstack([np.eye(task.dim), w])  # (x, w·x) as a linear function of x
    largest = np.linalg.eigvalsh(token @ cov @ token.T)[-1]
    return float(n * np.linalg.norm(cov @ cov)), float(n * np.linalg.norm(cov @ w) * largest)


def escape_step(model: Model, start: Weights, moments: Moments, lr: float) -> float:
    """Return the step at which gradient descent from small weights has lost a hundredth of its loss.

    Only the first pair (l, r) of singular vectors of T counts, with the singular value σ. Every step
    multiplies p_h = (l·W_h + r·v_h)/2 by 1 + 2σ lr, and the loss has fallen by 2σ Σ_h p_h².
    """
    left, sigma, right = np.linalg.svd(pull_matrix(moments))
    w, v = model.factors(start, moments.features.dim)
    along = (w.reshape(len(w), -1) @ left[:, 0] + v[:, 0] @ right[0]) / 2
    wanted = 0.01 * moments.power / (2 * sigma[0])
    return float(np.log(wanted / np.sum(along**2)) / (2 * np.log1p(2 * sigma[0] * lr)))


def crossover_share(parts: Populations) -> float:
    """Return the share in context at which small weights lower both test errors equally.

    Below it the first pair of T lowers the in-weight error more, and above it the in-context error.
    """
    from scipy.optimize import brentq

    def difference(share: float) -> float:
        pair = first_pair(parts.mixture(share))
        return pull_along(parts.in_weight, pair) - pull_along(parts.in_context, pair)

    return float(brentq(difference, 0.5, 1.0, xtol=1e-6))


def equal_error_share(errors: Callable[[float], Errors], least: float = 1e-3) -> float:
    """Return the share in context at which both tests have the same error: the border of the chapter's map.

    ``errors(share)`` returns the error on each population. The result is 0 if the border is below ``least``.
    """
    from scipy.optimize import brentq

    def difference(share: float) -> float:
        at_share = errors(share)
        return at_share["in_weight"] - at_share["in_context"]

    return float(brentq(difference, least, 1, xtol=least / 10)) if difference(least) < 0 else 0.0


def optimum_border(parts: Populations) -> float:
    """Return the ``equal_error_share`` of the least-squares optima.

    It has four digits down to a share of 2·10⁻⁵.
    """
    return equal_error_share(lambda share: parts.errors(optimum(parts.mixture(share))), least=2e-8)
