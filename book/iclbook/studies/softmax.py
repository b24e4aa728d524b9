"""Softmax attention: Figure 5, what its heads attend to, and how far linear theory reaches."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from scipy.signal import find_peaks

from iclbook.studies import crossing, sequences
from iclcore import reference, theory
from iclcore.history import History
from iclcore.models import MergedAttention, Model, SeparateAttention, Weights
from iclcore.modules import mean_loss, module
from iclcore.moments import coefficients, of_sequences
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import train

TASK = RegressionTask()
MERGED = MergedAttention(8, 1e-3, softmax=True)
SEPARATE = SeparateAttention(4, 1e-2, softmax=True)
# Heads as in the captions of the paper's Figures 1 and 3, whose data set and models that of Figure 5
# takes over: 5,000 sequences and merged weights of size 1e-6. A fifth of the sequences, larger merged
# weights, learning rates and seeds are our choice.
SEQUENCES, SEED, SEEDS = 1000, 10, (1, 2, 3, 4, 5, 6)
# steps and learning rate: twice that rate meets the edge of stability, and the last digits of the
# initial weights decide how such a run ends
MERGED_RUN, SEPARATE_RUN = (2000, 0.03), (10_000, 0.1)
EVERY = 100  # steps between the weights kept of a separate run
INPUTS_RUN, LABELS_RUN = 6, 4  # seeds: of a run whose heads read inputs, or labels


@cache
def drawn_data(scale: str) -> reference.Published:
    """One data set for the chapter, in the published order of draws, with 4,000 fresh sequences."""
    return reference.sample(TASK, sequences(scale, SEQUENCES), SEED, 4000)


def drops(loss: Float[np.ndarray, " t"]) -> np.ndarray:
    """Steps at which the loss falls fastest: peaks of its speed that stand out by 5% of the highest."""
    window = max(5, len(loss) // 100)
    speed = -np.diff(np.convolve(loss, np.ones(window) / window, "valid"))
    return find_peaks(speed, prominence=0.05 * speed.max())[0] + window // 2


# -- Figure 5 -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LossCurves:
    """Figure 5: six runs each; the losses of linear attention's fixed points for comparison."""

    merged: list[History]
    separate: list[History]
    levels: Float[np.ndarray, " levels"]
    facts: dict[str, float]


def loss_curves(scale: str = "paper") -> LossCurves:
    seeds = SEEDS if scale == "paper" else SEEDS[:2]
    merged = [one_run(scale, MERGED, seed) for seed in seeds]
    separate = [one_run(scale, SEPARATE, seed) for seed in seeds]
    counts = [len(drops(run.loss)) for run in separate]
    shares = [reading_labels(taken(run)[plateau(run)]) for run in separate]
    draw = drawn_data(scale)
    ends = [
        shares_learned(taken(run)[-1], draw.tests["in_context"], draw.task.covariance)
        for run in separate
    ]
    learned = [int(np.sum(end > 0.5)) for end in ends]
    facts = {
        "start": merged[0].loss[0],
        "merged_most": max(len(drops(run.loss)) for run in merged),
        "separate_least": min(counts),
        "separate_most": max(counts),
        "merged_end": float(np.mean([run.loss[-1] for run in merged])),
        "label_runs": sum(share > 0.5 for share in shares),
        "learned_least": min(learned),
        "learned_most": max(learned),
        "runs": len(seeds),
        "sequences": len(draw),
        "merged_rate": MERGED_RUN[1],
        "separate_rate": SEPARATE_RUN[1],
    }
    return LossCurves(merged, separate, theory.plateau_losses(TASK), facts)


@cache
def one_run(scale: str, model: Model, seed: int) -> History:
    """A run of Figure 5; the separate ones with their weights at every ``EVERY`` steps."""
    steps, rate = MERGED_RUN if model is MERGED else SEPARATE_RUN
    kept = () if model is MERGED else range(0, steps + 1, EVERY)
    start = model.start(TASK.dim, seed=seed)
    data = drawn_data(scale)
    return train(model, data, steps, rate, start=start, seed=seed, snapshots=kept)


def plateau(run: History) -> int:
    """The snapshot at which a separate run has learned two eigenvectors.

    It is midway between two drops, of which each begins and ends at another step in every run: where
    the loss passes half way from linear attention's level 1 to 2, and half way from 2 to 3.
    """
    levels = theory.plateau_losses(TASK)
    halves = (levels[1:3] + levels[2:4]) / 2
    drops = [crossing(run.loss, half / run.loss[0]) for half in halves]
    return round(sum(drops) / 2 / EVERY)


