"""Separate rank-one key and query: saddle to saddle, one eigenvector a drop."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from iclbook.studies import sequences
from iclcore import reference, theory
from iclcore.history import History
from iclcore.models import SeparateAttention, Weights
from iclcore.moments import Moments, of_population, of_sequences
from iclcore.task import RegressionTask
from iclcore.theory.saddles import Drop, staircase
from iclcore.trainer import train

TASK = RegressionTask()  # λ = .4 .3 .2 .1, N = 31
MODEL = SeparateAttention(heads=4, init=1e-2)
RATE, STEPS = 0.02, 20_001  # twice the published steps, so that all seeds reach the last drop
SEEDS = range(6)
CLOSE = RegressionTask(dim=8)  # eigenvalues that lie closer, ∝ d
HORIZON = 3  # a predicted drop may come later than the simulated one: no drop is to be left out


@dataclass(frozen=True)
class Run:
    """One seed: its history with snapshots, and the data's eigenvectors as columns."""

    history: History
    moments: Moments
    basis: Float[np.ndarray, "D D"]
    drops: list[Drop]  # predicted from the start


@dataclass(frozen=True)
class Staircase:
    """Figure 3: six seeds on the plateaus; of ``runs[shown]`` also heads, keys and predictors."""

    runs: list[Run]
    levels: Float[np.ndarray, " levels"]
    facts: dict

    @property
    def shown(self) -> Run:
        return self.runs[4]


def one_run(seed: int, scale: str) -> Run:
    draw = reference.sample(TASK, sequences(scale, 5000), seed=seed)
    moments = of_sequences(draw, MODEL)
    history = train(
        MODEL,
        moments,
        STEPS,
        RATE,
        start=draw.start(MODEL),
        seed=seed,
        snapshots=range(0, STEPS + 1, 20),
    )
    basis = draw.task.eigenvectors
    return Run(
        history, moments, basis, staircase(draw.task, draw.start(MODEL), HORIZON * RATE * STEPS)
    )


def effective(weights: Weights, dim: int) -> Float[np.ndarray, "S D D"]:
    """M of ŷ = βᵀ M x_q at each snapshot: Σ_h v_h k_h q_hᵀ."""
    key, query = weights["key"][..., :dim], weights["query"][..., :dim]
    return np.einsum("shra,shrd,sh->sad", key, query, weights["value"][:, :, -1, -1])


def drop_steps(
    loss: Float[np.ndarray, " steps"], levels: Float[np.ndarray, " levels"]
) -> list[int]:
    """The first step below half way from each level to the next; those not reached are left out."""
    halves = (levels[1:] + levels[:-1]) / 2
    return [int(np.argmax(loss < half)) for half in halves if (loss < half).any()]


def plateaus(run: Run, levels: Float[np.ndarray, " levels"]) -> list[int]:
    """Snapshot indices in the middle of each plateau: between neighbouring drops."""
    edges = [0, *drop_steps(run.history.loss, levels), len(run.history.loss)]
    middle = [(first + last) / 2 for first, last in pairwise(edges)]
    return [int(np.argmin(np.abs(run.history.kept - step))) for step in middle]


def owned(run: Run) -> list[int]:
    """Which eigenvector each head's key is nearest to at the end; 1 has the largest eigenvalue."""
    keys = run.history.final["key"][:, 0, : TASK.dim]
    return [int(np.argmax(np.abs(run.basis.T @ key))) + 1 for key in keys]


def saddles(scale: str = "paper") -> Staircase:
    runs = [one_run(seed, scale) for seed in SEEDS]
    levels = theory.plateau_losses(TASK)
    gaps, when, right = [], [], 0
    for run in runs:
        for m, snapshot in enumerate(plateaus(run, levels)):
            gaps.append(run.history.loss[run.history.kept[snapshot]] - levels[m])
        steps = drop_steps(run.history.loss, levels)
        when += [d.time / RATE / s for d, s in zip(run.drops, steps, strict=False)]
        order = owned(run)
        right += sum(order[d.head] == d.component for d in run.drops[: len(steps)])
    facts = {
        "plateau_gap": np.abs(gaps).max(),
        "drops": len(when),
        "heads_right": right,
        "time_ratio": np.median(when),
        "time_low": np.min(when),
        "time_high": np.max(when),
    }
    late = [
        (drop.time / RATE, step)
        for run in runs
        for drop, step in zip(run.drops, drop_steps(run.history.loss, levels), strict=False)
        if drop.time > RATE * STEPS
    ]
    facts["beyond"] = len(late)
    for i, (predicted, came) in enumerate(sorted(late), start=1):
        facts |= {f"beyond_{i}": round(predicted, -2), f"came_{i}": float(round(came, -2))}
    facts |= {f"level_{m}": level for m, level in enumerate(levels)}
    return Staircase(runs, levels, facts)


@dataclass(frozen=True)
class Regression:
    """How far one run's predictions are from those of M_0 … M_D, at each snapshot."""

    steps: Float[np.ndarray, " S"]
    distance: Float[np.ndarray, "levels S"]
    at: list[int]  # snapshots in the middle of each plateau
    facts: dict


