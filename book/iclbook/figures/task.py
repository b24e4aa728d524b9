"""Pictures of the chapter on the task."""

import numpy as np

from iclbook.plot.style import AMBER, BLUE, DASHED, GREEN, GREY, PINK, Figure, canvas, drawn
from iclbook.studies import task as study

COLORS = (BLUE, PINK, GREEN, AMBER)  # of study.PREDICTORS; the explorer on the page has the same


@drawn
def example(found: study.Example) -> Figure:
    """One sequence as a matrix of tokens, and what each predictor says of the query."""
    figure, (left, right) = canvas(2, width=8, height=2.6, width_ratios=(3, 1))
    limit = np.abs(found.tokens).max()
    picture = left.imshow(found.tokens.T, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    size, count = found.tokens.shape[1], len(found.tokens)
    left.set_yticks(range(size), [rf"$x^{{{d}}}$" for d in range(1, size)] + ["$y$"])
    left.set_xticks([0, 9, 19, count - 1], ["1", "10", "20", "query"])
    left.axvline(count - 1.5, color="black", linewidth=1)
    left.axhline(size - 1.5, color="black", linewidth=1)
    left.annotate("?", (count - 1, size - 1), ha="center", va="center", fontweight="bold")
    left.set_xlabel("token")
    figure.colorbar(picture, ax=left, pad=0.01)
    names = list(found.said)
    right.barh(range(len(names)), list(found.said.values()), color=COLORS)
    right.axvline(found.answer, **(DASHED | {"color": "black"}))
    right.axvline(0, color=GREY, linewidth=0.6)
    right.set_yticks(range(len(names)), names, fontsize=8)
    right.invert_yaxis()
    right.set_xlabel("prediction")
    alt = (
        f"Left: a heat map of {count} columns, the tokens; four rows are the inputs, the fifth their "
        "labels, and a question mark stands where the query's label is hidden. Right: bars of what four "
        f"predictors say; the dashed line is the answer, {found.answer:.2f}; least squares meets it."
    )
    return Figure(figure, alt)


@drawn
def scatter(found: study.Scatter) -> Figure:
    """Predictions against answers over many sequences."""
    figure, axes = canvas(4, width=8, height=2.8, sharex=True, sharey=True)
    edge = 3
    for panel, (name, values), color in zip(axes, found.said.items(), COLORS, strict=True):
        panel.plot([-edge, edge], [-edge, edge], **DASHED)
        panel.plot(found.answer[:1500], values[:1500], ".", color=color, markersize=1.5)
        panel.set_title(f"{name}\nerror {found.error[name]:.3f}", fontsize=9, pad=8)
        panel.set(xlim=(-edge, edge), ylim=(-edge, edge), xlabel="answer")
        panel.set_aspect("equal")
    axes[0].set_ylabel("prediction")
    alt = (
        "Four scatter plots of prediction against answer. Least squares lies on the diagonal; attention "
        f"scatters about it (mean squared error {found.facts['attention']:.3f}); with two components or "
        "one the cloud is wider and flatter."
    )
    return Figure(figure, alt)


@drawn
def lengths(found: study.Lengths) -> Figure:
    """Error against the number of examples in the context."""
    figure, axes = canvas(width=6, height=3.4)
    axes.plot(found.contexts, found.theory["PCR, 2 components"], **DASHED)
    axes.plot(found.contexts, found.theory["attention"], **DASHED)
    axes.plot(found.contexts, found.error["attention"], "o", color=PINK, markersize=4.5)
    axes.plot(found.contexts, found.error["least squares"], "o-", color=BLUE, markersize=4.5)
    for name, color, place in (
        ("least squares", BLUE, (4.6, 0.05)),
        ("attention, all components", PINK, (30, 0.19)),
        ("two components only", GREY, (30, 0.43)),
    ):
        axes.annotate(name, place, color=color, fontsize=9)
    axes.set(
        xscale="log",
        xlabel="examples in the context, $N$",
        ylabel="mean squared error",
        ylim=(0, None),
    )
    axes.set_xticks([1, 4, 10, 31, 100, 200], ["1", "4", "10", "31", "100", "200"])
    axes.minorticks_off()
    facts = found.facts
    alt = (
        "Mean squared error against the number of examples. Least squares falls to zero at four examples, "
        f"the dimension. Attention falls slowly, to {facts['attention_at_31']:.3f} at 31 and "
        f"{facts['attention_at_200']:.3f} at 200, dots on the dashed theory; with two components the error "
        f"stays above {facts['two_at_200']:.2f}."
    )
    return Figure(figure, alt)
