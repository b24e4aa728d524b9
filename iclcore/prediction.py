"""Predictions of trained linear and softmax attention for new sequences, in NumPy.

``modules`` defines the same predictions in torch, and the tests compare the two.
"""

import numpy as np
from numpy.typing import ArrayLike

from iclcore.checks import BadValue, inputs, numbers
from iclcore.models import Factors, Model, Weights, scoring
from iclcore.shapes import Float
from iclcore.task import Sequences, divide_by, only_sequences

Sizes = tuple[int, int]  # the numbers D of inputs and O of outputs


def attend(
    model: Model, factors: Factors, tokens: Float[np.ndarray, "P n E"]
) -> Float[np.ndarray, "P O"]:
    """Return ŷ = Σ_h Σ_m p_h(m) v_h·token_m, divided by the divisor. The query's token has y = 0.

    In linear attention, p_h(m) is the score x_qᵀ W_h token_m. In softmax attention, it is the softmax of the
    scores over m. In a model with ``only_beta``, W_h reads only the inputs of a token, and v_h only the last
    label.
    """
    w, v = scoring(factors), factors[-1]
    _, dim, read = w.shape
    scores = np.einsum("pd,hda->pha", tokens[:, -1, :dim], w) @ tokens[..., :read].swapaxes(1, 2)
    if model.softmax:
        scores = np.exp(scores - scores.max(axis=2, keepdims=True))
        scores /= scores.sum(axis=2, keepdims=True)
    context = scores @ tokens[..., -v.shape[2] :]
    return np.einsum("phb,hob->po", context, v) / divide_by(model.divisor, tokens.shape[1])


def predict(
    model: Model, weights: Weights, sizes: Sizes, x: ArrayLike, y: ArrayLike
) -> Float[np.ndarray, " P *O"]:
    """Return ŷ for the inputs ``x`` and the labels ``y`` of the context; see ``History.predict``."""
    x, y = inputs("x", x), np.asanyarray(y)
    count, tokens, dim = x.shape
    if y.ndim not in (2, 3) or y.shape[:2] not in ((count, tokens - 1), (count, tokens)):
        takes = "takes the shape (P, T - 1) or (P, T - 1, O), or T labels"
        raise BadValue("y", f"{takes}, for x of shape {x.shape}, not {y.shape}")
    labels = numbers("y", y[:, : tokens - 1])  # the last label is not used and may be nan
    labels = labels[..., None] if y.ndim == 2 else labels
    _check(model, weights, sizes, (dim, labels.shape[2]))
    labels = np.pad(labels, [(0, 0), (0, 1), (0, 0)])
    answers = attend(model, model.factors(weights, dim), np.concatenate([x, labels], axis=2))
    return answers[:, 0] if y.ndim == 2 else answers


def error(model: Model, weights: Weights, sizes: Sizes, data: Sequences) -> float:
    """Return the mean squared error over sequences and outputs, averaged over the lengths."""
    only_sequences("data", data)
    _check(model, weights, sizes, (data.dim, data.outputs))
    factors = model.factors(weights, data.dim)
    errors = [((attend(model, factors, tokens) - y) ** 2).mean() for tokens, y in data.prefixes()]
    return float(np.mean(errors))


def _check(model: Model, weights: Weights, sizes: Sizes, given: Sizes) -> None:
    """If these weights cannot predict sequences of the given sizes, raise an error that says what to do."""
    if not (model.linear or model.softmax):
        other = "is neither linear nor softmax attention; predict with its torch module,"
        line = f"prediction: {type(model).__name__} {other} iclcore.modules.module(run.model, run.final, O)"
        raise ValueError(line)
    if not weights:
        raise ValueError("prediction: a CSV file has no weights; save the run with to_npz")
    if given != sizes:
        takes = "must have as many inputs and outputs as the run, %d and %d, not %d and %d"
        raise BadValue("data", takes % (*sizes, *given))
