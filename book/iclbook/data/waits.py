"""When each drop comes, from 10,000 starts of four and of eight dimensions: 20,000 runs.

    python -m iclbook.data.waits [tcp://HOST:PORT]

trains them, here or on the workers of a Dask scheduler, and writes the table that the page shows: the
times of the first drops, and for every tenth start what the escape theory says of them. A run is on
infinitely many sequences; seed s draws its initial weights. The table has too what the theory alone says of
200 starts each: which way heads go from everywhere, and when the last of D heads makes its drop.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from iclbook.measure import drop_times
from iclcore import RegressionTask, SeparateAttention, theory, train
from iclcore.files import write_whole
from iclcore.models import Weights
from iclcore.sweep import executor

TABLE = Path(__file__).with_suffix(".npz")
STARTS, EVERY, CHUNK = 10_000, 10, 200
TOLD, TOLD_CHUNK = 200, 20  # starts of which there is theory alone
DIMS, LAWS = (2, 4, 8, 16), ("linear", "power")  # of the last drops
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
        train(own.model, own.task, STEPS, own.lr, seed=seed, engine="population") for seed in seeds
    )
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


def everywhere(model: SeparateAttention, dim: int, seed: int, even: bool = False) -> Weights:
    """As the model starts, without the zeros; ``even`` with keys that are as large as values."""
    draws = np.random.default_rng(seed)
    narrow = model.init / np.sqrt(dim + 1)
    sizes = {"key": model.init if even else narrow, "query": narrow, "value": model.init}
    return {
        name: sizes[name] * draws.standard_normal(weights.shape)
        for name, weights in model.start(dim).items()
    }


def labels(dim: int, seeds: range, even: bool) -> Bool[np.ndarray, "seeds D"]:
    """Whether the key reads labels in the head that makes each drop, from starts from everywhere."""
    own = SETTINGS[dim]
    starts = (everywhere(own.model, dim, seed, even) for seed in seeds)
    return np.array([[drop.labels for drop in theory.staircase(own.task, s)] for s in starts])


def last(dim: int, law: str, seeds: range) -> Float[np.ndarray, " seeds"]:
    """Times of the last drop from D heads of the paper's subspace, by the time of one balanced head."""
    task, model = RegressionTask(dim=dim, spectrum=law), SeparateAttention(heads=dim, init=5e-3)
    stairs = [theory.staircase(task, model.start(dim, seed=seed)) for seed in seeds]
    times = [own[-1].time if len(own) == dim else np.nan for own in stairs]
    return np.array(times) / theory.escape_time(task, dim, model.init)


def chunks(starts: int, step: int = 1, size: int = CHUNK) -> list[range]:
    """Every so many of the starts, in the order of the table."""
    return [
        range(first, min(first + step * size, starts), step)
        for first in range(0, starts, step * size)
    ]


@dataclass(frozen=True)
class Waits:
    """Of one dimension: drop n of start s is at ``simulated[s, n]``, of every tenth also ``predicted``.

    Of a start from everywhere the key of drop n's head reads labels if ``labels[s, n]``; ``even`` says
    the same where keys begin as large as values.
    """

    simulated: Float[np.ndarray, "starts drops"]
    predicted: Float[np.ndarray, "tenth drops"]
    labels: Float[np.ndarray, "told D"]
    even: Float[np.ndarray, "told D"]


def read() -> dict[int, Waits]:
    names = Waits.__dataclass_fields__
    with np.load(TABLE) as arrays:
        return {
            dim: Waits(*(arrays[f"{what}_{dim}"].astype(float) for what in names))
            for dim in SETTINGS
        }


def read_last() -> dict[str, Float[np.ndarray, "told sizes"]]:
    """By spectrum what ``last`` says of each size."""
    with np.load(TABLE) as arrays:
        return {
            law: np.transpose([arrays[f"last_{law}_{dim}"].astype(float) for dim in DIMS])
            for law in LAWS
        }


def told(submit: Callable[..., Any]) -> dict[str, list[Any]]:
    """What theory alone says, asked of ``submit`` in parts."""
    parts = chunks(TOLD, size=TOLD_CHUNK)
    asked = {
        f"{name}_{dim}": [submit(labels, dim, seeds, even) for seeds in parts]
        for dim in SETTINGS
        for name, even in (("labels", False), ("even", True))
    }
    return asked | {
        f"last_{law}_{dim}": [submit(last, dim, law, seeds) for seeds in parts]
        for law in LAWS
        for dim in DIMS
    }


def main(scheduler: str | None = None) -> None:
    with executor(scheduler=scheduler) as pool:
        asked = {
            f"{what.__name__}_{dim}": [
                pool.submit(what, dim, seeds) for seeds in chunks(STARTS, step)
            ]
            for dim in SETTINGS
            for what, step in ((simulated, 1), (predicted, EVERY))
        }
        asked |= told(pool.submit)
        arrays = {
            name: np.concatenate([future.result() for future in futures]).astype(np.float16)
            for name, futures in asked.items()
        }
    write_whole(TABLE, lambda file: np.savez_compressed(file, **arrays))
    print(f"{TABLE.name}: {len(SETTINGS) * STARTS:,} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
