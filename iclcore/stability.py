"""The edge of stability: gradient descent cannot stay where learning rate × sharpness exceeds 2."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from iclcore import theory
from iclcore.checks import instance
from iclcore.models import Factors, Model
from iclcore.moments import Features, coefficients, features, of_population
from iclcore.task import RegressionTask, divide_by

# Every linear run tried at this multiple of the edge where training ends left all bounds or never
# came to rest; between one and it some find a flatter end.
HOPELESS = 8
LARGEST = 10  # tokens for which that edge is known in a moment; with few examples it is too noisy


def hopeless_rate(task: RegressionTask, model: Model) -> float | None:
    """A learning rate above which training is known to diverge, or None where none is known."""
    if model.softmax:  # past 1.2 times it all left but some of two sequences
        return HOPELESS * even_rate(task, model)
    small = model.linear and task.dim + task.outputs <= LARGEST and task.context >= task.dim
    return HOPELESS * stable_rate(task, model) if task.in_context == 1 and small else None


def even_rate(task: RegressionTask, model: Model) -> float:
    """2/sharpness of softmax attention that is still even over its T tokens, as it is at the start.

    It says ŷ = Σ_h v_h·(mean token)/divisor, so the loss is quadratic in v, and steepest where all heads
    read the mean input, of covariance Λ/T, along its first eigenvector. Attention that sharpens
    before v has left makes it steeper still.
    """
    means = np.mean([1 / (n * divide_by(model.divisor, n) ** 2) for n in task.lengths])
    return float(task.outputs / (model.heads * max(task.eigenvalues) * means))


def stable_rate(task: RegressionTask, model: Model) -> float:
    """2/sharpness of the population loss where training a linear model from small weights ends.

    There no residual is left that the weights could fit, so the Hessian is 2 Jᵀ gram J with
    J = ∂c/∂weights. All weights that can move count, not only those of the paper's subspace: what
    leaks out of it on finite data, or by round-off, grows first, and at a smaller learning rate.
    """
    instance("task", task, RegressionTask)
    if not model.linear:
        raise ValueError(
            "model takes a linear one: with softmax, even_rate is the edge of the start"
        )
    slope = jacobian(balanced_end(task, model), features(model, task.dim, task.outputs))
    gram = np.kron(np.eye(task.outputs), of_population(task, model).gram) / task.outputs
    return float(1 / np.linalg.eigvalsh(slope.T @ gram @ slope)[-1])


def jacobian(factors: Factors, kind: Features) -> Float[np.ndarray, "OF weights"]:
    """∂c/∂weights, of all that can move."""
    columns = []
    for place, factor in enumerate(factors):  # c is linear in each: its slope is c of units
        units = np.eye(factor.size).reshape(-1, *factor.shape)
        slopes = coefficients((*factors[:place], units, *factors[place + 1 :]), kind)
        columns.extend(slopes.reshape(factor.size, -1))
    return np.stack(columns, axis=1)


def balanced_end(task: RegressionTask, model: Model) -> Factors:
    """Factors of the global minimum that training from small weights ends at, heads at zero left out.

    Balanced, as the conservation laws keep them: |v| = |W|, or |v| = |K| = |Q| with R eigenvectors
    a head, the largest first. Several outputs have heads of their own; of a cubic model only the
    last output, whose β it reads.
    """
    single = replace(task, in_context=1.0)
    gains = theory.learned(single, model.divisor)
    outputs, dim = task.outputs, task.dim
    low = hasattr(model, "rank")  # else a head holds a whole matrix
    rank = min(model.rank, dim) if low else dim  # a row more is zero, and no step moves it
    groups = [range(d, min(d + rank, dim)) for d in range(0, dim, rank)]
    groups = groups[: max(1, model.heads // outputs)]
    width = features(model, dim, outputs).pair.shape
    taught = [outputs - 1] if model.cubic else range(outputs)
    heads = len(groups) * len(taught)
    v = np.zeros((heads, outputs, width[1]))
    key, query = np.zeros((heads, rank, width[0])), np.zeros((heads, rank, dim))
    w = np.zeros((heads, dim, width[0]))
    for i, o in enumerate(taught):
        for g, group in enumerate(groups):
            h, basis = i * len(groups) + g, task.eigenvectors[:, group]
            if low:
                value = np.cbrt(gains[group].sum())
                part = (basis * np.sqrt(gains[group] / value)).T
                key[h, : len(group), :dim] = query[h, : len(group)] = part
            else:
                value = np.sqrt(np.linalg.norm(gains))
                w[h, :, :dim] = (basis * gains) @ basis.T / value
            v[h, o, o - outputs] = value
    return (key, query, v) if low else (w, v)
