"""Drawings of networks."""

import numpy as np
from matplotlib.patches import FancyBboxPatch, Rectangle

from iclbook.plot.panels import Panel
from iclbook.plot.style import BLACK, BLUE, GREY, ORANGE, Drawing, canvas, colours, drawn, network


def merged_network() -> Panel:
    """Figure 1, left: merged attention as a network of two linear layers on z."""
    inputs = [(0, 3 - i, rf"$z_{{{i + 1}}}$") for i in range(3)] + [(0, -1, r"$z_{D^2}$")]
    hidden = [(1, 2.6, "1"), (1, 1.4, "2"), (1, -0.6, "$H$")]
    output = [(2, 1, r"$\hat y$")]
    thin = {"color": GREY, "linewidth": 0.7}
    edges = [((x0, y0), (x1, y1), thin) for x0, y0, _ in inputs for x1, y1, _ in hidden]
    edges += [((x0, y0), (2, 1), thin) for x0, y0, _ in hidden]

    def draw(axes):
        network(axes, [inputs, hidden, output], edges)
        for x, y in ((0, 0.0), (1, 0.4)):
            axes.annotate("⋮", (x, y), ha="center", va="center", fontsize=12)
        for x, label in ((0.45, r"$W^{KQ}_h$"), (1.55, r"$v_h$")):
            axes.annotate(label, (x, 3.35), ha="center", fontsize=9)
        z = r"$\mathbf{z} = \mathrm{vec}(\beta\, x_q^\top)$"
        axes.annotate(z, (0.6, -1.9), ha="center", fontsize=9)
        axes.set(xlim=(-0.35, 2.35), ylim=(-2.2, 3.8))

    says = (
        "A network with the cubic features z as inputs, H hidden units and one output, all linear."
    )
    return Panel(draw, says, height=3.3)


@drawn
def rank_one_network() -> Drawing:
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
            rf"$\beta_{{{i + 1}}} x_{{q,{j + 1}}}$",
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
    return Drawing(figure, alt)


@drawn
def multihead_network() -> Drawing:
    """Figure 2: what one head does with the tokens, and that H of them are added."""
    figure, axes = canvas(width=8, height=3.5)
    axes.set(xlim=(0, 16.4), ylim=(0, 7))
    axes.set_axis_off()

    def box(x: float, y: float, w: float, h: float, text: str = "", **style) -> None:
        kind = {"facecolor": "white", "edgecolor": BLACK, "linewidth": 0.9, "zorder": 2} | style
        axes.add_patch(Rectangle((x, y), w, h, **kind))
        axes.annotate(text, (x + w / 2, y + h / 2), ha="center", va="center", fontsize=9, zorder=3)

    def arrow(x0: float, y0: float, x1: float, y1: float) -> None:
        axes.annotate("", (x1, y1), (x0, y0),
                      arrowprops={"arrowstyle": "-|>", "color": BLACK, "linewidth": 0.9})  # fmt: skip

    def diagonal(x: float, y: float, size: float, label: str) -> None:
        box(x, y, size, size)
        part = size / 3
        for i, color in enumerate(colours(3)):
            box(x + i * part, y + size - (i + 1) * part, part, part, rf"${label}_{i + 1}$",
                facecolor=color, alpha=0.35)  # fmt: skip

    for shift in (0.3, 0.15, 0):  # the other heads behind
        axes.add_patch(FancyBboxPatch((3.6 + shift, 0.6 + shift), 9.1, 5.6, facecolor="white",
                                      boxstyle="round,pad=0.1", edgecolor=GREY, linewidth=0.8))  # fmt: skip
    axes.annotate(r"head $h$ of $H$", (3.75, 5.8), fontsize=9, color=GREY, zorder=3)
    # tokens: the groups of x in the colours of the tasks, the labels below
    for i, color in enumerate(colours(3)):
        box(0.4, 5.6 - 0.9 * i, 1.5, 0.9, rf"$x$, group {i + 1}", facecolor=color, alpha=0.35)
        box(0.4, 2.4 - 0.5 * i, 1.5, 0.5, rf"$y_{i + 1}$", facecolor=color, alpha=0.35)
    axes.annotate("$L$ tokens $Z$", (1.15, 0.85), ha="center", fontsize=9)
    axes.annotate(r"query $z_q = (q, 0)$", (1.35, 6.7), ha="center", va="center", fontsize=9)
    arrow(2.4, 6.4, 4.5, 4.65)
    axes.annotate(
        r"$W_X = K_X^\top Q_X/\sqrt{d_e}$", (5.5, 5.25), ha="center", fontsize=9, zorder=3
    )
    diagonal(4.6, 3.1, 1.8, r"\omega")
    axes.annotate("softmax", (8.45, 5.25), ha="center", fontsize=9, zorder=3)
    weights = np.array([0.2, 0.5, 1.5, 0.35, 0.9, 0.15, 0.6])
    for l, height in enumerate(weights):  # noqa: E741
        box(7.6 + 0.25 * l, 3.2, 0.2, height, facecolor=GREY, edgecolor=GREY)
    axes.annotate(r"$p$, one a token", (8.45, 2.7), ha="center", fontsize=9, zorder=3)
    axes.annotate(r"$U_Y = O\,V_Y$", (11.35, 5.25), ha="center", fontsize=9, zorder=3)
    diagonal(10.45, 3.1, 1.8, r"\mu")
    arrow(1.95, 4.1, 4.5, 4.1)
    arrow(6.5, 4.1, 7.4, 4.1)
    arrow(9.45, 4.1, 10.35, 4.1)
    axes.annotate(
        "scores: where to look", (5.5, 2.45), ha="center", fontsize=8, color=GREY, zorder=3
    )
    axes.annotate(
        "answers: what to add", (11.35, 2.45), ha="center", fontsize=8, color=GREY, zorder=3
    )
    axes.plot([1.95, 9.75, 9.75], [1.7, 1.7, 3.6], color=BLACK, linewidth=0.9, zorder=2)
    arrow(9.75, 3.6, 10.35, 3.6)
    axes.annotate(r"labels $y$", (6.0, 1.25), ha="center", fontsize=9, zorder=3)
    arrow(12.35, 4.1, 13.6, 4.1)
    axes.scatter([13.95], [4.1], s=280, color="white", edgecolor=BLACK, linewidth=0.9, zorder=3)
    axes.annotate(r"$\Sigma_h$", (13.95, 4.1), ha="center", va="center", fontsize=9, zorder=4)
    arrow(14.3, 4.1, 15.1, 4.1)
    for i, color in enumerate(colours(3)):
        box(15.2, 4.6 - 0.6 * i, 0.9, 0.6, rf"$\hat y_{i + 1}$", facecolor=color, alpha=0.35)
    alt = (
        "Diagram of one head among H. Inputs and query give scores through a matrix that is ω_i times "
        "the identity on each task's group of inputs; softmax makes them weights p over the tokens; "
        "labels are averaged with these weights and multiplied by a diagonal matrix μ_1, μ_2, μ_3; "
        "the heads are added to three answers."
    )
    return Drawing(figure, alt)
