"""Several heads, several tasks: three phases, who takes which task, and what comes after."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from iclbook.studies import SCALES
from iclcore import multihead, spectral
from iclcore.checks import choice
from iclcore.history import History
from iclcore.theory import icl_risk, phases
from iclcore.theory import multihead as theory
from iclcore.theory.multihead import Flow, MultiTask

TASK = MultiTask((10, 10, 10), context=100)  # Figure 1: H = I = 3, d = 30, λ = 1, no noise
ONE, WIDTH = MultiTask((10,), context=100), 30  # one of its tasks, in its embedding
END, HORIZON = 12.0, 32.0  # of Figure 1, and of what comes after it
SETTLED = 40.0  # flows from random starts: some win their last task at 20
OFF = ~np.eye(3, dtype=bool)


def batch(scale: str) -> int:
    """Sequences a step: 256 is ours. The caption gives none, the published code has 10,000."""
    return 256 if choice("scale", scale, SCALES) == "paper" else 64


@dataclass(frozen=True)
class ThreePhases:
    """Figure 1's start by flow, by spectral numbers, and in all matrices up to ``HORIZON``.

    ``leaving`` is the flow from the limit with the other heads' μ a little below zero, from ``END`` on.
    """

    path: Flow
    found: phases.Phases
    light: History
    full: History
    leaving: Flow
    exact: float  # the limit's true loss
    facts: dict[str, float]

    @property
    def end(self) -> int:
        """The row of the whole model at ``END``."""
        return int(np.searchsorted(self.full.series["time"], END - 1e-9)) - 1


def published_start() -> tuple[Float[np.ndarray, "3 3"], Float[np.ndarray, "3 3"]]:
    """(ω, μ) as the published code sets them in tokens of d + I = 33 entries: it leans, 4 to 1."""
    unit = TASK.context**-1.5
    return theory.aligned_start(TASK, omega=unit / 33**0.5, mu=unit, own=4 * unit)


def three_phases(scale: str = "paper") -> ThreePhases:
    start = theory.aligned_start(TASK)
    path = theory.flow(TASK, *start, np.linspace(0, END, 601))
    found = phases.phases(path)
    light = spectral.train_spectral(TASK, *start, batch=batch(scale), seed=0)
    schedule = (*spectral.FIGURE_1, (HORIZON, 0.01))
    full = multihead.train_full(TASK, *start, schedule, batch=batch(scale), seed=0)
    limit = theory.limit(TASK)
    below = np.where(limit[1] == 0, -1e-3, limit[1])
    leaving = theory.flow(TASK, limit[0], below, np.linspace(END, HORIZON, 201))
    exact = icl_risk.exact_loss(TASK, *(a.diagonal() for a in limit)).sum()
    run = ThreePhases(path, found, light, full, leaving, exact, {})

    half = 0.5 * 10**-0.5
    formula = theory.loss(TASK, *limit).sum()
    above = np.log(path.loss.sum(-1) - formula)
    omega, mu = spectral.spectra(full)
    light_omega, _ = spectral.spectra(light)
    rises = [
        phases.crossing(light.series["time"], light_omega[:, i, i], half)
        - phases.crossing(path.t, path.omega[:, i, i], half)
        for i in range(3)
    ]
    tested, error = multihead.test_loss(TASK, full.final, 4000)
    off = mu[-1][OFF]
    facts = {
        "warm_up_ends": found.warm_up_ends,
        "predicted": found.predicted.min(),
        "won": phases.crossing(path.t, (path.mu * path.omega).sum(1)[:, 0], 0.5),
        "escape": phases.escape_time(TASK, *start).min(),
        "drag": TASK.d[0] * TASK.dim**0.5 * TASK.phi[0] / TASK.context,
        "omega_4": path.omega[path.t.searchsorted(4), 0, 0],
        "mu_4": path.mu[path.t.searchsorted(4), 0, 0],
        "published": phases.race(TASK, *published_start(), width=33)[0].min(),
        "emergence_ends": found.emergence_ends,
        "rate": found.rate.min(),
        "start": path.loss[0].sum(),
        "formula": formula,
        "exact": exact,
        "formula_low": 1 - formula / exact,
        "loss_rate_8": above[path.t.searchsorted(8)] - above[path.t.searchsorted(9)],
        "loss_rate_11": above[path.t.searchsorted(11)] - above[-1],
        "lead": np.mean(rises),
        "light_end": light.loss[-400:].mean(),
        "full_end": full.loss[run.end - 199 : run.end + 1].mean(),
        "omega_gap": np.abs(omega[run.end].diagonal() * 10**0.5 - 1).max(),
        "saddle_rate": phases.saddle_rate(TASK).min(),
        "late": full.loss[-200:].mean(),
        "late_test": tested.sum(),
        "late_error": np.sqrt((error**2).sum()),
        "negative": int((off < 0).sum()),
        "sum_share": np.abs(mu[-1].sum(0)).max() / mu[-1].diagonal().mean(),
        "sum_share_before": np.abs(mu[run.end].sum(0)).max() / mu[run.end].diagonal().mean(),
        "leaving_end": leaving.loss[-1].sum(),
        "bound": icl_risk.equiangular_bound(TASK, 3),
    }
    return replace(run, facts=facts)


@dataclass(frozen=True)
class TwoNumbers:
    """Figure 3: one task's winner from ω .01 and μ 1 at t = 4: trained, by flow, by one equation."""

    run: History
    path: Flow
    omega: Float[np.ndarray, " t"]  # by the equation with μ at its best
    mu: Float[np.ndarray, " t"]
    grid: Float[np.ndarray, " grid"]
    speed: Float[np.ndarray, " grid"]
    facts: dict[str, float]


