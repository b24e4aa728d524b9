"""What an in-context regression task is, and how its sequences are drawn.

A sequence shows N labelled examples (x_n, y_n = Wᵀ x_n) and a query x_q; the answer is y_q = Wᵀ x_q.
As a model sees it, it is a matrix of T = N + 1 tokens (x, y), the query's y set to zero.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from iclcore.checks import choice, least, numbers, positive, said, share, switch, whole

if TYPE_CHECKING:
    from iclcore.models import Model, Weights

ORTHOGONAL = 1e-6  # float32 eigenvectors are; round-off of float64 ones is far below
SPECTRA = ("linear", "power", "white")
STREAMS = ("covariance", "shared", "inputs", "tasks", "noise", "errors")  # of random numbers
DRAWN = 1000  # sequences that a published draw has in float64 at a time: they stay in the cache
Vector, Matrix = Float[np.ndarray, " D"], Float[np.ndarray, "D D"]
Divisor = str  # one of DIVISORS
DIVISORS = ("one", "context", "tokens")


def divide_by(divisor: str, tokens: int) -> int:
    """What the sum over a context of ``tokens`` tokens (query included) is divided by.

    ``one``: the published code; ``context``: the paper's 1/N; ``tokens``: the published ``--vary_len``.
    """
    choice("divisor", divisor, DIVISORS)
    return {"one": 1, "context": tokens - 1, "tokens": tokens}[divisor]


@dataclass(frozen=True, eq=False)
class Sequences:
    """P sequences of T tokens. ``y`` keeps the query's answer in its last row; tokens hide it.

    Lists and integers become arrays of floats, and of one output ``y`` may be (P, T).
    With ``every_length`` the loss is the mean over the first 2, 3, … T tokens, the last of them
    being the query each time; without, the whole sequence is the only one. ``task`` is what they were
    drawn from, if that is known.
    """

    x: ArrayLike  # (P, T, D) and
    y: ArrayLike  # (P, T, O), as they are kept: arrays of floats
    _: KW_ONLY
    every_length: bool = False
    task: "RegressionTask | None" = None
    starts: "Callable[[Model], Weights] | None" = field(default=None, repr=False)
    averages: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            object.__setattr__(self, name, _tokens(name, getattr(self, name)))
        switch("every_length", self.every_length)
        if self.x.shape[:2] != self.y.shape[:2] or not len(self.x) > 0:
            raise ValueError(
                f"y takes as many sequences and tokens as x, {self.x.shape[:2]}, and there is at least "
                f"one sequence, not {self.y.shape[:2]}"
            )
        if self.x.shape[1] < 2:
            raise ValueError("x takes at least 2 tokens a sequence: an example and the query")
        if self.task and (self.task.context + 1, self.task.dim) != self.x.shape[1:]:
            raise ValueError(
                f"task takes context {self.x.shape[1] - 1} and dim {self.x.shape[2]}, as x has, not "
                f"{self.task.context} and {self.task.dim}"
            )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        """Shapes, not a hundred lines of numbers."""
        of = f" of {self.task}" if self.task else ""
        return (
            f"Sequences(x {self.x.shape}, y {self.y.shape}, every_length={self.every_length}){of}"
        )

    @property
    def dim(self) -> int:
        return self.x.shape[2]

    @property
    def outputs(self) -> int:
        return self.y.shape[2]

    @property
    def context(self) -> int:
        return self.x.shape[1] - 1

    @cached_property
    def finite(self) -> bool:
        """Whether all its numbers are."""
        return bool(np.isfinite(self.x).all() and np.isfinite(self.y).all())

    @cached_property
    def digest(self) -> str:
        """Of its content: of equal numbers in equal shapes and precision it is the same."""
        found = sha256(f"{self.every_length}".encode())
        for array in (self.x, self.y):
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array))
        return found.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequences):
            return NotImplemented
        return (self.digest, self.task) == (other.digest, other.task)

    def __hash__(self) -> int:
        return hash((self.digest, self.task))

    def __getitem__(self, part: slice) -> "Sequences":
        return Sequences(
            self.x[part],
            self.y[part],
            every_length=self.every_length,
            task=self.task,
            starts=self.starts,
        )

    @property
    def lengths(self) -> range:
        """Numbers of tokens, the query included, over which the loss is averaged."""
        tokens = self.x.shape[1]
        return range(2 if self.every_length else tokens, tokens + 1)

    def prefixes(self) -> Iterator[tuple[Float[np.ndarray, "P n E"], Float[np.ndarray, "P O"]]]:
        """For each length: the tokens with the query's y hidden, and that y."""
        for n in self.lengths:
            tokens = np.concatenate([self.x[:, :n], self.y[:, :n]], axis=2)
            tokens[:, -1, self.x.shape[2] :] = 0
            yield tokens, self.y[:, n - 1]


