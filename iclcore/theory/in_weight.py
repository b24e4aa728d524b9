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
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclcore.models import Model, Weights
from iclcore.moments import Moments, coefficients, mix, of_population
from iclcore.task import RegressionTask

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
