"""The published code's draws: the same flags and seed give its data and its initial weights.

Two generators run side by side, NumPy's legacy one and PyTorch's; what matters is the order in
which each is asked. That of the first paper's code (commit 5bef809) is followed here, its float32 included,
and the order of its sums: past the edge of stability the last bit of a number decides how a run ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from iclcore.checks import enough_to_whiten, instance, whole
from iclcore.checks import seed as check_seed
from iclcore.extras import needs
from iclcore.models import Layer, Model, Weights
from iclcore.task import DRAWN, Matrix, RegressionTask, Sequences

with needs("torch"):
    import torch


@dataclass(frozen=True, eq=False, repr=False)
class Published(Sequences):
    """The training set of a published run, with its test sets, and where each model starts on it.

    ``task`` has the eigenvectors that were drawn; the shared W is not its own but in the labels only.
    """

    tests: dict[str, Sequences] = field(default_factory=dict)


@dataclass(frozen=True)
class Starts:
    """Called with a model, returns the initial weights that the published code gives it.

    The published code draws the data before the weights, so that all models share one training set.
    ``state`` is the state of PyTorch's generator between the two.
    """

    dim: int
    outputs: int
    state: torch.Tensor

    def __call__(self, model: Model) -> Weights:
        generator = torch.Generator()
        generator.set_state(self.state)
        return model.start(self.dim, self.outputs, draw=lambda layers: _weights(layers, generator))


def sample(task: RegressionTask, sequences: int, seed: int = 10, test: int = 0) -> Published:
    """Training set, ``test`` sequences of each kind if any, and starts of the published run with this seed.

    Of the task ``seed`` plays no part, and a basis of its own is refused: the reference draws its own.
    """
    instance("task", task, RegressionTask)
    if task.basis is not None:
        raise ValueError(
            "task takes no basis or covariance here, where the published code draws its own: use task.sample"
        )
    if task.noise:
        raise ValueError("task takes no noise here, for the published labels have none")
    whole("sequences", sequences)
    check_seed("seed", seed)
    enough_to_whiten("test", whole("test", test, least=0), task.dim)
    if task.in_context == 1:
        enough_to_whiten("sequences", sequences, task.dim)
    legacy, generator = np.random.RandomState(seed), torch.Generator().manual_seed(seed)
    shared = torch.randn(task.dim, task.outputs, generator=generator)
    shared = shared * task.dim**0.5 / shared.norm()
    covariance, basis = _covariance(task, legacy)

    def drawn(count: int, task: RegressionTask) -> dict:
        x = torch.from_numpy(_inputs(legacy, covariance, count, task.context + 1))
        x -= x.mean(dim=0)
        own = torch.randn(count, task.dim, task.outputs, generator=generator)
        if task.in_context == 1:
            y = torch.einsum("ptd,pdo->pto", x, _whiten(own))
        elif task.in_context == 0:
            y = torch.randn(count, task.context + 1, task.outputs, generator=generator)
            y[:, -1] = x[:, -1] @ shared
        else:
            first = int(count * task.in_context)  # rounded down as published: .29 of 100 is 28
            own[first:] = shared
            y = torch.einsum("ptd,pdo->pto", x, own)
        return {"x": x.numpy(), "y": y.numpy(), "every_length": task.every_length, "task": task}

    values = task.spectrum
    if not isinstance(values, str):
        values = task.eigenvalues / task.eigenvalues.sum()  # published: trace 1
    known = replace(task, spectrum=values, basis=basis)
    train = drawn(sequences, known)
    shares = {"in_weight": 0, "in_context": 1} if test else {}
    kinds = {name: replace(known, in_context=share) for name, share in shares.items()}
    tests = {name: Sequences(**drawn(test, kind)) for name, kind in kinds.items()}
    starts = Starts(task.dim, task.outputs, generator.get_state())
    return Published(**train, tests=tests, starts=starts)


def _covariance(task: RegressionTask, legacy: np.random.RandomState) -> tuple[Matrix, Matrix]:
    """Λ as published, and its eigenvectors from the largest eigenvalue down."""
    if task.spectrum == "white":
        return np.eye(task.dim) / task.dim, np.eye(task.dim)
    basis = np.linalg.qr(legacy.randn(task.dim, task.dim))[0]
    # published: eigenvalues 1, 2, …, D in this order; the other spectra ascend in the same way
    linear = task.spectrum == "linear"
    values = np.arange(1, task.dim + 1) if linear else task.eigenvalues[::-1]
    covariance = basis @ np.diag(values) @ basis.T
    return covariance / np.trace(covariance), basis[:, ::-1]


def _inputs(
    legacy: np.random.RandomState, covariance: Matrix, count: int, tokens: int
) -> Float[np.ndarray, "P T D"]:
    dim = len(covariance)
    x = np.empty((count, tokens, dim), dtype=np.float32)
    chunks = tqdm(range(0, count, DRAWN), "draws", delay=1, disable=None, leave=False)
    for first in chunks:
        part = x[first : first + DRAWN]
        flat = legacy.multivariate_normal(np.zeros(dim), covariance, part.shape[0] * tokens)
        part[:] = flat.reshape(part.shape)
    return x


def _whiten(own: Float[torch.Tensor, "P D O"]) -> Float[torch.Tensor, "P D O"]:
    """For each output: zero mean and unit unbiased covariance over the sequences."""
    own, white = own - own.mean(dim=0, keepdim=True), []
    for vectors in own.unbind(dim=2):
        values, basis = torch.linalg.eigh(torch.cov(vectors.T).reshape(2 * vectors.shape[1:]))
        spread = torch.from_numpy(np.sqrt(values.numpy()))  # as published: torch rounds differently
        root = basis @ torch.diag(1 / spread) @ basis.T
        white.append(vectors @ root.T)
    return torch.stack(white, dim=2)


def _weights(layers: Sequence[Layer], generator: torch.Generator) -> Weights:
    """Every matrix is created as a Linear, whose default draw is thrown away, then drawn anew."""
    for layer in layers:
        for _ in range(layer.count):
            torch.empty(layer.shape).uniform_(generator=generator)
    weights = {}
    for layer in layers:
        drawn = [
            [torch.empty(layer.shape).normal_(std=layer.std, generator=generator)
             for _ in range(layer.draws)][-1]
            for _ in range(layer.count)
        ]  # fmt: skip
        weights[layer.name] = torch.stack(drawn).double().numpy()
    return weights
