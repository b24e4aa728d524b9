"""What the limit loses on contexts of other lengths, and how softmax concentrates as its scores sharpen."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from iclcore.checks import BadValue
from iclcore.heads.risk import Curve, softmax_moments
from iclcore.heads.theory import MultiTask


def length_generalisation(
    task: MultiTask, lengths: Sequence[float] | np.ndarray
) -> Float[np.ndarray, "lengths tasks"]:
    """Return the losses, on contexts of these lengths, of the limit learned with ``task.context`` tokens.

    The loss is s (ρ² + ρ')/(1+ρ)². The bias ρ/(1+ρ) was learned with L tokens and remains. The variance
    depends on the length L' at test, by ρ' = e d φ/L'.
    """
    lengths = np.asarray(lengths, dtype=float)[:, None]
    if not (lengths >= 2).all():
        raise BadValue("lengths", "takes contexts of at least 2 tokens")
    rho = np.e * task.d * task.phi / task.context
    return task.s * (rho**2 + rho * task.context / lengths) / (1 + rho) ** 2


def participation(beta: Curve, context: int) -> dict[str, Curve]:
    """Return E|p|² of softmax weights p of L scores with variance β²: ``exact``, and in two regimes.

    ``exponential`` is e^{β²}/L. It holds for β² well below ½ ln L, where the largest scores begin to
    dominate the sum of squares (for L = 100 it is 58% too large there). ``saturated`` is
    1 − √(2 ln L)/β, for β² above 2 ln L, where the largest scores have all the weight. As L → ∞ this is
    the frozen phase of the random energy model.
    """
    beta = np.atleast_1d(np.asarray(beta, dtype=float))
    frozen = np.sqrt(2 * np.log(context))
    return {
        "exact": softmax_moments(beta, context)[0],
        "exponential": np.exp(np.minimum(beta**2, 600)) / context,  # e^710 is infinite
        "saturated": 1 - frozen / np.maximum(beta, frozen),
    }
