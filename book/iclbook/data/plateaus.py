"""How long each plateau of the paper's Figure 4 lasts, over 24 seeds: 96 runs, counted once.

    python -m iclbook.data.plateaus FOLDER

carries out the runs in FOLDER (a sweep: it goes on where it was) and writes the table that the page shows.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from iclbook.measure import steps_near
from iclcore import RegressionTask, SeparateAttention, published, theory
from iclcore.files import write_whole
from iclcore.sweep import Plan, executor, grid, sweep

TABLE = Path(__file__).with_suffix(".csv")
PLAN = Plan(
    RegressionTask(dim=8, spectrum="power"),
    SeparateAttention(heads=9, init=5e-3),
    sequences=80_000,
    steps=25_001,
    lr=0.016,
)
RANKS, SEEDS, NEAR = (1, 2, 4, 8), range(24), 0.006
ALIKE = 10  # steps by which counts may differ between machines: a threshold on a loss is not exact


def count(folder: str | Path, seeds=SEEDS) -> list[dict[str, int]]:
    """Steps that each run spends near each level of its own sample, a row a run."""
    swept = sweep(grid(PLAN, rank=RANKS, seed=tuple(seeds)), folder)
    with executor() as pool:
        levels = dict(zip(seeds, pool.map(own_levels, seeds), strict=True))
    rows = []
    for run in swept.runs.values():
        spent = steps_near(swept.history(run).loss, levels[run.seed], NEAR)
        counts = {f"level_{m}": round(steps) for m, steps in enumerate(spent)}
        rows.append({"rank": run.model.rank, "seed": run.seed, **counts})
    return rows


def own_levels(seed: int) -> np.ndarray:
    return theory.plateau_losses(published.sample(PLAN.task, PLAN.sequences, seed))


def read() -> dict[int, Int[np.ndarray, "seeds levels"]]:
    """What the table holds: steps by rank, seed and level."""
    with open(TABLE, newline="", encoding="utf-8") as file:
        rows = [[int(value) for value in row.values()] for row in csv.DictReader(file)]
    table = np.array(rows).reshape(len(RANKS), -1, PLAN.task.dim + 3)
    return dict(zip(RANKS, table[:, :, 2:], strict=True))


def gaps(plan: Plan, counted: dict[int, Float[np.ndarray, "seeds levels"]]) -> list[float]:
    """By how many steps each of these counts, of seeds 0, 1, …, is off the table's at most; none is in it
    that was made with other settings."""
    return [
        float(np.abs(own - kept).max())
        for rank, table in read().items()
        if rank in counted and plan == PLAN
        for own, kept in zip(counted[rank], table, strict=False)
    ]


def main(folder: str) -> None:
    rows = count(folder)
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    write_whole(TABLE, lambda file: file.write(("\n".join(lines) + "\n").encode()))
    print(f"{TABLE.name}: {len(rows)} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
