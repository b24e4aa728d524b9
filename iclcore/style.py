"""How pictures look: theory dashed, simulation solid, Okabe and Ito's colours. The book draws in it too."""

import io
import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclcore.extras import needs
from iclcore.history import History, thin

with needs("plots"):
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure as Canvas

# goes by the clock: a busy machine would write it under a picture, and an idle one not
warnings.filterwarnings("ignore", "Creating legend with loc", UserWarning)

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, YELLOW, BLACK, GREY = "#56B4E9", "#E69F00", "#F0E442", "#000000", "#767676"
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, AMBER, BLACK)

STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": mpl.cycler(color=PALETTE),
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
drawn = mpl.rc_context(
    STYLE
)  # a decorator: in the book's style, whatever the reader's own settings are
DASHED = {"color": GREY, "linestyle": (0, (5, 3)), "linewidth": 1.1, "zorder": 1.5}


def colours(count: int) -> list:
    """As many colours as there are things: the palette's, beyond it shades that differ in lightness."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    return [to_hex(c) for c in mpl.colormaps["viridis"](np.linspace(0, 0.95, count))]


def png(figure: Canvas, dots: int) -> bytes:
    """The picture as a file, with so many dots an inch. It names us, for anybody's names matplotlib."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dots, metadata={"Software": "iclcore"})
    return file.getvalue()


@dataclass(frozen=True)
class Picture:
    """A matplotlib figure and the sentence that says what it shows."""

    figure: Canvas
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def file(self) -> bytes:
        """The picture as a file."""
        return png(self.figure, 160)


def canvas(columns: int = 1, rows: int = 1, width: float = 7.2, height: float = 3.4, **grid):
    """A canvas and its axes; with ``rows=0`` none yet."""
    figure = Canvas(figsize=(width, height), facecolor="white")
    return figure, figure.subplots(rows, columns, **grid) if rows else None


def levels(
    axes: Axes,
    losses: Float[np.ndarray, " levels"],
    name: str = r"$\mathcal{L}(\mathcal{M}_%d)$",
    without: tuple[int, ...] = (),
) -> None:
    """Dashed lines at the losses of the fixed points, each labelled at the right end.

    ``without`` are those whose labels would overprint.
    """
    for m, loss in enumerate(losses):
        axes.axhline(loss, label=f"_level {m}", **DASHED)
        if name and m not in without:
            axes.annotate(
                name % m, (1, loss), xycoords=("axes fraction", "data"), xytext=(3, 0),
                textcoords="offset points", va="center", fontsize=8, color=GREY,
            )  # fmt: skip


def curve(
    axes: Axes, history: History, name: str = "loss", rate: float | None = None, **style
) -> None:
    """One recorded series against steps, or time at this learning rate."""
    at = thin(len(history.steps))
    x = history.steps if rate is None else rate * history.steps
    axes.plot(x[at], history.series[name][at], **style)
