"""What gradient flow conserves in every head, and what finite steps leave of it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclbook.studies.low_rank import RANKS, RATE, TASK, model, published
from iclcore import theory
from iclcore.models import Weights
from iclcore.trainer import train


@dataclass(frozen=True)
class Drift:
    """Squared sizes of value, key and query along one run, and how far their differences drift."""

    time: Float[np.ndarray, " t"]
    sizes: Float[np.ndarray, "3 t"]  # of the head that is largest at the end
    rates: Float[np.ndarray, " rates"]
    drift: Float[np.ndarray, "ranks rates"]
    facts: dict[str, float]


def drift(scale: str = "paper") -> Drift:
    """The published data of seed 0 and one stretch of time, in fewer or more steps."""
    seed, horizon = published(0, scale), 80.0
    rates = RATE / 2.0 ** np.arange(4)
    most = np.empty((len(RANKS), len(rates)))
    partial = np.empty_like(most)
    for i, rank in enumerate(RANKS):
        before = np.concatenate(theory.conserved(seed.starts[rank], TASK.dim))
        inputs_before = _of_inputs(seed.starts[rank])
        for j, rate in enumerate(rates):
            steps = int(horizon / rate)
            shots = range(0, steps + 1, steps // 400) if (rank, rate) == (2, RATE) else ()
            run = train(
                model(rank), seed.moments, steps, rate, start=seed.starts[rank], snapshots=shots
            )
            after = np.concatenate(theory.conserved(run.final, TASK.dim))
            most[i, j] = np.abs(after - before).max()
            partial[i, j] = np.abs(_of_inputs(run.final) - inputs_before).max()
            if shots:
                sizes = np.stack([_sizes(run.snapshots, i) for i in range(len(shots))], axis=-1)
                time = rate * run.kept
    largest = int(np.argmax(sizes[0, :, -1]))
    slopes = [np.polyfit(np.log(rates), np.log(row), 1)[0] for row in most]
    facts = {
        "drift": most[1, 0],
        "drift_slow": most[1, -1],
        "partial": partial[1, 0],
        "partial_slow": partial[1, -1],
        "slope_least": min(slopes),
        "slope_most": max(slopes),
        "size_end": sizes[0, largest, -1],
        "size_start": sizes[0, largest, 0],
    }
    return Drift(time, sizes[:, largest], rates, most, facts)


def _of_inputs(weights: Weights) -> Float[np.ndarray, " differences"]:
    """The differences without the key's label column and the value's input columns: not conserved."""
    key, query, v = model(1).factors(weights, TASK.dim)
    sizes = [np.sum(part**2, axis=(1, 2)) for part in (v[..., -1:], key[..., :-1], query)]
    return np.concatenate([sizes[0] - sizes[1], sizes[1] - sizes[2]])


def _sizes(snapshots: Weights, i: int) -> Float[np.ndarray, "3 heads"]:
    """|v|², |K|², |Q|² of every head, of all that can move."""
    key, query, v = model(1).factors({n: a[i] for n, a in snapshots.items()}, TASK.dim)
    return np.stack([np.sum(part**2, axis=(1, 2)) for part in (v, key, query)])
