"""How figures look: theory dashed, simulation solid, Okabe and Ito's colours, alt text with each."""

import base64
import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas

from iclbook.plot.data import table
from iclbook.plot.trace import trace
from iclcore.checks import choice
from iclcore.files import write_whole
from iclcore.history import History, thin

# This warning depends on how fast the machine is, and would be written under some pictures and not others.
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
# A decorator: whatever the settings of the reader are, a figure has the style of the book.
drawn = mpl.rc_context(STYLE)
DASHED = {"color": GREY, "linestyle": (0, (5, 3)), "linewidth": 1.1, "zorder": 1.5}
# per inch, of pictures inside the code of a page: one of 7.2 inches stays below 60 KB
DOTS = 110
THEORY = DASHED | {"color": BLACK, "zorder": 3}  # on top of the simulated curve
PREDICTORS = (BLUE, PINK, GREEN, AMBER)  # in the order of the explorers on the page
# Matplotlib's 256 colours are up to three grey levels apart, so a reader would see it when rounding moves a
# value to the next colour. With so many colours neighbours are at most one grey level apart.
SIGNED, SHARE = mpl.colormaps["PuOr"].resampled(1024), mpl.colormaps["Blues"].resampled(512)
BLUES = ("#08306b", "#2171b5", "#6baed6", "#9ecae1")  # the paper's shades


def colours(count: int) -> list:
    """Return so many colours: those of the palette or, if it has too few, shades from dark to light."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    return [to_hex(c) for c in mpl.colormaps["viridis"](np.linspace(0, 0.95, count))]


def shades(count: int) -> list:
    """Return as many blues, the darkest first."""
    if count <= len(BLUES):
        return list(BLUES[:count])
    return [to_hex(c) for c in mpl.colormaps["Blues_r"](np.linspace(0.05, 0.65, count))]


def png(figure: Canvas, dots: int) -> bytes:
    """Return the figure as a PNG with so many dots per inch, without Matplotlib's version in it."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dots, metadata={"Software": "iclcore"})
    return file.getvalue()


def canvas(columns: int = 1, rows: int = 1, width: float = 7.2, height: float = 3.4, **grid):
    """Return a figure and its axes; with ``rows=0`` it has none yet."""
    figure = Canvas(figsize=(width, height), facecolor="white")
    return figure, figure.subplots(rows, columns, **grid) if rows else None


def levels(
    axes: Axes,
    losses: Float[np.ndarray, " levels"],
    name: str = r"$\mathcal{L}(\mathcal{M}_%d)$",
    without: tuple[int, ...] = (),
) -> None:
    """Draw dashed lines at the losses of the fixed points, each labelled at its right end.

    ``without`` are the numbers of those whose labels would overlap.
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
    """Draw one recorded series against steps, or against time at this learning rate."""
    at = thin(len(history.steps))
    x = history.steps if rate is None else rate * history.steps
    axes.plot(x[at], history.series[name][at], **style)


class Picture:
    """The base class of what is drawn: a picture can be saved as a file."""

    def save(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write the picture to a file whose name ends in one of ``suffixes``, whole or not at all."""
        content = self.file(Path(path).suffix.lower(), about)
        write_whole(path, lambda file: file.write(content))


@dataclass(frozen=True)
class Figure(Picture):
    """A Matplotlib figure and the sentence that says what it shows.

    It displays itself in a notebook, together with a trace of what it draws.
    """

    figure: Canvas
    alt: str
    kind = "a figure"
    suffixes = (".png", ".svg", ".csv")

    def __repr__(self) -> str:
        return self.alt

    def file(self, suffix: str = ".png", about: Mapping[str, Any] | None = None) -> bytes:
        """Return it as PNG, as SVG, or its numbers as CSV; the last two name what it is ``about``."""
        choice("suffix", suffix, self.suffixes)
        if suffix == ".csv":
            return table(self.figure, about or {}).encode()
        return self._svg(about or {}) if suffix == ".svg" else png(self.figure, 160)

    def _svg(self, about: Mapping[str, Any]) -> bytes:
        """The same bytes each time. Letters are outlines: as text they would be set in another font, and
        formulas would fall apart, where a reader has not this one."""
        file = io.StringIO()
        said = {"Date": None, "Title": about.get("figure", self.alt)}
        said["Description"] = "\n".join(f"{name}: {each}" for name, each in about.items()) or None
        with mpl.rc_context({"svg.hashsalt": "iclbook", "svg.fonttype": "path"}):
            self.figure.savefig(file, format="svg", metadata=said, dpi=300)  # of heat maps
        # it is read out as one picture, by what its alt text says
        head, end, rest = file.getvalue().partition("</title>")
        head = head.replace("<svg ", '<svg role="img" ', 1)
        return f"{head}{end}\n <desc>{escape(self.alt)}</desc>{rest}".encode()

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        picture = base64.b64encode(self.file()).decode()
        width = int(self.figure.get_figwidth() * 96)
        return (
            {"image/png": picture, "text/plain": self.alt},
            {"image/png": {"alt": self.alt, "width": width, "trace": trace(self.figure)}},
        )


class Drawing(Figure):
    """A network: no number is drawn."""

    kind = "a drawing, without numbers"
    suffixes = (".png", ".svg")


@dataclass(frozen=True)
class Animation(Picture):
    """Frames and what they show. Plays in a page, and stands still, at the last frame, for those who asked
    their system for that; the page's own button stops and plays it (book.js)."""

    frames: list[Canvas]
    alt: str
    seconds: float = 0.2
    kind = "an animation"
    suffixes = (".webp",)

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

    def file(self, suffix: str = ".webp", about: Mapping[str, Any] | None = None) -> bytes:
        """All frames as one animated file, the last held longer."""
        choice("suffix", suffix, self.suffixes)
        return self._webp(self._pictures())

    def _pictures(self) -> list:
        from PIL import Image

        found = []
        for frame in self.frames:  # not by savefig, which draws twice and writes a file
            own = frame.dpi
            frame.dpi = DOTS
            canvas = FigureCanvasAgg(frame)
            canvas.draw()
            found.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
            frame.dpi = own
        return found

    def _webp(self, pictures: list) -> bytes:
        first, *rest = pictures
        hold = [int(1000 * self.seconds)] * len(rest) + [3000]
        file = io.BytesIO()
        first.save(
            file, "WEBP", save_all=True, append_images=rest, duration=hold, loop=0, quality=60
        )
        return file.getvalue()


def network(axes: Axes, layers: list[list[tuple[float, float, str]]], edges: list) -> None:
    """A network drawn by its numbers: units (x, y, label) and edges (from, to, style)."""
    for (x0, y0), (x1, y1), style in edges:
        axes.plot([x0, x1], [y0, y1], zorder=1, **style)
    for layer in layers:
        for x, y, label in layer:
            axes.scatter([x], [y], s=330, color="white", edgecolor=BLACK, linewidth=1, zorder=2)
            axes.annotate(label, (x, y), ha="center", va="center", fontsize=8, zorder=3)
    axes.set_axis_off()
