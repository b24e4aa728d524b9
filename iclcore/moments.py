"""Moments: the three averages of the data that determine how linear attention trains.

S is the sum of token·tokenᵀ over the tokens of a sequence, divided by the model's divisor. With the features
φ_f = x_q[d] S[a, b], the prediction is ŷ = cᵀφ, and the squared error (per output) is
L(c) = power − 2 crossᵀc + cᵀ gram c, where gram = ⟨φφᵀ⟩, cross = ⟨y_q φ⟩ and power = ⟨y_q²⟩.
These formulas are also exact for a finite data set, and the cost of a step does not depend on its size.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from types import ModuleType

import numpy as np

from iclcore import plain
from iclcore.checks import BadValue, choice, fits_in_memory, shown
from iclcore.gaussian import population_averages
from iclcore.models import Factors, Model, scoring
from iclcore.shapes import Float, Int
from iclcore.task import Divisor, RegressionTask, Sequences, Vector, divide_by

CHUNK = 2000  # number of sequences whose features are in memory at a time: 6 MB at D = 8


@dataclass(frozen=True)
class Features:
    """The layout of the features φ: which entries S[a, b] they use, and in which order they are stored.

    Attention uses all of S. A model with ``only_beta`` uses one column of S. Because S is symmetric, S[a, b]
    and S[b, a] count as one pair, and ``pair[a, b]`` is its number. The feature x_q[d] S[a, b] is stored at
    place d · pairs + pair[a, b].
    """

    dim: int
    outputs: int
    only_beta: bool

    @property
    def pairs(self) -> int:
        """The number of different entries of S."""
        tokens = self.dim + self.outputs
        return self.dim if self.only_beta else tokens * (tokens + 1) // 2

    @property
    def size(self) -> int:
        """The number F of features."""
        return self.dim * self.pairs

    @cached_property
    def places(self) -> Int[np.ndarray, "2 pairs"]:
        """The indices (a, b) of each pair in S. They are cached, because every batch needs them."""
        size = self.dim + self.outputs
        if self.only_beta:
            return np.stack([np.arange(self.dim), np.full(self.dim, size - 1)])
        return np.stack(np.triu_indices(size))

    @cached_property
    def pair(self) -> Int[np.ndarray, "A B"]:
        """The pair number of each entry of S or, with ``only_beta``, of each entry of the column in use."""
        if self.only_beta:
            return np.arange(self.dim)[:, None]
        pair = np.empty((self.dim + self.outputs,) * 2, dtype=int)
        pair[*self.places] = pair[*self.places[::-1]] = np.arange(self.pairs)
        return pair

    @cached_property
    def rows(self) -> Int[np.ndarray, "B DA"]:
        """The place of c[d, a, b] among the features. The loops merge d and a, so b is the first axis."""
        place = np.arange(self.dim)[:, None, None] * self.pairs + self.pair  # (D, A, B)
        return np.ascontiguousarray(place.reshape(-1, self.pair.shape[1]).T)


def features(model: Model, dim: int, outputs: int) -> Features:
    """Return the features of a model."""
    return Features(dim, outputs, model.only_beta)


@dataclass(frozen=True)
class Moments:
    """The averages over sequences or over a population, for a model with F features and O outputs.

    - ``gram``: ⟨φφᵀ⟩, of shape (F, F).
    - ``cross``: ⟨y_q φ⟩ of each output, of shape (O, F).
    - ``power``: ⟨y_q²⟩, averaged over the outputs.
    - ``features``: the layout of the features φ.
    - ``task``: the task that the sequences were drawn from, if it is known.

    The arrays become read-only, so that Moments can be shared.
    """

    gram: Float[np.ndarray, "F F"]
    cross: Float[np.ndarray, "O F"]
    power: float
    features: Features
    task: RegressionTask | None = None

    def __post_init__(self) -> None:
        self.gram.flags.writeable = self.cross.flags.writeable = False

    @property
    def dim(self) -> int:
        """The dimension D of the inputs."""
        return self.features.dim

    @property
    def outputs(self) -> int:
        """The dimension O of the labels."""
        return self.features.outputs

    def loss(self, c: Float[np.ndarray, "O F"]) -> float:
        """Return the squared error of the predictor cᵀφ, averaged over sequences and outputs."""
        quadratic = np.einsum("of,of->o", c @ self.gram - 2 * self.cross, c)
        return float(self.power + quadratic.mean())

    def floor(self) -> float:
        """Return the least loss that any linear attention can reach: power − crossᵀ gram⁺ cross.

        The solutions c of gram c = cross have this loss. If there are fewer sequences than features, the
        equation has many solutions, and gram has no inverse. We therefore scale all features to unit variance
        and add ε, ten times round-off, to the diagonal of gram. The loss of the solution c of this changed
        equation is too large only by a term of second order in ε. If a few sequences are hundreds of times as
        large as the others, round-off in gram hides the others, and the floor is too large. The computation
        takes 2F³/3 operations: 0.2 s at D = 16, and some seconds at D = 24.
        """
        spread = np.sqrt(np.maximum(self.gram.diagonal(), np.finfo(float).tiny))
        gram = self.gram / spread
        gram /= spread[:, None]
        gram.flat[:: len(gram) + 1] += 10 * np.finfo(float).eps * len(gram)
        c = np.linalg.solve(gram, (self.cross / spread).T).T / spread
        return max(0.0, self.loss(c))  # round-off can give less than 0 if the fit is exact


def mix(parts: Iterable[tuple[float, Moments]]) -> Moments:
    """Return the weighted mean of moments. ``parts`` are pairs (weight, moments).

    The moments may belong to the parts of a data set, or to several kinds of sequences.
    """
    parts = list(parts)
    total, (_, first) = sum(weight for weight, _ in parts), parts[0]
    task = first.task if all(part.task == first.task for _, part in parts) else None

    def mean(name: str):
        return sum(weight / total * getattr(part, name) for weight, part in parts)

    return Moments(mean("gram"), mean("cross"), mean("power"), first.features, task)


def coefficients(factors: Factors, layout: Features) -> Float[np.ndarray, "*stack O F"]:
    """Return the coefficients c of the prediction ŷ = cᵀφ.

    - ``factors``: the factors of a model, or a stack of the factors of several.
    - ``layout``: the features φ.
    """
    w = scoring(factors)
    w = w.reshape(*w.shape[:-2], -1)
    return plain.form_coefficients(w, factors[-1], layout.rows, layout.size)


@cache
def linear_loops() -> ModuleType:
    """Return the compiled module ``loops`` or, if numba is not installed, the module ``plain``."""
    try:
        from iclcore import loops
    except ModuleNotFoundError:
        return plain
    return loops


Data = Sequences | RegressionTask | Moments  # what a linear model can be trained on


def averages(data: Data, model: Model) -> Moments:
    """Return the moments on which a model is trained. Sequences cache their moments for later runs.

    - ``data``: Sequences, or a RegressionTask for infinitely many sequences. Moments are returned unchanged.
    - ``model``: a linear model. Only its class and its divisor matter.
    """
    if isinstance(data, Moments):
        return data
    if isinstance(data, RegressionTask):
        return of_population(data, model)
    key = model.only_beta, model.divisor  # the moments depend on nothing else in the model
    if key not in data.averages:
        data.averages[key] = of_sequences(data, model)
    return data.averages[key]


def featured(
    data: Sequences, layout: Features, divisor: Divisor
) -> Iterator[tuple[Float[np.ndarray, "P F"], Float[np.ndarray, "P O"]]]:
    """For each length, yield the features φ and the answer of every sequence."""
    for tokens in data.lengths:
        x, y, phi = data.x[:, :tokens], data.y[:, :tokens], np.empty((len(data), layout.size))
        linear_loops().fill_features(x, y, *layout.places, divide_by(divisor, tokens), phi)
        yield phi, y[:, -1].astype(float)


def of_sequences(data: Sequences, model: Model, chunk: int = CHUNK) -> Moments:
    """Return the moments of a data set.

    - ``data``: the sequences.
    - ``model``: a linear model. Only its class and its divisor matter.
    - ``chunk``: the number of sequences whose features are in memory at a time.
    """
    layout = features(model, data.dim, data.outputs)
    fits_in_memory("dim", 8 * layout.size**2)
    gram, cross = np.zeros((layout.size, layout.size)), np.zeros((layout.outputs, layout.size))
    power = 0.0
    for start in range(0, len(data), chunk):
        for phi, target in featured(data[start : start + chunk], layout, model.divisor):
            gram += phi.T @ phi  # NumPy sees that the product is symmetric and does half the work
            cross += target.T @ phi
            power += np.sum(target**2) / layout.outputs
    rows = len(data) * len(data.lengths)
    return Moments(gram / rows, cross / rows, float(power / rows), layout, data.task)


def of_population(task: RegressionTask, model: Model, labels: str | None = None) -> Moments:
    """Return the moments of infinitely many sequences, in closed form.

    - ``task``: the task of the sequences.
    - ``model``: a linear model. Only its class and its divisor matter.
    - ``labels``: the kind of sequences, or None for all sequences of the task. In "own" sequences, the labels
      come from a W of the sequence's own, and in "shared" sequences from the shared W. In "noise" sequences,
      the labels of the context are noise, and only the answer comes from the shared W.

    The moments of one kind have no ``task``, because they describe only a part of the task's sequences.
    """
    choice("labels", labels or "own", ("own", "shared", "noise"))
    return _of_population(task, features(model, task.dim, task.outputs), model.divisor, labels)


@lru_cache(maxsize=4)  # for runs that differ only in their start
def _of_population(
    task: RegressionTask, layout: Features, divisor: Divisor, labels: str | None
) -> Moments:
    def of(labels: str) -> Moments:
        return Moments(*population_averages(task, layout.places, divisor, labels), layout)

    if labels:
        return of(labels)
    if task.in_context in (0, 1):
        return replace(of("own" if task.in_context else "noise"), task=task)
    parts = [(task.in_context, of("own")), (1 - task.in_context, of("shared"))]
    return replace(mix(parts), task=task)


def rates(task: RegressionTask, divisor: Divisor = "one") -> tuple[Vector, Vector]:
    """Return the rates (a_d, b_d) of all eigenvectors, from the largest eigenvalue down.

    - ``task``: the task. The training data are infinitely many sequences of it.
    - ``divisor``: the divisor of the model: "one", "context" or "tokens"; see ``task.divide_by``.

    a_d = E[y_q β_d x_d] is the speed at which eigenvector d is learned, and b_d = E[(β_d x_d)²] limits how
    much of it is learned. ``theory.linear`` explains the formulas.
    """
    if task.in_context != 1:
        raise BadValue("in_context", f"takes 1 for this closed form, not {task.in_context}")
    eigenvalues = task.eigenvalues
    n = np.array([tokens - 1 for tokens in task.lengths])
    per_example = n / np.array([divide_by(divisor, tokens) for tokens in task.lengths])
    g, g2, h = per_example.mean(), (per_example**2).mean(), (per_example**2 / n).mean()
    with np.errstate(over="ignore", under="ignore"):
        a = g * eigenvalues**2
        b = g2 * eigenvalues**3 + h * eigenvalues**2 * (eigenvalues + task.label_power)
    if not ((a > 0) & (b > 0) & (b < np.inf)).all():
        takes = "takes eigenvalues whose third powers are floats above 0"
        raise BadValue("spectrum", f"{takes}, not {shown(eigenvalues)}")
    return a, b
