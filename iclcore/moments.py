"""Everything that training linear attention needs to know of its data: three averages.

With features φ_f = x_q[d] S[a, b] the prediction is cᵀφ, so the squared error over any data is
L(c) = power − 2 crossᵀc + cᵀ gram c with gram = ⟨φφᵀ⟩, cross = ⟨y_q φ⟩, power = ⟨y_q²⟩ (per output).
This is exact for a finite set, and a step on it costs the same whatever the number of sequences.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce

import numpy as np
from jaxtyping import Float, Int
from tqdm import tqdm

from iclcore.checks import BadValue, choice
from iclcore.models import Factors, Model, scoring
from iclcore.task import Divisor, Matrix, RegressionTask, Sequences, Vector, divide_by

LABELS = ("own", "shared", "noise")  # by what the labels of a context are made
SINGULAR = 1e-12  # pivots of gram below this share of its largest entry are round-off
CHUNK = 2000  # sequences whose features are held at a time: 6 MB at D = 8


@dataclass(frozen=True)
class Features:
    """Which (a, b) of S count, and where: S[a, b] stands at pair ``pair[a, b]`` (S is symmetric)."""

    dim: int
    outputs: int
    pair: Int[np.ndarray, "A B"]

    @cached_property
    def pairs(self) -> int:
        return int(self.pair.max()) + 1

    @property
    def size(self) -> int:
        return self.dim * self.pairs

    @cached_property
    def places(self) -> Int[np.ndarray, "2 pairs"]:
        """For each pair an (a, b), as indices into S; found once: for every batch again would be slow."""
        a, b = np.unravel_index(np.unique(self.pair, return_index=True)[1], self.pair.shape)
        return np.stack([a, b + self.dim + self.outputs - self.pair.shape[1]])


def features(model: Model, dim: int, outputs: int) -> Features:
    """All of S for attention; for a cubic model only its block between x and the last y."""
    if model.cubic:
        return Features(dim, outputs, np.arange(dim)[:, None])
    a, b = np.triu_indices(dim + outputs)
    pair = np.empty((dim + outputs, dim + outputs), dtype=int)
    pair[a, b] = pair[b, a] = np.arange(len(a))
    return Features(dim, outputs, pair)


@dataclass(frozen=True)
class Moments:
    """gram, cross and power of some sequences, or of a population; ``task`` is whose, if that is known."""

    gram: Float[np.ndarray, "F F"]
    cross: Float[np.ndarray, "O F"]
    power: float
    features: Features
    task: RegressionTask | None = None

    @property
    def dim(self) -> int:
        return self.features.dim

    @property
    def outputs(self) -> int:
        return self.features.outputs

    def loss(self, c: Float[np.ndarray, "O F"]) -> float:
        """Mean squared error, over sequences and outputs, of the predictor cᵀφ."""
        quadratic = np.einsum("of,of->o", c @ self.gram - 2 * self.cross, c)
        return float(self.power + quadratic.mean())

    def floor(self) -> float:
        """The least loss any linear attention can reach: power − crossᵀ gram⁺ cross.

        By gram = UᵀU with pivots: of fewer sequences than features gram has no inverse, but cross is
        in its range. F³/3 operations: a tenth of a second at D = 16, some seconds at D = 24.
        """
        from scipy.linalg import solve_triangular  # which a refusal need not wait for
        from scipy.linalg.lapack import dpstrf

        smallest = SINGULAR * self.gram.diagonal().max()
        upper, pivots, rank, _ = dpstrf(self.gram, tol=smallest)
        known = self.cross[:, pivots[:rank] - 1].T
        fitted = solve_triangular(upper[:rank, :rank], known, trans="T")
        least = self.power - (fitted**2).sum() / len(self.cross)
        return max(0.0, float(least))  # round-off, where the fit is exact


def mix(parts: Iterable[tuple[float, Moments]]) -> Moments:
    """The weighted mean: chunks of one data set by their counts, or kinds of sequences by their share."""
    parts = list(parts)
    total, (_, first) = sum(weight for weight, _ in parts), parts[0]
    task = first.task if all(part.task == first.task for _, part in parts) else None

    def mean(name: str):
        return reduce(np.add, (weight / total * getattr(part, name) for weight, part in parts))

    return Moments(mean("gram"), mean("cross"), float(mean("power")), first.features, task)


def coefficients(factors: Factors, kind: Features) -> Float[np.ndarray, "*stack O F"]:
    """c of a model's factors, ŷ = cᵀφ, or of a stack of them."""
    dense = np.einsum("...hda,...hob->...odab", scoring(factors), factors[-1])
    c = np.zeros((*dense.shape[:-2], kind.pairs))
    np.add.at(c, (..., kind.pair), dense)
    return c.reshape(*c.shape[:-2], kind.size)


