"""A plane of two weights: where gradient flow goes, and where training went."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from iclbook.plot.panels import Panel
from iclbook.plot.style import BLACK, BLUE, DASHED, ORANGE

ARROWS = 25  # of the grid on which the flow is taken, along each side


def plane(
    paths: Sequence[tuple[Float[np.ndarray, " t"], Float[np.ndarray, " t"]]],
    flow: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    minima: Callable[[np.ndarray], np.ndarray],
    marks: Mapping[str, tuple[float, float]],
    edge: float,
    **settings,
) -> Panel:
    """Paths over their flow, from blue dots to orange ones; dashed ``minima``, y of x; squares ``marks``."""

    def draw(axes):
        grid = np.linspace(-edge, edge, ARROWS)
        stream = axes.streamplot(grid, grid, *flow(*np.meshgrid(grid, grid)), color="#c9c9c9",
                                 linewidth=0.6, arrowsize=0.7, density=1.1)  # fmt: skip
        stream.lines.set_label("_flow")
        for side in (grid[-1], grid[0]):
            x = side * np.geomspace(0.05, 1, 200)
            axes.plot(
                x, minima(x), **(DASHED | {"color": BLACK, "linewidth": 1.4}), label="_minima"
            )
        for i, (x, y) in enumerate(paths, 1):
            axes.plot(x, y, color=BLUE, linewidth=1.2, label=f"_path {i}")
            axes.plot(x[0], y[0], "o", color=BLUE, markersize=3, label="_start")
            axes.plot(x[-1], y[-1], "o", color=ORANGE, markersize=4, zorder=3, label="_end")
        for name, place in marks.items():
            axes.plot(*place, "s", color=BLACK, markersize=5, label=f"_{name}")
            axes.annotate(name, place, xytext=(7, -12), textcoords="offset points", fontsize=9)
        axes.set(xlim=(-edge, edge), ylim=(-edge, edge), **settings)
        axes.set_aspect("equal")

    ends = np.array([(x[-1], y[-1]) for x, y in paths])
    off = np.abs(ends[:, 1] - minima(ends[:, 0])).max()
    says = (
        f"The plane of {settings.get('xlabel', 'x')} and {settings.get('ylabel', 'y')}: {len(paths)} "
        f"paths of gradient descent end on the dashed curve of minima, within {off:.0e}; "
        f"square, {', '.join(marks)}."
    )
    return Panel(draw, says.replace("$", ""), width=4.6, height=4.3)
