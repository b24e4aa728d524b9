"""Key and query of rank R: which plateaus are long, and why (Figure 4)."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, Int

from iclbook.studies import sequences
from iclcore import reference, theory
from iclcore.descent import gradient
from iclcore.edge import sharpness
from iclcore.history import History
from iclcore.models import SeparateAttention, Weights
from iclcore.moments import Features, Moments, coefficients, mix, of_population, of_sequences
from iclcore.stability import stable_rate
from iclcore.task import RegressionTask
from iclcore.theory.low_rank import wait_slope
from iclcore.trainer import train

RANKS, SEEDS = (1, 2, 4, 8), range(6)
HEADS, INIT = 9, 5e-3  # the published command
TASK = RegressionTask(dim=8, spectrum="power")
# That command takes 20,001 steps at rate 0.02, which at rank 8 is past the edge of stability of this
# spectrum, 0.0187. All ranks run here at six sevenths of that edge, for the same time, 400: on 80,000
# sequences the edge differs from sample to sample by a standard deviation of 1.4%.
PUBLISHED_RATE, RATE, STEPS = 0.02, 0.016, 25_001
WITHIN = 0.006  # a step is spent at a level if its loss is this near: a quarter of the least step
BRIEF = 20.0  # time below which a wait for a new head is called brief


def model(rank: int) -> SeparateAttention:
    return SeparateAttention(HEADS, INIT, rank=rank)


@dataclass(frozen=True)
class Seed:
    """What all ranks share: the moments of the sequences, how the levels look at the first P of
    them, and each rank's start."""

    moments: Moments
    starts: dict[int, Weights]
    basis: Float[np.ndarray, "D D"]
    sizes: Int[np.ndarray, " P"]
    levels: Float[np.ndarray, "P levels"]
    floors: Float[np.ndarray, " P"]
    residual: Float[np.ndarray, " P"]  # loss of the predictor that is best for infinitely many
    inside: float  # least loss in the paper's subspace, of all M


@cache
def published(seed: int, scale: str, task: RegressionTask = TASK) -> Seed:
    draw = reference.sample(task, sequences(scale, 80_000), seed=seed)
    basis = draw.task.eigenvectors
    sizes = len(draw) // 4 ** np.arange(4)[::-1]
    so_far: list[tuple[float, Moments]] = []
    levels, floors, residual = [], [], []
    for first, last in zip((0, *sizes[:-1]), sizes, strict=True):
        so_far.append((float(last - first), of_sequences(draw[first:last], model(1))))
        so_far = [(float(last), mix(so_far))]
        levels.append(sample_levels(so_far[0][1], basis))
        floors.append(so_far[0][1].floor())
        residual.append(so_far[0][1].loss(_best(task, basis, so_far[0][1].features)))
    moments = so_far[0][1]
    return Seed(
        moments=moments,
        starts={rank: draw.start(model(rank)) for rank in RANKS},
        basis=basis,
        sizes=sizes,
        levels=np.stack(levels),
        floors=np.array(floors),
        residual=np.array(residual),
        inside=floor_inside(moments),
    )


def sample_levels(
    moments: Moments, basis: Float[np.ndarray, "D D"]
) -> Float[np.ndarray, " levels"]:
    """The least loss on these sequences of M = Σ_{d ≤ m} μ_d e_d e_dᵀ, for m = 0 … D."""
    c = np.concatenate([_along(e, moments.features) for e in basis.T])
    gram, cross = c @ moments.gram @ c.T, c @ moments.cross[0]
    gains = [cross[:m] @ np.linalg.solve(gram[:m, :m], cross[:m]) for m in range(len(c) + 1)]
    return moments.power - np.array(gains)


def floor_inside(moments: Moments) -> float:
    """The least loss of ŷ = βᵀ M x_q over all M: of the features only β_a x_q[d] = x_q[d] S[a, y]."""
    kind = moments.features
    kept = (np.arange(kind.dim)[:, None] * kind.pairs + kind.pair[: kind.dim, -1]).ravel()
    gram, cross = moments.gram[np.ix_(kept, kept)], moments.cross[0, kept]
    return moments.power - float(cross @ np.linalg.solve(gram, cross))


def _along(e: Float[np.ndarray, " D"], features: Features) -> Float[np.ndarray, "1 F"]:
    """c of the predictor (βᵀe)(eᵀx_q)."""
    key = np.append(e, 0)[None, None]
    value = np.append(0 * e, 1)[None, None]
    return coefficients((key, e[None, None], value), features)


