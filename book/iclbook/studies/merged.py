"""Merged key and query: one abrupt drop, two fixed points, and when the drop comes."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclbook.studies import sequences
from iclcore import reference, theory
from iclcore.history import History
from iclcore.models import CubicMLP, MergedAttention
from iclcore.moments import Moments, of_population, of_sequences
from iclcore.task import RegressionTask
from iclcore.theory.in_weight import pull
from iclcore.trainer import train

DRAWS = range(16)  # where one draw may be lucky
HEADS, INIT, STEPS, RATE, SEED = 8, 1e-6, 6001, 0.001, 10  # the published command
TASK = RegressionTask()
WHITE = RegressionTask(spectrum="white")


@dataclass(frozen=True)
class AbruptDrop:
    """Figure 1: the same data and the same start for attention and for MLP(z)."""

    attention: History
    mlp: History
    levels: Float[np.ndarray, " levels"]
    facts: dict[str, float]


def abrupt_drop(scale: str = "paper") -> AbruptDrop:
    every = range(0, STEPS + 1, 10)
    a, b, covariance = _both(SEED, scale, every)
    apart = [np.abs(np.subtract(*(run.loss for run in _both(s, scale)[:2]))).max() for s in DRAWS]
    levels = theory.plateau_losses(TASK)[[0, -1]]
    middle = (a.loss[0] + a.loss[-1]) / 2
    inside = np.flatnonzero((a.loss < 0.9 * a.loss[0]) & (a.loss > 1.1 * a.loss[-1]))
    facts = {
        "start": a.loss[0],
        "end": a.loss[-1],
        "theory_end": levels[-1],
        "floor": a.floor,
        "apart": np.abs(a.loss - b.loss).max(),
        "apart_end": b.loss[-1] - a.loss[-1],
        "draws": len(DRAWS),
        "apart_median": float(np.median(apart)),
        "apart_largest": max(apart),
        "drop_step": int(np.argmax(a.loss < middle)),
        "drop_width": len(inside),
    }
    basis = np.linalg.eigh(covariance)[1][:, ::-1]
    for d, share in enumerate(_shares(a, basis).T):
        facts[f"half_{d + 1}"] = every[int(np.argmax(share > 0.5))]
    return AbruptDrop(a, b, levels, facts)


def _both(seed: int, scale: str, snapshots=()) -> tuple[History, History, np.ndarray]:
    """Attention and MLP(z) on one draw from one start, and the draw's covariance."""
    attention, mlp = MergedAttention(HEADS, INIT), CubicMLP(HEADS, INIT)
    draw = reference.sample(TASK, sequences(scale, 5000), seed=seed)
    w, v = attention.factors(draw.start(attention), TASK.dim)
    block = w[:, :, : TASK.dim].transpose(0, 2, 1)  # z's first index is β's
    same = {"first": block.reshape(1, HEADS, -1), "second": v[None, None, :, 0, -1]}
    a = train(
        attention, draw, STEPS, RATE, start=draw.start(attention), seed=seed, snapshots=snapshots
    )
    return a, train(mlp, draw, STEPS, RATE, start=same, seed=seed), draw.task.covariance


def _shares(run: History, basis: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "S D"]:
    """How much of each eigenvector M = Σ_h v_h U_h holds at each snapshot; 1 is all of it."""
    key_query = run.snapshots["key_query"][:, :, : TASK.dim, : TASK.dim]
    made = np.einsum("shij,sh->sij", key_query, run.snapshots["value"][:, :, -1, -1])
    return np.einsum("id,sij,jd->sd", basis, made, basis) / theory.learned(TASK)


@dataclass(frozen=True)
class WhiteCourse:
    """Loss against time from several starts, in the population and on data, with the closed form."""

    inits: tuple[float, ...]
    time: Float[np.ndarray, " t"]
    population: Float[np.ndarray, "inits t"]
    data: Float[np.ndarray, "inits t"]
    theory: Float[np.ndarray, "inits t"]
    facts: dict[str, float]


def white_course(scale: str = "paper") -> WhiteCourse:
    """In the paper's 1/N convention. Halving the learning rate halves the distance to the flow.

    Near zero a sample's weights grow at twice the largest singular value of its whole pull, of which
    the paper's subspace sees a part.
    """
    model, rate, horizon = MergedAttention(HEADS, divisor="context"), 0.05, 80.0
    draw = reference.sample(WHITE, sequences(scale, 5000), seed=SEED)
    data, population = of_sequences(draw, model), of_population(WHITE, model)
    inits = (1e-2, 1e-4, 1e-6)
    time = np.arange(0, horizon, 1.0)
    rows: dict[str, list] = {"population": [], "data": [], "theory": []}
    gaps = []
    for init in inits:
        start = {name: array * init / INIT_UNIT for name, array in unit_start().items()}
        c0 = theory.white_start(start, WHITE.dim)
        for name, moments in (("population", population), ("data", data)):
            history = train(model, moments, int(horizon / rate), rate, start=start)
            rows[name].append(history.loss[:: int(1 / rate)])
            if name == "population":
                exact = theory.white_course(WHITE, c0, rate * history.steps, "context")
                gaps.append(np.abs(history.loss - exact).max())
        rows["theory"].append(theory.white_course(WHITE, c0, time, "context"))
    halved = train(model, population, int(2 * horizon / rate), rate / 2, start=start)
    exact = theory.white_course(WHITE, c0, rate / 2 * halved.steps, "context")
    own, whole = _pulls(data)
    a = theory.growth_rate(WHITE, "context") / 2
    others = [reference.sample(WHITE, sequences(scale, 5000), seed=s) for s in DRAWS]
    facts = {
        "rate": rate,
        "own": own / a - 1,
        "whole": whole / a - 1,
        "draws": len(DRAWS),
        "faster": sum(_pulls(of_sequences(each, model))[1] > a for each in others),
        "gap": max(gaps),
        "gap_ratio": gaps[-1] / np.abs(halved.loss - exact).max(),
        "data_end": rows["data"][-1][-1],
        "theory_end": rows["theory"][-1][-1],
    }
    stacked = {name: np.stack(parts) for name, parts in rows.items()}
    return WhiteCourse(inits, time, facts=facts, **stacked)


