"""Panels of the chapter on low rank."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from iclbook.measure import KINDS, Landings
from iclbook.plot.dots import dots
from iclbook.plot.panels import Panel, listed, seeds, spread
from iclbook.plot.style import BLACK, BLUE, GREY, ORANGE, curve
from iclbook.plot.style import levels as draw_levels
from iclcore import History

MULTIPLE, BETWEEN = ORANGE, BLUE  # levels whose m is a multiple of the rank, and the others
TIME = "time (learning rate × steps)"
APART = 0.05  # of the axis: labels that are nearer overprint


def stairs(
    runs: Mapping[int, Sequence[History]], levels: Float[np.ndarray, " levels"]
) -> list[list[Panel]]:
    """Losses of all seeds on the theory's levels, a panel each rank, two in a row."""
    highest = max(levels[0], *(run.loss[0] for own in runs.values() for run in own))
    top, low = highest + 0.04 * levels[0], levels[-1] - 0.03 * levels[0]
    until = max(run.time[-1] for own in runs.values() for run in own)
    shown, crowded = top, []
    for m, level in enumerate(levels[:-1]):
        if min(shown - level, level - levels[-1]) < APART * (top - low) and m:
            crowded.append(m)
        else:
            shown = level

    def panel(rank: int, own: Sequence[History], left: bool, below: bool) -> Panel:
        def draw(axes):
            for run, name in zip(own, seeds(own), strict=True):
                curve(axes, run, rate=run.lr, color=BLACK, linewidth=0.9, alpha=0.75,
                      label=f"_{name}")  # fmt: skip
            name = "" if left else r"$\mathcal{L}(\mathcal{M}_%d)$"
            draw_levels(axes, levels, name, without=tuple(crowded))
            axes.set_title(f"rank $R = {rank}$", fontsize=10)
            axes.set(ylim=(low, top), xlim=(0, until))
            axes.set_xlabel(TIME if below else "")
            axes.set_ylabel("mean squared error" if left else "")

        ends = np.mean([run.loss[-1] for run in own])
        near = listed(_rests(own, levels), "d")
        says = f"Losses at rank {rank}, a curve a seed ({len(own)}), on {len(levels)} dashed levels: for "
        says += f"long near m = {near}, at the end {ends:.2f} on average."
        return Panel(draw, says, height=3.0)

    ranks = list(runs)
    panels = [
        panel(rank, runs[rank], i % 2 == 0, i >= len(ranks) - 2) for i, rank in enumerate(ranks)
    ]
    return [panels[i : i + 2] for i in range(0, len(panels), 2)]


def _rests(runs: Sequence[History], levels: Float[np.ndarray, " levels"]) -> list[int]:
    """The levels that are the nearest for more than a twentieth of the time."""
    nearest = [np.argmin(np.abs(run.loss[:, None] - levels), axis=1) for run in runs]
    counts = np.bincount(np.concatenate(nearest), minlength=len(levels))
    return np.flatnonzero(counts > counts.sum() / 20).tolist()


def lengths(landings: Sequence[Landings]) -> Panel:
    """Time near each level, a dot a seed; a hollow triangle where training ended there."""
    dim, times = landings[0].dim, np.concatenate([each.time for each in landings])
    least, most = min(times, default=1), max(times, default=1)

    def draw(*axes):
        for panel, own in zip(axes, landings, strict=True):
            for m, time, cut in zip(own.level, own.time, own.cut, strict=True):
                tone = BETWEEN if m % own.rank else MULTIPLE
                name = "between" if m % own.rank else "a multiple of the rank"
                panel.plot(m, time, "^" if cut else "o", color=tone, markersize=5, alpha=0.8,
                           markerfacecolor="none" if cut else tone,
                           label=f"_{name}{', when training ended' * bool(cut)}")  # fmt: skip
            panel.set_title(f"$R = {own.rank}$", fontsize=10)
            panel.set(yscale="log", ylim=(least / 1.6, 1.6 * most), xlabel="level $m$")
            panel.set(xticks=range(dim + 1), xlim=(-0.5, dim + 0.5))
        for panel in axes[1:]:
            panel.tick_params(which="both", labelleft=False)
        axes[0].set_ylabel("time spent there")

    parts = []
    for own in landings:
        kinds = {
            "a multiple of the rank": own.of("first") | own.of("new"),
            "between": own.of("room"),
        }
        medians = [
            f"{np.median(own.time[at & ~own.cut]):.2g} where m is {kind}"
            for kind, at in kinds.items()
            if np.any(at & ~own.cut)
        ]
        parts.append(f"rank {own.rank}, {' and '.join(medians) or 'none that a run left again'}")
    says = "Time spent at each level m, a dot a seed, on logarithmic axes. Medians: "
    return Panel(draw, says + "; ".join(parts) + ".", (1.0,) * len(landings), 2.9, 8.0)


