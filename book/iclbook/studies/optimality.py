"""How good the trained heads are: against bounds, Bayes and ridge; on other lengths and targets."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclbook.studies import SCALES
from iclbook.studies.task_allocation import ONE, WIDTH, batch
from iclcore import spectral
from iclcore.checks import choice
from iclcore.theory import icl_risk
from iclcore.theory import multihead as theory
from iclcore.theory.multihead import MultiTask

# λ = σ² = 1 and I = 10. The captions leave the scaling of g and the unit of the penalty open. With
# g ~ N(0, λI/d) gradient flow comes close to ridge 5 at large d̄/L, as Figure 5's caption says, in
# either unit (``risks``: readings); XXᵀ/d, a little closer than XXᵀ/d̄, is our choice.
TASKS, SIGNAL, NOISE = 10, 0.1, 1.0
RATIO = np.geomspace(0.003, 10, 200)


@dataclass(frozen=True)
class Bounds:
    """Figure 4: the equiangular bound by heads, and Bayes, over d̄/L; in units of one task's signal."""

    ratio: Float[np.ndarray, " ratio"]
    heads: tuple[int, ...]
    curves: dict[str, Float[np.ndarray, " ratio"]]
    facts: dict[str, float]


def bounds(scale: str = "paper") -> Bounds:
    """The caption does not say which H are shown; these are ours."""
    choice("scale", scale, SCALES)
    heads = (1, 2, 4, 8, 11)
    curves = icl_risk.risk_curves(RATIO, TASKS, SIGNAL, NOISE, heads, penalty_unit=TASKS)
    best = curves["bound, H = 11"]

    def over_bayes(signal: float) -> float:
        found = icl_risk.risk_curves(RATIO, TASKS, signal, NOISE, (11,))
        return (found["bound, H = 11"] / found["Bayes"]).max()

    at = int(np.argmin(np.abs(RATIO - 0.1)))
    facts = {
        "flow_over_bound": (curves["gradient flow"] / best).max(),
        "bound_over_bayes": (best / curves["Bayes"]).max(),
        **{f"over_bayes_{s}": over_bayes(s) for s in (1, 10)},
        "ratio": RATIO[at],
        **{f"heads_{h}": curves[f"bound, H = {h}"][at] for h in heads},
        "bayes": curves["Bayes"][at],
    }
    return Bounds(RATIO, heads, curves, facts)


@dataclass(frozen=True)
class Risks:
    """Figure 5: formulas over d̄/L, and at some of them the same by simulation at d̄ = ``size``."""

    ratio: Float[np.ndarray, " ratio"]
    curves: dict[str, Float[np.ndarray, " ratio"]]
    size: int
    at: Float[np.ndarray, " few"]
    simulated: dict[str, Float[np.ndarray, " few"]]
    facts: dict[str, float]


def risks(scale: str = "paper") -> Risks:
    size, count = 60, 100 if choice("scale", scale, SCALES) == "paper" else 20
    at = np.array([0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0])
    curves = icl_risk.risk_curves(RATIO, TASKS, SIGNAL, NOISE, penalty_unit=TASKS)
    few = icl_risk.risk_curves(at, TASKS, SIGNAL, NOISE, penalty_unit=TASKS)
    rows = {name: [] for name in few}
    for r in at:
        length = round(size / r)
        penalties = {"ridge 0.05": 0.05 * TASKS * r, "ridge 5": 5 * TASKS * r}
        penalties["Bayes"] = r * NOISE / SIGNAL
        for name, risk in drawn_ridge(size, length, penalties, count).items():
            rows[name].append(risk)
        alone = MultiTask((size,), length, SIGNAL, NOISE)
        crowd = MultiTask((size,) * TASKS, length, SIGNAL, NOISE)
        for name, task, weights in (
            ("gradient flow", alone, theory.limit(alone)),
            ("one head", crowd, theory.one_head(crowd)),
        ):
            loss, _ = spectral.measure(task, *weights, sequences=10 * count)
            rows[name].append(loss.mean() / SIGNAL)
    simulated = {name: np.array(values) for name, values in rows.items()}
    off = [np.abs(simulated[name] / few[name] - 1).max() for name in few]
    sharp = curves["ridge 0.05"]
    large = RATIO >= 1
    readings = {}
    for signal, unit in itertools.product((0.1, 1.0), (TASKS, 1)):
        found = icl_risk.risk_curves(RATIO[large], TASKS, signal, NOISE, penalty_unit=unit)
        readings[signal, unit] = np.abs(found["gradient flow"] / found["ridge 5"] - 1).max()
    facts = {
        **{name.replace(" ", "_").replace(".", "").lower(): few[name][1] for name in few},
        "reading": readings[SIGNAL, TASKS],
        "other_unit": readings[SIGNAL, 1],
        "other_scaling": min(readings[1.0, unit] for unit in (TASKS, 1)),
        "flow_at_1": few["gradient flow"][4],
        "ridge_5_at_1": few["ridge 5"][4],
        "peak": sharp.max(),
        "peak_at": RATIO[sharp.argmax()],
        "gain": (curves["one head"] / curves["gradient flow"]).max(),
        "gain_limit": TASKS,
        "off": max(off),
    }
    return Risks(RATIO, curves, size, at, simulated, facts)


