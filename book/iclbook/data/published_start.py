"""Three tasks from the second paper's published start, to the time at which its heads have left it.

    python -m iclbook.data.published_start

makes the runs, in some minutes, and writes the table that the page shows. The published code takes 10,000
contexts a step at a rate of .01. What a run feels of its batches' noise is the rate over the contexts. The
reduction averages over tasks in closed form, which leaves a d-th of that noise, and takes larger steps.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from iclcore import multihead, spectral
from iclcore.files import write_whole
from iclcore.history import History
from iclcore.sweep.workers import Cores
from iclcore.theory.multihead import MultiTask

TABLE = Path(__file__).with_suffix(".npz")
TASK = MultiTask((10, 10, 10), 100)
UNTIL, EVERY = 1000.0, 5.0  # time by the mean over tasks, and between rows
# engine, contexts a step, (until, learning rate), seed
RUNS = (
    ("spectral", 10_000, ((700.0, 1.0), (UNTIL, 0.25)), 0),
    *(("full", 256, ((UNTIL, 0.5),), seed) for seed in range(3)),
)


@dataclass(frozen=True)
class Run:
    """Rows a time EVERY apart, nan where it has diverged; the loss is the mean of the steps from each."""

    time: Float[np.ndarray, " rows"]
    loss: Float[np.ndarray, " rows"]
    omega: Float[np.ndarray, "rows heads tasks"]
    mu: Float[np.ndarray, "rows heads tasks"]


def train(engine: str, batch: int, schedule: tuple, seed: int) -> History:
    """By the published mean over tasks: of the sum both rates and times are the I-th part."""
    if engine == "full":
        return multihead.train_published(TASK, schedule, batch=batch, seed=seed)
    start = multihead.published_start(TASK)
    share, width = 1 / TASK.tasks, start["K"].shape[1]
    schedule = [(share * until, share * rate) for until, rate in schedule]
    spectrum = multihead.spectrum(TASK, start)
    return spectral.train_spectral(TASK, *spectrum, schedule, batch=batch, width=width, seed=seed)


def rows(history: History, until: float = UNTIL) -> Run:
    unit = TASK.tasks * spectral.share(history)  # of the sum's time in the mean's
    step = np.floor(history.time * unit / EVERY + 1e-6).astype(int)  # the row of each step
    count = round(until / EVERY)
    row, first, sizes = np.unique(step, return_index=True, return_counts=True)

    def kept(values: np.ndarray) -> np.ndarray:
        whole = np.full((count, *values.shape[1:]), np.nan)
        whole[row] = values
        return whole

    loss = np.add.reduceat(history.loss, first) / sizes / unit
    loss[~np.isfinite(loss)] = np.nan  # of a run that diverges
    omega, mu = (kept(each[first]) for each in spectral.spectra(history))
    return Run(EVERY * np.arange(count), kept(loss), omega, mu)


def made(*settings) -> Run:
    return rows(train(*settings))


def stored() -> list[Run]:
    """What was written, in the order of RUNS."""
    with np.load(TABLE) as arrays:
        columns = [arrays[name].astype(float) for name in Run.__dataclass_fields__]
    return [Run(*each) for each in zip(*columns, strict=True)]


def main() -> None:
    with Cores() as cores:
        runs = [work.result() for work in [cores.submit(made, *each) for each in RUNS]]
    arrays = {
        name: np.array([getattr(run, name) for run in runs], dtype=np.float32)
        for name in Run.__dataclass_fields__
    }
    write_whole(TABLE, lambda file: np.savez_compressed(file, **arrays))
    print(f"{TABLE.name}: {len(runs)} runs")


if __name__ == "__main__":
    main()
