"""How long each plateau of Figure 4 lasts, over 24 seeds: 96 runs, counted once and kept as a table.

    python -m iclbook.studies.plateaus FOLDER

carries out the runs in FOLDER (a sweep: it goes on where it was) and writes the table that the page shows.
"""

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from iclbook.studies import DATA, low_rank
from iclcore.history import write_whole
from iclcore.sweep import Plan, grid, sweep
from iclcore.sweep.workers import Cores

TABLE = DATA / "plateaus.csv"
SEEDS = range(24)
ALIKE = 10  # steps by which counts may differ between machines: a threshold on a loss is not exact


def runs(seeds=SEEDS) -> list[Plan]:
    """The runs of Figure 4."""
    base = Plan(
        low_rank.TASK,
        low_rank.model(1),
        sequences=80_000,
        steps=low_rank.STEPS,
        lr=low_rank.RATE,
    )
    return grid(base, rank=low_rank.RANKS, seed=tuple(seeds))


def count(folder: str | Path, seeds=SEEDS) -> list[dict[str, int]]:
    """Steps that each run spends at each level of its own sample, a row a run."""
    swept = sweep(runs(seeds), folder)
    with Cores() as cores:
        futures = {s: cores.submit(low_rank.published, s, "paper") for s in seeds}
        samples = {seed: future.result() for seed, future in futures.items()}
    rows = []
    for run in swept.runs.values():
        spent = low_rank.spent_at(swept.history(run).loss, samples[run.seed].levels[-1])
        levels = {f"level_{m}": int(steps) for m, steps in enumerate(spent)}
        rows.append({"rank": run.model.rank, "seed": run.seed, **levels})
    return rows


@dataclass(frozen=True)
class Plateaus:
    """``steps`` that a run spent at a landing it came to; ``cut`` where training ended there."""

    rank: Int[np.ndarray, " n"]
    level: Int[np.ndarray, " n"]
    steps: Int[np.ndarray, " n"]
    cut: Bool[np.ndarray, " n"]
    spent: Int[np.ndarray, "ranks seeds levels"]
    facts: dict[str, float]


def plateaus(scale: str = "paper") -> Plateaus:
    """What the table holds, at either scale."""
    with open(TABLE, newline="") as file:
        rows = [[int(value) for value in row.values()] for row in csv.DictReader(file)]
    table = np.array(rows).reshape(len(low_rank.RANKS), -1, low_rank.TASK.dim + 3)
    spent = table[:, :, 2:]
    last = spent.shape[2] - 1 - np.argmax(spent[:, :, ::-1] > 0, axis=2)
    i, j, level = np.nonzero(spent)
    rank, steps = np.array(low_rank.RANKS)[i], spent[i, j, level]
    facts: dict[str, float] = {"runs": spent.shape[0] * spent.shape[1], "seeds": spent.shape[1]}
    found = Plateaus(rank, level, steps, level == last[i, j], spent, facts)
    for r in low_rank.RANKS:
        for kind in ("new", "room"):
            time, left = survival(found, r, kind)
            facts[f"{kind}_{r}_landings"] = int(np.sum(landings(found, r, kind)))
            for share, quantile in (("most", 0.9), ("half", 0.5), ("tenth", 0.1)):
                if left.size and left[-1] <= quantile:
                    steps = int(time[np.argmax(left <= quantile)])
                    facts[f"{kind}_{r}_{share}"] = low_rank.RATE * steps
    return found


def landings(found: Plateaus, rank: int, kind: str) -> Bool[np.ndarray, " n"]:
    """Those that end with a ``new`` head, with one that has ``room``, and the ``first``, at zero.

    The last level, where all is learned, is no landing.
    """
    level = found.level
    holds = {
        "first": level == 0,
        "new": (level > 0) & (level < low_rank.TASK.dim) & (level % rank == 0),
        "room": level % rank > 0,
    }
    return (found.rank == rank) & holds[kind]


def survival(
    found: Plateaus, rank: int, kind: str
) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The share of landings that last longer than each time at which one ended.

    Kaplan and Meier's estimate: a landing that is cut tells that it lasts longer, not how long.
    """
    at = landings(found, rank, kind)
    steps, ended = found.steps[at], found.steps[at & ~found.cut]
    times, count = np.unique(ended, return_counts=True)
    at_risk = np.array([np.sum(steps >= time) for time in times])
    return times, np.cumprod(1 - count / at_risk)


def agreement(found: Plateaus, stairs: low_rank.Staircases) -> dict[str, int]:
    """Of the runs that a page has computed itself, how many have the table's counts."""
    seeds = stairs.spent.shape[1]
    gap = np.abs(found.spent[:, :seeds] - stairs.spent).max(axis=2)
    return {"computed": gap.size, "alike": int(np.sum(gap <= ALIKE))}


def main(folder: str) -> None:
    rows = count(folder)
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    write_whole(TABLE, lambda file: file.write(("\n".join(lines) + "\n").encode()))
    print(f"{TABLE.name}: {len(rows)} runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
