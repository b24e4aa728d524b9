"""How figures look: theory dashed, simulation solid, Okabe and Ito's colours, alt text with each."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from html import escape

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from iclcore.figures.trace import trace
from iclcore.history import History

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
DOTS = 110  # an inch, of pictures within a page's own code: one of 7.2 inches stays below 60 KB
DASHED = {"color": GREY, "linestyle": (0, (5, 3)), "linewidth": 1.1, "zorder": 1.5}


def png(figure: Canvas, dots: int) -> bytes:
    """The picture as a file, with so many dots an inch."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dots)
    return file.getvalue()


@dataclass(frozen=True)
class Figure:
    """A matplotlib figure and the sentence that says what it shows; displays itself in a notebook."""

    figure: Canvas
    alt: str

    suffix = ".png"

    def __repr__(self) -> str:
        return self.alt

    def file(self) -> bytes:
        """The picture as a file."""
        return png(self.figure, 160)

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        picture = base64.b64encode(self.file()).decode()
        width = int(self.figure.get_figwidth() * 96)
        return (
            {"image/png": picture, "text/plain": self.alt},
            {"image/png": {"alt": self.alt, "width": width, "trace": trace(self.figure)}},
        )


@dataclass(frozen=True)
class Animation:
    """Frames and what they show; plays in a page, stands still for those who asked for that."""

    frames: list[Canvas]
    alt: str
    seconds: float = 0.2
    suffix = ".webp"

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        pictures = self._pictures()
        still, moving = (
            "data:image/webp;base64," + base64.b64encode(self._webp(frames)).decode()
            for frames in (pictures[-1:], pictures)
        )
        source = f'<source media="(prefers-reduced-motion: reduce)" srcset="{still}">'
        image = f'<img class="animation" alt="{escape(self.alt)}" src="{moving}">'
        return (
            {"text/html": f"<picture>{source}{image}</picture>", "text/plain": self.alt},
            {"text/html": {"trace": " ".join(trace(frame) for frame in self.frames)}},
        )

    def file(self) -> bytes:
        """All frames as one animated file, the last held longer."""
        return self._webp(self._pictures())

    def _pictures(self) -> list:
        from PIL import Image

        return [Image.open(io.BytesIO(png(frame, DOTS))).convert("RGB") for frame in self.frames]

    def _webp(self, pictures: list) -> bytes:
        first, *rest = pictures
        hold = [int(1000 * self.seconds)] * len(rest) + [3000]
        file = io.BytesIO()
        first.save(
            file, "WEBP", save_all=True, append_images=rest, duration=hold, loop=0, quality=60
        )
        return file.getvalue()


def drawn(function: Callable) -> Callable:
    """Draw in the book's style, whatever the reader's own settings are."""

    @wraps(function)
    def inside(*args, **kwargs):
        with mpl.rc_context(STYLE):
            return function(*args, **kwargs)

    return inside


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
        axes.axhline(loss, **DASHED)
        if name and m not in without:
            axes.annotate(
                name % m, (1, loss), xycoords=("axes fraction", "data"), xytext=(3, 0),
                textcoords="offset points", va="center", fontsize=8, color=GREY,
            )  # fmt: skip


def curve(
    axes: Axes, history: History, name: str = "loss", rate: float | None = None, **style
) -> None:
    """One recorded series against steps, or time at this learning rate; no more points than a
    picture can show."""
    shown = np.unique(np.linspace(0, len(history.steps) - 1, 2000).astype(int))
    x = history.steps if rate is None else rate * history.steps
    axes.plot(x[shown], history.series[name][shown], **style)


def network(axes: Axes, layers: list[list[tuple[float, float, str]]], edges: list) -> None:
    """A network drawn by its numbers: units (x, y, label) and edges (from, to, style)."""
    for (x0, y0), (x1, y1), style in edges:
        axes.plot([x0, x1], [y0, y1], zorder=1, **style)
    for layer in layers:
        for x, y, label in layer:
            axes.scatter([x], [y], s=330, color="white", edgecolor=BLACK, linewidth=1, zorder=2)
            axes.annotate(label, (x, y), ha="center", va="center", fontsize=8, zorder=3)
    axes.set_axis_off()