def drawn_ridge(
    dim: int, length: int, penalties: dict[str, float], count: int, seed: int = 0
) -> dict[str, float]:
    """Solve ridge regressions on drawn contexts; the mean of E(error at a fresh x)²/s."""
    rng = np.random.default_rng(seed)
    losses = {name: 0.0 for name in penalties}
    for _ in range(count):
        x = rng.standard_normal((length, dim))
        w = rng.standard_normal(dim) * np.sqrt(SIGNAL / dim)
        y = x @ w + np.sqrt(NOISE) * rng.standard_normal(length)
        gram, cross = x.T @ x / length, x.T @ y / length
        for name, z in penalties.items():
            error = np.linalg.solve(gram + z * np.eye(dim), cross) - w
            losses[name] += error @ error / SIGNAL / count
    return losses


@dataclass(frozen=True)
class Lengths:
    """A head trained on contexts of 100, tested on others; the formula, the exact loss, measured."""

    grid: Float[np.ndarray, " grid"]
    formula: Float[np.ndarray, " grid"]
    retrained: Float[np.ndarray, " grid"]
    tested: Float[np.ndarray, " tested"]
    measured: Float[np.ndarray, " tested"]
    error: Float[np.ndarray, " tested"]
    exact: Float[np.ndarray, " tested"]
    facts: dict[str, float]


def lengths(scale: str = "paper") -> Lengths:
    """In units of the task's signal."""
    task = MultiTask(ONE.dims, ONE.context, 1.0)
    run = spectral.train_spectral(ONE, *theory.aligned_start(ONE), batch=batch(scale), width=WIDTH)
    omega, mu = (a[-200:].mean(0) for a in spectral.spectra(run))
    tested = np.array([20.0, 50.0, 100.0, 200.0, 400.0, 1000.0])
    found = [spectral.measure(task, omega, mu, 5000, context=int(n)) for n in tested]
    measured, error = np.array(found)[:, :, 0].T
    limit = [a[0] for a in theory.limit(task)]
    exact = np.array([icl_risk.exact_loss(task, *limit, int(n))[0] for n in tested])
    grid = np.geomspace(15, 2000, 100)
    formula = icl_risk.length_generalisation(task, grid)[:, 0]
    few = icl_risk.length_generalisation(task, tested)[:, 0]
    rho, each = np.e * 10 / 100, np.e * 10 / grid
    facts = {
        **{f"at_{int(n)}": v for n, v in zip(tested, exact, strict=True)},
        **{f"formula_{int(n)}": v for n, v in zip(tested, few, strict=True)},
        "floor": (rho / (1 + rho)) ** 2,
        "off": np.abs(measured / exact - 1).max(),
    }
    return Lengths(grid, formula, each / (1 + each), tested, measured, error, exact, facts)


TARGETS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh u": np.tanh,
    "sin 2u": lambda u: np.sin(2 * u),
    "relu u": lambda u: np.maximum(u, 0),
}


@dataclass(frozen=True)
class Targets:
    """Hermite coefficients of targets and of the answers; losses predicted and measured."""

    target: dict[str, Float[np.ndarray, " degrees"]]
    answer: dict[str, Float[np.ndarray, " degrees"]]
    predicted: dict[str, float]
    measured: dict[str, float]
    facts: dict[str, float]


def targets(scale: str = "paper") -> Targets:
    """A head at the limit of d = 20, L = 400, s = 1: trained on linear labels, asked others."""
    task = MultiTask((20,), 400, 1.0)
    omega, mu = (float(a[0, 0]) for a in theory.limit(task))
    count = 10_000 if choice("scale", scale, SCALES) == "paper" else 2000
    found = {n: icl_risk.nonlinear_transfer(task, f, degree=5) for n, f in TARGETS.items()}
    tried = {n: spectral.nonlinear_loss(task, f, omega, mu, count) for n, f in TARGETS.items()}
    facts = {}
    for name, short in zip(TARGETS, ("tanh", "sin", "relu"), strict=True):
        c = found[name]["target"]
        facts |= {
            f"{short}_predicted": found[name]["loss"],
            f"{short}_measured": tried[name][0],
            f"{short}_kept": found[name]["answer"][1] / c[1],
            f"{short}_beyond": (c[2:] ** 2).sum(),
        }
    facts["mean_gain"] = found["relu u"]["answer"][0] / found["relu u"]["target"][0]
    facts["share"] = mu * omega
    mean = found["relu u"]["answer"][0] - found["relu u"]["target"][0]
    facts["mean_share"] = mean**2 / found["relu u"]["loss"]
    return Targets(
        {n: f["target"] for n, f in found.items()},
        {n: f["answer"] for n, f in found.items()},
        {n: f["loss"] for n, f in found.items()},
        {n: t[0] for n, t in tried.items()},
        facts,
    )
