"""Full-batch gradient descent on moments, compiled: a step costs one symmetric product gram·c.

The loops are in ``compiled``; there (d, a) of W_h[d, a] and of c[d, a, b] are one axis, the last.
"""

import numpy as np

from iclcore.compiled import descend
from iclcore.models import Factors, Model, Weights, scoring
from iclcore.moments import Features, Moments, coefficients


class MomentDescent:
    """Gradient descent of one linear model from ``weights``, in place, recorded at every step."""

    engine = "moments"

    def __init__(
        self, model: Model, weights: Weights, train: Moments, tests: list[Moments], lr: float
    ):
        self.weights, self.lr, self.kind = weights, lr, train.features
        self.views = model.factors(weights, self.kind.dim)
        self.factors = [np.ascontiguousarray(view, dtype=float) for view in self.views]
        every = [train, *tests]
        self.gram = np.stack([m.gram for m in every])
        self.cross = np.stack([m.cross for m in every])
        self.power = np.array([m.power for m in every])
        self.pair = _pair_rows(self.kind)
        self.advance(0)  # compiles, or loads what was compiled

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``steps`` steps: losses (steps,), test errors (steps, tests) and values (steps, H),
        each from before its step. Shorter where the loss is no longer finite."""
        errors = np.empty((steps, len(self.power)))
        values = np.empty((steps, self.factors[-1].shape[0]))
        if len(self.factors) == 2:
            w, v = self.factors
            key = query = np.empty((len(w), 0, 0))
            w = w.reshape(len(w), -1)
        else:
            key, query, v = self.factors
            w = np.empty((len(v), query.shape[2] * key.shape[2]))
        done = descend(
            w, key, query, v, self.gram, self.cross, self.power, self.pair, self.lr, errors, values
        )  # fmt: skip
        for view, factor in zip(self.views, self.factors, strict=True):
            view[...] = factor
        return errors[:done, 0], errors[:done, 1:], values[:done]


def gradient(factors: Factors, moments: Moments) -> Factors:
    """∂L/∂factors, written plainly: what the compiled step must agree with."""
    kind = moments.features
    c = coefficients(factors, kind)
    pull = 2 / len(c) * (c @ moments.gram - moments.cross)
    pull = pull.reshape(len(c), kind.dim, kind.pairs)[:, :, kind.pair]  # (O, D, A, B)
    w, v = scoring(factors), factors[-1]
    if len(factors) == 2:
        return np.einsum("odab,hob->hda", pull, v), np.einsum("odab,hda->hob", pull, w)
    (key, query, _), dw = factors, np.einsum("odab,hob->hda", pull, v)
    return (
        np.einsum("hrd,hda->hra", query, dw),
        np.einsum("hra,hda->hrd", key, dw),
        np.einsum("odab,hda->hob", pull, w),
    )


def _pair_rows(kind: Features) -> np.ndarray:
    """Where c[b, (d, a)] stands among the features: (B, D·A)."""
    a, b = kind.pair.shape
    place = np.arange(kind.dim)[:, None, None] * kind.pairs + kind.pair  # (D, A, B)
    return np.ascontiguousarray(place.reshape(kind.dim * a, b).T)
