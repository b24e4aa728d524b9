"""The picture of the 96 runs in the chapter on low rank."""

import numpy as np

from iclbook.plot.style import BLUE, GREY, ORANGE, Figure, canvas, drawn
from iclbook.studies import plateaus as study
from iclbook.studies.low_rank import RANKS, RATE, STEPS

KINDS = {
    "first": (GREY, "first, at zero"),
    "new": (ORANGE, "a new head is needed"),
    "room": (BLUE, "a head has room"),
}


@drawn
def landings(found: study.Plateaus) -> Figure:
    """How long landings last, over 24 seeds: the share still going after so long."""
    figure, axes = canvas(4, width=8, height=2.9, sharey=True)
    for panel, rank in zip(axes, RANKS, strict=True):
        for kind, (color, label) in KINDS.items():
            times, left = study.survival(found, rank, kind)
            if times.size:
                ends = found.steps[study.landings(found, rank, kind)]
                times = np.concatenate([[1], times, [ends.max()]])
                left = np.concatenate([[1], left, left[-1:]])
                panel.step(RATE * times, left, where="post", color=color, label=label)
        panel.set_title(f"$R = {rank}$", fontsize=10)
        panel.set(xscale="log", xlabel="time", xlim=(0.6, RATE * STEPS), ylim=(0, 1.02))
    axes[0].set_ylabel("share still there")
    handles = axes[1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, fontsize=8)
    facts = found.facts
    alt = (
        f"Share of landings that last longer than a time, by rank, from {facts['runs']} runs. "
        "Where a head has room half of them are over after a time of "
        + ", ".join(f"{facts[f'room_{rank}_half']:.3g} at rank {rank}" for rank in RANKS[1:])
        + "; where a new head is needed half last longer than "
        + ", ".join(f"{facts[f'new_{rank}_half']:.3g} at rank {rank}" for rank in RANKS[:2])
        + "."
    )
    return Figure(figure, alt)