def survival(landings: Sequence[Landings]) -> Panel:
    """The share of landings still going after so long, by rank and by what ends them."""
    tones = dict(zip(KINDS, (GREY, ORANGE, BLUE), strict=True))
    names = {"first": "first, at zero", "new": "a new head is needed", "room": "a head has room"}
    ends = [each.time.min() for each in landings], [each.time.max() for each in landings]

    def draw(*axes):
        for panel, own in zip(axes, landings, strict=True):
            for kind, tone in tones.items():
                times, left = own.survival(kind)
                if len(times):
                    last = own.time[own.of(kind)].max()
                    times = np.concatenate([[min(ends[0])], times, [last]])
                    left = np.concatenate([[1], left, left[-1:]])
                    panel.step(times, left, where="post", color=tone, label=names[kind])
            panel.set_title(f"$R = {own.rank}$", fontsize=10)
            panel.set(xscale="log", xlabel="time", xlim=(0.6, max(ends[1])), ylim=(0, 1.02))
        for panel in axes[1:]:
            panel.tick_params(which="both", labelleft=False)
        axes[0].set_ylabel("share still there")
        entries = [axis.get_legend_handles_labels() for axis in axes]
        axes[0].get_figure().legend(
            *max(entries, key=lambda e: len(e[1])), loc="outside upper center", ncols=3, fontsize=8
        )

    said = {
        kind: [
            f"{own.outlasted(kind, 0.5):.3g} at rank {own.rank}"
            for own in landings
            if np.isfinite(own.outlasted(kind, 0.5))
        ]
        for kind in ("room", "new")
    }
    says = "Share of landings that last longer than a time, by rank. Where a head has room half of them "
    says += (
        f"are over after a time of {', '.join(said['room'])}; where a new head is needed half last "
    )
    says += f"longer than {', '.join(said['new'])}."
    return Panel(draw, says, (1.0,) * len(landings), 2.9, 8.0)


def balance(time: Float[np.ndarray, " t"], squares: Float[np.ndarray, "3 t"]) -> Panel:
    """Squared sizes of one head's value, key and query, which lie on one another."""
    styles = ((BLUE, 4.5, 0.35, "-"), (ORANGE, 1.6, 1, "-"), (BLACK, 1, 1, (0, (2, 3))))
    names = ("$v^2$", r"$\|\mathbf{K}\|^2$", r"$\|\mathbf{Q}\|^2$")

    def draw(axes):
        for size, name, (tone, width, alpha, line) in zip(squares, names, styles, strict=True):
            axes.plot(time, size, color=tone, linewidth=width, alpha=alpha, linestyle=line,
                      label=name)  # fmt: skip
        axes.set(yscale="log", xlabel=TIME, ylabel="squared size of one head")
        axes.legend()

    apart = np.ptp(squares[:, -1])
    says = f"Squared sizes of value, key and query of one head go from {squares[0, 0]:.0e} to "
    says += f"{squares[0, -1]:.2g}, at the end within {apart:.0e} of one another."
    return Panel(draw, says, height=3.2)