def of_matrix(matrix: Matrix, kind: Features) -> Float[np.ndarray, "one F"]:
    """c of ŷ = βᵀ M x_q, of one output: β_a is S between x_a and the label, the last of its columns."""
    if kind.outputs != 1:
        raise ValueError(f"outputs takes 1, where M is one matrix, not {kind.outputs}")
    c = np.zeros((kind.dim, kind.pairs))
    c[:, kind.pair[: kind.dim, -1]] = matrix.T
    return c.reshape(1, -1)


Data = Sequences | RegressionTask | Moments  # what a model can be trained on


def averages(data: Data, model: Model) -> Moments:
    """What a model trains on: of sequences, kept with them for other runs; of a task, its population's."""
    if isinstance(data, Moments):
        return data
    if isinstance(data, RegressionTask):
        return _known_population(data, model.__class__(divisor=model.divisor))
    key = model.cubic, model.divisor  # all that moments depend on
    if key not in data.averages:
        data.averages[key] = of_sequences(data, model)
    return data.averages[key]


@lru_cache(maxsize=4)
def _known_population(task: RegressionTask, model: Model) -> Moments:
    """For runs that differ in their start: one model of a kind stands for all."""
    return of_population(task, model)


def featured(
    data: Sequences, kind: Features, divisor: Divisor
) -> Iterator[tuple[Float[np.ndarray, "P F"], Float[np.ndarray, "P O"]]]:
    """φ of each sequence and its answer, at each of the lengths."""
    from iclcore.loops import fill_features

    for tokens in data.lengths:
        phi, by = np.empty((len(data), kind.size)), divide_by(divisor, tokens)
        fill_features(data.x[:, :tokens], data.y[:, :tokens], *kind.places, by, phi)
        yield phi, data.y[:, tokens - 1].astype(float)


def of_sequences(data: Sequences, model: Model, chunk: int = CHUNK) -> Moments:
    """Moments of a data set, in chunks: memory does not grow with the number of sequences."""
    kind = features(model, data.dim, data.outputs)
    gram, cross = np.zeros((kind.size, kind.size)), np.zeros((kind.outputs, kind.size))
    power = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # which is said below
        for first in tqdm(
            range(0, len(data), chunk), "moments", delay=1, disable=None, leave=False
        ):
            for phi, target in featured(data[first : first + chunk], kind, model.divisor):
                gram += phi.T @ phi  # numpy takes syrk for this: half the work
                cross += target.T @ phi
                power += np.sum(target**2) / kind.outputs
    if not (np.isfinite(gram).all() and np.isfinite(cross).all() and np.isfinite(power)):
        raise ValueError("data takes smaller numbers: a mean of products of six is not finite")
    rows = len(data) * len(data.lengths)
    return Moments(gram / rows, cross / rows, float(power / rows), kind, data.task)


def of_population(task: RegressionTask, model: Model, labels: str | None = None) -> Moments:
    """Return the moments of infinitely many sequences, in closed form from those of Gaussian inputs.

    ``labels`` asks for one kind of context alone: labels by each sequence's ``own`` W, by the W that all
    have in common (``shared``), or ``noise``.
    """
    kind = features(model, task.dim, task.outputs)
    if labels is not None:
        choice("labels", labels, LABELS)
        # sequences that share one W are no task of their own
        of = {"own": replace(task, in_context=1.0), "noise": replace(task, in_context=0.0)}
        return replace(_population(task, model, kind, labels), task=of.get(labels))
    share = task.in_context
    parts = []
    if share > 0:
        parts.append((share, _population(task, model, kind, "own")))
    if share < 1:
        parts.append((1 - share, _population(task, model, kind, "shared" if share else "noise")))
    return replace(mix(parts), task=task)


def _population(task: RegressionTask, model: Model, kind: Features, context: str) -> Moments:
    """The context's labels by each sequence's ``own`` W, by the ``shared`` one, or ``noise``.

    Given W, a token (x, y) is Gaussian with covariance Σ, so S, less the query's own xxᵀ, is
    Wishart: ⟨S_ab S_cd⟩ = N² Σ_ab Σ_cd + N (Σ_ac Σ_bd + Σ_ad Σ_bc). The query is independent of it
    and enters by its Gaussian moments of order two, four and six (Isserlis).
    """
    cov, dim, size = task.covariance, task.dim, task.dim + task.outputs
    sigma, pairs, coupled, power = _token_moments(task, context)
    query = np.zeros((size, size))
    query[:dim, :dim] = cov
    fourth, sixth = _isserlis(query, 4), _isserlis(query, 6)
    fourth, sixth = fourth[:dim, :dim], sixth[:dim, :dim]
    exchange = np.einsum("acbd->abcd", pairs) + np.einsum("adbc->abcd", pairs)

    gram, cross = 0.0, 0.0
    for tokens in task.lengths:
        n, divisor = tokens - 1, divide_by(model.divisor, tokens)
        context_part = np.einsum("ij,abcd->iabjcd", cov, n**2 * pairs + n * exchange)
        mixed = np.einsum("ab,ijcd->iabjcd", sigma, fourth)
        mixed += np.einsum("cd,ijab->iabjcd", sigma, fourth)
        query_part = np.einsum("ijabcd->iabjcd", sixth)
        gram = gram + (context_part + n * mixed + query_part) / divisor**2
        labelled = context != "noise" or tokens == task.context + 1
        if labelled:
            linear = n * np.einsum("eoab,ed->odab", coupled, cov)
            if context != "own":
                linear += np.einsum("edab,eo->odab", fourth, task.shared)
            cross = cross + linear / divisor
    count = len(task.lengths)
    a, b = kind.places
    gram = gram[:, a, b][:, :, :, a, b].reshape(kind.size, kind.size) / count
    cross = cross[:, :, a, b].reshape(task.outputs, kind.size) / count
    if context == "noise":
        power = (power + count - 1) / count  # all but the last target are standard normal
    return Moments(gram, cross, power, kind)


