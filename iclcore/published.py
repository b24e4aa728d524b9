"""The random numbers of the published code: the same flags and seed give its data and initial weights.

The first paper's code (commit 5bef809) has two random generators, NumPy's legacy one and PyTorch's. A seed
gives the same numbers only if each generator draws the same things in the same order and precision. This
module therefore draws in the order of that code. It also uses its float32 and its order of sums, because
above the edge of stability the last bit of a number decides how a run ends.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from iclcore import checks
from iclcore.checks import BadValue, enough_to_whiten, fits_in_memory, instance, whole
from iclcore.extras import needs
from iclcore.models import Model, Weights
from iclcore.shapes import Float
from iclcore.task import Matrix, RegressionTask, Sequences

with needs("torch"):
    import torch


def sample(task: RegressionTask, sequences: int, seed: int = 10, test: int = 0) -> Sequences:
    """Return the training set that the published code draws from ``seed``, with its test sets.

    The two test sets, ``tests["in_weight"]`` and ``tests["in_context"]``, have ``test`` sequences each; if
    ``test`` is 0, there are none. The task's own seed is not used, because the published code draws the
    eigenvectors and the shared W from the seed of the run. The ``task`` of the result holds the eigenvectors;
    the shared W is only in the labels.
    """
    instance("task", task, RegressionTask)
    if task.basis is not None or task.noise:
        raise BadValue("task", "takes no basis, covariance or noise in the published code")
    whole("sequences", sequences)
    checks.seed("seed", seed)
    enough_to_whiten("test", whole("test", test, least=0), task.dim)
    if task.in_context == 1:
        enough_to_whiten("sequences", sequences, task.dim)
    tokens = task.context + 1
    fits_in_memory("sequences", 24 * max(sequences, test) * tokens * task.dim)

    # From here on, everything is drawn in the order of the published code.
    legacy, generator = np.random.RandomState(seed), torch.Generator().manual_seed(seed)
    shared = torch.randn(task.dim, task.outputs, generator=generator)
    shared = shared * task.dim**0.5 / shared.norm()
    covariance, basis = _covariance(task, legacy)
    spectrum = task.spectrum
    if not isinstance(spectrum, str):  # the published code scales every Λ to trace 1
        spectrum = task.eigenvalues / task.eigenvalues.sum()
    drawn_task = replace(task, spectrum=spectrum, basis=basis)

    def draw(count: int, in_context: float) -> dict:
        inputs = legacy.multivariate_normal(np.zeros(task.dim), covariance, (count, tokens))
        x = torch.from_numpy(inputs.astype(np.float32))
        x -= x.mean(dim=0)
        own = torch.randn(count, task.dim, task.outputs, generator=generator)
        if in_context == 1:
            y = torch.einsum("ptd,pdo->pto", x, _whiten(own))
        elif in_context == 0:
            y = torch.randn(count, tokens, task.outputs, generator=generator)
            y[:, -1] = x[:, -1] @ shared
        else:
            first = int(count * in_context)  # the code rounds down: .29 of 100 is 28
            own[first:] = shared
            y = torch.einsum("ptd,pdo->pto", x, own)
        of = replace(drawn_task, in_context=in_context)
        return {"x": x.numpy(), "y": y.numpy(), "every_length": task.every_length, "task": of}

    train = draw(sequences, task.in_context)
    of_tests = {"in_weight": 0.0, "in_context": 1.0} if test else {}
    tests = {name: Sequences(**draw(test, in_context)) for name, in_context in of_tests.items()}
    starts = partial(_start, task.dim, task.outputs, generator.get_state())
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


def _whiten(own: Float[torch.Tensor, "P D O"]) -> Float[torch.Tensor, "P D O"]:
    """Return the vectors, transformed to zero mean and unit unbiased covariance over the sequences."""
    own, white = own - own.mean(dim=0, keepdim=True), []
    for vectors in own.unbind(dim=2):
        values, basis = torch.linalg.eigh(torch.cov(vectors.T).reshape(2 * vectors.shape[1:]))
        # NumPy's square root, as published, because torch's rounds differently
        spread = torch.from_numpy(np.sqrt(values.numpy()))
        root = basis @ torch.diag(1 / spread) @ basis.T
        white.append(vectors @ root.T)
    return torch.stack(white, dim=2)


def _start(dim: int, outputs: int, state: torch.Tensor, model: Model) -> Weights:
    """Return the initial weights that the published code gives a model.

    The code draws the data before the weights, so all models share one training set. ``state`` is the state
    of PyTorch's generator between the two. The code first creates every matrix as a torch.nn.Linear, whose
    default draw it throws away, and then draws each matrix again, some of them twice (``Layer.draws``).
    """
    generator, layers = torch.Generator(), model.layers(dim, outputs)
    generator.set_state(state)
    for layer in layers:
        for _ in range(layer.count):
            torch.empty(layer.shape).uniform_(generator=generator)
    weights = {}
    for layer in layers:
        matrices = []
        for _ in range(layer.count):
            for _ in range(layer.draws):
                matrix = torch.empty(layer.shape).normal_(std=layer.std, generator=generator)
            matrices.append(matrix)
        weights[layer.name] = torch.stack(matrices).double().numpy()
    return model.enter_subspace(weights, dim)
