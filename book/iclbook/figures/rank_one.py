"""Pictures of the chapter on separate rank-one key and query."""

import numpy as np
from matplotlib.axes import Axes

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREY,
    ORANGE,
    PALETTE,
    Animation,
    Figure,
    canvas,
    curve,
    drawn,
    levels,
    network,
)
from iclbook.studies import rank_one as study
from iclcore import theory

BLUES = ("#08306b", "#2171b5", "#6baed6", "#9ecae1")  # the paper's shades: one a head
SIGNED = "PuOr"


def matrix(axes: Axes, values: np.ndarray, limit: float, title: str = "") -> None:
    """A small signed heat map without ticks."""
    axes.imshow(values, cmap=SIGNED, vmin=-limit, vmax=limit)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.set_title(title, fontsize=9)


@drawn
def networks() -> Figure:
    """Figure 2: rank-one attention as a sum of three-layer convolutional networks, D = 3."""
    figure, axes = canvas(width=7.4, height=3.9)
    kernel = [
        {"color": color, "linewidth": 1.3, "linestyle": style}
        for color, style in ((BLUE, "-"), (ORANGE, (0, (5, 1.5))), (BLACK, (0, (1, 1))))
    ]
    thin = {"color": GREY, "linewidth": 1}
    inputs, layers, edges = [], [[], [], []], []
    for j in range(3):
        inputs += [(0, 8 - 3 * j - i, "") for i in range(3)]
    for x, y, _ in inputs:
        i, j = int(8 - y) % 3, int(8 - y) // 3
        axes.annotate(
            rf"$\beta^{{{i + 1}}} x_q^{{{j + 1}}}$",
            (x - 0.22, y),
            ha="right",
            va="center",
            fontsize=8,
        )
    for head, shift, label in ((0, 2.35, "1"), (1, -2.35, "H")):
        sums = [(1.3, 4 + shift + 1.25 * (1 - j), "") for j in range(3)]
        out = (2.5, 4 + shift, "")
        layers[0] += sums
        layers[1].append(out)
        edges += [
            ((0, 8 - 3 * j - i), sums[j][:2], kernel[i] | {"alpha": 1 if head == 0 else 0.35})
            for j in range(3) for i in range(3)
        ]  # fmt: skip
        edges += [(unit[:2], out[:2], thin) for unit in sums] + [(out[:2], (3.6, 4), thin)]
        axes.annotate(rf"$\mathbf{{q}}_{{{label}}}$", (1.95, 4 + shift + 1.25), fontsize=9)
        axes.annotate(rf"$v_{{{label}}}$", (3.1, 4 + shift * 0.62), fontsize=9)
    axes.annotate(r"$\mathbf{k}_1$ (shared)", (0.5, 8.1), fontsize=9)
    axes.annotate("⋮", (2.5, 4), ha="center", va="center", fontsize=16)
    network(axes, [inputs, *layers, [(3.6, 4, r"$\hat y$")]], edges)
    axes.set(xlim=(-1.1, 3.9), ylim=(-0.7, 8.9))
    alt = (
        "Nine inputs, the products of β and the query, in three groups of three. In each head one "
        "kernel k with three weights reads every group, q adds the three results up, v scales the sum; "
        "the heads' outputs add up to the prediction."
    )
    return Figure(figure, alt)


