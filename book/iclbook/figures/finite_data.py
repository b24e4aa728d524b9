"""What finite data moves: the picture in the chapter on low rank."""

import numpy as np

from iclbook.plot.style import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    SKY,
    Figure,
    canvas,
    drawn,
)
from iclbook.studies import finite_data as study


@drawn
def finite_data(found: study.FiniteData) -> Figure:
    """How far finite data moves the levels."""
    figure, (left, right) = canvas(2, width=8, height=3.3)
    for m, color in ((0, BLUE), (4, ORANGE), (8, GREEN)):
        for row in found.shifts[:, :, m]:
            left.plot(found.sizes, row, color=color, linewidth=0.9, marker="o", markersize=2.5)
        left.plot([], [], color=color, label=rf"$\mathcal{{L}}(\mathcal{{M}}_{m})$")
    for sign in (1, -1):
        left.plot(found.sizes, 2 * sign * found.spread, **DASHED)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="training sequences $P$")
        axes.set_xticks(found.sizes, [f"{size:,}" for size in found.sizes])
        axes.minorticks_off()
    left.set_ylabel("shift of the level")
    left.legend(fontsize=8)
    for row in found.floors:
        right.plot(found.sizes, row, color=SKY, linewidth=0.9, marker="o", markersize=2.5)
    right.plot([], [], color=SKY, marker="o", markersize=2.5, label="least-squares floor")
    fine = np.geomspace(found.sizes[0], found.sizes[-1], 100)
    predicted = np.interp(1 / fine, 1 / found.sizes[::-1], found.predicted[::-1])
    right.plot(fine, predicted, **(DASHED | {"color": PALETTE[0]}), label="predicted")
    right.axhline(found.facts["limit"], **DASHED)
    right.annotate(
        r"$\mathcal{L}(\mathcal{M}_8)$", (found.sizes[0], found.facts["limit"]), xytext=(0, 3),
        textcoords="offset points", fontsize=8, color=GREY,
    )  # fmt: skip
    right.set_ylabel("mean squared error")
    right.legend(fontsize=8, loc="lower right")
    facts = found.facts
    alt = (
        "Left: how far the levels of six samples lie from the theory, against the number of "
        f"sequences: within the dashed two standard deviations, {facts['shift_0']:.3f} at the full "
        f"number for the highest level and {facts['shift_8']:.3f} for the lowest. Right: the "
        f"least-squares floor rises with the number of sequences from {facts['floor_first']:.2f} to "
        f"{facts['floor']:.3f}, near the dashed prediction."
    )
    return Figure(figure, alt)
