"""What a panel is, and figures of them: each has a sentence for those who cannot see it.

``figure`` puts panels in rows and joins what they say.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from iclbook.plot.style import Animation, Figure, canvas, drawn
from iclcore import History

MARKS = "os^Dv<>P"


@dataclass(frozen=True)
class Panel:
    """How to draw on as many axes as ``widths``, and what is seen there."""

    draw: Callable[..., None]
    says: str
    widths: tuple[float, ...] = (1.0,)
    height: float = 3.4
    width: float = 7.2  # of a figure of this panel alone


@drawn
def figure(*rows: Panel | Sequence[Panel], width: float | None = None) -> Figure:
    """Panels in rows, with letters if there are several, and one alt text."""
    grid = [list(row) if isinstance(row, Iterable) else [row] for row in rows]
    panels = [panel for row in grid for panel in row]
    for each in panels or [None]:
        if not isinstance(each, Panel):
            given = type(each).__name__ if panels else "none"
            raise TypeError(
                f"figure takes panels, as plot.losses([run]) and plot.values(run) are, not {given}"
            )
    alone = len(panels) == 1
    heights = [max(panel.height for panel in row) for row in grid]
    size = width or (panels[0].width if alone else 8.0)
    whole = canvas(width=size, height=sum(heights), rows=0)[0]
    parts = whole.subfigures(len(grid), 1, height_ratios=heights, squeeze=False)[:, 0]
    letters = iter("abcdefghijkl")
    for part, row in zip(parts, grid, strict=True):
        widths = [w for panel in row for w in panel.widths]
        axes = iter(part.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])
        for panel in row:
            own = [next(axes) for _ in panel.widths]
            panel.draw(*own)
            letter = "" if alone else next(letters)
            if not alone:
                own[0].set_title(letter, loc="left", fontweight="bold")
            for place, each in enumerate(own, 1):  # which data.py reads
                each.set_label(f"{letter}{place}" if len(own) > 1 else letter)
    said = [panel.says for panel in panels]
    if not alone:
        said = [f"{a}: {s}" for a, s in zip("abcdefghijkl", said, strict=False)]
    return Figure(whole, " ".join(said))


@drawn
def animation(frames: Sequence[Sequence[Panel]], says: str) -> Animation:
    """Rows of panels one after another, all in the places of the first: what moves is what is drawn."""
    pictures, places = [], None
    for row in frames:
        widths = [w for panel in row for w in panel.widths]
        whole, axes = canvas(len(widths), width=7.4, height=2.3, width_ratios=widths)
        rest = iter(axes)
        for panel in row:
            panel.draw(*(next(rest) for _ in panel.widths))
        if places is None:
            whole.draw_without_rendering()  # laid out once: it takes as long as to draw
            places = [each.get_position(original=True) for each in axes]
        whole.set_layout_engine("none")
        for each, place in zip(axes, places, strict=True):
            each.set_position(place)
        pictures.append(whole)
    return Animation(pictures, says)


def titled(title: str, panel: Panel) -> Panel:
    """The panel under a title, which it says first."""

    def draw(*axes):
        panel.draw(*axes)
        axes[0].set_title(title, fontsize=10)

    return replace(panel, draw=draw, says=f"{title}: {panel.says}")


def seeds(runs: Sequence[History]) -> list[str]:
    """What tells runs apart: their seeds, if they have one each."""
    known = [run.settings.get("seed") for run in runs]
    alike = None in known or len(set(known)) < len(known)
    return [f"run {place}" if alike else f"seed {seed}" for place, seed in enumerate(known, 1)]


def listed(numbers: Sequence[float], form: str = ".2f") -> str:
    """a, b and c."""
    said = [format(number, form) for number in numbers]
    return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)


def begun(text: str) -> str:
    """As a sentence begins; a symbol stays what it is."""
    return text[0].upper() + text[1:] if text[0].isascii() else text


def course(y: Float[np.ndarray, " t *curves"] | Sequence[float]) -> str:
    """Where a curve begins and ends, once if they look the same."""
    rows = np.reshape(y, (len(y), -1))  # of one curve, or of several
    there = rows[np.isfinite(rows).all(axis=1)]
    if not len(there):
        return "not reached"
    first, last = (listed(there[end], ".2g") for end in (0, -1))
    return f"at {first}" if first == last else f"from {first} to {last}"


def spread(numbers: Sequence[float], form: str = ".2f") -> str:
    """The least to the largest, once if they look the same."""
    low, high = format(min(numbers), form), format(max(numbers), form)
    return low if low == high else f"{low} to {high}"
