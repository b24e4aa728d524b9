"""Simulated points on the curves of theory."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from iclbook.plot.panels import MARKS, Panel, listed, spread
from iclbook.plot.style import DASHED, colours

# by name: y at each x, or x and y, and for marks how far y may be off
Points = Mapping[str, Mapping[float, float] | tuple[ArrayLike, ...]]
FEW = 20  # values that the alt text names one by one


def dots(simulated: Points, theory: Points, says: str = "", **settings) -> Panel:
    """A mark for each simulated point; dashed in the same colour what theory says under the same name.

    A theory of another name is dashed in a colour of its own. ``says`` ends the alt text.
    """
    simulated = {name: points for name, points in rows(simulated).items() if len(points[0])}
    theory = rows(theory)
    names = list(dict.fromkeys([*simulated, *theory]))
    tones = dict(zip(names, colours(len(names)), strict=True))

    def draw(axes):
        for name, (x, y, *_) in theory.items():
            own = {} if name in simulated else {"label": name}
            style = DASHED | {"color": tones[name], "linewidth": 1.5} | own
            axes.plot(x, y, **style)
        for i, (name, (x, y, *off)) in enumerate(simulated.items()):
            style = {"color": tones[name], "markersize": 5, "label": name}
            axes.plot(x, y, MARKS[i % len(MARKS)], **style)
            if off:
                axes.errorbar(x, y, off[0], fmt="none", ecolor=tones[name])
        axes.set(**settings)
        axes.legend(fontsize=8)

    what = settings.get("ylabel", "points")
    said = [f"{what[0].upper()}{what[1:]} against {settings.get('xlabel', 'x')}."]
    for name, (_, y, *_) in theory.items():
        said.append(f"Dashed, {name}: from {y[0]:.2g} to {y[-1]:.2g}.")
    for name, (_, y, *_) in simulated.items():
        found = listed(y, ".3g") if len(y) <= FEW else f"{len(y)}, {spread(y, '.3g')}"
        said.append(f"Marks, {name}: {found}.")
    return Panel(draw, " ".join([*said, says]).strip(), width=6.2, height=3.6)


def rows(named: Points) -> dict[str, tuple[np.ndarray, ...]]:
    """Each as arrays x, y and, if it is there, the error of y."""
    pairs = {
        name: (list(points), list(points.values())) if isinstance(points, Mapping) else points
        for name, points in named.items()
    }
    return {name: tuple(map(np.asarray, each)) for name, each in pairs.items()}