def _tokens(name: str, value: object) -> np.ndarray:
    """Floats with three axes, of what can be one."""
    array = numbers(name, value)
    if name == "y" and array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        shapes = {"x": "(P, T, D)", "y": "(P, T) or (P, T, O)"}
        raise ValueError(f"{name} takes the shape {shapes[name]}, not {array.shape}")
    if not array.shape[2]:
        raise ValueError(f"{name} takes at least one entry a token, not none")
    return array


@dataclass(frozen=True)
class RegressionTask:
    """Linear regression in context: x ~ N(0, Λ) with tr Λ = 1, and a task matrix W a sequence.

    ``spectrum`` is the law of Λ's eigenvalues (``linear``: λ_d ∝ d, ``power``: λ_d ∝ 1/d, ``white``)
    or the eigenvalues themselves; ``basis`` has their eigenvectors as columns, else these are drawn from
    ``seed``. ``of_covariance`` takes a Λ instead. A share ``in_context`` of the sequences, to the
    nearest whole number, has W ~ N(0, I) of its own; the others share one W of norm √D (in-weight
    learning), and at share 0 their context is noise. ``noise`` is the variance σ² of what is added to every
    label Wᵀx, the query's answer included.
    ``seed`` is that of drawn eigenvectors and of the shared W.
    """

    dim: int | None = None  # as many as eigenvalues are given, else 4
    context: int = 31
    outputs: int = 1
    spectrum: str | Sequence[float] | Vector = "linear"
    in_context: float = 1.0
    every_length: bool = False
    seed: int = 0
    basis: Sequence[Sequence[float]] | Matrix | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.spectrum, str):
            given = numbers("spectrum", self.spectrum)
            if given.ndim != 1:
                raise ValueError(f"spectrum takes a law's name or eigenvalues, not {said(given)}")
            object.__setattr__(self, "spectrum", tuple(given.tolist()))
        if self.dim is None:
            dim = 4 if isinstance(self.spectrum, str) else len(self.spectrum)
            object.__setattr__(self, "dim", dim)
        for name in ("dim", "context", "outputs"):
            whole(name, getattr(self, name))
        share("in_context", self.in_context)
        least("noise", self.noise)
        whole("seed", self.seed, least=0)
        switch("every_length", self.every_length)
        order = slice(None)
        if isinstance(self.spectrum, str):
            choice("spectrum", self.spectrum, SPECTRA)
        elif len(self.spectrum) != self.dim:
            raise ValueError(f"spectrum takes {self.dim} eigenvalues, not {len(self.spectrum)}")
        else:
            values = [float(positive("spectrum", value)) for value in self.spectrum]
            order = sorted(range(self.dim), key=lambda d: -values[d])
            object.__setattr__(self, "spectrum", tuple(values[d] for d in order))
        if self.basis is not None:
            basis = numbers("basis", self.basis)
            if basis.shape != (self.dim, self.dim) or not np.allclose(
                basis.T @ basis, np.eye(self.dim), atol=ORTHOGONAL
            ):
                raise ValueError(
                    f"basis takes {self.dim} orthonormal columns of {self.dim} entries"
                )
            # in the order of the eigenvalues, as hashable as these
            object.__setattr__(self, "basis", tuple(map(tuple, basis[:, order].tolist())))

    @classmethod
    def of_covariance(cls, covariance: ArrayLike, **settings) -> "RegressionTask":
        """The task whose inputs have this Λ; ``settings`` are the other fields."""
        covariance = numbers("covariance", covariance)
        square = covariance.ndim == 2 and covariance.shape[0] == covariance.shape[1]
        if not np.isfinite(covariance).all():
            raise ValueError("covariance takes finite numbers; there is one that is not")
        if not square or not np.allclose(covariance, covariance.T):
            raise ValueError("covariance takes a symmetric square matrix")
        values, basis = np.linalg.eigh(covariance)
        if not (values > 0).all():
            raise ValueError(f"covariance takes eigenvalues above 0, not {values.min():.3g}")
        return cls(spectrum=values, basis=basis, **settings)

    @property
    def lengths(self) -> range:
        """Numbers of tokens, the query included, over which the loss is averaged."""
        return range(2 if self.every_length else self.context + 1, self.context + 2)

    @property
    def eigenvalues(self) -> Vector:
        """λ_1 ≥ … ≥ λ_D; a named spectrum has trace 1, given eigenvalues are kept as they are."""
        if not isinstance(self.spectrum, str):
            return np.array(self.spectrum)
        order = np.arange(1, self.dim + 1)
        laws = {"linear": order[::-1], "power": 1 / order, "white": np.ones(self.dim)}
        return laws[self.spectrum] / laws[self.spectrum].sum()

    @cached_property
    def eigenvectors(self) -> Matrix:
        """Columns e_1 … e_D, given or drawn from ``seed``; white input keeps the axes."""
        if self.basis is not None:
            found = np.array(self.basis)
        elif self.spectrum == "white":
            found = np.eye(self.dim)
        else:
            found = self._rng("covariance").standard_normal((self.dim, self.dim))
            found = np.linalg.qr(found)[0]
        found.flags.writeable = False  # it is every asker's
        return found

    @property
    def covariance(self) -> Matrix:
        """Λ = Σ_d λ_d e_d e_dᵀ."""
        return (self.eigenvectors * self.eigenvalues) @ self.eigenvectors.T

    @property
    def label_power(self) -> float:
        """tr Λ + σ², the mean of y² over the sequences that have a W of their own."""
        return float(self.eigenvalues.sum() + self.noise)

    @property
    def shared(self) -> Float[np.ndarray, "D O"]:
        """The W of the sequences that are not in-context, of Frobenius norm √D."""
        w = self._rng("shared").standard_normal((self.dim, self.outputs))
        return w * np.sqrt(self.dim) / np.linalg.norm(w)

    def sample(self, sequences: int, seed: int = 0) -> Sequences:
        """Independent draws; inputs and task matrices have generators of their own under ``seed``."""
        return next(self.batches(sequences, seed))

    def batches(self, sequences: int, seed: int = 0) -> Iterator[Sequences]:
        """Draws without an end, the first of which is ``sample``."""
        whole("sequences", sequences)
        tokens, shared = self.context + 1, self.shared
        root = (self.eigenvectors * np.sqrt(self.eigenvalues)) @ self.eigenvectors.T
        inputs, tasks, noise, errors = (self._rng(name, seed) for name in STREAMS[2:])
        while True:
            x = inputs.standard_normal((sequences, tokens, self.dim)) @ root
            w = tasks.standard_normal((sequences, self.dim, self.outputs))
            w[round(sequences * self.in_context) :] = shared  # 100 * .29 is a little less than 29
            y = x @ w
            if self.noise:
                y += np.sqrt(self.noise) * errors.standard_normal(y.shape)
            if self.in_context == 0:
                y[:, :-1] = noise.standard_normal((sequences, tokens - 1, self.outputs))
            yield Sequences(x, y, every_length=self.every_length, task=self)

    def _rng(self, stream: str, *seeds: int) -> np.random.Generator:
        return np.random.default_rng([STREAMS.index(stream), self.seed, *seeds])