@drawn
def saddles(found: study.Staircase) -> Figure:
    """Figure 3: (a) six seeds, (b) the values of one and their scalar ODE, (c) its keys."""
    figure = canvas(width=8, height=6.4, rows=0)[0]
    top, bottom = figure.subfigures(2, 1, height_ratios=(1.55, 1))
    left, right = top.subplots(1, 2)
    for run in found.runs:
        front = run is found.shown
        curve(left, run.history, color=BLUE if front else "#9aa7b5", zorder=3 if front else 2,
              linewidth=1.8 if front else 0.9)  # fmt: skip
        for drop, low, high in zip(run.drops, found.levels[1:], found.levels, strict=False):
            left.plot(drop.time / study.RATE, (low + high) / 2, marker="|", markersize=9,
                      color=ORANGE if front else "#e8b58f", markeredgewidth=1.5, zorder=4)  # fmt: skip
    levels(left, found.levels)
    left.plot([], [], "|", color=ORANGE, markersize=9, label="drop predicted from the start")
    left.set(xlabel="step", ylabel="mean squared error", ylim=(0, None), xlim=(0, study.STEPS))
    left.legend(fontsize=8, loc="upper right")
    left.set_title("a", loc="left", fontweight="bold")

    shown = found.shown.history
    limits = theory.head_limit(study.TASK)
    for head, component in enumerate(study.owned(found.shown)):
        value = shown.series["value"][:, head]
        right.plot(shown.steps[::10], value[::10], color=BLUES[component - 1], linewidth=1.8)
        half = int(np.argmax(np.abs(value) > limits[component - 1] / 2))
        time = study.RATE * (shown.steps[::10] - half)
        course = theory.head_course(study.TASK, component, time, abs(value[half]))
        right.plot(shown.steps[::10], np.sign(value[half]) * course, **(DASHED | {"color": BLACK}))
    right.plot([], [], **(DASHED | {"color": BLACK}), label="scalar ODE")
    right.set(xlabel="step", ylabel="value weight of each head", xlim=(0, study.STEPS))
    right.legend(fontsize=8)
    right.set_title("b", loc="left", fontweight="bold")

    at = study.plateaus(found.shown, found.levels)
    panels = bottom.subplots(1, len(at) + 1)
    keys = shown.snapshots["key"][:, :, 0, : study.TASK.dim]
    limit = np.abs(keys[at[-1]]).max()
    for m, (axes, snapshot) in enumerate(zip(panels, at, strict=False)):
        matrix(axes, keys[snapshot], limit, f"keys at $\\mathcal{{M}}_{m}$")
    matrix(panels[-1], found.shown.basis.T, np.abs(found.shown.basis).max(), "eigenvectors")
    panels[0].set_yticks(range(4), [rf"$k_{i}$" for i in range(1, 5)])
    panels[-1].set_yticks(range(4), [rf"$e_{i}$" for i in range(1, 5)])
    panels[0].set_title("c", loc="left", fontweight="bold")
    facts = found.facts
    alt = (
        f"a: losses of six seeds fall in steps from {facts['level_0']:.2f} over "
        f"{facts['level_1']:.2f}, {facts['level_2']:.2f} and {facts['level_3']:.2f} to "
        f"{facts['level_4']:.2f}, the dashed levels of the theory; ticks mark drops predicted from the "
        "initial weights. b: the value weights of one run leave zero one after the other, on the dashed "
        "curves of the scalar ODE. c: at each plateau one more key, a row of the heat map, has become "
        "parallel to an eigenvector."
    )
    return Figure(figure, alt)


@drawn
def principal_components(found: study.Regression) -> Figure:
    """Distance to principal component regression in context along one run."""
    figure, axes = canvas(width=6.6, height=3.3)
    for m, (row, color) in enumerate(zip(found.distance, PALETTE, strict=False)):
        axes.plot(found.steps, row, color=color, label=f"{m}")
        if m < len(found.at):  # a short run may not come to the last plateau
            axes.plot(found.steps[found.at[m]], row[found.at[m]], "o", color=color, markersize=5)
    axes.set(yscale="log", xlabel="step", ylabel="relative distance", ylim=(1e-3, 1.5))
    axes.legend(title="components", fontsize=8, title_fontsize=8, ncols=5, loc="lower left")
    largest = max(value for name, value in found.facts.items() if name.startswith("at_"))
    alt = (
        "Distance of one run's predictions from those of the fixed points, principal component regression "
        "in context with 0 to 4 components. "
        "On each plateau exactly one distance is small, and their order is 0, 1, 2, 3, 4; in the middle of "
        f"the plateaus, marked by dots, it is at most {largest:.2f}."
    )
    return Figure(figure, alt)


