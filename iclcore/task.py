"""In-context regression tasks, and sequences drawn from them.

A sequence has N labelled examples (x_n, y_n = Wᵀ x_n) and a query x_q. The answer is y_q = Wᵀ x_q. A model
sees the sequence as a matrix of T = N + 1 tokens (x, y), in which the query's y is set to zero.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclcore import checks
from iclcore.checks import BadValue, fits_in_memory, inputs, numbers, shown, whole
from iclcore.shapes import Float

ORTHOGONAL = 1e-6  # tolerance: eigenvectors in float32 are only this close to orthogonal
SPECTRA = ("linear", "power", "white")
STREAMS = ("covariance", "shared", "inputs", "tasks", "noise", "errors")  # random number streams
Vector = Float[np.ndarray, " D"]
Matrix = Float[np.ndarray, "D D"]
Divisor = str  # one of DIVISORS
DIVISORS = ("one", "context", "tokens")


def divide_by(divisor: str, tokens: int) -> int:
    """Return the number by which a model divides its sum over ``tokens`` tokens, including the query.

    "one" is the convention of the published code, "context" is the 1/N of the paper, and "tokens" is the
    convention of the published code with ``--vary_len``.
    """
    checks.choice("divisor", divisor, DIVISORS)
    return {"one": 1, "context": tokens - 1, "tokens": tokens}[divisor]


def only_sequences(name: str, value: Any) -> "Sequences":
    """Check that the value is Sequences. If it is a task, the error says how to draw sequences from it."""
    if isinstance(value, RegressionTask):
        raise BadValue(name, "takes Sequences, such as task.sample(5000), not the task")
    return checks.instance(name, value, Sequences)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return the array itself if it cannot be changed, else a read-only copy."""
    if array.flags.writeable or getattr(array.base, "flags", array.flags).writeable:
        array = array.copy(order="K")
        array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Sequences:
    """P sequences of T tokens, the last of which is the query.

    - ``x``: the inputs, (P, T, D).
    - ``y``: the labels, (P, T, O), or (P, T) for one output. A model never sees the label of the query.
    - ``every_length``: whether the loss is the mean over the prefixes of 2, 3, … T tokens, each of which has
      its last token as query. Otherwise the loss is that of the whole sequences.
    - ``task``: the task that the sequences were drawn from, if it is known.
    - ``name``: a name for the table of a sweep.
    - ``starts``: a function that returns the initial weights of a model. Only sequences that were drawn as in
      the published code have such a function.
    - ``tests``: held-out sequences by name. Training records the errors on them at every step.

    Lists and integers become arrays of floats. The arrays are read-only copies, because their averages and
    their digest are cached.
    """

    x: np.ndarray | Any  # Any, because a list may be given; the field is an array
    y: np.ndarray | Any
    _: KW_ONLY
    every_length: bool = False
    task: "RegressionTask | None" = None
    name: str = ""
    starts: Callable[[Any], dict[str, np.ndarray]] | None = field(default=None, repr=False)
    tests: dict[str, "Sequences"] = field(default_factory=dict, repr=False)
    averages: dict = field(default_factory=dict, init=False, repr=False)  # see moments.averages

    def __post_init__(self) -> None:
        x, y = inputs("x", self.x), numbers("y", self.y)
        if y.ndim == 2:
            y = y[:, :, None]
        if y.ndim != 3 or y.shape[:2] != x.shape[:2] or not y.size:
            takes = f"takes the shape (P, T) or (P, T, O), with x.shape {x.shape}"
            raise BadValue("y", f"{takes}, not {y.shape}")
        object.__setattr__(self, "x", read_only(x))
        object.__setattr__(self, "y", read_only(y))
        checks.instance("name", self.name, str)
        tests = dict(checks.instance("tests", self.tests, Mapping))
        for each in tests.values():
            checks.instance("tests", each, Sequences)
        object.__setattr__(self, "tests", tests)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        """Return the shapes and the task that the sequences were drawn from."""
        of = f" of {self.task}" if self.task else ""
        shapes = f"x {self.x.shape}, y {self.y.shape}"
        return f"Sequences({shapes}, every_length={self.every_length}){of}"

    @property
    def dim(self) -> int:
        """The dimension D of the inputs."""
        return self.x.shape[2]

    @property
    def outputs(self) -> int:
        """The dimension O of the labels."""
        return self.y.shape[2]

    @cached_property
    def digest(self) -> str:
        """A digest of the numbers, shapes and precision. The test sets are not part of it."""
        digest = sha256(f"{self.every_length}".encode())
        for array in (self.x, self.y):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array))
        return digest.hexdigest()[:16]

    def __getitem__(self, part: slice) -> "Sequences":
        checks.instance("sequences[part]: part", part, slice, list, np.ndarray)
        return replace(self, x=self.x[part], y=self.y[part])

    @property
    def lengths(self) -> range:
        """The lengths over which the loss is averaged, in tokens including the query."""
        tokens = self.x.shape[1]
        return range(2 if self.every_length else tokens, tokens + 1)

    def prefixes(self) -> Iterator[tuple[Float[np.ndarray, "P n E"], Float[np.ndarray, "P O"]]]:
        """For each length, yield the tokens with the query's y set to zero, and the query's true y."""
        for n in self.lengths:
            tokens = np.concatenate([self.x[:, :n], self.y[:, :n]], axis=2)
            tokens[:, -1, self.x.shape[2] :] = 0
            yield tokens, self.y[:, n - 1]


