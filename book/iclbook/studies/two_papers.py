"""Both papers' attention on the same stream of contexts, and what softmax costs."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclbook.studies import SCALES
from iclcore import multihead, spectral
from iclcore.checks import choice
from iclcore.history import History
from iclcore.theory import icl_risk, phases
from iclcore.theory import multihead as theory
from iclcore.theory.multihead import MultiTask

TASK = MultiTask((6, 6, 6), context=60, signal=(8.0, 4.0, 2.0))
END, RATE = 28.5, 0.015
KINDS = ("linear", "softmax")


@dataclass(frozen=True)
class SameStream:
    """By kind: the run, its plateaus in theory, no task learned to all three, and when each ends."""

    runs: dict[str, History]
    levels: dict[str, Float[np.ndarray, " levels"]]
    predicted: dict[str, Float[np.ndarray, " tasks"]]
    facts: dict[str, float]


def same_stream(scale: str = "paper") -> SameStream:
    """One start, one seed: nothing but softmax differs. A task is won when its Σ_h μω passes .4."""
    batch = 256 if choice("scale", scale, SCALES) == "paper" else 64
    start = theory.aligned_start(TASK)
    limit = [a.diagonal() for a in theory.limit(TASK)]
    ends = {
        "linear": icl_risk.linear_attention_risk(TASK),
        "softmax": icl_risk.exact_loss(TASK, *limit),
    }
    # linear attention's race has no drag: its B is 0 where softmax's is 1
    predicted = {
        "linear": phases.escape_time(TASK, *start).min(0),
        "softmax": phases.race(TASK, *start)[0],
    }
    runs, levels, facts = {}, {}, {"third_balance": third_balance(start)}
    for kind in KINDS:
        run = multihead.train_full(
            TASK, *start, ((END, RATE),), batch=batch, softmax=kind == "softmax"
        )
        learned = np.cumsum([0, *(TASK.s - ends[kind])])
        runs[kind], levels[kind] = run, TASK.s.sum() - learned
        omega, mu = spectral.spectra(run)
        t, done = run.series["time"], (omega * mu).sum(1)
        won = [phases.crossing(t, each, 0.4) for each in done.T]
        edges = [0, *won, END]
        for m in range(4):  # before the drop ahead of a plateau's end begins
            inside = (t > edges[m] + 0.45 * (edges[m + 1] - edges[m])) & (
                t < edges[m] + 0.75 * (edges[m + 1] - edges[m])
            )
            facts[f"{kind}_plateau_{m}"] = run.loss[inside].mean()
            facts[f"{kind}_level_{m}"] = levels[kind][m]
        facts |= {f"{kind}_time_{i + 1}": time for i, time in enumerate(won)}
        facts |= {f"{kind}_predicted_{i + 1}": time for i, time in enumerate(predicted[kind])}
    facts["ratio"] = facts["softmax_level_3"] / facts["linear_level_3"]
    late = {kind: spectral.spectra(run)[0][-1].diagonal() for kind, run in runs.items()}
    facts["linear_spread"] = late["linear"].max() / late["linear"].min()
    return SameStream(runs, levels, predicted, facts)


def third_balance(start: tuple[np.ndarray, np.ndarray], sharp: float = 0.005) -> float:
    """By what share Σ_i (a_i ω_i − μ_i) of the first head has grown when its d ω² is ``sharp``.

    Linear attention conserves it. In the flow of softmax it grows from the first moment on.
    """
    path = theory.flow(TASK, *start, np.linspace(0, END, 2001))
    omega, mu = path.omega[:, 0], path.mu[:, 0]
    balance = (TASK.d * TASK.dim**0.5 * omega - mu).sum(-1)
    when = phases.crossing(path.t, TASK.d[0] * omega[:, 0] ** 2, sharp)
    return float(np.interp(when, path.t, balance) / balance[0] - 1)


@dataclass(frozen=True)
class Sharpness:
    """The best loss of one head and of two opposite ones against x = dω²; formula and measured."""

    x: Float[np.ndarray, " x"]
    formula: dict[str, Float[np.ndarray, " x"]]
    at: Float[np.ndarray, " few"]
    measured: dict[str, Float[np.ndarray, " few"]]
    linear: float
    facts: dict[str, float]


def sharpness(scale: str = "paper") -> Sharpness:
    """With the best μ the loss is s/(1 + L m/d): m = x e^{−x} for one head, x/sinh x for a pair."""
    count = 4000 if choice("scale", scale, SCALES) == "paper" else 1000
    task = MultiTask((20,), 200, 1.0)
    x, at = np.geomspace(0.02, 3, 100), np.array([0.05, 0.15, 0.5, 1.0, 2.0])
    shares = {"one head": lambda x: x * np.exp(-x), "two opposite heads": lambda x: x / np.sinh(x)}
    formula = {name: 1 / (1 + 10 * share(x)) for name, share in shares.items()}
    measured = {name: [] for name in shares}
    for each in at:
        w = np.sqrt(each / 20)
        for name, signs in (("one head", [1]), ("two opposite heads", [1, -1])):
            omega = w * np.array(signs, dtype=float)[:, None]
            overlaps = omega @ omega.T + theory.overlap(task, omega) / task.context
            mu = np.linalg.solve(overlaps, omega)
            measured[name].append(spectral.measure(task, omega, mu, count)[0][0])
    measured = {name: np.array(values) for name, values in measured.items()}
    linear = icl_risk.linear_attention_risk(task)[0]
    facts = {
        "linear": linear,
        "one": measured["one head"][3],
        "one_formula": 1 / (1 + 10 / np.e),
        "pair": measured["two opposite heads"][0],
        "off": max(
            np.abs(measured[name] * (1 + 10 * share(at)) - 1).max()
            for name, share in shares.items()
        ),
    }
    return Sharpness(x, formula, at, measured, linear, facts)