def _best(
    task: RegressionTask, basis: Float[np.ndarray, "D D"], features: Features
) -> Float[np.ndarray, "1 F"]:
    """c of M_D, with these eigenvectors."""
    along = [_along(e, features) for e in basis.T]
    return sum(gain * c for gain, c in zip(theory.learned(task), along, strict=True))


# -- Figure 4 -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Staircases:
    """Figure 4, and what it holds: steps spent at each level by rank, seed and m."""

    runs: dict[int, list[History]]
    levels: Float[np.ndarray, " levels"]
    spent: Int[np.ndarray, "ranks seeds levels"]
    taken: Float[np.ndarray, "ranks heads D"]  # of seed 0: what each head has of each eigenvector
    facts: dict[str, float]


def staircases(scale: str = "paper") -> Staircases:
    """Nothing differs between the ranks of a seed but the weights; levels are the sample's own."""
    with ThreadPoolExecutor(2) as pool:  # a set of 80,000 sequences is 90 MB, more while drawn
        seeds = list(pool.map(lambda seed: published(seed, scale), SEEDS))
        runs = {
            rank: list(
                pool.map(
                    lambda seed, rank=rank: train(
                        model(rank), seed.moments, STEPS, RATE, start=seed.starts[rank]
                    ),
                    seeds,
                )
            )
            for rank in RANKS
        }
    spent = np.array(
        [
            [
                spent_at(run.loss, seed.levels[-1])
                for run, seed in zip(runs[rank], seeds, strict=True)
            ]
            for rank in RANKS
        ]
    )
    brief = [RATE * spent[0, s, m] for s, m in _brief(spent[0])]
    levels = theory.plateau_losses(TASK)
    taken = np.stack([_taken(runs[rank][0].final, seeds[0].basis) for rank in RANKS])
    facts = {
        "runs": len(RANKS) * len(SEEDS),
        "final_theory": levels[-1],
        "brief": len(brief),
        "brief_most": 2 * int(np.ceil(max(brief, default=0) / 2)),
    }
    for i, rank in enumerate(RANKS):
        facts |= {
            f"first_{rank}": _about(spent[i, :, 0], 2),
            f"full_{rank}": _about(spent[i, :, rank], 2),
            f"end_{rank}": float(np.mean([run.loss[-1] for run in runs[rank]])),
            f"heads_{rank}": int(np.sum(taken[i].max(axis=1) > 0.5)),
            f"learned_{rank}": int(np.sum(taken[i].sum(axis=0) > 0.5)),
        }
    facts |= {f"passed_{r}": _about(_passed(spent[i], r), 0.2) for i, r in enumerate(RANKS) if i}
    facts |= {
        "floor": float(np.mean([seed.floors[-1] for seed in seeds])),
        "inside": float(np.mean([seed.inside for seed in seeds])),
        "last_8": float(np.mean([run.loss[-1] for run in runs[8]])),
        "above_inside": float(
            max(run.loss[-1] - s.inside for run, s in zip(runs[8], seeds, strict=True))
        ),
    }
    return Staircases(runs, levels, spent, taken, facts)


def edges(found: Staircases, scale: str = "paper") -> dict[str, float]:
    """The edge of stability at rank 8, and what the published learning rate does past it."""
    starts = [(published(seed, scale), run) for seed, run in zip(SEEDS, found.runs[8], strict=True)]
    own = [
        2 / sharpness(lambda f, m=s.moments: gradient(f, m), model(8).factors(run.final, TASK.dim))
        for s, run in starts
    ]
    past = [  # half of the published steps: all is learned after a quarter
        train(model(8), s.moments, 10_000, PUBLISHED_RATE, start=s.starts[8]) for s, _ in starts
    ]
    return {f"edge_{rank}": stable_rate(TASK, model(rank)) for rank in RANKS} | {
        "linear_8": stable_rate(RegressionTask(dim=TASK.dim), model(8)),
        "own_least": min(own),
        "own_most": max(own),
        "rising": sum(bool(np.any(np.diff(run.loss) > 1e-6)) for run in past),
        "rising_here": sum(
            bool(np.any(np.diff(run.loss) > 1e-6)) for runs in found.runs.values() for run in runs
        ),
    }


def spent_at(
    loss: Float[np.ndarray, " t"], levels: Float[np.ndarray, " levels"]
) -> Int[np.ndarray, " levels"]:
    """Steps near each level."""
    return np.sum(np.abs(loss[:, None] - levels) < WITHIN, axis=0)


