"""What gradient flow conserves in every head, and what finite steps leave of it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclcore import theory
from iclcore.models import Weights
from iclcore.studies.low_rank import RANKS, RATE, TASK, model, published
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
    rates = np.array([0.02, 0.01, 0.005, 0.0025])
    most = np.empty((len(RANKS), len(rates)))
    for i, rank in enumerate(RANKS):
        before = np.concatenate(theory.conserved(seed.starts[rank], TASK.dim))
        for j, rate in enumerate(rates):
            steps = int(horizon / rate)
            shots = range(0, steps + 1, steps // 400) if (rank, rate) == (2, RATE) else ()
            run = train(
                model(rank), seed.moments, steps, rate, start=seed.starts[rank], snapshots=shots
            )
            after = np.concatenate(theory.conserved(run.final, TASK.dim))
            most[i, j] = np.abs(after - before).max()
            if shots:
                sizes = np.stack([_sizes(run.snapshots, i) for i in range(len(shots))], axis=-1)
                time = rate * run.snapshot_steps
    largest = int(np.argmax(sizes[0, :, -1]))
    slopes = [np.polyfit(np.log(rates), np.log(row), 1)[0] for row in most]
    facts = {
        "drift": most[1, 0],
        "slope_least": min(slopes),
        "slope_most": max(slopes),
        "size_end": sizes[0, largest, -1],
        "size_start": sizes[0, largest, 0],
    }
    return Drift(time, sizes[:, largest], rates, most, facts)


def _sizes(snapshots: Weights, i: int) -> Float[np.ndarray, "3 heads"]:
    """v², |K|², |Q|² of every head, of the parts that move."""
    key, query, v = model(1).factors({n: a[i] for n, a in snapshots.items()}, TASK.dim)
    return np.stack([np.sum(part**2, axis=(1, 2)) for part in (v, key, query)])