def reading_labels(weights: Weights) -> float:
    """Share of separate heads' strength whose key reads labels and whose value reads inputs.

    To first order in the score a head multiplies Cov(x, y) by v_y k_x q + v_x k_y q: it matters
    only in sum which of key and value looks at the inputs, and which at the labels.
    """
    key, query, v = SEPARATE.factors(weights, TASK.dim)
    size = np.linalg.norm(query[:, 0], axis=1)
    inputs = size * np.abs(v[:, 0, -1]) * np.linalg.norm(key[:, 0, :-1], axis=1)
    labels = size * np.linalg.norm(v[:, 0, :-1], axis=1) * np.abs(key[:, 0, -1])
    return float(labels.sum() / (labels + inputs).sum())


# -- which eigenvectors each drop learns ----------------------------------------------------------


@dataclass(frozen=True)
class Learned:
    """A separate run: how much of each eigenvector's term is in its predictions, over training."""

    history: History
    shares: Float[np.ndarray, "t D"]
    levels: Float[np.ndarray, " levels"]
    facts: dict[str, float]


def learned(scale: str = "paper") -> Learned:
    """Each direction's feature β_d x_q,d, the best linear attention's weight on it being one.

    The features are uncorrelated over the task, so each has a regression coefficient of its own.
    """
    draw, (steps, rate) = drawn_data(scale), SEPARATE_RUN
    steps += 6000
    every = np.arange(0, steps + 1, 160)
    start = SEPARATE.start(TASK.dim, seed=INPUTS_RUN)
    history = train(SEPARATE, draw, steps, rate, start=start, seed=INPUTS_RUN, snapshots=every)
    fresh = draw.tests["in_context"]
    shares = np.stack([shares_learned(w, fresh, draw.task.covariance) for w in taken(history)])
    first = [int(every[np.argmax(share > 0.5)]) for share in shares.T]
    facts = {f"half_{d + 1}": step for d, step in enumerate(first)}
    for d in range(1, 4):  # where d are learned and the next is not: half way between two steps
        middle = int(np.argmin(np.abs(every - (first[d - 1] + first[d]) / 2)))
        facts[f"loss_{d}"] = history.loss[every[middle]]
        facts[f"next_{d}"] = shares[middle, d]
        facts[f"linear_{d}"] = theory.plateau_losses(TASK)[d]
    return Learned(history, shares, theory.plateau_losses(TASK), facts)


def shares_learned(
    weights: Weights, fresh: Sequences, covariance: Float[np.ndarray, "D D"]
) -> Float[np.ndarray, " D"]:
    """Regression of a separate model's answers on β_d x_q,d, over the best linear attention's."""
    ((tokens, _),) = fresh.prefixes()
    x = fresh.x @ np.linalg.eigh(covariance)[1][:, ::-1]
    z = np.mean(x[:, :-1] * fresh.y[:, :-1], axis=1) * x[:, -1]
    found = predict(SEPARATE, weights, tokens) @ z / np.sum(z**2, axis=0)
    return found / theory.learned(TASK, "context")


def taken(history: History) -> list[Weights]:
    """The weights at each snapshot."""
    count = len(history.kept)
    return [{name: a[i] for name, a in history.snapshots.items()} for i in range(count)]


def predict(
    model: Model, weights: Weights, tokens: Float[np.ndarray, "P n E"]
) -> Float[np.ndarray, " P"]:
    with torch.no_grad():
        return module(model, weights, 1)(torch.tensor(tokens).double()).numpy()[:, 0]


