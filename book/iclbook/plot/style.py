"""How figures look: theory dashed, simulation solid, Okabe and Ito's colours, alt text with each."""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas

from iclbook.plot.data import table
from iclbook.plot.trace import trace
from iclcore.checks import choice
from iclcore.style import (
    AMBER,
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    PINK,
    SKY,
    YELLOW,
    Picture,
    canvas,
    colours,
    curve,
    drawn,
    levels,
    png,
)

__all__ = [
    "AMBER",
    "BLACK",
    "BLUE",
    "DASHED",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "PINK",
    "SHARE",
    "SIGNED",
    "SKY",
    "YELLOW",
    "Animation",
    "Drawing",
    "Figure",
    "Picture",
    "canvas",
    "colours",
    "curve",
    "drawn",
    "levels",
    "network",
    "png",
]

DOTS = 110  # an inch, of pictures within a page's own code: one of 7.2 inches stays below 60 KB
THEORY = DASHED | {"color": BLACK, "zorder": 3}  # on top of the curve that it tells
PREDICTORS = (BLUE, PINK, GREEN, AMBER)  # an explorer on the page has the same, in this order
# Matplotlib's 256 colours are up to three grey levels apart, so that rounding, which may take a value over
# to the next, could be seen; here neighbours are one apart at most.
SIGNED, SHARE = colormaps["PuOr"].resampled(1024), colormaps["Blues"].resampled(512)
BLUES = ("#08306b", "#2171b5", "#6baed6", "#9ecae1")  # the paper's shades


def shades(count: int) -> list:
    """As many blues, the darkest first."""
    if count <= len(BLUES):
        return list(BLUES[:count])
    return [to_hex(c) for c in colormaps["Blues_r"](np.linspace(0.05, 0.65, count))]


class Figure(Picture):
    """A picture of the book: displays itself in a notebook, with a trace of what it draws."""

    kind = "a figure"
    suffixes = (".png", ".svg", ".csv")

    def file(self, suffix: str = ".png", about: Mapping[str, Any] | None = None) -> bytes:
        """As a picture of dots, one of lines, or its numbers; the latter two say what they are ``about``."""
        choice("suffix", suffix, self.suffixes)
        if suffix == ".csv":
            return table(self.figure, about or {}).encode()
        return self._svg(about or {}) if suffix == ".svg" else super().file()

    def _svg(self, about: Mapping[str, Any]) -> bytes:
        """The same bytes each time. Letters are outlines: as text they would be set in another font, and
        formulas would fall apart, where a reader has not this one."""
        file = io.StringIO()
        said = {"Date": None, "Title": about.get("figure", self.alt)}
        said["Description"] = "\n".join(f"{name}: {each}" for name, each in about.items()) or None
        with rc_context({"svg.hashsalt": "iclbook", "svg.fonttype": "path"}):
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
class Animation:
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
