"""Pictures of the chapter on low rank."""

import numpy as np

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    ORANGE,
    Figure,
    canvas,
    curve,
    drawn,
    levels,
)
from iclbook.studies import low_rank as study

DASHES = DASHED["linestyle"]


@drawn
def staircases(found: study.Staircases) -> Figure:
    """Figure 4: one panel a rank, one thin line a seed."""
    figure, axes = canvas(2, 2, width=8, height=6, sharex=True, sharey=True)
    for i, (panel, rank) in enumerate(zip(axes.flat, study.RANKS, strict=True)):
        for run in found.runs[rank]:
            curve(panel, run, rate=study.RATE, color=BLACK, linewidth=0.9, alpha=0.75)
        if i % 2:
            levels(panel, found.levels, without=(6, 7))
        else:
            levels(panel, found.levels, "")
        panel.set_title(f"rank $R = {rank}$", fontsize=10)
        panel.set(ylim=(0.18, 1.04), xlim=(0, study.RATE * (study.STEPS - 1)))
        if i > 1:
            panel.set_xlabel("time (learning rate × steps)")
        if i % 2 == 0:
            panel.set_ylabel("mean squared error")
    facts = found.facts
    alt = (
        "Training losses of six seeds at ranks 1, 2, 4 and 8 on nine dashed levels. Rank 1 stops at "
        "each level it reaches; rank 2 at the start and at the second and fourth level below it; "
        "rank 4 at the start and at the fourth; rank 8 only at the start. Mean losses at the end: "
        + ", ".join(f"{facts[f'end_{rank}']:.2f} at rank {rank}" for rank in study.RANKS)
        + "."
    )
    return Figure(figure, alt)


@drawn
def plateau_lengths(found: study.Staircases) -> Figure:
    """Time near each level: full dots where m is a multiple of the rank."""
    figure, axes = canvas(4, width=8, height=2.9, sharey=True)
    for panel, rank, spent in zip(axes, study.RANKS, found.spent, strict=True):
        for m in range(spent.shape[1]):
            color = ORANGE if m % rank == 0 else BLUE
            for row in study.RATE * spent:
                cut = m == np.flatnonzero(row)[-1]
                if row[m]:
                    panel.plot(m, row[m], "^" if cut else "o", color=color, markersize=5,
                               markerfacecolor="none" if cut else color, alpha=0.8)  # fmt: skip
        panel.set_title(f"$R = {rank}$", fontsize=10)
        panel.set(yscale="log", xlabel="level $m$", xticks=range(9), xlim=(-0.5, 8.5))
    axes[0].set_ylabel("time spent there")
    facts = found.facts
    alt = (
        "Time spent at each level m, six seeds, by rank, on a logarithmic axis. Levels whose m is a "
        f"multiple of the rank hold training for longer than {study.BRIEF:.0f}, but for "
        f"{facts['brief']} waits of less than {facts['brief_most']} at rank 1; the others for about "
        + ", ".join(f"{facts[f'passed_{rank}']:.1f} at rank {rank}" for rank in study.RANKS[1:])
        + "."
    )
    return Figure(figure, alt)


@drawn
def taken(found: study.Staircases) -> Figure:
    """Which head has learned which eigenvector at the end of seed 0's runs."""
    figure, axes = canvas(4, width=8, height=2.8, sharey=True)
    for panel, rank, shares in zip(axes, study.RANKS, found.taken, strict=True):
        image = panel.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        panel.set_title(f"$R = {rank}$", fontsize=10)
        panel.set(xlabel="eigenvector", xticks=range(8), xticklabels=range(1, 9))
        panel.set(yticks=range(study.HEADS), yticklabels=range(1, study.HEADS + 1))
    axes[0].set_ylabel("head")
    figure.colorbar(image, ax=axes, label="share learned", shrink=0.9)
    facts = found.facts
    alt = "Heat maps, heads by eigenvectors, of what is learned after the last step: " + "; ".join(
        f"at rank {rank} eigenvectors 1 to {facts[f'learned_{rank}']} lie in "
        f"{facts[f'heads_{rank}']} head{'s' * (facts[f'heads_{rank}'] > 1)}"
        for rank in study.RANKS
    )
    return Figure(figure, alt + ".")


@drawn
def waits(found: study.Waits) -> Figure:
    """How long plateaus last against the initial weights, by rank."""
    figure, axes = canvas(3, width=8, height=3.1, sharey=True)
    inits = found.inits
    for i, (panel, rank) in enumerate(zip(axes, found.ranks, strict=True)):
        for m, color in enumerate((BLUE, ORANGE, GREEN)):
            wait, slope = found.waits[i, :, m], found.predicted[i, m]
            if np.isnan(slope):
                line = wait[-1] * inits[-1] / inits
            else:
                line = wait[-1] + slope * np.log(inits[-1] / inits)
            panel.plot(inits, line, color=color, linestyle=DASHES, linewidth=1.1)
            panel.plot(inits, wait, "o", color=color, markersize=4.5, label=rf"$\mathcal{{M}}_{m}$")
        panel.set_title(f"$R = {rank}$", fontsize=10)
        panel.set(xscale="log", yscale="log", xlabel="initial weights")
        panel.invert_xaxis()
    axes[0].set_ylabel("length of the plateau (time)")
    axes[0].legend(fontsize=8)
    facts = found.facts
    alt = (
        "Length of the first three plateaus against the size of the initial weights, by rank. Plateaus "
        "whose m is a multiple of the rank rise with slope "
        f"{facts['power_1_1']:.2f} on logarithmic axes, like 1/init. The others hardly rise: "
        f"{facts['decade_3_1']:.1f} and {facts['decade_3_2']:.1f} time units for each decade at rank 3 "
        f"(theory {facts['decade_theory_3_1']:.1f} and {facts['decade_theory_3_2']:.1f})."
    )
    return Figure(figure, alt)
