"""The task: a sequence, and what four predictors make of it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclbook.studies import sequences
from iclcore import theory
from iclcore.task import RegressionTask, Sequences

TASK = RegressionTask(seed=1)  # λ = .4 .3 .2 .1, N = 31
PREDICTORS = ("least squares", "attention", "PCR, 2 components", "PCR, 1 component")


@dataclass(frozen=True)
class Example:
    """One sequence as a model sees it, with its hidden answer and what each predictor says."""

    tokens: Float[np.ndarray, "n E"]
    answer: float
    said: dict[str, float]
    facts: dict


def example(scale: str = "paper") -> Example:
    data = TASK.sample(1, seed=1)
    ((tokens, target),) = data.prefixes()
    said = {name: float(values[0]) for name, values in predictions(data).items()}
    facts = {"answer": float(target[0, 0]), "least_squares": said[PREDICTORS[0]]}
    facts |= {"attention": said[PREDICTORS[1]]}
    return Example(tokens[0], float(target[0, 0]), said, facts)


def predictions(data: Sequences) -> dict[str, Float[np.ndarray, " P"]]:
    """Each predictor on the query of each sequence.

    Least squares is fitted to the sequence alone. The others are βᵀ M x_q with M fixed, learned in
    training: with all components it is the best linear attention, with fewer its earlier plateaus.
    """
    x, y, query = data.x[:, :-1], data.y[:, :-1], data.x[:, -1]
    fitted = np.einsum("pdn,pno->pdo", np.linalg.pinv(x), y)
    said = {PREDICTORS[0]: np.einsum("pd,pdo->p", query, fitted)}
    beta = np.einsum("pnd,pno->pd", x, y) / x.shape[1]
    for name, components in zip(PREDICTORS[1:], (TASK.dim, 2, 1), strict=True):
        matrix = theory.pcr_predictor(TASK, components, "context")
        said[name] = np.einsum("pa,ad,pd->p", beta, matrix, query)
    return said


@dataclass(frozen=True)
class Scatter:
    """Answers and predictions over many sequences."""

    answer: Float[np.ndarray, " P"]
    said: dict[str, Float[np.ndarray, " P"]]
    error: dict[str, float]
    theory: dict[str, float]
    facts: dict


def scatter(scale: str = "paper") -> Scatter:
    data = TASK.sample(sequences(scale, 20_000), seed=4)
    answer, said = data.y[:, -1, 0], predictions(data)
    error = {name: float(np.mean((answer - values) ** 2)) for name, values in said.items()}
    levels = theory.plateau_losses(TASK)
    expected = dict(zip(PREDICTORS, (0.0, levels[4], levels[2], levels[1]), strict=True))
    spread = {name: np.std((answer - values) ** 2) for name, values in said.items()}
    off = [
        abs(error[name] - expected[name]) / (spread[name] / np.sqrt(len(answer)))
        for name in PREDICTORS[1:]
    ]
    facts = {
        "attention": error[PREDICTORS[1]],
        "attention_theory": expected[PREDICTORS[1]],
        "two": error[PREDICTORS[2]],
        "two_theory": expected[PREDICTORS[2]],
        "worst_score": max(off),
    }
    return Scatter(answer, said, error, expected, facts)


@dataclass(frozen=True)
class Lengths:
    """Error against the number of examples, for predictors made for that number."""

    contexts: Float[np.ndarray, " n"]
    error: dict[str, Float[np.ndarray, " n"]]
    theory: dict[str, Float[np.ndarray, " n"]]
    facts: dict


def lengths(scale: str = "paper") -> Lengths:
    contexts = np.array([1.0, 2, 3, 4, 5, 7, 10, 15, 22, 31, 50, 100, 200])
    error = {"least squares": [], "attention": []}
    expected = {name: [] for name in ("attention", "PCR, 2 components")}
    for n in contexts.astype(int):
        task = RegressionTask(context=int(n), seed=TASK.seed)
        data = task.sample(sequences(scale, 4000), seed=5)
        answer, said = data.y[:, -1, 0], predictions(data)
        beta = np.einsum("pnd,pno->pd", data.x[:, :-1], data.y[:, :-1]) / n
        matrix = theory.pcr_predictor(task, task.dim, "context")
        attention = np.einsum("pa,ad,pd->p", beta, matrix, data.x[:, -1])
        error["least squares"].append(np.mean((answer - said["least squares"]) ** 2))
        error["attention"].append(np.mean((answer - attention) ** 2))
        levels = theory.plateau_losses(task)
        expected["attention"].append(levels[-1])
        expected["PCR, 2 components"].append(levels[2])
    stacked = {name: np.array(values) for name, values in error.items()}
    curves = {name: np.array(values) for name, values in expected.items()}
    gap = np.abs(stacked["attention"] - curves["attention"]).max()
    at_31 = list(contexts).index(31)
    facts = {
        "gap": gap,
        "least_squares_at_4": stacked["least squares"][3],
        "attention_at_31": curves["attention"][at_31],
        "attention_at_200": curves["attention"][-1],
        "two_at_200": curves["PCR, 2 components"][-1],
    }
    return Lengths(contexts, stacked, curves, facts)
