"""In-weight against in-context learning: what small weights learn first, and what is best in the end.

In training a share s of the sequences has task vectors w of their own ("in context") and the others have one
task vector in common ("shared"). The model is merged attention with one output. Near zero weights its loss is

    L ≈ L(0) − 2 Σ_h ⟨T, W_h ⊗ v_h⟩,   T[(d, a), b] = E[y_q x_q[d] S[a, b]].

S is the sum of z zᵀ over the tokens z = (x, y) of a sequence, query included, over the divisor; W_h, shape
(D, E) with E = D + 1, holds the key-query weights of head h for the query's inputs, and v_h its E value
weights. The matrix T, shape (D·E, E), is called the pull. Gradient flow is then linear,

    Ẇ_h = 2 T v_h,   v̇_h = 2 Tᵀ W_h,

and small weights grow as exp(2σt) along pairs of singular vectors of T with singular value σ. The first pair
grows fastest. The pull of a mixture is the mean of the pulls of its parts, weighted by their shares.

The later functions say when small weights leave zero on a mixture, what they learn first, and where the
border lies between learning in weight and in context.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclcore.models import Model, Weights
from iclcore.moments import Moments, coefficients, mix, of_population
from iclcore.task import Divisor, RegressionTask, divide_by

Errors = dict[str, float]  # the loss of one predictor on each population


@dataclass(frozen=True)
class Populations:
    """The averages over infinitely many sequences of three types, of which every mixture is made.

    ``in_context``: each sequence has its own task vector. ``shared``: all have the same one. ``in_weight``:
    all have the same one, and the labels in the context are noise, so that only the weights can know the
    answer.
    """

    in_context: Moments
    shared: Moments
    in_weight: Moments

    @property
    def tests(self) -> dict[str, Moments]:
        """Return the two tests: in weight and in context."""
        return {"in_weight": self.in_weight, "in_context": self.in_context}

    def mixture(self, share: float) -> Moments:
        """Return the averages of training sequences of which the fraction ``share`` is in context.

        The others have true labels at share 0 too, where the published code has noise in the context.
        """
        return mix([(share, self.in_context), (1 - share, self.shared)])

    def errors(self, c: Float[np.ndarray, "O F"]) -> Errors:
        """Return the loss of the predictor ŷ = cᵀφ on each population."""
        return {name: getattr(self, name).loss(c) for name in self.__dataclass_fields__}

    def model_errors(self, model: Model, weights: Weights) -> Errors:
        """Return the loss of a model with these weights on each population."""
        features = self.in_context.features
        return self.errors(coefficients(model.factors(weights, features.dim), features))


def populations(task: RegressionTask, model: Model) -> Populations:
    """Return the averages of a task's three populations, whatever its own share in context is."""
    return Populations(
        *(of_population(task, model, labels=labels) for labels in ("own", "shared", "noise"))
    )


def pull_matrix(moments: Moments) -> Float[np.ndarray, "DE E"]:
    """Return the pull T = E[y_q x_q ⊗ S] of one output: rows belong to W, columns to v."""
    features = moments.features
    dense = moments.cross.reshape(features.dim, features.pairs)[:, features.pair]
    return dense.reshape(-1, dense.shape[-1])


def optimum(moments: Moments) -> Float[np.ndarray, "O F"]:
    """Return the coefficients c of the least loss that any linear attention can have, ŷ = cᵀφ.

    It is the solution of least norm: features that are zero in all sequences get the coefficient 0.
    """
    return np.linalg.lstsq(moments.gram, moments.cross.T, rcond=1e-12)[0].T


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
