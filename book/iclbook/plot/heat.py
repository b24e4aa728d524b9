"""Heat maps: a matrix, a table with its numbers, tokens, what heads have learned."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from iclbook.plot.panels import Panel, listed
from iclbook.plot.style import BLACK, DASHED, SHARE, SIGNED
from iclcore import Sequences


def heat(axes, values: np.ndarray, limit: float, title: str = "") -> None:
    """A small signed heat map without ticks."""
    axes.imshow(values, cmap=SIGNED, vmin=-limit, vmax=limit, label=f"_{title}")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.set_title(title, fontsize=9)


def matrix(values: np.ndarray, title: str, limit: float | None = None) -> Panel:
    """One matrix as a signed heat map."""
    limit = limit or np.abs(values).max()
    return Panel(lambda axes: heat(axes, values, limit, title), f"{title}, as a heat map.")


def chart(
    x: Float[np.ndarray, " x"],
    y: Float[np.ndarray, " y"],
    values: Float[np.ndarray, "y x"],
    theory: Mapping[str, tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]],
    xlabel: str,
    ylabel: str,
    name: str,
) -> Panel:
    """Shares from 0 to 1 over a plane; dashed, lines that theory says they follow."""

    def draw(axes):
        image = axes.pcolormesh(x, y, values, cmap=SIGNED, vmin=0, vmax=1, rasterized=True,
                                label=f"_{name}")  # fmt: skip
        for label, line in theory.items():
            axes.plot(*line, label=label, **DASHED | {"color": BLACK})
        axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
        axes.legend(fontsize=8, loc="upper left", frameon=True, framealpha=0.9)
        axes.figure.colorbar(image, ax=axes, label=name)

    between = np.mean((values > 0.05) & (values < 0.95))
    says = (
        f"A map of the {name} over {xlabel}, from {x[0]:.2g} to {x[-1]:.2g}, and {ylabel}: {between:.0%} of "
        f"it lies between .05 and .95, a strip along the dashed {' and '.join(theory)}."
    )
    return Panel(draw, says)


def table(values: np.ndarray, title: str) -> Panel:
    """Heads × tasks, coloured, with their numbers."""
    most = np.abs(values).max()

    def draw(axes):
        axes.imshow(values, cmap=SIGNED, vmin=-most, vmax=most, label=f"_{title}")
        for (h, i), value in np.ndenumerate(values):
            said = f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
            axes.annotate(said, (i, h), ha="center", va="center", fontsize=9,
                          color="white" if abs(value) > 0.7 * most else BLACK)  # fmt: skip
        heads, tasks = values.shape
        axes.set_xticks(range(tasks), [f"task {i + 1}" for i in range(tasks)])
        axes.set_yticks(range(heads), [f"head {h + 1}" for h in range(heads)])
        axes.tick_params(length=0)
        axes.set_xlabel(title)

    rows = "; ".join(listed(row, "z.2f") for row in values)
    return Panel(draw, f"Table of {title.replace('$', '')}, a row a head: {rows}.", height=3)


def tokens(data: Sequences) -> Panel:
    """The first sequence's tokens as columns, the query's label hidden."""
    ((rows, _),) = data[:1].prefixes()
    columns = rows[0].T
    size, count = columns.shape
    limit = np.abs(columns).max()

    def draw(axes):
        picture = axes.imshow(columns, cmap=SIGNED, vmin=-limit, vmax=limit, aspect="auto",
                              label="_tokens")  # fmt: skip
        axes.set_yticks(range(size), [rf"$x^{{{d}}}$" for d in range(1, size)] + ["$y$"])
        shown = [0, *range(9, count - 3, 10)]
        axes.set_xticks([*shown, count - 1], [*(f"{n + 1}" for n in shown), "query"])
        axes.axvline(count - 1.5, color="black", linewidth=1, label="_before the query")
        axes.axhline(size - 1.5, color="black", linewidth=1, label="_above the labels")
        axes.annotate("?", (count - 1, size - 1), ha="center", va="center", fontweight="bold")
        axes.set_xlabel("token")
        axes.figure.colorbar(picture, ax=axes, pad=0.01)

    says = (
        f"A heat map of {count} columns, the tokens; the first {size - 1} rows are the inputs, the last "
        "one their labels, and a question mark stands where the query's label is hidden."
    )
    return Panel(draw, says, widths=(3.0,), height=2.6)


def taken(shares: Mapping[int, Float[np.ndarray, "heads D"]]) -> Panel:
    """What each head has of each eigenvector, a heat map a rank; heads in the order of what they have."""
    parts, sorted_ = [], {}
    for rank, share in shares.items():
        has = share > 0.5
        first = np.where(has.any(axis=1), np.argmax(has, axis=1), share.shape[1])
        sorted_[rank] = share[np.argsort(first, kind="stable")]
        heads, found = int(has.any(axis=1).sum()), int((share.sum(axis=0) > 0.5).sum())
        parts.append(f"at rank {rank} {found} eigenvectors in {heads} head{'s' * (heads != 1)}")

    def draw(*axes):
        for panel, (rank, share) in zip(axes, sorted_.items(), strict=True):
            image = panel.imshow(share, cmap=SHARE, vmin=0, vmax=1, aspect="auto",
                                 label="_share learned")  # fmt: skip
            heads, dim = share.shape
            panel.set_title(f"$R = {rank}$", fontsize=10)
            panel.set(xlabel="eigenvector", xticks=range(dim), xticklabels=range(1, dim + 1))
            panel.set(yticks=range(heads), yticklabels=range(1, heads + 1))
        for panel in axes[1:]:
            panel.tick_params(which="both", labelleft=False)
        axes[0].set_ylabel("head")
        axes[0].get_figure().colorbar(image, ax=axes, label="share learned", shrink=0.9)

    says = f"Heat maps, heads by eigenvectors, of what is learned after the last step: {'; '.join(parts)}."
    return Panel(draw, says, (1.0,) * len(shares), 2.8, 8.0)
