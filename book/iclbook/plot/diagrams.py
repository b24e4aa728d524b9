"""Drawings of networks."""

from iclbook.plot.panels import Panel
from iclbook.plot.style import BLACK, BLUE, GREY, ORANGE, Figure, canvas, drawn, network


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
def rank_one_network() -> Figure:
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