def _about(steps: Int[np.ndarray, " n"] | list[int], unit: float) -> float:
    """Their median as a time, to the nearest ``unit``: a threshold on a loss is no exact count."""
    return unit * round(RATE * float(np.median(steps)) / unit)


def _passed(spent: Int[np.ndarray, "seeds levels"], rank: int) -> list[int]:
    """Steps at the levels between, m no multiple of the rank.

    The last level that a run sees is cut by the end of training and does not count.
    """
    lasts = [np.flatnonzero(row)[-1] for row in spent]
    return [
        int(row[m])
        for row, last in zip(spent, lasts, strict=True)
        for m in range(1, last)
        if m % rank and row[m]
    ]


def _brief(spent: Int[np.ndarray, "seeds levels"], rank: int = 1) -> list[tuple[int, int]]:
    """Seed and level of the waits for a new head that are brief, and not cut."""
    lasts = [np.flatnonzero(row)[-1] for row in spent]
    return [
        (seed, m)
        for seed, last in enumerate(lasts)
        for m in range(0, last, rank)
        if RATE * spent[seed, m] < BRIEF
    ]


def _taken(final: Weights, basis: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "heads D"]:
    """v_h (K_h e_d)·(Q_h e_d) in units of a_d/b_d: 1 where a head has learned eigenvector d.

    Heads are interchangeable; they are put in the order of what they have learned.
    """
    key, query, v = model(1).factors(final, TASK.dim)
    share = np.einsum("h,hrd,hrd->hd", v[:, 0, -1], key[:, :, :-1] @ basis, query @ basis)
    share = share / theory.learned(TASK)
    order = np.where(share.max(axis=1) > 0.5, np.argmax(share > 0.5, axis=1), TASK.dim)
    return share[np.argsort(order, kind="stable")]


# -- the wait against the initial weights ---------------------------------------------------------

THREE = RegressionTask(dim=3, spectrum=(0.5, 0.3, 0.2))


@dataclass(frozen=True)
class Waits:
    """How long the plateau at M_m lasts, by rank, over sizes of the same start; population, 1/N."""

    inits: Float[np.ndarray, " inits"]
    ranks: tuple[int, ...]
    waits: Float[np.ndarray, "ranks inits levels"]
    predicted: Float[
        np.ndarray, "ranks levels"
    ]  # per factor e of init; nan where a new head starts
    facts: dict[str, float]


def waits(scale: str = "paper") -> Waits:
    inits = 10.0 ** -np.arange(1.5, 4 if scale == "paper" else 3, 0.5)
    ranks, rate = (1, 2, 3), 0.1
    levels = theory.plateau_losses(THREE)
    between = (levels[1:] + levels[:-1]) / 2
    times = np.empty((len(ranks), len(inits), THREE.dim))
    slopes = np.full((len(ranks), THREE.dim), np.nan)
    for i, rank in enumerate(ranks):
        shape = SeparateAttention(6, 1e-3, "context", rank)
        moments, unit = of_population(THREE, shape), shape.start(THREE.dim, seed=1)
        for j, init in enumerate(inits):
            start = {name: array * init / 1e-3 for name, array in unit.items()}
            horizon = (
                200 + (22 if rank < 3 else 4) / init
            ) / rate  # a new head's wait is by 1/init
            loss = train(shape, moments, int(horizon), rate, start=start).loss
            times[i, j] = np.diff([0, *(rate * _crossing(loss, level) for level in between)])
        for m in range(1, THREE.dim):
            if m % rank:
                slopes[i, m] = wait_slope(THREE, m, rank, "context")
    facts: dict[str, float] = {}
    for i, rank in enumerate(ranks):
        for m in range(THREE.dim):
            wait = times[i, :, m]
            if np.isnan(slopes[i, m]):
                facts[f"power_{rank}_{m}"] = np.polyfit(np.log(1 / inits), np.log(wait), 1)[0]
            else:
                facts[f"decade_{rank}_{m}"] = np.polyfit(-np.log10(inits), wait, 1)[0]
                facts[f"decade_theory_{rank}_{m}"] = np.log(10) * slopes[i, m]
    return Waits(inits, ranks, times, slopes, facts)


def _crossing(loss: Float[np.ndarray, " t"], level: float) -> float:
    """The step, with its fraction, at which the loss first passes the level."""
    below = int(np.argmax(loss < level))
    if not below:
        raise RuntimeError(f"the loss never fell below {level:.4g}: train longer")
    return below - 1 + (loss[below - 1] - level) / (loss[below - 1] - loss[below])
