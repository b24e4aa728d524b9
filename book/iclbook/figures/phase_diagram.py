"""The phase diagram in the chapter on in-weight and in-context learning."""

from matplotlib.lines import Line2D

from iclbook.plot.style import BLACK, DASHED, ORANGE, Figure, canvas, drawn
from iclbook.studies import phase_diagram as study

MARKS = ("", "s", "^")

DOTS = {"color": "white", "markeredgecolor": ORANGE, "markersize": 5, "clip_on": False, "zorder": 4}


@drawn
def diagram(found: study.Diagram) -> Figure:
    """Both test errors at the end of 10,000 runs, by share and context length."""
    figure, panels = canvas(2, width=8.4, height=4.2, sharey=True)
    names = ("in-weight test error", "in-context test error")
    top = 1.5  # in-context errors above it, where nothing is learned in context, look the same
    for panel, errors, name in zip(panels, found.errors, names, strict=True):
        image = panel.pcolormesh(
            found.shares, found.lengths, errors, cmap="Blues", vmin=0, vmax=top, rasterized=True
        )
        lead = found.errors[0] - found.errors[1]
        panel.contour(found.shares, found.lengths, lead, [0], colors=ORANGE, linewidths=1.8)
        line = DASHED | {"color": BLACK, "linewidth": 1.6, "zorder": 3}
        panel.plot(found.optimum, found.lengths, **line)
        for borders, mark in zip(found.borders[1:], MARKS[1:], strict=True):
            panel.plot(borders, study.BORDER_LENGTHS, mark, **DOTS)
        panel.set_title(name, fontsize=10)
        panel.set(yscale="log", xlabel="share in context", xlim=(0.0, 1.0), ylim=(1, 100))
        panel.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        panel.minorticks_off()
    panels[0].set_ylabel("context length $N$")
    figure.colorbar(image, ax=panels, label="mean squared error", extend="max", shrink=0.9)
    key = [
        Line2D([], [], color=ORANGE, linewidth=1.8, label=f"both equal after {study.STEPS:,} steps")
    ]
    key += [
        Line2D([], [], linestyle="", marker=mark, **DOTS, label=f"after {times} times as many")
        for times, mark in zip(study.LATER[1:], MARKS[1:], strict=True)
    ]
    key.append(Line2D([], [], **(DASHED | {"color": BLACK}), label="least-squares optimum"))
    figure.legend(handles=key, loc="outside upper center", ncols=4, fontsize=8)
    facts = found.facts
    alt = (
        "Two heat maps, share of in-context sequences by context length. A border where both errors are "
        "equal parts them: left of it and below the in-weight error is low, on the other side the "
        f"in-context error. It runs from share {facts['border_1_1']:.2f} at a context of 1 through "
        f"{facts['border_8_1']:.2f} at 8 to {facts['border_100_1']:.2f} at 100. At a context of 25 it "
        f"moves from {facts['border_25_1']:.3f} to {facts['border_25_10']:.3f} with ten times as many "
        f"steps and {facts['border_25_100']:.3f} with a hundred times as many; the least-squares "
        f"optimum's dashed border is at {facts['best_25']:.3f} there."
    )
    return Figure(figure, alt)
