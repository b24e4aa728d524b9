"""One sequence as a model sees it, and what predictors say of its query."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from iclbook.plot.panels import Panel, listed
from iclbook.plot.style import AMBER, BLUE, DASHED, GREEN, GREY, PINK
from iclcore import Sequences

COLOURS = (BLUE, PINK, GREEN, AMBER)  # the explorer on the page has the same, in this order
SHOWN = 1500  # points of a cloud


def tokens(data: Sequences) -> Panel:
    """The first sequence's tokens as columns, the query's label hidden."""
    ((rows, _),) = data[:1].prefixes()
    columns = rows[0].T
    size, count = columns.shape
    limit = np.abs(columns).max()

    def draw(axes):
        picture = axes.imshow(columns, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
        axes.set_yticks(range(size), [rf"$x^{{{d}}}$" for d in range(1, size)] + ["$y$"])
        shown = [0, *range(9, count - 3, 10)]
        axes.set_xticks([*shown, count - 1], [*(f"{n + 1}" for n in shown), "query"])
        axes.axvline(count - 1.5, color="black", linewidth=1)
        axes.axhline(size - 1.5, color="black", linewidth=1)
        axes.annotate("?", (count - 1, size - 1), ha="center", va="center", fontweight="bold")
        axes.set_xlabel("token")
        axes.figure.colorbar(picture, ax=axes, pad=0.01)

    says = (
        f"A heat map of {count} columns, the tokens; the first {size - 1} rows are the inputs, the last "
        "one their labels, and a question mark stands where the query's label is hidden."
    )
    return Panel(draw, says, widths=(3.0,), height=2.6)


def bars(said: Mapping[str, float], answer: float) -> Panel:
    """What each predictor says of one query; dashed, the answer."""
    names, values = list(said), list(said.values())

    def draw(axes):
        axes.barh(range(len(names)), values, color=COLOURS[: len(names)])
        axes.axvline(answer, **(DASHED | {"color": "black"}))
        axes.axvline(0, color=GREY, linewidth=0.6)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("prediction")

    says = f"Bars of what {len(names)} predictors say, {', '.join(names)}: {listed(values)}"
    return Panel(draw, f"{says}; the dashed line is the answer, {answer:.2f}.", height=2.6)


def clouds(
    answer: Float[np.ndarray, " P"], said: Mapping[str, Float[np.ndarray, " P"]], edge: float = 3.0
) -> Panel:
    """A panel a predictor: its answers against the right ones, of many sequences, and its error."""
    errors = [float(np.mean((answer - values) ** 2)) for values in said.values()]

    def draw(*axes):
        for panel, (name, values), error, tone in zip(
            axes, said.items(), errors, COLOURS, strict=False
        ):
            panel.plot([-edge, edge], [-edge, edge], **DASHED)
            panel.plot(answer[:SHOWN], values[:SHOWN], ".", color=tone, markersize=1.5)
            panel.set_title(f"{name}\nerror {error:.3f}", fontsize=9, pad=8)
            panel.set(xlim=(-edge, edge), ylim=(-edge, edge), xlabel="answer")
            panel.set_aspect("equal")
            if panel is not axes[0]:
                panel.set_yticklabels([])
        axes[0].set_ylabel("prediction")

    says = (
        f"Predictions against answers of {len(answer):,} sequences, a cloud about the diagonal for each "
        f"of {', '.join(said)}: mean squared errors {listed(errors, '.3f')}."
    )
    return Panel(draw, says, widths=(1.0,) * len(said), height=2.8, width=8.0)
