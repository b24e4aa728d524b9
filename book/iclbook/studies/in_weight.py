"""In weights or in context: what is learned first, what is forgotten, and what is left."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import brentq

from iclbook.studies import sequences
from iclcore import reference
from iclcore.history import History
from iclcore.models import MergedAttention
from iclcore.moments import Moments, mix, of_population, of_sequences
from iclcore.task import RegressionTask
from iclcore.theory import in_weight as theory
from iclcore.trainer import train

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MODEL = MergedAttention(heads=8, init=1e-6)
STEPS, RATE, SEED = 4001, 5e-4, 10  # the published command
WHITE = RegressionTask(spectrum="white")


def name(kind: str, share: float) -> str:
    """Of a fact: in tenths, ``end_6`` for share 0.6."""
    return f"{kind}_{round(10 * share)}"


# -- the published sweep --------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """One run a share: training error and the two test errors at every step; where there are both
    kinds of training sequences, also the error on those of the shared vector (``shared``)."""

    runs: dict[float, History]
    later: dict[float, History]  # the same, ten times as many steps
    facts: dict[str, float]


@cache
def sweep(scale: str = "paper") -> Sweep:
    runs, later, predicted = {}, {}, {}
    for share in SHARES:
        task, count = replace(WHITE, in_context=share), sequences(scale, 5000)
        draw = reference.sample(task, count, test=count, seed=SEED)
        data = of_sequences(draw, MODEL)
        tests = {kind: of_sequences(test, MODEL) for kind, test in draw.tests.items()}
        if 0 < share < 1:  # the training sequences of the shared vector
            tests["shared"] = of_sequences(draw[int(count * share) :], MODEL)
        long = train(
            MODEL, data, 10 * (STEPS - 1) + 1, RATE, start=draw.start(MODEL), tests=tests, seed=SEED
        )
        later[share] = long
        factors = MODEL.factors(draw.start(MODEL), task.dim)
        predicted[share] = theory.leaving_step(factors, data, RATE)
        series = {kind: array[:STEPS] for kind, array in long.series.items()}
        runs[share] = replace(
            long, series=series, steps=None, settings=long.settings | {"steps": STEPS}, final={}
        )
    facts: dict[str, float] = {}
    for share, run in runs.items():
        weights, context = run.series["in_weight"], run.series["in_context"]
        best = int(np.argmin(weights))
        facts |= {
            name("floor", share): run.floor,
            name("end", share): run.loss[-1],
            name("later", share): later[share].loss[-1],
            name("best_in_weight", share): weights[best],
            name("context_then", share): context[best],
            name("in_weight", share): weights[-1],
            name("in_context", share): context[-1],
            name("leaves", share): _passes(run.loss, 0.99),
            name("leaves_theory", share): predicted[share],
        }
    return Sweep(runs, later, facts)


# -- what is learned first ------------------------------------------------------------------------


def kinds(task: RegressionTask = WHITE, model: MergedAttention = MODEL) -> dict[str, Moments]:
    """Population moments of each kind of sequences: in context, in weight, and the in-weight test."""
    own = of_population(task, model)
    half = of_population(replace(task, in_context=0.5), model)
    return {
        "in_context": own,
        "shared": mix([(2.0, half), (-1.0, own)]),  # labelled by the shared w: half = their mean
        "in_weight": of_population(replace(task, in_context=0.0), model),
    }


def at_share(parts: dict[str, Moments], share: float) -> Moments:
    return mix([(share, parts["in_context"]), (1 - share, parts["shared"])])


def flip(parts: dict[str, Moments]) -> float:
    """The share at which the first pair lowers both test errors equally."""

    def lead(share: float) -> float:
        pair = theory.first_pair(at_share(parts, share))
        return theory.gain(parts["in_weight"], pair) - theory.gain(parts["in_context"], pair)

    return float(brentq(lead, 0.5, 1.0, xtol=1e-6))


@dataclass(frozen=True)
class First:
    """Growth rates near zero by share; which test error falls first, predicted and simulated."""

    shares: Float[np.ndarray, " s"]
    rates: Float[np.ndarray, "two s"]
    alone: tuple[float, float]  # in context, in weight
    gains: Float[np.ndarray, "two s"]  # of the in-weight and the in-context test
    simulated: Float[np.ndarray, " n"]
    measured: Float[np.ndarray, " n"]
    weights_first: Bool[np.ndarray, " n"]
    facts: dict[str, float]


def learned_first(scale: str = "paper") -> First:
    """On the population, where the shares are exact; share 0 here keeps its labels."""
    parts = kinds()
    shares = np.linspace(0, 1, 101 if scale == "paper" else 21)
    mixtures = [at_share(parts, share) for share in shares]
    pairs = [theory.first_pair(each) for each in mixtures]
    rates = np.stack([np.linalg.svd(theory.pull(each))[1][:2] for each in mixtures], axis=1)
    tests = ("in_weight", "in_context")
    gains = np.array([[theory.gain(parts[test], pair) for pair in pairs] for test in tests])
    turn = flip(parts)
    simulated = np.array([0, 0.2, 0.4, 0.6, 0.8, 0.9, turn - 0.01, turn + 0.01, 1])
    found = [escape(parts, share) for share in simulated]
    measured = np.array([rate for rate, _ in found])
    exact = [np.linalg.norm(theory.pull(at_share(parts, share)), 2) for share in simulated]
    alone = theory.lone_rates(WHITE)
    facts = {
        "context_alone": rates[0, -1],
        "weight_alone": rates[0, 0],
        "ratio": rates[0, 0] / rates[0, -1],
        "leading_ratio": alone[1] / alone[0],
        "cross": alone[1] / (alone[0] + alone[1]),
        "flip": turn,
        "gap": np.max(np.abs(measured / exact - 1)),
    }
    first = np.array([weights for _, weights in found])
    return First(shares, rates, alone, gains, simulated, measured, first, facts)


def escape(parts: dict[str, Moments], share: float) -> tuple[float, bool]:
    """σ from how much later the loss has fallen by a hundredth if weights start a hundred times
    smaller, and whether the in-weight test error is the first to fall by a thousandth.

    A step multiplies by 1 + 2σ·lr exactly, which is what is solved for.
    """
    mixture = at_share(parts, share)
    tests = {test: parts[test] for test in ("in_weight", "in_context")}
    lr = 0.01 / np.linalg.norm(theory.pull(mixture), 2)
    times = []
    for init in (1e-8, 1e-10):
        start = replace(MODEL, init=init).start(WHITE.dim, seed=1)
        run = train(MODEL, mixture, int(60 * np.log(1 / init)) + 400, lr, start=start, tests=tests)
        times.append(_passes(run.loss, 0.99))
    sigma = (100 ** (1 / (times[1] - times[0])) - 1) / (2 * lr)
    falls = [_passes(run.series[test], 0.999) for test in tests]
    return sigma, falls[0] < falls[1]


def _passes(series: Float[np.ndarray, " t"], part: float) -> float:
    """The step, with its fraction, at which a series has fallen to ``part`` of its start, or infinity."""
    level = part * series[0]
    if not (series < level).any():
        return np.inf
    below = int(np.argmax(series < level))
    return below - 1 + (series[below - 1] - level) / (series[below - 1] - series[below])


# -- what is left ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Left:
    """The least-squares optimum of the population by share: training error and both test errors."""

    shares: Float[np.ndarray, " s"]
    floor: Float[np.ndarray, " s"]
    tests: dict[str, Float[np.ndarray, " s"]]
    swept: Sweep
    facts: dict[str, float]


def what_is_left(scale: str = "paper") -> Left:
    parts = kinds()
    shares = np.linspace(0.01, 1, 100 if scale == "paper" else 12)
    floor, tests = [], {"in_weight": [], "in_context": [], "shared": []}
    for share in shares:
        mixture = at_share(parts, share)
        best = np.linalg.lstsq(mixture.gram, mixture.cross.T, rcond=1e-12)[0].T
        floor.append(mixture.loss(best))
        for test, errors in tests.items():
            errors.append(parts[test].loss(best))
    swept = sweep(scale)
    facts = {"noise_floor": parts["in_weight"].floor(), "context_floor": floor[-1]}
    for share in SHARES[1:]:
        at = int(np.argmin(np.abs(shares - share)))
        facts |= {
            name("floor", share): floor[at],
            name("in_weight", share): tests["in_weight"][at],
            name("in_context", share): tests["in_context"][at],
            name("shared", share): tests["shared"][at],
        }
        if share < 1:
            facts[name("shared_trained", share)] = swept.runs[share].series["shared"][-1]
    arrays = {test: np.array(errors) for test, errors in tests.items()}
    return Left(shares, np.array(floor), arrays, swept, facts)
