"""Training on all lengths of context or on one, and testing on others."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int

from iclbook.studies import crossing, sequences
from iclcore import reference, theory
from iclcore.history import History
from iclcore.models import MergedAttention, Model, SeparateAttention
from iclcore.modules import module
from iclcore.moments import of_population
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import train

ALL, ONE = RegressionTask(every_length=True), RegressionTask()
TASKS = {"all": ALL, "one": ONE}
SEED = 10
SOFT = MergedAttention(8, 1e-2, softmax=True)
SOFT_SEQUENCES, SOFT_STEPS, SOFT_RATE = 1000, 2000, 0.1  # our choice, below the edge of stability
LONGEST, FAR = 100, 1000
CONTEXTS = np.unique([*np.geomspace(1, LONGEST, 20).round().astype(int), ONE.context])


@cache
def drawn_data(scale: str) -> reference.Published:
    """The published draw; a run on all lengths and one on the whole length share its sequences."""
    return reference.sample(ONE, sequences(scale, 5000), seed=SEED)


@cache
def fresh_data(scale: str, longest: int, count: int) -> Sequences:
    """Sequences of the same covariance with ``longest`` examples; their task vectors are whitened, as the
    published draw whitens those of training, so that few sequences have little error."""
    covariance, count = drawn_data(scale).task.covariance, sequences(scale, count)
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((count, longest + 1, ONE.dim)) @ np.linalg.cholesky(covariance).T
    left, _, right = np.linalg.svd(rng.standard_normal((count, ONE.dim)), full_matrices=False)
    return Sequences(x, x @ (np.sqrt(count) * left @ right)[:, :, None])


@cache
def linear_run(scale: str, kind: str, lengths: str) -> History:
    data = replace(drawn_data(scale), every_length=lengths == "all")
    if kind == "merged":
        model, steps, rate = MergedAttention(8, 1e-3, divisor="tokens"), 2400, 0.1
    else:
        model, steps, rate = SeparateAttention(5, 3e-2, divisor="tokens"), 30_000, 0.1
    every = sorted({int(step) for step in np.linspace(0, steps, 400)})
    start = model.start(ONE.dim, seed=1)
    return train(model, data, steps, rate, start=start, seed=1, snapshots=every)


def errors_at(
    model: Model, weights: dict, data: Sequences, contexts: Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    """Mean squared error with n examples. A sequence is cut into as many pieces as it has room for;
    where these are fewer than four it is turned around, so that other tokens become the query."""
    net, errors = module(model, weights, 1), []
    for n in contexts:
        pieces = data.x.shape[1] // (n + 1)
        turns, shape = -(-4 // pieces), (len(data) * pieces, n + 1, -1)
        squares = []
        for turn in range(turns):
            moved = (np.roll(each, turn * (n + 1) // turns, axis=1) for each in (data.x, data.y))
            part = (each[:, : pieces * (n + 1)].reshape(shape) for each in moved)
            ((tokens, target),) = Sequences(*part).prefixes()
            with torch.no_grad():
                answer = net(torch.tensor(tokens)).numpy()
            squares.append(np.mean((answer - target) ** 2))
        errors.append(np.mean(squares))
    return np.array(errors)


# -- training -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """Linear attention, merged and separate, trained on all lengths and on one."""

    runs: dict[str, dict[str, History]]  # by kind of model, then by lengths
    levels: dict[str, Float[np.ndarray, " levels"]]
    facts: dict[str, float]


def training(scale: str = "paper") -> Training:
    """Both in the published convention: the sum over the context divided by the tokens."""
    kinds = ("merged", "separate")
    runs = {kind: {name: linear_run(scale, kind, name) for name in TASKS} for kind in kinds}
    levels = {name: theory.plateau_losses(task) for name, task in TASKS.items()}
    facts = {f"level_{name}": level[-1] for name, level in levels.items()}
    for kind in kinds:
        facts |= {f"{kind}_end_{name}": run.loss[-1] for name, run in runs[kind].items()}
        facts[f"{kind}_later"] = escapes(kind, "all") / escapes(kind, "one")
    drives = [theory.rates(task, "tokens")[0][0] for task in TASKS.values()]
    facts["later"] = drives[1] / drives[0]
    return Training(runs, levels, facts)


def escapes(kind: str, lengths: str) -> float:
    """Time to escape on infinitely many sequences: merged, for each decade of the initial weights;
    separate, until a tenth of the loss is gone."""
    if kind == "separate":
        return _escape(SeparateAttention(5, 1e-2, divisor="tokens"), lengths, 8000, 0.1)
    later, sooner = (
        _escape(MergedAttention(8, init, divisor="tokens"), lengths, 8000, 0.01)
        for init in (1e-6, 1e-4)
    )
    return (later - sooner) / 2


def _escape(model: Model, lengths: str, steps: int, rate: float) -> float:
    start = model.start(ONE.dim, seed=1)
    loss = train(model, of_population(TASKS[lengths], model), steps, rate, start=start).loss
    return rate * crossing(loss, 0.9)


# -- the best predictor for many lengths ----------------------------------------------------------


@dataclass(frozen=True)
class Predictors:
    """M along each eigenvector: best at each length, learned on all, learned on one."""

    contexts: Int[np.ndarray, " lengths"]
    best: Float[np.ndarray, "lengths D"]
    learned: dict[str, Float[np.ndarray, " D"]]
    trained: dict[str, Float[np.ndarray, " D"]]
    effective: float  # examples in the context for which all lengths' M is best
    facts: dict[str, float]


def predictors(scale: str = "paper") -> Predictors:
    contexts, lam = np.arange(1, LONGEST + 1), ONE.eigenvalues
    best = 1 / (lam + lam.sum() / (contexts[:, None] + 1))
    learned = {name: theory.learned(task, "tokens") for name, task in TASKS.items()}
    basis = np.linalg.eigh(drawn_data(scale).task.covariance)[1][:, ::-1]
    trained = {}
    for name in TASKS:
        weights = linear_run(scale, "merged", name).final
        w, v = MergedAttention(8).factors(weights, ONE.dim)
        whole = np.einsum("hda,h->ad", w[:, :, :-1], v[:, 0, -1])
        trained[name] = np.diag(basis.T @ whole @ basis)
    effective = theory.effective_tokens(ALL) - 1
    facts = {
        "effective": effective,
        "gap": max(np.abs(trained[n] / learned[n] - 1).max() for n in TASKS),
    }
    return Predictors(contexts, best, learned, trained, effective, facts)


# -- testing on other lengths ---------------------------------------------------------------------


@dataclass(frozen=True)
class Testing:
    """Errors at other lengths: of linear attention, and of softmax, against the formula."""

    contexts: Int[np.ndarray, " lengths"]
    best: Float[np.ndarray, " lengths"]
    formula: dict[str, Float[np.ndarray, " lengths"]]
    linear: dict[str, Float[np.ndarray, " lengths"]]
    softmax: dict[str, Float[np.ndarray, " lengths"]]
    facts: dict[str, float]


def testing(scale: str = "paper") -> Testing:
    fresh, far = fresh_data(scale, LONGEST, 2000), fresh_data(scale, FAR, 400)
    draw = drawn_data(scale)
    best = theory.best_at(ONE, CONTEXTS)
    tokens = {name: theory.effective_tokens(task) for name, task in TASKS.items()}
    formula = {
        name: theory.losses_at(ONE, theory.ridge_predictor(ONE, count), CONTEXTS)
        for name, count in tokens.items()
    }
    linear, soft, facts = {}, {}, {}
    for name in TASKS:
        run = linear_run(scale, "merged", name)
        model = MergedAttention(8, divisor="tokens")
        linear[name] = errors_at(model, run.final, fresh, CONTEXTS)
        data = replace(draw[:SOFT_SEQUENCES], every_length=name == "all")
        run = train(SOFT, data, SOFT_STEPS, SOFT_RATE, start=SOFT.start(ONE.dim, seed=1), seed=1)
        soft[name] = errors_at(SOFT, run.final, fresh, CONTEXTS)
        facts[f"soft_train_{name}"] = run.loss[-1]
        facts[f"soft_{name}_{FAR}"] = errors_at(SOFT, run.final, far, np.array([FAR]))[0]
    trained = np.arange(1, ONE.context + 1)
    whole = {name: theory.ridge_predictor(ONE, count) for name, count in tokens.items()}
    ideal = theory.best_at(ONE, trained).mean()
    facts["ideal"] = ideal
    for name, predictor in whole.items():
        facts[f"mean_{name}"] = theory.losses_at(ONE, predictor, trained).mean()
        lam, m = ONE.eigenvalues, np.diag(ONE.eigenvectors.T @ predictor @ ONE.eigenvectors)
        facts[f"endless_{name}"] = np.sum(lam * (1 - lam * m) ** 2)
    for n in (1, 31, LONGEST, FAR):
        facts[f"best_{n}"] = theory.best_at(ONE, np.array([n]))[0]
        for name in TASKS:
            facts[f"{name}_{n}"] = theory.losses_at(ONE, whole[name], np.array([n]))[0]
            if n in CONTEXTS:
                at = list(CONTEXTS).index(n)
                facts[f"soft_{name}_{n}"], facts[f"linear_{name}_{n}"] = (
                    soft[name][at],
                    linear[name][at],
                )
    facts["gap"] = max(np.abs(linear[n] / formula[n] - 1).max() for n in TASKS)
    return Testing(CONTEXTS, best, formula, linear, soft, facts)
