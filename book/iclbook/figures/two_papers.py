"""Pictures of the page that sets the two papers side by side."""

import numpy as np

from iclbook.measure import smooth, thin
from iclbook.plot.heads import THEORY, TIME
from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    Figure,
    canvas,
    drawn,
)
from iclbook.studies import two_papers as study
from iclcore import spectral

COLORS = {"linear": BLUE, "softmax": ORANGE}


@drawn
def same_stream(found: study.SameStream) -> Figure:
    """Losses, sharpness ω and what is done, of linear and of softmax attention."""
    figure, _ = canvas(rows=0, width=7.2, height=5.4)
    grid = figure.add_gridspec(2, 2)
    top = figure.add_subplot(grid[0, :])
    left, right = (figure.add_subplot(grid[1, column]) for column in (0, 1))
    for kind, run in found.runs.items():
        color, t, at = COLORS[kind], run.time, thin(len(run.time), 600)
        top.plot(t[at], smooth(run.loss, 15)[at], color=color, label=kind)
        for level in found.levels[kind][1:]:
            top.axhline(level, **(DASHED | {"color": color}))
        omega, mu = spectral.spectra(run)
        for i in range(3):
            left.plot(t[at], omega[at, i, i], color=color)
            right.plot(t[at], (omega * mu)[at, :, i].sum(1), color=color)
    top.axhline(found.levels["linear"][0], **DASHED)
    left.axhline(6**-0.5, **THEORY)
    left.annotate(r"$1/\sqrt{d_i}$", (0, 6**-0.5), xytext=(0, 3), fontsize=8, color=BLACK,
                    textcoords="offset points")  # fmt: skip
    right.axhline(1, **DASHED)
    for panel in (top, left, right):
        for kind, times in found.predicted.items():
            for t in times:
                panel.axvline(t, color=COLORS[kind], linewidth=0.8, linestyle=":")
    top.set(xlabel=TIME, ylabel="loss of the three tasks", ylim=(0, None))
    left.set(xlabel="time", ylabel=r"$\omega$ of the winners")
    right.set(xlabel="time", ylabel=r"$\sum_h \mu_i^{(h)}\omega_i^{(h)}$", ylim=(0, 1.05))
    top.legend(fontsize=8, loc="upper right", bbox_to_anchor=(1, 0.9))
    facts = found.facts
    steps = {kind: [facts[f"{kind}_level_{m}"] for m in range(4)] for kind in study.KINDS}
    said = {kind: ", ".join(f"{v:.1f}" for v in values) for kind, values in steps.items()}
    alt = (
        f"Above: both losses fall in three steps onto dashed plateaus: {said['linear']} for linear "
        f"attention, {said['softmax']} for softmax, whose steps come later. Dotted lines, predicted "
        "from the start, stand at the steps of each. Below left: softmax brings every ω "
        "towards 1/√6 = 0.41, linear attention to different ones. "
        "Below right: the share of each task that is done."
    )
    return Figure(figure, alt)


@drawn
def sharpness(found: study.Sharpness) -> Figure:
    """The least loss against the sharpness of attention."""
    figure, axes = canvas(width=5.8, height=3.2)
    for (name, values), color in zip(found.formula.items(), (ORANGE, GREEN), strict=True):
        axes.plot(found.x, values, color=color, linestyle=DASHED["linestyle"], label=name)
        axes.plot(found.at, found.measured[name], "o", color=color, markersize=5)
    axes.axhline(found.linear, **(DASHED | {"color": BLUE}), label="linear attention")
    axes.axvline(1, color=GREY, linewidth=0.7, linestyle=":")
    axes.set(xscale="log", xlabel=r"sharpness $x = d\,\omega^2$", ylabel="least loss / signal",
             ylim=(0, 1))  # fmt: skip
    axes.set_xticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
    axes.legend(fontsize=8)
    facts = found.facts
    low = np.round(facts["pair"], 2)
    alt = (
        "Least loss against the sharpness x of softmax. One head has its minimum, "
        f"{facts['one']:.2f}, at x = 1; two opposite heads improve as x goes to 0 and reach {low:.2f}, "
        f"close to linear attention's {facts['linear']:.2f}, a horizontal line."
    )
    return Figure(figure, alt)