# -- what the heads attend to ---------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """One sequence in two runs: attention of the two strongest heads at the start, on the plateau
    with two eigenvectors learned, and at the end.

    ``reads`` is what a head's key measures of each token, k·x_m/|k| or y_m; ``attention`` is p_m.
    Both are indexed by kind of head (inputs, labels), moment, head, token.
    """

    reads: Float[np.ndarray, "2 3 2 T"]
    attention: Float[np.ndarray, "2 3 2 T"]
    facts: dict[str, float]


def reading(scale: str = "paper") -> Reading:
    """Of one run the heads that read inputs, of the other those that read labels."""
    draw = drawn_data(scale)
    fresh = draw.tests["in_context"]
    ((tokens, _),) = fresh.prefixes()
    top = np.linalg.eigh(draw.task.covariance)[1][:, -1]
    one = int(np.argmax(np.abs(fresh.x[:50, -1] @ top)))  # a query with much of e_1 in it
    reads, attention, facts = [], [], {}
    for kind, seed in (("inputs", INPUTS_RUN), ("labels", LABELS_RUN)):
        history = one_run(scale, SEPARATE, seed)
        kept, on = taken(history), plateau(history)
        facts[f"{kind}_step"] = EVERY * on
        facts[f"{kind}_loss"] = history.loss[EVERY * on]
        for name, at in (("start", 0), ("two", on), ("end", -1)):
            weights = kept[at]
            two = strongest(weights, kind)
            p = attention_weights(SEPARATE, weights, tokens)[:, two]
            key, _, v = (part[two, 0] for part in SEPARATE.factors(weights, TASK.dim))
            unit = key[:, :-1] / np.linalg.norm(key[:, :-1], axis=1)[:, None]
            labels = np.stack([tokens[one, :, -1]] * 2)
            reads.append(unit @ tokens[one, :, :-1].T if kind == "inputs" else labels)
            attention.append(p[one])
            spread = 1 / np.sum(p**2, axis=2)
            facts[f"{kind}_mean_{name}"] = float(spread.mean(axis=0).min())
            facts[f"{kind}_tokens_{name}"] = float(spread[one].min())
            facts[f"{kind}_top_{name}"] = float(p[one].max())
            facts[f"{kind}_share_{name}"] = reading_labels(weights)
            if kind == "inputs" and name == "two":
                facts |= {"value_plus": v[0, -1], "value_minus": v[1, -1]}
    return Reading(np.reshape(reads, (2, 3, 2, -1)), np.reshape(attention, (2, 3, 2, -1)), facts)


def strongest(weights: Weights, kind: str) -> list[int]:
    """The head of the most positive and of the most negative pull among those reading inputs; of
    those reading labels, whose values have no sign of their own, the two strongest."""
    key, query, v = (part[:, 0] for part in SEPARATE.factors(weights, TASK.dim))
    size = np.linalg.norm(query, axis=1)
    if kind == "inputs":
        pull = size * v[:, -1] * np.linalg.norm(key[:, :-1], axis=1)
        return [int(np.argmax(pull)), int(np.argmin(pull))]
    pull = size * np.linalg.norm(v[:, :-1], axis=1) * np.abs(key[:, -1])
    return [int(h) for h in np.argsort(pull)[:-3:-1]]


def attention_weights(
    model: Model, weights: Weights, tokens: Float[np.ndarray, "P n E"]
) -> Float[np.ndarray, "P H n"]:
    """How much the query's row of each head gives to each token."""
    with torch.no_grad():
        return module(model, weights, 1).scores(torch.tensor(tokens).double()).softmax(2).numpy()


# -- the end --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LongRun:
    """A merged run far beyond its drop: on its own sequences and on fresh ones."""

    time: Float[np.ndarray, " t"]
    train: Float[np.ndarray, " t"]
    fresh: Float[np.ndarray, " t"]
    floor: float
    floor_fresh: float
    best: float
    facts: dict[str, float]


def long_run(scale: str = "paper") -> LongRun:
    """Linear attention's floor on the training set, and what the weights that reach it give on
    fresh sequences; the best linear attention for the population, tested on the same."""
    draw, steps, rate = drawn_data(scale), 6000, 0.1
    every = np.unique(np.geomspace(1, steps + 1, 60).astype(int)) - 1
    history = train(MERGED, draw, steps, rate, start=MERGED.start(TASK.dim, seed=1),
                    snapshots=every)  # fmt: skip
    fresh = draw.tests["in_context"]
    lengths = [(torch.tensor(t).double(), torch.tensor(y).double()) for t, y in fresh.prefixes()]
    with torch.no_grad():
        errors = [float(mean_loss(module(MERGED, w, 1), lengths)) for w in taken(history)]
    linear = MergedAttention(1, divisor="context")
    seen, unseen = (of_sequences(data, linear) for data in (draw, fresh))
    fitted = np.linalg.lstsq(seen.gram, seen.cross.T, rcond=1e-12)[0].T
    start = linear.start(TASK.dim)
    w, v = linear.factors(start, TASK.dim)
    v[:], w[:] = 0, 0
    v[0, 0, -1] = 1
    w[0, :, :-1] = theory.pcr_predictor(draw.task, TASK.dim, "context")
    best = unseen.loss(coefficients((w, v), unseen.features))
    loss = np.append(history.loss, history.loss[-1])[every]
    facts = {
        "train": loss[-1],
        "fresh": errors[-1],
        "fresh_best": min(errors),
        "fresh_best_time": rate * every[int(np.argmin(errors))],
        "floor": seen.floor(),
        "floor_fresh": unseen.loss(fitted),
        "best": best,
        "time": rate * steps,
        "below_floor": rate * int(np.argmax(history.loss < seen.floor())),
    }
    return LongRun(
        rate * every, loss, np.array(errors), seen.floor(), facts["floor_fresh"], best, facts
    )
