"""What is conserved."""

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    ORANGE,
    PINK,
    Figure,
    canvas,
    drawn,
)
from iclbook.studies import conservation as study
from iclbook.studies.low_rank import RANKS


@drawn
def drift(found: study.Drift) -> Figure:
    """What gradient flow conserves, and how it drifts with the learning rate."""
    figure, (left, right) = canvas(2, width=8, height=3.2)
    styles = ((BLUE, 4.5, 0.35), (ORANGE, 1.6, 1), (BLACK, 1, 1))
    names = ("$v^2$", r"$\|\mathbf{K}\|^2$", r"$\|\mathbf{Q}\|^2$")
    for size, name, (color, width, alpha) in zip(found.sizes, names, styles, strict=True):
        dashes = (0, (2, 3)) if color == BLACK else "-"
        left.plot(found.time, size, color=color, linewidth=width, alpha=alpha, label=name,
                  linestyle=dashes)  # fmt: skip
    left.set(yscale="log", xlabel="time (learning rate × steps)", ylabel="squared size of one head")
    left.legend()
    for rank, row, color in zip(RANKS, found.drift, (BLUE, ORANGE, GREEN, PINK), strict=True):
        right.plot(found.rates, row[0] * found.rates / found.rates[0], color=color,
                   linestyle=DASHED["linestyle"], linewidth=1.1)  # fmt: skip
        right.plot(found.rates, row, "o", color=color, markersize=4.5, label=f"$R = {rank}$")
    right.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="largest drift")
    right.set_xticks(found.rates, [f"{rate:g}" for rate in found.rates])
    right.minorticks_off()
    right.legend(fontsize=8)
    facts = found.facts
    alt = (
        "Left: squared sizes of value, key and query of one head rise together from "
        f"{facts['size_start']:.0e} to {facts['size_end']:.2f}. Right: the drift of their differences "
        f"against the learning rate at four ranks lies on lines of slope 1 (fitted "
        f"{facts['slope_least']:.2f} to {facts['slope_most']:.2f})."
    )
    return Figure(figure, alt)
