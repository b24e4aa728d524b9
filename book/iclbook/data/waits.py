"""When each drop comes, from 10,000 starts of four and of eight dimensions: 20,000 runs.

    python -m iclbook.data.waits [tcp://HOST:PORT]

trains them, here or on the workers of a Dask scheduler, and writes the table that the page shows: the
times of the first drops, and for every tenth start what the escape theory says of them. A run is on
infinitely many sequences; seed s draws its initial weights.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from iclbook.measure import drop_times
from iclcore import RegressionTask, SeparateAttention, theory, train
from iclcore.files import write_whole
from iclcore.sweep.workers import Cluster, Cores

TABLE = Path(__file__).with_suffix(".npz")
STARTS, EVERY, CHUNK = 10_000, 10, 200
STEPS = 20_000
ALIKE = 1e-3  # of a time, which is kept in half precision


@dataclass(frozen=True)
class Setting:
    """What the runs of one dimension have in common; ``drops`` of them are in the table."""

    task: RegressionTask
    model: SeparateAttention
    lr: float  # 0.8 of the edge of stability
    drops: int


SETTINGS = {
    4: Setting(RegressionTask(dim=4), SeparateAttention(heads=5, init=5e-3), 0.033, 4),
    8: Setting(RegressionTask(dim=8), SeparateAttention(heads=9, init=5e-3), 0.04, 6),
}


def simulated(dim: int, seeds: range) -> Float[np.ndarray, "seeds drops"]:
    """Times of the first drops; nan for those that do not come within the steps."""
    own = SETTINGS[dim]
    levels = theory.plateau_losses(own.task)
    runs = (
        train(own.model, own.task, STEPS, own.lr, seed=seed, engine="population",
              progress=lambda _: None)
        for seed in seeds
    )  # fmt: skip
    return np.array([drop_times(run, levels)[: own.drops] for run in runs])


def predicted(dim: int, seeds: range) -> Float[np.ndarray, "seeds drops"]:
    """What the escape theory says of the same starts, up to the last step."""
    own, found = SETTINGS[dim], []
    for seed in seeds:
        start = own.model.start(dim, seed=seed)
        stairs = theory.staircase(own.task, start, until=own.lr * STEPS)[: own.drops]
        missing = own.drops - len(stairs)
        found.append([drop.time for drop in stairs] + [np.nan] * missing)
    return np.array(found)


def chunks(step: int) -> list[range]:
    """Every so many of the starts, in the order of the table."""
    return [
        range(first, min(first + step * CHUNK, STARTS), step)
        for first in range(0, STARTS, step * CHUNK)
    ]


@dataclass(frozen=True)
class Waits:
    """Of one dimension: drop n of start s is at ``simulated[s, n]``, of every tenth also ``predicted``."""

    simulated: Float[np.ndarray, "starts drops"]
    predicted: Float[np.ndarray, "tenth drops"]


def read() -> dict[int, Waits]:
    with np.load(TABLE) as arrays:
        return {
            dim: Waits(
                *(arrays[f"{what}_{dim}"].astype(float) for what in ("simulated", "predicted"))
            )
            for dim in SETTINGS
        }


def main(scheduler: str | None = None) -> None:
    with Cluster(scheduler) if scheduler else Cores() as workers:
        asked = {
            f"{what.__name__}_{dim}": [workers.submit(what, dim, seeds) for seeds in chunks(step)]
            for dim in SETTINGS
            for what, step in ((simulated, 1), (predicted, EVERY))
        }
        parts = {}
        for future, outcome in workers.outcomes([f for each in asked.values() for f in each]):
            if isinstance(outcome, Exception):
                raise outcome
            parts[future] = outcome
    arrays = {
        name: np.concatenate([parts[future] for future in futures]).astype(np.float16)
        for name, futures in asked.items()
    }
    write_whole(TABLE, lambda file: np.savez_compressed(file, **arrays))
    print(f"{TABLE.name}: {len(SETTINGS) * STARTS:,} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
