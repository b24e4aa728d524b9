"""Averages over infinitely many sequences, in closed form from the moments of Gaussian inputs."""

import numpy as np

from iclcore.checks import fits_in_memory
from iclcore.shapes import Float, Int
from iclcore.task import Divisor, RegressionTask, divide_by


def population_averages(
    task: RegressionTask, places: Int[np.ndarray, "2 pairs"], divisor: Divisor, labels: str
) -> tuple[Float[np.ndarray, "F F"], Float[np.ndarray, "O F"], float]:
    """Return gram, cross and power of infinitely many sequences of one kind.

    ``places`` are the entries (a, b) of S that the features use; ``labels`` selects the kind of sequence, as
    in ``moments.of_population``.

    Given W, a token (x, y) is Gaussian with covariance Σ. Without the query's own xxᵀ, S therefore has a
    Wishart distribution: ⟨S_ab S_cd⟩ = N² Σ_ab Σ_cd + N (Σ_ac Σ_bd + Σ_ad Σ_bc). The query is independent of
    the other tokens and enters through its Gaussian moments of order two, four and six. ``gram`` has the axes
    (i, pair (a, b), j, pair (c, d)).
    """
    dim, count = task.dim, len(task.lengths)
    size = dim * places.shape[1]
    fits_in_memory("dim", 8 * size**2)
    sigma, products, coupled, power = _token_moments(task, labels)
    query = np.zeros_like(sigma)  # the covariance of the query's token, whose y is zero
    query[:dim, :dim] = task.covariance

    def by_lengths(n_power: int, divisor_power: int, lengths: slice = slice(None)) -> float:
        """Return the mean over the lengths of n^n_power / divisor^divisor_power, for n examples."""
        tokens = np.array(task.lengths)
        divisors = np.array([divide_by(divisor, t) for t in task.lengths])
        return float(np.sum(((tokens - 1) ** n_power / divisors**divisor_power)[lengths])) / count

    # index arrays of the axes of gram, which select the pairs before any product is formed
    axis, (c, d) = np.arange(dim), places
    i, j = axis[:, None, None, None], axis[:, None]
    a, b = c[:, None, None], d[:, None, None]
    gram = _gaussian_moment(query, i, j, a, b, c, d) * by_lengths(0, 2)
    query_and_context = query[i, j] * (products[a, c, b, d] + products[a, d, b, c])
    query_and_context += sigma[a, b] * _gaussian_moment(query, i, j, c, d)
    query_and_context += sigma[c, d] * _gaussian_moment(query, i, j, a, b)
    query_and_context *= by_lengths(1, 2)
    gram += query_and_context
    gram += query[i, j] * (by_lengths(2, 2) * products[a, b, c, d])

    # if the labels are noise, only the answer at the full length is correlated with the features
    labelled = slice(-1, None) if labels == "noise" else slice(None)
    cross = np.einsum("eop,ed->odp", coupled[:, :, c, d], task.covariance)
    cross *= by_lengths(1, 1, labelled)
    if labels != "own":
        # the contribution of the query's own xxᵀ in S
        own_square = _gaussian_moment(query, axis[:, None, None], j, c, d)
        cross += by_lengths(0, 1, labelled) * np.einsum("edp,eo->odp", own_square, task.shared)
    if labels == "noise":
        power = (power + count - 1) / count  # all answers but the last are standard normal
    return gram.reshape(size, size), cross.reshape(-1, size), power


def _token_moments(task: RegressionTask, labels: str):
    """Return the averages over W ⟨Σ⟩ (E, E), ⟨ΣΣ⟩ (E, E, E, E), ⟨WΣ⟩ (D, O, E, E), and ⟨y_q²⟩ per output."""
    cov, dim, outputs = task.covariance, task.dim, task.outputs
    size = dim + outputs
    x, y = slice(None, dim), slice(dim, None)
    if labels != "own":
        tie = np.concatenate([np.eye(dim), task.shared.T])
        sigma = tie @ cov @ tie.T
        sigma[y, y] += task.noise * np.eye(outputs)
        power = float(np.trace(sigma[y, y]) / outputs)
        if labels == "noise":
            sigma[x, y] = sigma[y, x] = 0
            sigma[y, y] = np.eye(outputs)
        products = np.einsum("ab,cd->abcd", sigma, sigma)
        return sigma, products, np.einsum("eo,ab->eoab", task.shared, sigma), power

    # W ~ N(0, I):  Σ_xx = Λ, Σ_xy = ΛW, Σ_yy = WᵀΛW + σ² I; averages of odd order in W vanish
    one, square = np.eye(outputs), cov @ cov
    trace, trace2 = np.trace(cov) + task.noise, np.trace(square)
    sigma = np.zeros((size, size))
    sigma[x, x], sigma[y, y] = cov, trace * one
    products = np.einsum("ab,cd->abcd", sigma, sigma)
    for form, place in {
        "aocp": (x, y, x, y), "aopc": (x, y, y, x), "oacp": (y, x, x, y), "oapc": (y, x, y, x),
    }.items():  # fmt: skip
        products[place] = np.einsum(f"ac,op->{form}", square, one)
    products[y, y, y, y] += trace2 * np.einsum("or,ps->oprs", one, one)
    products[y, y, y, y] += trace2 * np.einsum("os,pr->oprs", one, one)
    coupled = np.zeros((dim, outputs, size, size))
    coupled[:, :, x, y] = np.einsum("ea,op->eoap", cov, one)
    coupled[:, :, y, x] = np.einsum("ea,op->eopa", cov, one)
    return sigma, products, coupled, float(trace)


def _gaussian_moment(cov: np.ndarray, *indices: np.ndarray) -> np.ndarray | float:
    """Return E[x_i x_j …] of a centred Gaussian, for index arrays that broadcast (Isserlis' theorem).

    The moment is a sum over all ways to divide the factors into pairs; each term is the product of the
    covariances of its pairs. To form the sum, we pair the first factor with each of the others and multiply
    by the moment of the factors that remain.
    """
    if not indices:
        return 1.0
    first, *others = indices
    return sum(
        cov[first, other] * _gaussian_moment(cov, *others[:k], *others[k + 1 :])
        for k, other in enumerate(others)
    )
