"""In-weight against in-context learning near zero weights, merged key and query, one output.

To first order the loss is power − 2 Σ_h ⟨T, W_h ⊗ v_h⟩ with T[(d, a), b] = E[y_q x_q[d] S[a, b]], so
Ẇ_h = 2 T v_h and v̇_h = 2 Tᵀ W_h: small weights grow as exp(2σt) along T's singular vectors, fastest along
the first pair. T of a mixture is the mean of its kinds' T, weighted by their shares.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclcore.models import Model, Weights
from iclcore.moments import Moments, coefficients, mix, of_population
from iclcore.task import Divisor, RegressionTask, divide_by

Errors = dict[str, float]  # of one predictor on each kind of sequences


@dataclass(frozen=True)
class Kinds:
    """Population averages of each kind of sequences, of which every mixture's are a weighted mean.

    In context: each its own w. Shared: labelled by the one w. In weight: that w too, its context noise.
    """

    in_context: Moments
    shared: Moments
    in_weight: Moments

    @property
    def tests(self) -> dict[str, Moments]:
        return {"in_weight": self.in_weight, "in_context": self.in_context}

    def at(self, share: float) -> Moments:
        """Of training sequences with this share in context, at share 0 as well with true labels."""
        return mix([(share, self.in_context), (1 - share, self.shared)])

    def errors(self, c: Float[np.ndarray, "O F"]) -> Errors:
        """Of the predictor cᵀφ on each kind."""
        return {name: getattr(self, name).loss(c) for name in self.__dataclass_fields__}

    def trained(self, model: Model, weights: Weights) -> Errors:
        """Of a model with these weights on each kind."""
        kind = self.in_context.features
        return self.errors(coefficients(model.factors(weights, kind.dim), kind))


def kinds(task: RegressionTask, model: Model) -> Kinds:
    """All kinds of a task's sequences; its own share in context plays no part."""
    return Kinds(
        *(of_population(task, model, labels=labels) for labels in ("own", "shared", "noise"))
    )


def pull(moments: Moments) -> Float[np.ndarray, "DE E"]:
    """T: the cross moment of one output as a matrix between W (rows) and v (columns)."""
    kind = moments.features
    dense = moments.cross.reshape(kind.dim, kind.pairs)[:, kind.pair]
    return dense.reshape(-1, dense.shape[-1])


def first_pair(moments: Moments) -> Float[np.ndarray, "DE E"]:
    """The outer product of T's first singular vectors: what grows first."""
    left, _, right = np.linalg.svd(pull(moments))
    return np.outer(left[:, 0], right[0])


def gain(test: Moments, direction: Float[np.ndarray, "DE E"]) -> float:
    """By how much a test error falls, per unit of a small step of W ⊗ v along ``direction``, halved."""
    return float(np.sum(pull(test) * direction))


def lone_rates(task: RegressionTask, divisor: Divisor = "one") -> tuple[float, float]:
    """σ of in-context and of labelled in-weight sequences, each alone: N|Λ²| and N|Λw| λ_max(Σ).

    Σ is the covariance of a token (x, w·x). The second leaves out the query's own part of S, a
    fraction of order 1/N. For white input and |w|² = D their ratio is 1 + D.
    """
    cov, w = task.covariance, task.shared[:, 0]
    n = task.context / divide_by(divisor, task.context + 1)
    tie = np.vstack([np.eye(task.dim), w])
    spread = np.linalg.eigvalsh(tie @ cov @ tie.T)[-1]
    return float(n * np.linalg.norm(cov @ cov)), float(n * np.linalg.norm(cov @ w) * spread)


def leaving_step(model: Model, start: Weights, moments: Moments, lr: float) -> float:
    """When gradient descent from small (W, v) has lost a hundredth of its loss, by the first pair alone.

    Along the pair p_h = (l·W_h + r·v_h)/2 is multiplied by 1 + 2σ·lr a step, and the loss has fallen by
    2σ Σ_h p_h².
    """
    left, sigma, right = np.linalg.svd(pull(moments))
    w, v = model.factors(start, moments.features.dim)
    along = (w.reshape(len(w), -1) @ left[:, 0] + v[:, 0] @ right[0]) / 2
    wanted = 0.01 * moments.power / (2 * sigma[0])
    return float(np.log(wanted / np.sum(along**2)) / (2 * np.log1p(2 * sigma[0] * lr)))


def turn(parts: Kinds) -> float:
    """The share at which the first pair of the pull lowers both test errors equally."""
    from scipy.optimize import brentq

    def lead(share: float) -> float:
        pair = first_pair(parts.at(share))
        return gain(parts.in_weight, pair) - gain(parts.in_context, pair)

    return float(brentq(lead, 0.5, 1.0, xtol=1e-6))


def optimum(moments: Moments) -> Float[np.ndarray, "O F"]:
    """c of the least loss that any linear attention can have, with features that never differ left at 0."""
    return np.linalg.lstsq(moments.gram, moments.cross.T, rcond=1e-12)[0].T


def border(errors: Callable[[float], Errors], least: float = 1e-3) -> float:
    """The share at which ``errors(share)`` has both tests equal; 0 if that is below ``least``."""
    from scipy.optimize import brentq

    def lead(share: float) -> float:
        found = errors(share)
        return found["in_weight"] - found["in_context"]

    return float(brentq(lead, least, 1, xtol=least / 10)) if lead(least) < 0 else 0.0


def best_border(parts: Kinds) -> float:
    """The ``border`` of the least-squares optima, to four digits down to a share of 2·10⁻⁵."""
    return border(lambda share: parts.errors(optimum(parts.at(share))), least=2e-8)