@drawn
def waiting(found: study.Waiting) -> Figure:
    """Drop times against the size of the initial weights."""
    figure, axes = canvas(width=5.6, height=3.6)
    for d, color in zip(range(found.measured.shape[1]), PALETTE, strict=False):
        axes.plot(found.inits, found.predicted[:, d], **(DASHED | {"color": color}))
        axes.plot(
            found.inits, found.measured[:, d], "o", color=color, markersize=5, label=f"drop {d + 1}"
        )
    axes.set(xscale="log", yscale="log", xlabel="initial weights", ylabel="time of each drop")
    axes.invert_xaxis()
    axes.legend(fontsize=8)
    alt = (
        "Times of the four drops against the size of the initial weights, both logarithmic: dots on "
        f"dashed lines of slope {found.facts['slope']:.3f}: ten times smaller weights wait ten times longer."
    )
    return Figure(figure, alt)


@drawn
def allocation(found: study.Allocation) -> Figure:
    """Predicted against simulated drop times."""
    figure, axes = canvas(width=4.6, height=4.2)
    ends = np.array([found.measured.min() / 1.3, found.measured.max() * 1.3])
    axes.plot(ends, ends, **DASHED)
    for d, (color, mark) in enumerate(zip(PALETTE, "os^D", strict=False), start=1):
        own = found.component == d
        axes.plot(found.measured[own], found.predicted[own], mark, color=color, markersize=4,
                  alpha=0.7, label=f"eigenvector {d}")  # fmt: skip
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="time of the drop, simulated",
        ylabel="predicted from the start",
    )
    axes.legend(fontsize=8)
    facts = found.facts
    alt = (
        f"Predicted against simulated time of {facts['drops']} drops from {facts['starts']} starts: all "
        f"points lie on the diagonal, half of them within {100 * facts['median_off']:.1f} percent."
    )
    return Figure(figure, alt)


@drawn
def animation(found: study.Staircase, frames: int = 40) -> Animation:
    """Figure 3 as an animation: loss, keys beside the eigenvectors, and the predictor M."""
    run, history = found.shown, found.shown.history
    made = study.effective(history.snapshots, study.TASK.dim)
    keys = history.snapshots["key"][:, :, 0, : study.TASK.dim]
    # frames are even in the distance travelled, half in loss, half in time
    at = np.minimum(history.kept, len(history.loss) - 1)
    travelled = history.loss[0] - history.loss[at]
    place = travelled / travelled[-1] + at / at[-1]
    chosen = np.searchsorted(place, np.linspace(0, place[-1], frames).clip(0, place[-1]))
    pictures = []
    for snapshot in np.minimum(chosen, len(at) - 1):
        figure, axes = canvas(4, width=7.4, height=2.3, width_ratios=(2.1, 1, 1, 1))
        curve(axes[0], history, color="#c3ccd6")
        step = at[snapshot]
        axes[0].plot(history.steps[:step:20], history.loss[:step:20], color=BLUE)
        axes[0].plot(step, history.loss[step], "o", color=ORANGE, markersize=6)
        levels(axes[0], found.levels, "")
        axes[0].set(xlabel="step", ylabel="loss", ylim=(0, 1.1))
        matrix(axes[1], keys[snapshot], np.abs(keys[-1]).max(), "keys")
        matrix(axes[2], run.basis.T, np.abs(run.basis).max(), "eigenvectors")
        matrix(axes[3], made[snapshot], np.abs(made[-1]).max(), "predictor M")
        pictures.append(figure)
    alt = (
        "An animation of one run: whenever the loss falls a step, one more key becomes parallel to an "
        "eigenvector, and the predictor M gains one component."
    )
    return Animation(pictures, alt)
