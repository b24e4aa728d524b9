"""The random numbers of the published code: the same flags and seed give its data and initial weights.

The first paper's code (commit 5bef809) uses two random generators, NumPy's legacy generator and PyTorch's. A
seed gives the same numbers only if each generator draws the same things in the same order and precision. This
module therefore draws in the order of that code, and rounds to float32 where that code does.

The module needs only NumPy. The last bits of its numbers then differ from PyTorch's, and PyTorch's own last
bits differ between processors. Above the edge of stability the last bit decides how a run ends. For such
runs, PyTorch itself can draw and calculate.
"""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from iclcore import checks
from iclcore.checks import BadValue, enough_to_whiten, fits_in_memory, instance, whole
from iclcore.generators import NumpyGenerator, TorchGenerator
from iclcore.models import Model, Weights
from iclcore.shapes import Float
from iclcore.task import Matrix, RegressionTask, Sequences


def sample(
    task: RegressionTask, sequences: int, seed: int = 10, test: int = 0, torch_bits: bool = False
) -> Sequences:
    """Return the training set that the published code draws from ``seed``, with its test sets.

    - ``task``: the task. Its own seed is not used, because the published code draws the eigenvectors and the
      shared W from the seed of the run.
    - ``sequences``: the number of training sequences.
    - ``seed``: the seed of the run, which the published code also uses for the initial weights.
    - ``test``: the number of sequences in each of the test sets, ``tests["in_weight"]`` and
      ``tests["in_context"]``. If it is 0, there are no test sets.
    - ``torch_bits``: whether PyTorch draws and calculates. The numbers then equal those of the published code
      in every bit on the same kind of processor. With NumPy, they differ by a few millionths, or by more if
      there are hardly more sequences than dimensions, because whitening then enlarges round-off.

    The ``task`` of the result holds the drawn eigenvectors. The shared W is only in the labels.
    """
    instance("task", task, RegressionTask)
    if task.basis is not None or task.noise:
        raise BadValue("task", "takes no basis, covariance or noise in a published draw")
    whole("sequences", sequences)
    checks.seed("seed", seed)
    enough_to_whiten("test", whole("test", test, least=0), task.dim)
    if task.in_context == 1:
        enough_to_whiten("sequences", sequences, task.dim)
    tokens = task.context + 1
    fits_in_memory("sequences", 24 * max(sequences, test) * tokens * task.dim)

    # From here on, everything is drawn in the order of the published code.
    legacy = np.random.RandomState(seed)
    generator = TorchGenerator(seed) if torch_bits else NumpyGenerator(seed)
    library = generator.library  # NumPy or PyTorch: all functions used below are in both
    shared = generator.normal((task.dim, task.outputs))
    shared = shared * task.dim**0.5 / library.linalg.norm(shared)
    covariance, basis = _covariance(task, legacy)
    spectrum = task.spectrum
    if not isinstance(spectrum, str):  # the published code scales every Λ to trace 1
        spectrum = task.eigenvalues / task.eigenvalues.sum()
    drawn_task = replace(task, spectrum=spectrum, basis=basis)

    def draw(count: int, in_context: float) -> dict:
        inputs = legacy.multivariate_normal(np.zeros(task.dim), covariance, (count, tokens))
        x = library.asarray(inputs.astype(np.float32))
        x -= x.mean(0)
        own = generator.normal((count, task.dim, task.outputs))
        if in_context == 1:
            y = library.einsum("ptd,pdo->pto", x, _whiten(own, library))
        elif in_context == 0:
            y = generator.normal((count, tokens, task.outputs))
            y[:, -1] = x[:, -1] @ shared
        else:
            first = int(count * in_context)  # that code rounds down: 0.29 of 100 is 28
            own[first:] = shared
            y = library.einsum("ptd,pdo->pto", x, own)
        of = replace(drawn_task, in_context=in_context)
        arrays = {"x": np.asarray(x), "y": np.asarray(y, dtype=np.float32)}
        return arrays | {"every_length": task.every_length, "task": of}

    train = draw(sequences, task.in_context)
    of_tests = {"in_weight": 0.0, "in_context": 1.0} if test else {}
    tests = {name: Sequences(**draw(test, in_context)) for name, in_context in of_tests.items()}
    starts = partial(_start, task.dim, task.outputs, generator)
    return Sequences(**train, tests=tests, starts=starts)


def _covariance(task: RegressionTask, legacy: np.random.RandomState) -> tuple[Matrix, Matrix]:
    """Return Λ as the published code computes it, and its eigenvectors from the largest eigenvalue down."""
    if task.spectrum == "white":
        return np.eye(task.dim) / task.dim, np.eye(task.dim)
    basis = np.linalg.qr(legacy.randn(task.dim, task.dim))[0]
    # The published eigenvalues ascend, 1, 2, …, D, and are divided by their sum only afterwards.
    linear = task.spectrum == "linear"
    values = np.arange(1, task.dim + 1) if linear else task.eigenvalues[::-1]
    covariance = basis @ np.diag(values) @ basis.T
    return covariance / np.trace(covariance), basis[:, ::-1]


def _whiten(own: Float[Any, "P D O"], library: Any) -> Float[Any, "P D O"]:
    """Return the vectors, transformed to zero mean and unit unbiased covariance over the sequences.

    NumPy computes the covariance, and everything that follows from it, in float64.
    """
    own, white = own - own.mean(0), []
    for o in range(own.shape[2]):
        vectors = own[:, :, o]
        covariance = library.cov(vectors.T).reshape(2 * vectors.shape[1:])
        values, basis = library.linalg.eigh(covariance)
        # NumPy's square root, as published, because PyTorch's rounds differently
        spread = library.asarray(np.sqrt(np.asarray(values)))
        root = basis @ library.diag(1 / spread) @ basis.T
        white.append(vectors @ root.T)
    return library.stack(white, 2)


def _start(
    dim: int, outputs: int, generator: NumpyGenerator | TorchGenerator, model: Model
) -> Weights:
    """Return the initial weights that the published code gives a model.

    The code draws the data before the weights, so all models share one training set. ``generator`` is in the
    state after the data and before the weights. The code first creates every matrix as a torch.nn.Linear and
    discards its default weights. It then draws each matrix again, and some of them twice (``Layer.draws``).
    """
    generator, layers = deepcopy(generator), model.layers(dim, outputs)
    for layer in layers:
        generator.uniform(layer.count * prod(layer.shape))
    weights = {}
    for layer in layers:
        drawn = [
            [generator.normal(layer.shape, layer.std) for _ in range(layer.draws)][-1]
            for _ in range(layer.count)
        ]
        weights[layer.name] = np.stack([np.asarray(matrix) for matrix in drawn]).astype(float)
    return model.enter_subspace(weights, dim)