def two_numbers(scale: str = "paper") -> TwoNumbers:
    begin, end, omega0 = 4.0, 16.0, np.array([[0.01]])
    t = np.linspace(begin, end, 481)
    path = theory.flow(ONE, omega0, np.ones((1, 1)), t, width=WIDTH)
    omega, mu = (a[:, 0] for a in phases.emergence(ONE, omega0[0], t, width=WIDTH))
    run = spectral.train_spectral(
        ONE, omega0, np.ones((1, 1)), ((end - begin, 0.01),), batch=batch(scale), width=WIDTH
    )
    grid = np.linspace(1e-4, 10**-0.5, 2001)
    speed = phases.emergence_speed(ONE, grid[:, None], width=WIDTH)[:, 0]
    half = 0.5 * 10**-0.5
    reached = phases.crossing(t, path.omega[:, 0, 0], half)
    rising = path.omega[:, 0, 0]
    share = path.mu[:, 0, 0] * (rising**2 + ONE.phi / ONE.context * np.exp(10 * rising**2)) / rising
    facts = {
        "fastest": speed.max(),
        "fastest_at": grid[speed.argmax()],
        "reached": reached,
        "equation_leads": reached - phases.crossing(t, omega, half),
        "run_lags": begin
        + phases.crossing(run.series["time"], spectral.spectra(run)[0][:, 0, 0], half)
        - reached,
        "mu_peak": path.mu.max(),
        **{
            f"share_{int(100 * w):02}": np.interp(w, rising, share) for w in (0.01, 0.05, 0.1, 0.15)
        },
    }
    return TwoNumbers(run, path, omega, mu, grid, speed, facts)


@dataclass(frozen=True)
class Starts:
    """Random starts, a row a task of each: predicted and actual winner and time, and final losses."""

    predicted: Float[np.ndarray, "starts tasks"]
    happened: Float[np.ndarray, "starts tasks"]
    right: Bool[np.ndarray, "starts tasks"]
    winners: Float[np.ndarray, " starts"]  # how many heads won something
    loss: Float[np.ndarray, " starts"]
    levels: dict[int, float]  # the limit's loss by the number of heads that won
    facts: dict[str, float]


def starts(scale: str = "paper") -> Starts:
    """Log-normal around Figure 1's ω .01 and μ .05, without its lean; a task is won when Σ μω = ½."""
    count, rng = 100 if scale == "paper" else 20, np.random.default_rng(0)
    drawn = [spectral.random_start(TASK, 3, rng) for _ in range(count)]
    omega0, mu0 = np.stack(drawn, axis=1)
    path = theory.flow(TASK, omega0, mu0, np.linspace(0, SETTLED, 801))
    predicted, head = phases.race(TASK, omega0, mu0)
    done = (path.mu * path.omega).sum(-2)
    happened = np.array(
        [[phases.crossing(path.t, done[:, k, i], 0.5) for i in range(3)] for k in range(count)]
    )
    right = head == path.owner
    # of the wrong predictions: had the head that was named won another task before?
    busy = [
        np.any((path.owner[k] == head[k, i]) & (happened[k] < happened[k, i]))
        for k, i in np.argwhere(~right)
    ]
    winners = np.array([len(set(owner)) for owner in path.owner.tolist()], dtype=float)
    levels = {
        n: theory.loss(TASK, *theory.limit(TASK, np.minimum(range(3), n - 1))).sum()
        for n in (1, 2, 3)
    }
    loss = path.loss[-1].sum(-1)
    facts = {
        "starts": count,
        "right": right.mean(),
        "late": np.median(happened - predicted),
        "near": np.median(np.abs(happened / predicted - 1)),
        "wrong": len(busy),
        "busy": int(np.sum(busy)),
        "correlation": np.corrcoef(predicted.ravel(), happened.ravel())[0, 1],
        "three": int((winners == 3).sum()),
        "two": int((winners == 2).sum()),
        "one": int((winners == 1).sum()),
        **{f"level_{n}": level for n, level in levels.items()},
        "best": loss.min(),
    }
    return Starts(predicted, happened, right, winners, loss, levels, facts)