def rates(task: RegressionTask, divisor: Divisor = "one") -> tuple[Vector, Vector]:
    """Return (a_d, b_d) of every eigenvector, from the largest eigenvalue down: see ``theory.linear``."""
    if task.in_context != 1:
        raise BadValue("in_context", f"takes 1 for this closed form, not {task.in_context}")
    eigenvalues = task.eigenvalues
    n = np.array([tokens - 1 for tokens in task.lengths])
    per_example = n / np.array([divide_by(divisor, tokens) for tokens in task.lengths])
    g, g2, h = per_example.mean(), (per_example**2).mean(), (per_example**2 / n).mean()
    a = g * eigenvalues**2
    return a, g2 * eigenvalues**3 + h * eigenvalues**2 * (eigenvalues + task.label_power)


def _token_moments(task: RegressionTask, context: str):
    """⟨Σ⟩ (E, E), ⟨ΣΣ⟩ (E, E, E, E), ⟨W Σ⟩ (D, O, E, E) over W, and the query's ⟨y²⟩ per output."""
    cov, dim, outputs = task.covariance, task.dim, task.outputs
    size = dim + outputs
    x, y = slice(None, dim), slice(dim, None)
    if context != "own":
        tie = np.concatenate([np.eye(dim), task.shared.T])
        sigma = tie @ cov @ tie.T
        sigma[y, y] += task.noise * np.eye(outputs)
        power = float(np.trace(sigma[y, y]) / outputs)
        if context == "noise":
            sigma[x, y] = sigma[y, x] = 0
            sigma[y, y] = np.eye(outputs)
        pairs = np.einsum("ab,cd->abcd", sigma, sigma)
        return sigma, pairs, np.einsum("eo,ab->eoab", task.shared, sigma), power

    # W ~ N(0, I):  Σ_xx = Λ, Σ_xy = ΛW, Σ_yy = WᵀΛW + σ² I; odd orders of W vanish
    one, square = np.eye(outputs), cov @ cov
    trace, trace2 = np.trace(cov) + task.noise, np.trace(square)
    sigma = np.zeros((size, size))
    sigma[x, x], sigma[y, y] = cov, trace * one
    pairs = np.zeros((size,) * 4)
    pairs[x, x, x, x] = np.einsum("ab,cd->abcd", cov, cov)
    pairs[x, x, y, y] = trace * np.einsum("ab,op->abop", cov, one)
    pairs[y, y, x, x] = trace * np.einsum("ab,op->opab", cov, one)
    for form, place in {
        "aocp": (x, y, x, y), "aopc": (x, y, y, x), "oacp": (y, x, x, y), "oapc": (y, x, y, x),
    }.items():  # fmt: skip
        pairs[place] = np.einsum(f"ac,op->{form}", square, one)
    pairs[y, y, y, y] = trace**2 * np.einsum("op,rs->oprs", one, one)
    pairs[y, y, y, y] += trace2 * np.einsum("or,ps->oprs", one, one)
    pairs[y, y, y, y] += trace2 * np.einsum("os,pr->oprs", one, one)
    coupled = np.zeros((dim, outputs, size, size))
    coupled[:, :, x, y] = np.einsum("ea,op->eoap", cov, one)
    coupled[:, :, y, x] = np.einsum("ea,op->eopa", cov, one)
    return sigma, pairs, coupled, float(trace)


def _isserlis(cov: np.ndarray, order: int) -> np.ndarray:
    """E[x_i x_j …] of a centred Gaussian: the sum over pairings of products of covariances."""
    letters = "ijklmn"[:order]

    def pairings(rest: str):
        if not rest:
            yield ()
        for other in rest[1:]:
            for more in pairings(rest[1:].replace(other, "")):
                yield (rest[0] + other, *more)

    half = [cov] * (order // 2)
    return sum(np.einsum(",".join(p) + "->" + letters, *half) for p in pairings(letters))
