"""Errors at other lengths of context than those of training."""

from collections.abc import Sequence

import numpy as np

from iclcore import History, RegressionTask, Sequences


def fresh(task: RegressionTask, sequences: int, longest: int, seed: int) -> Sequences:
    """Sequences of ``longest`` examples to test on; their task vectors are whitened, as the published
    draw whitens those of training, so that few sequences have little error."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(task.covariance).T
    x = rng.standard_normal((sequences, longest + 1, task.dim)) @ root
    left, _, right = np.linalg.svd(rng.standard_normal((sequences, task.dim)), full_matrices=False)
    return Sequences(x, x @ (np.sqrt(sequences) * left @ right)[:, :, None])


def errors_at(run: History, data: Sequences, contexts: Sequence[int]) -> dict[int, float]:
    """Mean squared error of what a run ended on, with each number of examples.

    A sequence is cut into as many pieces as it has room for; where these are fewer than four it is
    turned around, so that other tokens become the query.
    """
    import torch

    from iclcore.modules import module

    net, errors = module(run.model, run.final, 1), {}
    for n in contexts:
        pieces = data.x.shape[1] // (n + 1)
        turns, shape = -(-4 // pieces), (len(data) * pieces, n + 1, -1)
        squares = []
        for turn in range(turns):
            moved = (np.roll(each, turn * (n + 1) // turns, axis=1) for each in (data.x, data.y))
            part = (each[:, : pieces * (n + 1)].reshape(shape) for each in moved)
            ((tokens, target),) = Sequences(*part).prefixes()
            with torch.no_grad():
                answer = net(torch.tensor(tokens)).numpy()
            squares.append(np.mean((answer - target) ** 2))
        errors[int(n)] = float(np.mean(squares))
    return errors
