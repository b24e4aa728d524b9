"""Pictures of the chapter on task allocation: how good the limit is, and what carries over."""

import numpy as np

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    PINK,
    SKY,
    Figure,
    canvas,
    drawn,
)
from iclbook.studies import optimality as study

LOAD, RISK = r"$\bar d / L$", "risk / signal"
DASH = (0, (5, 3))


@drawn
def bounds(found: study.Bounds) -> Figure:
    """Figure 4."""
    figure, axes = canvas(width=6, height=3.5)
    for h, color in zip(found.heads, (ORANGE, PINK, SKY, GREEN, BLUE), strict=True):
        curve = found.curves[f"bound, H = {h}"]
        axes.plot(found.ratio, curve, color=color, linestyle=DASH, label=f"bound, $H = {h}$")
    axes.plot(found.ratio, found.curves["Bayes"], color=BLACK, linestyle=DASH, linewidth=2,
              label="Bayes (MMSE)")  # fmt: skip
    axes.set(xscale="log", xlabel=LOAD, ylabel=RISK, ylim=(0, 1.03))
    axes.legend(fontsize=8)
    facts = found.facts
    alt = (
        "Lower bounds for 1, 2, 4, 8 and 11 heads and the Bayes risk against d̄/L: all rise from 0 "
        f"to 1, fewer heads earlier. At d̄/L = 0.1 they are {facts['heads_1']:.2f}, "
        f"{facts['heads_2']:.2f}, {facts['heads_4']:.2f}, {facts['heads_8']:.2f} and "
        f"{facts['heads_11']:.2f}, Bayes {facts['bayes']:.2f}: with 11 heads the bound is a little above."
    )
    return Figure(figure, alt)


@drawn
def risks(found: study.Risks) -> Figure:
    """Figure 5."""
    figure, axes = canvas(width=6.4, height=3.8)
    names = {
        "ridge 0.05": ("ridge, penalty 0.05", ORANGE),
        "one head": ("one head, the best", PINK),
        "gradient flow": (r"gradient flow, $H \geq I$", BLUE),
        "ridge 5": ("ridge, penalty 5", SKY),
        "Bayes": ("Bayes (MMSE)", BLACK),
    }
    for name, (label, color) in names.items():
        axes.plot(found.ratio, found.curves[name], color=color, linestyle=DASH, label=label)
        axes.plot(found.at, found.simulated[name], "o", color=color, markersize=4)
    axes.set(xscale="log", xlabel=LOAD, ylabel=RISK, ylim=(0, 4.2), xlim=(0.01, 10))
    axes.legend(fontsize=8)
    facts = found.facts
    alt = (
        "Risks against d̄/L, formulas dashed, simulations as dots on them. Ridge with penalty 0.05 "
        f"peaks at {facts['peak']:.1f} near d̄/L = {facts['peak_at']:.1f} and comes down again. Gradient "
        f"flow, ridge with penalty 5 and Bayes rise to 1 without a peak; at 0.1 they are "
        f"{facts['gradient_flow']:.2f}, {facts['ridge_5']:.2f} and {facts['bayes']:.2f}, "
        f"the best single head {facts['one_head']:.2f}."
    )
    return Figure(figure, alt)


@drawn
def lengths(found: study.Lengths) -> Figure:
    """Longer contexts than those of training."""
    figure, axes = canvas(width=6, height=3.3)
    axes.plot(found.grid, found.formula, **(DASHED | {"color": BLUE}), label="formula")
    axes.plot(found.tested, found.exact, "_", color=BLACK, markersize=13, markeredgewidth=1.5,
              label="exact, at the limit")  # fmt: skip
    axes.errorbar(found.tested, found.measured, 2 * found.error, fmt="o", color=ORANGE,
                  markersize=4, label="trained head, measured")  # fmt: skip
    axes.plot(found.grid, found.retrained, color=GREEN, linestyle=(0, (1, 1.5)),
              label="formula, trained on that length")  # fmt: skip
    axes.axhline(found.facts["floor"], **DASHED)
    axes.annotate("bias", (2000, found.facts["floor"]), xytext=(0, 3), ha="right", fontsize=8,
                  textcoords="offset points", color=GREY)  # fmt: skip
    axes.set(xscale="log", xlabel="examples in the context, at test", ylabel=RISK, ylim=(0, 1))
    axes.legend(fontsize=8)
    facts = found.facts
    alt = (
        "Risk of a head trained on 100 examples against the number at test: "
        f"{facts['at_50']:.2f} at 50, {facts['at_100']:.2f} at 100, {facts['at_1000']:.2f} at 1,000, "
        f"towards a bias of {facts['floor']:.3f}; formula and measurements agree, and a head trained "
        "on each length is better at both ends."
    )
    return Figure(figure, alt)


@drawn
def targets(found: study.Targets) -> Figure:
    """Nonlinear targets: their linear part carries over, and too much of their mean."""
    figure, axes = canvas(3, width=8.4, height=2.8, sharey=True)
    for panel, name in zip(axes, found.target, strict=True):
        degrees = np.arange(len(found.target[name]))
        panel.bar(degrees - 0.2, found.target[name], 0.4, color=GREY, label="target")
        panel.bar(degrees + 0.2, found.answer[name], 0.4, color=PALETTE[0], label="answer")
        panel.axhline(0, color=BLACK, linewidth=0.6)
        panel.set_title(f"$f(u)$ = {name}", fontsize=10)
        panel.set(xlabel="Hermite degree", xticks=degrees)
    axes[0].set(ylabel="coefficient")
    axes[0].legend(fontsize=8)
    facts = found.facts
    alt = (
        "Hermite coefficients of three targets and of the answers. Degree 1 is kept at "
        f"{facts['tanh_kept']:.2f} (tanh), {facts['sin_kept']:.2f} (sin 2u) and "
        f"{facts['relu_kept']:.2f} (relu) of the target; all higher degrees are almost gone; relu's "
        f"mean comes back {facts['mean_gain']:.1f}-fold."
    )
    return Figure(figure, alt)
