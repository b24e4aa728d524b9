"""Two tests of what was learned: along a run, and at the end of many."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D

from iclbook.plot.panels import Panel
from iclbook.plot.style import BLACK, BLUE, DASHED, ORANGE, SHARE, THEORY
from iclcore.history import History, thin

if TYPE_CHECKING:
    from iclbook.data.phase_diagram import Map

TESTS = {"in_weight": (ORANGE, "in-weight test"), "in_context": (BLUE, "in-context test")}
LOW, TOP = 1.35, 1.5  # worse than no answer, at 1, all errors look the same
MARK = {"markeredgecolor": ORANGE, "zorder": 4}  # one inside the other where both are in one place
BORDERS = (
    ("s", MARK | {"color": "white", "markersize": 7}),
    ("^", MARK | {"color": ORANGE, "markersize": 4}),
)
BARE = "#d8d8d8"  # where no run is: white would be an error of 0
SHARES = (0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)


def two_tests(run: History, until: int) -> Panel:
    """Training error and both test errors as far as this step; dashed, the least-squares floor."""
    share, floor = run.task.in_context, run.floor
    at = thin(min(until, len(run.steps)))
    series = {"loss": (BLACK, "training"), **TESTS}

    def draw(axes):
        for name, (color, label) in series.items():
            axes.plot(run.steps[at], run.series[name][at], color=color, label=label)
        axes.axhline(floor, label="_least-squares floor", **DASHED)
        axes.set_title(f"share in context: {share:g}", fontsize=10)
        axes.set(xlabel="step", ylabel="mean squared error", ylim=(0, LOW), xlim=(0, until))
        axes.locator_params(axis="x", nbins=4)
        if share == 0:
            axes.legend(fontsize=8, loc="center right")

    ends = []
    for name, (_, label) in series.items():
        errors = run.series[name][at]
        turned = bool(errors.min() < 0.95 * errors[-1])
        ends.append(f"{label} {f'down to {errors.min():.2f}, then ' * turned}{errors[-1]:.2f}")
    says = f"Share {share:g}, errors at the end: {', '.join(ends)}; floor {floor:.2f}."
    return Panel(draw, says, height=2.7)


def root(share: np.ndarray) -> np.ndarray:
    return np.sign(share) * np.sqrt(np.abs(share))


def square(place: np.ndarray) -> np.ndarray:
    return np.sign(place) * place**2


def phase_map(found: "Map", optimum: Mapping[int, float]) -> Panel:
    """Both test errors at the end of runs, by share and context length, and where they are equal.

    Marks are the border after more steps; dashed, the border of the least-squares ``optimum``.
    """
    later = sorted({times for _, times in found.borders} - {1})
    marks = dict(zip(later, BORDERS, strict=True))
    lead = found.errors["in_weight"] - found.errors["in_context"]
    best = [optimum[length] for length in found.lengths]

    def draw(*axes):
        for part, (test, errors) in zip(axes, found.errors.items(), strict=True):
            image = part.pcolormesh(
                found.shares, found.lengths, errors, cmap=SHARE, vmin=0, vmax=TOP, rasterized=True,
                label=f"_{TESTS[test][1]} error",
            )  # fmt: skip
            border = part.contour(
                found.shares, found.lengths, lead, [0], colors=ORANGE, linewidths=1.8
            )
            border.set_label(f"_both equal after {found.steps:,} steps")
            part.plot(best, found.lengths, **(THEORY | {"linewidth": 1.6}),
                      label="_least-squares optimum")  # fmt: skip
            for (length, times), share in found.borders.items():
                if times in marks:
                    mark, style = marks[times]
                    part.plot(share, length, mark, clip_on=False, **style,
                              label=f"_both equal after {times} times as many")  # fmt: skip
            part.set_title(f"{TESTS[test][1]} error", fontsize=10)
            part.set_facecolor(BARE)
            part.set_xscale(
                "function", functions=(root, square)
            )  # the border goes down to a share of .003
            part.set(yscale="log", xlabel="share in context, on a scale of its root")
            part.set(xlim=(0.0, 1.0), ylim=(1, 100))
            part.set_xticks(SHARES, [f"{share:g}" for share in SHARES], fontsize=8)
            part.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
            part.minorticks_off()
        axes[0].set_ylabel("context length $N$")
        whole = axes[0].figure
        whole.colorbar(image, ax=axes, label="mean squared error", extend="max", shrink=0.9)
        key = [Line2D([], [], color=ORANGE, linewidth=1.8,
                      label=f"both equal after {found.steps:,} steps")]  # fmt: skip
        key += [
            Line2D([], [], linestyle="", marker=mark, **style, label=f"after {times} times as many")
            for times, (mark, style) in marks.items()
        ]
        key.append(Line2D([], [], **THEORY, label="least-squares optimum"))
        whole.legend(handles=key, loc="outside upper center", ncols=4, fontsize=8)

    at = {length: found.borders[length, 1] for length in (1, 8, 100)}
    moved = ", ".join(f"{found.borders[25, times]:.3f} after {times} times" for times in later)
    says = (
        "Two heat maps, share of in-context sequences by context length. A border where both errors are "
        "equal parts them: left of it and below the in-weight error is low, on the other side the "
        f"in-context error. It runs from share {at[1]:.2f} at a context of 1 through {at[8]:.2f} at 8 to "
        f"{at[100]:.2f} at 100. At a context of 25 it moves from {found.borders[25, 1]:.3f} to {moved} as "
        f"many steps; the least-squares optimum's dashed border is at {optimum[25]:.3f} there."
    )
    return Panel(draw, says, widths=(1.0, 1.0), height=4.2, width=8.4)