def _pulls(moments: Moments) -> tuple[float, float]:
    """A white sample's own a, along M ∝ I, and the largest singular value of all that pulls."""
    each, dim = pull(moments), moments.features.dim
    block = each.reshape(dim, dim + 1, dim + 1)[:, :dim, -1]
    return float(np.trace(block) / np.sqrt(dim)), float(np.linalg.norm(each, 2))


INIT_UNIT = 1e-3


def unit_start(seed: int = 1) -> dict[str, np.ndarray]:
    """One start, to be scaled: so that nothing but the size of the weights differs between runs."""
    return MergedAttention(HEADS, INIT_UNIT).start(WHITE.dim, seed=seed)


@dataclass(frozen=True)
class DropTimes:
    """When the loss is half way down, over six decades of the initial weights, by spectrum."""

    inits: Float[np.ndarray, " inits"]
    measured: dict[str, Float[np.ndarray, " inits"]]
    predicted: dict[str, Float[np.ndarray, " inits"]]
    facts: dict[str, float]


def drop_times(scale: str = "paper") -> DropTimes:
    """Near zero v and W grow along a together at rate 2|a|, so a decade of init costs ln(10)/2|a|.

    For white input the whole prediction is a closed form; for the other spectra its slope is.
    """
    inits = 10.0 ** -np.arange(2, 9 if scale == "paper" else 5)
    model, rate = MergedAttention(HEADS, divisor="context"), 0.005
    measured, predicted, facts = {}, {}, {}
    for spectrum in ("white", "linear", "power"):
        task = RegressionTask(spectrum=spectrum)
        moments, growth = of_population(task, model), theory.growth_rate(task, "context")
        half, times = theory.plateau_losses(task)[[0, -1]].mean(), []
        for init in inits:
            start = {name: array * init / INIT_UNIT for name, array in unit_start().items()}
            horizon = 2 * (np.log(1 / init) + 8) / growth
            loss = train(model, moments, int(horizon / rate), rate, start=start).loss
            below = int(np.argmax(loss < half))
            part = (loss[below - 1] - half) / (loss[below - 1] - loss[below])
            times.append(rate * (below - 1 + part))
        measured[spectrum] = np.array(times)
        slope = np.log(10) / growth
        predicted[spectrum] = times[0] + slope * np.arange(len(inits))
        if spectrum == "white":
            c0 = theory.white_start(unit_start(), task.dim) * (inits / INIT_UNIT) ** 2
            predicted[spectrum] = np.array([theory.drop_time(task, c, "context") for c in c0])
        fitted = np.polyfit(np.arange(len(inits)), times, 1)[0]
        facts |= {f"{spectrum}_decade": fitted, f"{spectrum}_decade_theory": slope}
    facts["white_gap"] = np.abs(measured["white"] - predicted["white"]).max()
    return DropTimes(inits, measured, predicted, facts)


@dataclass(frozen=True)
class PhasePlane:
    """One head on white input is two numbers, v and u; paths of gradient descent between them."""

    paths: list[tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]]
    limit: float  # uv at the end: a/b
    rates: tuple[float, float]
    facts: dict[str, float]


def phase_plane(scale: str = "paper") -> PhasePlane:
    """v̇ = 2u(a − b uv), u̇ = 2v(a − b uv): the origin is a saddle, uv = a/b a valley of minima.

    v² − u² is conserved, so a path comes no nearer to the origin than √|v² − u²|.
    """
    model, rate, steps = MergedAttention(1, divisor="context"), 0.05, 4000
    moments = of_population(WHITE, model)
    a, b = theory.rates(WHITE, "context")
    a, b = a[0] * np.sqrt(WHITE.dim), b[0]
    starts = [(0.05, 0.3), (0.3, 0.05), (-0.3, 0.24), (0.3, -0.24), (-0.05, -0.3), (0.02, 0.01),
              (2.6, -0.1), (-0.1, 2.6), (-2.6, 0.1), (0.1, -2.6), (2.4, 2.4), (-2.4, -2.4)]  # fmt: skip
    paths, ends = [], []
    for v, u in starts:
        weights = {"key_query": np.zeros((1, 5, 5)), "value": np.zeros((1, 5, 5))}
        weights["key_query"][0, :4, :4] = u / np.sqrt(4) * np.eye(4)
        weights["value"][0, 4, 4] = v
        every = range(0, steps + 1, 10)
        history = train(model, moments, steps, rate, start=weights, snapshots=every)
        trace = np.trace(history.snapshots["key_query"][:, 0, :4, :4], axis1=1, axis2=2)
        paths.append((history.snapshots["value"][:, 0, 4, 4], trace / np.sqrt(4)))
        ends.append(paths[-1][0][-1] * paths[-1][1][-1])
    wrong = [np.hypot(*path).min() for path in paths if path[0][0] * path[1][0] < 0]
    facts = {"limit": a / b, "furthest": max(abs(np.array(ends) - a / b))}
    facts |= {"wrong": len(wrong), "near": min(wrong), "far": max(wrong)}
    facts["far_away"] = sum(distance > 1 for distance in wrong)
    return PhasePlane(paths, a / b, (a, b), facts)
