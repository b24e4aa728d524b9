"""The global minimum at which training from small weights ends, and how the prediction changes around it."""

from dataclasses import replace

import numpy as np

from iclcore import moments
from iclcore.checks import BadValue
from iclcore.models import Factors, Model
from iclcore.moments import Features
from iclcore.shapes import Float
from iclcore.task import Matrix, RegressionTask


def jacobian(factors: Factors, features: Features) -> Float[np.ndarray, "OF weights"]:
    """Return ∂c/∂weights for all weights that reach the prediction."""
    columns = []
    for place, factor in enumerate(factors):  # c is linear in each factor: its slope is c of a unit
        units = np.eye(factor.size).reshape(-1, *factor.shape)
        slopes = moments.coefficients((*factors[:place], units, *factors[place + 1 :]), features)
        columns.extend(slopes.reshape(factor.size, -1))
    return np.stack(columns, axis=1)


def balanced_end(task: RegressionTask, model: Model) -> Factors:
    """Return factors of the global minimum where training from small weights ends, without heads at zero.

    The factors are balanced, because the conservation laws keep them so: |v| = |W|, or |v| = |K| = |Q|. In
    the second case each head has R eigenvectors, and the first head has those with the largest eigenvalues.
    Each output has its own heads. A cubic model has heads only for the last output, because it reads the β of
    that output.
    """
    a, b = moments.rates(replace(task, in_context=1.0), model.divisor)
    gains = a / b  # M at the minimum, along each eigenvector
    outputs, dim = task.outputs, task.dim
    low_rank = hasattr(model, "rank")  # else a head holds a whole matrix
    rank = min(model.rank, dim) if low_rank else dim  # a further row is zero, and no step moves it
    groups = [range(d, min(d + rank, dim)) for d in range(0, dim, rank)]
    groups = groups[: max(1, model.heads // outputs)]
    width = moments.features(model, dim, outputs).pair.shape
    taught = [outputs - 1] if model.only_beta else range(outputs)
    heads = len(groups) * len(taught)
    v = np.zeros((heads, outputs, width[1]))
    key, query = np.zeros((heads, rank, width[0])), np.zeros((heads, rank, dim))
    w = np.zeros((heads, dim, width[0]))
    for i, o in enumerate(taught):
        for g, group in enumerate(groups):
            h, basis = i * len(groups) + g, task.eigenvectors[:, group]
            if low_rank:
                value = np.cbrt(gains[group].sum())
                part = (basis * np.sqrt(gains[group] / value)).T
                key[h, : len(group), :dim] = query[h, : len(group)] = part
            else:
                value = np.sqrt(np.linalg.norm(gains))
                w[h, :, :dim] = (basis * gains) @ basis.T / value
            v[h, o, o - outputs] = value
    return (key, query, v) if low_rank else (w, v)


def of_matrix(matrix: Matrix, layout: Features) -> Float[np.ndarray, "one F"]:
    """Return the coefficients c of ŷ = βᵀ M x_q for one output.

    β_a is the entry of S between x_a and the label, so β is part of the last column of S.
    """
    if layout.outputs != 1:
        raise BadValue("outputs", f"takes 1, because M is one matrix, not {layout.outputs}")
    c = np.zeros((layout.dim, layout.pairs))
    c[:, layout.pair[: layout.dim, -1]] = matrix.T
    return c.reshape(1, -1)