@dataclass(frozen=True)
class RegressionTask:
    """Linear regression in context: inputs x ~ N(0, Λ), labels y = Wᵀ x, and one W for each sequence.

    - ``dim``: the dimension D of the inputs. The default is the number of eigenvalues in ``spectrum``, or 4.
    - ``context``: the number N of labelled examples in a sequence.
    - ``outputs``: the dimension O of the labels.
    - ``spectrum``: the eigenvalues of Λ, or the name of a law: "linear" (proportional to D, …, 2, 1), "power"
      (proportional to 1, 1/2, …, 1/D) or "white" (all equal). The eigenvalues of a law add up to 1.
    - ``in_context``: the fraction of the sequences that have their own W ~ N(0, I). The others share one W of
      norm √D, which a model can memorise (in-weight learning). The value 0 is an exception: the labels of
      the context are then noise, and only the answer comes from the shared W.
    - ``every_length``: whether the loss is a mean over all context lengths up to N; see ``Sequences``.
    - ``seed``: the seed of the eigenvectors and of the shared W. The sequences also depend on it.
    - ``basis``: the eigenvectors of Λ as columns, in the order of the eigenvalues. By default they are drawn
      or, if the spectrum is "white", they are the axes.
    - ``noise``: the variance σ² of the noise that is added to every label, the answer included.
    """

    dim: int | Any = None  # default: the number of eigenvalues if these are given, else 4
    context: int = 31
    outputs: int = 1
    spectrum: str | Sequence[float] | Vector = "linear"
    in_context: float = 1.0
    every_length: bool = False
    seed: int = 0
    basis: Sequence[Sequence[float]] | Matrix | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        order = slice(None)
        if isinstance(self.spectrum, str):
            checks.choice("spectrum", self.spectrum, SPECTRA)
            if self.dim is None:
                object.__setattr__(self, "dim", 4)
        else:
            values = numbers("spectrum", self.spectrum)
            fits = values.ndim == 1 and self.dim in (None, len(values))
            if not fits or not (values > 0).all():
                takes = f"takes a law's name or {self.dim or 'some'} eigenvalues above 0"
                raise BadValue("spectrum", f"{takes}, not {shown(self.spectrum)}")
            order = np.argsort(-values, kind="stable")
            object.__setattr__(self, "spectrum", tuple(values[order].tolist()))
            object.__setattr__(self, "dim", len(values))
        for name in ("dim", "context", "outputs"):
            whole(name, getattr(self, name))
        checks.fraction("in_context", self.in_context)
        checks.least("noise", self.noise)
        whole("seed", self.seed, least=0)
        if self.basis is not None:
            basis = numbers("basis", self.basis)
            gram = basis.T @ basis if basis.shape == (self.dim, self.dim) else 0
            if not np.allclose(gram, np.eye(self.dim), atol=ORTHOGONAL):
                takes = f"takes {self.dim} orthonormal columns of {self.dim} entries"
                raise BadValue("basis", f"{takes}, not {shown(self.basis)}")
            # tuples, so that a task can be hashed
            object.__setattr__(self, "basis", tuple(map(tuple, basis[:, order].tolist())))

    @classmethod
    def of_covariance(cls, covariance: ArrayLike, **settings) -> "RegressionTask":
        """Return the task whose inputs have a given covariance.

        - ``covariance``: Λ, a symmetric matrix with eigenvalues above 0.
        - ``settings``: other fields by name, such as ``context=31``.
        """
        covariance = numbers("covariance", covariance)
        square = covariance.ndim == 2 and covariance.shape == covariance.T.shape
        symmetric = square and np.allclose(covariance, covariance.T)
        if not symmetric or np.linalg.eigvalsh(covariance)[0] <= 0:
            takes = "takes a symmetric matrix whose eigenvalues are above 0"
            raise BadValue("covariance", f"{takes}, not {shown(covariance)}")
        values, basis = np.linalg.eigh(covariance)
        return cls(spectrum=values, basis=basis, **settings)

    @property
    def lengths(self) -> range:
        """The lengths over which the loss is averaged, in tokens including the query."""
        return range(2 if self.every_length else self.context + 1, self.context + 2)

    @property
    def eigenvalues(self) -> Vector:
        """The eigenvalues λ_1 ≥ … ≥ λ_D. Those of a law add up to 1; given eigenvalues are not rescaled."""
        if not isinstance(self.spectrum, str):
            return np.array(self.spectrum)
        order = np.arange(1, self.dim + 1)
        laws = {"linear": order[::-1], "power": 1 / order, "white": np.ones(self.dim)}
        return laws[self.spectrum] / laws[self.spectrum].sum()

    @cached_property
    def eigenvectors(self) -> Matrix:
        """The eigenvectors e_1 … e_D as columns: those of ``basis``, the axes, or drawn from ``seed``."""
        if self.basis is not None:
            basis = np.array(self.basis)
        elif self.spectrum == "white":
            basis = np.eye(self.dim)
        else:
            basis = self._rng("covariance").standard_normal((self.dim, self.dim))
            basis = np.linalg.qr(basis)[0]
        basis.flags.writeable = False  # because it is cached
        return basis

    @property
    def covariance(self) -> Matrix:
        """The covariance of the inputs, Λ = Σ_d λ_d e_d e_dᵀ."""
        return (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T

    @property
    def label_power(self) -> float:
        """The mean of y² over the sequences that have their own W: tr Λ + σ²."""
        return float(self.eigenvalues.sum() + self.noise)

    @property
    def shared(self) -> Float[np.ndarray, "D O"]:
        """The W of all sequences that have no W of their own. Its Frobenius norm is √D."""
        w = self._rng("shared").standard_normal((self.dim, self.outputs))
        return w * np.sqrt(self.dim) / np.linalg.norm(w)

    def sample(self, sequences: int, seed: int = 0) -> Sequences:
        """Return independent sequences of the task.

        - ``sequences``: the number P of sequences.
        - ``seed``: the seed of the inputs, of each sequence's own W, and of the noise.
        """
        return next(self.batches(sequences, seed))

    def batches(self, sequences: int, seed: int = 0) -> Iterator[Sequences]:
        """Yield batches of ``sequences`` sequences without end; the first is ``sample(sequences, seed)``.

        The inputs, the task matrices, the labels that are pure noise, and the errors that are added to labels
        have separate random generators.
        """
        whole("sequences", sequences)
        whole("seed", seed, least=0)
        tokens, shared = self.context + 1, self.shared
        fits_in_memory("sequences", 8 * sequences * tokens * (2 * self.dim + self.outputs))
        root = (self.eigenvectors * np.sqrt(self.eigenvalues)) @ self.eigenvectors.T
        inputs, tasks, noise, errors = (self._rng(name, seed) for name in STREAMS[2:])
        while True:
            x = inputs.standard_normal((sequences, tokens, self.dim)) @ root
            w = tasks.standard_normal((sequences, self.dim, self.outputs))
            w[round(sequences * self.in_context) :] = shared  # round, because 100 * 0.29 < 29
            y = x @ w
            if self.noise:
                y += np.sqrt(self.noise) * errors.standard_normal(y.shape)
            if self.in_context == 0:
                y[:, :-1] = noise.standard_normal((sequences, tokens - 1, self.outputs))
            x.flags.writeable = y.flags.writeable = False  # so Sequences need not copy them
            yield Sequences(x, y, every_length=self.every_length, task=self)

    def _rng(self, stream: str, *seeds: int) -> np.random.Generator:
        return np.random.default_rng([STREAMS.index(stream), self.seed, *seeds])