def drifts(rates: Float[np.ndarray, " rates"], found: Mapping[str, Sequence[float]]) -> Panel:
    """Marks against the learning rate, by name, on dashed lines of slope 1 through the first of them."""
    points = {name: (rates, drift) for name, drift in found.items()}
    lines = {name: (rates, drift[0] * rates / rates[0]) for name, drift in found.items()}
    axes = {"xscale": "log", "yscale": "log", "xticks": rates}
    axes |= {"xticklabels": [f"{rate:.3g}" for rate in rates]}
    whole = dots(points, lines, xlabel="learning rate", ylabel="largest drift", **axes)
    slopes = np.polyfit(np.log(rates), np.log(np.transpose(list(found.values()))), 1)[0]
    says = (
        "The drift of the differences against the learning rate lies on dashed lines of slope 1: "
    )
    return replace(whole, says=f"{says}fitted, {spread(slopes)}.", height=3.2)


def level_shifts(
    sizes: Int[np.ndarray, " P"],
    shifts: Float[np.ndarray, "seeds P levels"],
    spread_of_top: Float[np.ndarray, " P"],
) -> Panel:
    """How far the first, the middle and the last level of each sample are from the theory's."""
    last = shifts.shape[2] - 1
    found = {
        rf"$\mathcal{{L}}(\mathcal{{M}}_{m})$": _by_size(sizes, shifts[:, :, m])
        for m in sorted({0, last // 2, last})
    }
    two = 2 * np.append(spread_of_top, np.nan)  # which ends the upper line
    band = np.tile(np.append(sizes, np.nan), 2), np.append(two, -two)
    whole = dots(
        found, {"two standard deviations": band}, ylabel="shift of the level", **_sizes(sizes)
    )
    inside = np.mean(np.abs(shifts[:, :, 0]) < 2 * spread_of_top)
    off = [np.sqrt(np.mean(shifts[:, -1, m] ** 2)) for m in (0, last)]
    says = (
        f"How far the levels of {len(shifts)} samples lie from the theory, against the number of "
    )
    says += f"sequences: {inside:.0%} of the highest level's points within the dashed two standard "
    says += f"deviations; with all sequences {off[0]:.3f} for the highest level, {off[1]:.3f} for the lowest."
    return replace(whole, says=says, height=3.3)


def floors(
    sizes: Int[np.ndarray, " P"],
    own: Float[np.ndarray, "seeds P"],
    fresh: Float[np.ndarray, "seeds P"],
    laws: tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"], Float[np.ndarray, " t"]],
    limit: float,
) -> Panel:
    """The best fit's error on its own and on fresh sequences, dashed its two laws, and what both tend to."""
    fine, below, above = laws
    names = "its own sequences (the floor)", "fresh sequences"
    told = {names[0]: (fine, below), names[1]: (fine, above)}
    told |= {r"$\mathcal{L}(\mathcal{M}_D)$": (sizes[[0, -1]], np.full(2, limit))}
    found = {name: _by_size(sizes, each) for name, each in zip(names, (own, fresh), strict=True)}
    whole = dots(found, told, ylabel="error of the best fit", **_sizes(sizes))
    first, last = ([f"{each[:, at].mean():.3f}" for each in (own, fresh)] for at in (0, -1))
    says = "Error of the linear attention that fits a sample best, on it and on fresh sequences: "
    says += (
        f"{first[0]} and {first[1]} with the fewest sequences, {last[0]} and {last[1]} with all; "
    )
    says += f"the dashed laws end at {below[-1]:.3f} and {above[-1]:.3f}."
    return replace(whole, says=says, height=3.3)


def _by_size(sizes: Int[np.ndarray, " P"], found: Float[np.ndarray, "seeds P"]) -> tuple:
    return np.tile(sizes, len(found)), found.ravel()


def _sizes(sizes: Int[np.ndarray, " P"]) -> dict:
    ticks = {"xticks": sizes, "xticklabels": [f"{size:,}" for size in sizes]}
    return {"xscale": "log", "xlabel": "training sequences $P$"} | ticks
