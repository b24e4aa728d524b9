"""The numbers that a picture draws, read off its curves, marks, bars and heat maps: no panel says them twice.

A series is called as in the legend. What the legend leaves out has a label that begins with ``_``, which
matplotlib keeps from legends: here it is a name like any other. Text, arrows and drawings are no data.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator
from numpy.typing import ArrayLike

COLUMNS = ("panel", "series", "curve", "drawn", "x", "y", "value")
STROKES = {"-": "line", "--": "dashed", "-.": "dashed", ":": "dotted"}
UNNAMED = re.compile(r"_(child|container)\d+|_nolegend_|None")  # matplotlib's own
COLORBAR = "<colorbar>"

Point = tuple[
    float | None, float | None, float | None
]  # x of a level and the value of a mark are None
Piece = tuple[str, str, list[Point]]  # series, how it is drawn, its points


def table(figure: Canvas, about: Mapping[str, Any]) -> str:
    """As CSV; at its head ``# NAME: JSON`` of what it is ``about``, and of each panel its words."""
    head = {**about, "panels": {name: words(axes) for name, axes in panels(figure).items()}}
    text = io.StringIO()
    for name, said in head.items():
        text.write(f"# {name}: {json.dumps(said, ensure_ascii=False)}\n")
    written = csv.writer(text, lineterminator="\n")
    written.writerow(COLUMNS)
    for *where, x, y, value in rows(figure):
        written.writerow([*where, *("" if each is None else repr(each) for each in (x, y, value))])
    return text.getvalue()


def rows(figure: Canvas) -> Iterator[tuple]:
    """The COLUMNS of each point; ``curve`` counts those of one series."""
    for panel, axes in panels(figure).items():
        seen: Counter[str] = Counter()
        for label, drawn, points in pieces(axes):
            series = "" if UNNAMED.fullmatch(label) else " ".join(label.removeprefix("_").split())
            seen[series] += bool(points)
            for point in points:
                yield panel, series, seen[series], drawn, *point


def panels(figure: Canvas) -> dict[str, Axes]:
    """By name the axes that have data: the letter of the panel, with a number if it has several."""
    shown = [each for each in figure.axes if each.get_label() != COLORBAR and each.axison]
    return {each.get_label() or str(place): each for place, each in enumerate(shown, 1)}


def words(axes: Axes) -> dict[str, Any]:
    """A panel's title, its labels, what its colours mean, and of ticks that are words which they are."""
    bars = (each for each in axes.figure.axes if each.get_label() == COLORBAR)
    maps = any(isinstance(each, QuadMesh) for each in axes.collections) or axes.images
    scale = next((bar.get_ylabel() for bar in bars), "") if maps else ""
    said = {"title": axes.get_title(), "x": axes.get_xlabel(), "y": axes.get_ylabel(), "value": scale,
            "x ticks": ticks(axes.xaxis), "y ticks": ticks(axes.yaxis)}  # fmt: skip
    return {
        name: " ".join(each.split()) if name[1:] != " ticks" else each
        for name, each in said.items()
        if each
    }


def ticks(axis: Axis) -> dict[str, str]:
    """Words by their places, of an axis that has words."""
    if not isinstance(axis.get_major_locator(), FixedLocator):
        return {}
    named = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
    said = {f"{place:g}": label.get_text() for place, label in named}
    return {} if all(re.fullmatch(r"[\d.,−-]*", text) for text in said.values()) else said


def pieces(axes: Axes) -> Iterator[Piece]:
    """All that has numbers, each as drawn at once."""
    inside: set[Artist] = set()
    for group in axes.containers:
        if isinstance(group, BarContainer):
            inside.update(group.patches)
            yield group.get_label(), "bar", _points(*_bars(group))
        elif isinstance(group, ErrorbarContainer):
            inside.update(group.lines[2])
            for bar in group.lines[2]:
                ends = np.concatenate(bar.get_segments())
                yield group.get_label(), "error bar", _points(*ends.T)
    for line in axes.lines:
        yield line.get_label(), _stroke(line), _line(line, axes)
    for image in axes.images:
        values = np.asarray(image.get_array(), dtype=float)
        yield image.get_label(), "cell", _cells(*map(np.arange, values.shape[::-1]), values)
    for each in axes.collections:
        if each not in inside:
            yield from _collection(each)


def _collection(each: Artist) -> Iterator[Piece]:
    name = each.get_label()
    if isinstance(each, QuadMesh):
        values, edges = np.asarray(each.get_array(), dtype=float), each.get_coordinates()
        yield name, "cell", _cells(_centres(edges[0, :, 0]), _centres(edges[:, 0, 1]), values)
    elif isinstance(each, PathCollection):
        values = each.get_array()
        yield name, "marks", _points(*np.asarray(each.get_offsets()).T, values)
    elif isinstance(each, QuadContourSet):
        for path in each.get_paths():
            starts = np.flatnonzero(path.codes == path.MOVETO)[1:]
            for piece in np.split(path.vertices, starts):
                yield name, "line", _points(*piece.T)
    elif isinstance(each, LineCollection):
        for segment in each.get_segments():
            yield name, "line", _points(*segment.T)


def _points(x: ArrayLike, y: ArrayLike, value: ArrayLike | None = None) -> list[Point]:
    values = [None] * np.size(x) if value is None else np.ravel(value).tolist()
    return list(zip(np.ravel(x).tolist(), np.ravel(y).tolist(), values, strict=True))


def _line(line: Line2D, axes: Axes) -> list[Point]:
    """A level and a time are one number each: they go from edge to edge of the panel."""
    has_x, has_y = line.get_transform().contains_branch_seperately(axes.transData)
    points = _points(*(np.asarray(each, dtype=float) for each in line.get_data(orig=False)))
    if has_x and has_y:
        return points
    return [(x if has_x else None, y if has_y else None, None) for x, y, _ in points[:1]]


def _stroke(line: Line2D) -> str:
    stroke = STROKES.get(line.get_linestyle(), "marks")
    return "steps" if line.get_drawstyle() != "default" and stroke == "line" else stroke


def _bars(group: BarContainer) -> tuple[list[float], list[float]]:
    """The middle and the height of each; for those that lie, the length and the middle."""
    across = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in group.patches]
    lying = [(bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in group.patches]
    x, y = zip(*(lying if group.orientation == "horizontal" else across), strict=True)
    return list(x), list(y)


def _cells(x: np.ndarray, y: np.ndarray, values: np.ndarray) -> list[Point]:
    return _points(*np.meshgrid(x, y), values)


def _centres(edges: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n-1"]:
    """The places that pcolormesh was given: it puts an edge half-way between two of them."""
    centres = [edges[:2].mean()]
    for edge in edges[1:-1]:
        centres.append(2 * edge - centres[-1])
    return np.array([float(f"{each:.12g}") for each in centres])
