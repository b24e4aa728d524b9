"""Pictures of the chapter on merged key and query."""

import numpy as np

from iclbook.plot.style import (
    AMBER,
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    Figure,
    canvas,
    curve,
    drawn,
    levels,
    network,
)
from iclbook.studies import merged as study


@drawn
def abrupt_drop(found: study.AbruptDrop) -> Figure:
    """Figure 1: the equivalent network on the left, both losses on the right."""
    figure, (left, right) = canvas(2, width=8, height=3.3, width_ratios=(1, 1.6))
    inputs = [(0, 3 - i, rf"$z_{{{i + 1}}}$") for i in range(3)] + [(0, -1, r"$z_{D^2}$")]
    hidden = [(1, 2.6, "1"), (1, 1.4, "2"), (1, -0.6, "$H$")]
    output = [(2, 1, r"$\hat y$")]
    thin = {"color": GREY, "linewidth": 0.7}
    edges = [((x0, y0), (x1, y1), thin) for x0, y0, _ in inputs for x1, y1, _ in hidden]
    edges += [((x0, y0), (2, 1), thin) for x0, y0, _ in hidden]
    network(left, [inputs, hidden, output], edges)
    for x, y in ((0, 0.0), (1, 0.4)):
        left.annotate("⋮", (x, y), ha="center", va="center", fontsize=12)
    for x, label in ((0.45, r"$W^{KQ}_h$"), (1.55, r"$v_h$")):
        left.annotate(label, (x, 3.35), ha="center", fontsize=9)
    left.annotate(
        r"$\mathbf{z} = \mathrm{vec}(\beta\, x_q^\top)$", (0.6, -1.9), ha="center", fontsize=9
    )
    left.set(xlim=(-0.35, 2.35), ylim=(-2.2, 3.8))

    curve(right, found.mlp, color=AMBER, linewidth=5, label=r"$\mathsf{MLP}(\mathbf{z})$")
    curve(right, found.attention, color=BLACK, linewidth=1, label=r"attention, $\mathsf{ATTN_M}$")
    levels(right, found.levels, "")
    right.annotate("theory", (0, found.levels[1]), xytext=(2, 4), textcoords="offset points",
                   fontsize=8, color=GREY)  # fmt: skip
    right.set(xlabel="step", ylabel="mean squared error", ylim=(0, None))
    right.legend(loc="center right")
    facts = found.facts
    alt = (
        "Left: a network with the cubic features z as inputs, H hidden units and one output, all "
        "linear. Right: training losses of attention and of this network lie on one another: flat at "
        f"{facts['start']:.2f}, one abrupt drop near step {round(facts['drop_step'], -2):,}, "
        f"then flat at {facts['end']:.2f}; dashed lines mark the two fixed points of the theory."
    )
    return Figure(figure, alt)


@drawn
def white_course(found: study.WhiteCourse) -> Figure:
    """White input: loss against time with the closed form."""
    figure, axes = canvas(width=6.4, height=3.3)
    for i, (init, color) in enumerate(zip(found.inits, (BLUE, ORANGE, GREEN), strict=True)):
        power = int(np.log10(init))
        axes.plot(found.time, found.population[i], color=color, label=rf"init $10^{{{power}}}$")
        axes.plot(found.time, found.data[i], color=color, linewidth=4, alpha=0.25)
        axes.plot(found.time, found.theory[i], color=BLACK, linestyle=(0, (4, 3)), linewidth=1)
    axes.plot([], [], color=GREY, linewidth=4, alpha=0.4, label="5,000 sequences")
    axes.plot([], [], color=BLACK, linestyle=(0, (4, 3)), linewidth=1, label="closed form")
    axes.set(xlabel="time (learning rate × steps)", ylabel="mean squared error", ylim=(0, None))
    axes.legend(fontsize=8)
    alt = (
        "Losses from three sizes of initial weights on white input: each waits, then drops in the "
        "same shape; smaller weights wait longer. The dashed closed form lies on the simulations, "
        f"within {found.facts['gap']:.2f} of the population's."
    )
    return Figure(figure, alt)


@drawn
def drop_times(found: study.DropTimes) -> Figure:
    """The time of the drop over six decades of initial weights."""
    figure, axes = canvas(width=5.6, height=3.4)
    for (spectrum, times), color in zip(found.measured.items(), PALETTE, strict=False):
        axes.plot(found.inits, found.predicted[spectrum], **(DASHED | {"color": color}))
        axes.plot(found.inits, times, "o", color=color, markersize=5)
        axes.annotate(spectrum, (found.inits[-1], times[-1]), xytext=(-8, 0), ha="right",
                      textcoords="offset points", va="center", color=color, fontsize=9)  # fmt: skip
    axes.set(xscale="log", xlabel="initial weights", ylabel="time of the drop")
    axes.invert_xaxis()
    axes.set_xlim(None, found.inits[-1] / 40)
    for label in axes.texts:
        label.set(ha="left", position=(8, 0))
    facts = found.facts
    alt = (
        "Time of the drop against the size of the initial weights, for three spectra: dots on dashed "
        f"straight lines. A decade smaller costs {facts['white_decade']:.2f} time units on white input "
        f"(theory {facts['white_decade_theory']:.2f}), {facts['linear_decade']:.2f} for λ ∝ d, "
        f"{facts['power_decade']:.2f} for λ ∝ 1/d."
    )
    return Figure(figure, alt)


@drawn
def phase_plane(found: study.PhasePlane) -> Figure:
    """Two fixed points: a saddle and a valley."""
    figure, axes = canvas(width=4.6, height=4.3)
    edge = 4.2
    grid = np.linspace(-edge, edge, 25)
    v, u = np.meshgrid(grid, grid)
    a, b = found.rates
    pull = 2 * (a - b * u * v)
    axes.streamplot(
        grid, grid, u * pull, v * pull, color="#c9c9c9", linewidth=0.6, arrowsize=0.7, density=1.1
    )
    side = np.linspace(found.limit / edge, edge, 200)
    for sign in (1, -1):
        axes.plot(
            sign * side, sign * found.limit / side, **(DASHED | {"color": BLACK, "linewidth": 1.4})
        )
    for v_path, u_path in found.paths:
        axes.plot(v_path, u_path, color=BLUE, linewidth=1.2)
        axes.plot(v_path[0], u_path[0], "o", color=BLUE, markersize=3)
        axes.plot(v_path[-1], u_path[-1], "o", color=ORANGE, markersize=4, zorder=3)
    axes.plot(0, 0, "s", color=BLACK, markersize=5)
    axes.annotate("saddle", (0, 0), xytext=(7, -12), textcoords="offset points", fontsize=9)
    axes.annotate(
        r"$uv = a/b$",
        (found.limit / edge, edge),
        xytext=(4, -8),
        textcoords="offset points",
        fontsize=9,
    )
    axes.set(
        xlabel="value weight $v$",
        ylabel="key-query weight $u$",
        xlim=(-edge, edge),
        ylim=(-edge, edge),
    )
    axes.set_aspect("equal")
    alt = (
        f"The plane of value weight v and key-query weight u. {len(found.paths)} paths of gradient "
        "descent leave the saddle at the origin, or come from outside, and all end on the dashed "
        f"hyperbola uv = a/b = {found.limit:.2f}."
    )
    return Figure(figure, alt)