def principal_components(found: Staircase) -> Regression:
    """Root mean square over the task of ŷ less M_m's: ‖M − M_m‖ in the norm that the loss measures.

    How far M_m itself is from principal component regression proper is ``theory.regression``.
    """
    run, dim = found.shown, TASK.dim
    a, b = theory.rates(TASK)
    made = np.einsum("di,sde,ej->sij", run.basis, effective(run.history.snapshots, dim), run.basis)
    wanted = [np.diag(np.where(np.arange(dim) < m, a / b, 0)) for m in range(dim + 1)]
    weight = np.outer(b / TASK.eigenvalues, TASK.eigenvalues)  # E[(β_i x_j)²]
    distance = np.sqrt([[np.sum(weight * (m - w) ** 2) for m in made] for w in wanted])
    at = plateaus(run, found.levels)
    scale = np.sqrt(TASK.eigenvalues.sum())  # root mean square of the answer itself
    facts = {f"at_{m}": distance[m, s] / scale for m, s in enumerate(at)}
    for m in range(1, dim + 1):
        facts[f"proper_{m}"], facts[f"from_proper_{m}"] = theory.regression(TASK, m)
    facts["nearest_is_own"] = all(int(np.argmin(distance[:, s])) == m for m, s in enumerate(at))
    return Regression(run.history.kept, distance / scale, at, facts)


@dataclass(frozen=True)
class Waiting:
    """Times of all drops in the population against the size of the same initial weights."""

    inits: Float[np.ndarray, " inits"]
    measured: Float[np.ndarray, "inits D"]
    predicted: Float[np.ndarray, "inits D"]
    facts: dict


def waiting(scale: str = "paper") -> Waiting:
    """Nothing is fitted: the prediction integrates the heads' own ODEs from the initial weights."""
    inits = np.logspace(-1.5, -4 if scale == "paper" else -2.5, 6)
    moments, levels = of_population(TASK, MODEL), theory.plateau_losses(TASK)
    measured, predicted = [], []
    for init in inits:
        model = SeparateAttention(MODEL.heads, init)
        start, rate = model.start(TASK.dim, seed=1), 0.05
        horizon = 2.5 / init  # its last drop comes at 2 / init
        loss = train(model, moments, int(horizon / rate), rate, start=start).loss
        measured.append(rate * np.array(drop_steps(loss, levels)))
        drops = staircase(TASK, start, horizon)
        predicted.append([drop.time for drop in drops])
    measured, predicted = np.array(measured), np.array(predicted)
    off = np.abs(predicted / measured - 1).max(axis=1)
    slopes = np.polyfit(np.log10(inits[-3:]), np.log10(measured[-3:]), 1)[0]
    facts = {
        "off_first": off[0],
        "off_last": off[-1],
        "slope": slopes.mean(),
        "smallest": inits[-1],
    }
    return Waiting(inits, measured, predicted, facts)


def in_order(task: RegressionTask, model: SeparateAttention, seed: int, until: float) -> bool:
    """Whether a run on infinitely many sequences learns half of each eigenvector before the next."""
    rate = 0.03
    steps = int(until / rate)
    start = model.start(task.dim, seed=seed)
    moments, kept = of_population(task, model), range(0, steps + 1, 25)
    made = effective(
        train(model, moments, steps, rate, start=start, snapshots=kept).snapshots, task.dim
    )
    share = np.einsum("di,sde,ei->si", task.eigenvectors, made, task.eigenvectors)
    learned = share > theory.learned(task) / 2
    first = np.where(learned.any(axis=0), np.argmax(learned, axis=0), len(learned))
    return bool(np.all(np.diff(first) >= 0))


@dataclass(frozen=True)
class Allocation:
    """Predicted against measured drop times over many starts in the population."""

    measured: Float[np.ndarray, " drops"]
    predicted: Float[np.ndarray, " drops"]
    component: Float[np.ndarray, " drops"]
    facts: dict


def allocation(scale: str = "paper") -> Allocation:
    """From many starts: which head takes which eigenvector, and when."""
    starts = 40 if scale == "paper" else 6
    model, rate, steps = SeparateAttention(MODEL.heads, 2e-3), 0.05, 75_000
    moments, levels = of_population(TASK, model), theory.plateau_losses(TASK)
    rows, right, ordered = [], 0, 0
    for seed in range(starts):
        start = model.start(TASK.dim, seed=seed)
        history = train(model, moments, steps, rate, start=start)
        times = rate * np.array(drop_steps(history.loss, levels))
        keys = history.final["key"][:, 0, : TASK.dim] @ TASK.eigenvectors
        drops = staircase(TASK, start, rate * steps)
        ordered += all(one.component < two.component for one, two in pairwise(drops))
        for drop, time in zip(drops, times, strict=False):
            rows.append((time, drop.time, drop.component))
            right += int(np.argmax(np.abs(keys[drop.head]))) + 1 == drop.component
    measured, predicted, component = np.array(rows, dtype=float).T
    off = np.abs(predicted / measured - 1)
    facts = {
        "starts": starts,
        "drops": len(rows),
        "heads_right": right,
        "ordered": ordered,
        "ordered_8": sum(
            in_order(CLOSE, SeparateAttention(9, 5e-3), s, 400.0) for s in range(starts)
        ),
        "median_off": np.median(off),
        "within_2_percent": np.mean(off < 0.02),
        "worst_off": off.max(),
    }
    return Allocation(measured, predicted, component, facts)