@dataclass(frozen=True)
class Sharing:
    """Final losses by the number of heads; and one task with two heads, from two starts."""

    heads: Float[np.ndarray, " counts"]
    loss: Float[np.ndarray, " counts"]
    limits: Float[np.ndarray, " counts"]
    bounds: Float[np.ndarray, " counts"]
    pair: dict[str, Flow]
    facts: dict[str, float]


def sharing(scale: str = "paper") -> Sharing:
    """Tasks without a head of their own lean to the last head (μ .06 against .05).

    ``split``: where two heads of one task end that start on μ .07 and a little less, as μ's ratio.
    """
    choice("scale", scale, SCALES)
    counts = np.array([1.0, 2.0, 3.0, 4.0])
    loss, limits, bounds = [], [], []
    for heads in (1, 2, 3, 4):
        omega0, mu0 = theory.aligned_start(TASK, heads)
        mu0[heads - 1, heads:] = 0.06
        path = theory.flow(TASK, omega0, mu0, [0, 200])
        loss.append(path.loss[-1].sum())
        limits.append(theory.loss(TASK, *theory.limit(TASK, path.owner, heads)).sum())
        bounds.append(icl_risk.equiangular_bound(TASK, heads))
    tied = theory.flow(TASK, *theory.aligned_start(TASK, 2), [0, 100])
    t = np.linspace(0, 16, 321)
    pair = {
        "equal": theory.flow(ONE, np.full((2, 1), 0.01), np.full((2, 1), 0.07), t, WIDTH),
        "unequal": theory.flow(ONE, np.full((2, 1), 0.01), np.array([[0.07], [0.06]]), t, WIDTH),
    }
    ends = {name: path.loss[-1, 0] for name, path in pair.items()}
    mu0 = np.array([[[0.07], [0.0699]], [[0.07], [0.06999]]])
    near = theory.flow(ONE, np.full_like(mu0, 0.01), mu0, [0, 60, 120], WIDTH)
    split = near.mu[1:, :, 1, 0] / near.mu[1:, :, 0, 0]
    facts = {
        **{f"heads_{n}": value for n, value in zip((1, 2, 3, 4), loss, strict=True)},
        "gap": np.abs(np.array(loss) / limits - 1).max(),
        "tied": tied.loss[-1].sum(),
        "pair_gap": abs(ends["equal"] - ends["unequal"]),
        "loser": pair["unequal"].mu[-1, 1, 0] / pair["unequal"].mu[-1, 0, 0],
        "split": split[-1, 0],
        "split_closer": split[-1, 1],
    }
    return Sharing(counts, np.array(loss), np.array(limits), np.array(bounds), pair, facts)


@dataclass(frozen=True)
class Saturation:
    """E|p|² over the sharpness β in both regimes; training from starts within and beyond the first."""

    beta: Float[np.ndarray, " beta"]
    power: dict[str, Float[np.ndarray, " beta"]]
    begin: tuple[float, ...]  # ω√d
    runs: list[History]
    facts: dict[str, float]


def carriers(beta: float, count: int = 4000, share: float = 0.9) -> float:
    """How many of L tokens carry ``share`` of the attention, on average, at sharpness β."""
    scores = beta * np.random.default_rng(0).standard_normal((count, ONE.context))
    p = np.sort(np.exp(scores), axis=1)[:, ::-1].cumsum(1)
    return float((p < share * p[:, -1:]).sum(1).mean()) + 1


def saturation(scale: str = "paper") -> Saturation:
    beta = np.linspace(0.05, 12, 60)
    power = icl_risk.participation(beta, ONE.context)
    begin = (0.5, 1.9, 3.2)
    runs = [
        spectral.train_spectral(
            ONE, np.array([[b / 10**0.5]]), np.array([[0.1]]), ((25.0, 0.03),),
            batch=batch(scale) // 2, width=WIDTH,
        )
        for b in begin
    ]  # fmt: skip
    ends = [spectral.spectra(run)[0][-200:].mean() * 10**0.5 for run in runs]
    found = icl_risk.participation(np.array([1.0, 2.0, 10.0]), ONE.context)
    edge, frozen = np.sqrt(0.5 * np.log(ONE.context)), np.sqrt(2 * np.log(ONE.context))
    there = icl_risk.participation(np.array([edge]), ONE.context)
    facts = {
        "back_furthest": max(np.abs(np.array(ends) - 1)),
        "edge": edge,
        "frozen": frozen,
        "edge_high": there["exponential"][0] / there["exact"][0] - 1,
        "carriers_2": carriers(2.0),
        "carriers_frozen": carriers(frozen),
        **{f"exact_{b}": v for b, v in zip((1, 2, 10), found["exact"], strict=True)},
        **{f"exponential_{b}": v for b, v in zip((1, 2), found["exponential"], strict=False)},
        "saturated_10": found["saturated"][2],
    }
    return Saturation(beta, power, begin, runs, facts)
