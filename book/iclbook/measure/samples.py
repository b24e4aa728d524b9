"""What a finite sample makes of linear attention: levels and floors of its own, and its edge."""

import numpy as np
from jaxtyping import Float, Int

from iclbook.theory.in_weight import optimum
from iclcore import History, MergedAttention, RegressionTask, Sequences, theory
from iclcore.engines.linear import gradient
from iclcore.loops import fill_features
from iclcore.moments import CHUNK, Features, averages, coefficients, of_population
from iclcore.stability import sharpness
from iclcore.task import divide_by
from iclcore.theory.minimum import jacobian, of_matrix

LINEAR = MergedAttention(heads=1)  # the averages of all linear attention are the same


def loss_of_best(data: Sequences) -> float:
    """Their mean squared error under M_D, which is the best for infinitely many."""
    moments = averages(data, LINEAR)
    best = theory.pcr_predictor(data.task, data.task.dim)
    return moments.loss(of_matrix(best, moments.features))


def floor_of_matrices(data: Sequences) -> float:
    """The least loss of ŷ = βᵀ M x_q over all M: of the features only β_a x_q[d] = x_q[d] S[a, y]."""
    moments = averages(data, LINEAR)
    kept = of_matrices(moments.features)
    gram, cross = moments.gram[np.ix_(kept, kept)], moments.cross[0, kept]
    return moments.power - float(cross @ np.linalg.solve(gram, cross))


def of_matrices(kind: Features) -> Int[np.ndarray, " DD"]:
    """Where the features β_a x_q[d] stand, which are all that M reads."""
    return (np.arange(kind.dim)[:, None] * kind.pairs + kind.pair[: kind.dim, -1]).ravel()


def floor(data: Sequences) -> float:
    """The least loss of any linear attention."""
    return averages(data, LINEAR).floor()


def unseen(run: History) -> float:
    """The error of a linear model, as its run ended, on infinitely many fresh sequences."""
    exact = averages(run.task, run.model)
    return exact.loss(coefficients(run.model.factors(run.final, run.task.dim), exact.features))


def unseen_of_fit(data: Sequences) -> float:
    """The same of the linear attention that fits these sequences best."""
    return averages(data.task, LINEAR).loss(optimum(averages(data, LINEAR)))


def overfit(task: RegressionTask, count: int, matrix: bool = False) -> tuple[float, float]:
    """κ = tr(G⁻¹ E[r²φφᵀ])/σ² by Monte Carlo over ``count`` sequences, and its standard error.

    r = y_q − cᵀφ is what the best predictor leaves, σ² = E[r²], G = E[φφᵀ]. A fit to P sequences
    moves c by G⁻¹g to leading order, with g = ⟨rφ⟩ of mean zero and covariance E[r²φφᵀ]/P. That lowers
    their mean r² by gᵀG⁻¹g, on average by σ²κ/P, and raises that of fresh ones by as much. κ would be
    the number of features if r² did not depend on them. Of ``matrix`` alone: those that M reads.
    """
    moments = of_population(task, LINEAR)
    c = np.linalg.solve(moments.gram, moments.cross[0])
    left = moments.power - moments.cross[0] @ c
    fitted = of_matrices(moments.features) if matrix else np.arange(len(c))
    root = np.linalg.inv(np.linalg.cholesky(moments.gram[np.ix_(fitted, fitted)]))
    size = min(CHUNK, count)
    phi, found = np.empty((size, moments.features.size)), []
    for seed in range(count // size):
        data = task.sample(size, seed=seed)
        fill_features(data.x, data.y, *moments.features.places, 1, phi)
        r = data.y[:, -1, 0] - phi @ c
        found.append(np.sum(((r[:, None] * phi[:, fitted]) @ root.T) ** 2) / size / left)
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))


def gradient_noise(run: History, count: int) -> float:
    """tr Cov of the gradient of one sequence, in all weights that can move, where the run ended: by Monte
    Carlo over ``count`` sequences of its task."""
    factors, kind = run.model.factors(run.final, run.task.dim), run.moments.features
    slope, c = jacobian(factors, kind), coefficients(factors, kind)[0]
    data, phi = run.task.sample(count, seed=9), np.empty((count, kind.size))
    divisor = divide_by(run.model.divisor, run.task.context + 1)
    fill_features(data.x, data.y, *kind.places, divisor, phi)
    each = 2 * (phi @ c - data.y[:, -1, 0])[:, None] * (phi @ slope)
    return float(each.var(axis=0, ddof=1).sum())


def edge(run: History) -> float:
    """2/sharpness where the run ended, of the loss on its own data."""
    factors = run.model.factors(run.final, run.task.dim)
    return 2 / sharpness(lambda at: gradient(at, run.moments), factors)


def rises(run: History) -> bool:
    """Whether the loss rises anywhere, by more than any rounding."""
    return bool(np.any(np.diff(run.loss) > 1e-6))


def squares(run: History) -> Float[np.ndarray, "3 heads kept"]:
    """|v|², |K|², |Q|² of every head at the kept steps, of all that can move."""
    key, query, v = run.model.factors(run.snapshots, run.task.dim)
    sizes = [np.sum(part**2, axis=(-1, -2)) for part in (v, key, query)]
    return np.stack(sizes).swapaxes(1, 2)
