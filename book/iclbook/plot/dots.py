"""Points: simulated on the curves of theory, predicted against measured."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from iclbook.plot.panels import MARKS, Panel, begun, course, listed, spread
from iclbook.plot.style import DASHED, PREDICTORS, colours

# by name: y at each x, or x and y, and for marks how far y may be off
Points = Mapping[str, Mapping[float, float] | tuple[ArrayLike, ...]]
FEW = 20  # values that the alt text names one by one
SHOWN = 1500  # points of a cloud


def dots(simulated: Points, theory: Points, says: str = "", **settings) -> Panel:
    """A mark for each simulated point; dashed in the same colour what theory says under the same name.

    A theory of another name is dashed in a colour of its own. Where the legend has such a line, a mark that
    lies on one has it there too, and the names come in the order they are given. ``says`` ends the alt text.
    """
    simulated = {name: reached(*points) for name, points in rows(simulated).items()}
    simulated = {name: points for name, points in simulated.items() if len(points[0])}
    theory = rows(theory)
    names = list(dict.fromkeys([*simulated, *theory]))
    tones = dict(zip(names, colours(len(names)), strict=True))

    def draw(axes):
        for name, (x, y, *_) in theory.items():
            own = {"label": f"_{name}, theory" if name in simulated else name}
            style = DASHED | {"color": tones[name], "linewidth": 1.5} | own
            axes.plot(x, y, **style)
        for i, (name, (x, y, *off)) in enumerate(simulated.items()):
            style = {"color": tones[name], "markersize": 5, "label": name}
            axes.plot(x, y, MARKS[i % len(MARKS)], **style)
            if off:
                axes.errorbar(x, y, off[0], fmt="none", ecolor=tones[name], label=f"_{name}, error")
        axes.set(**settings)
        if "xticks" in settings:  # there, and nowhere else
            axes.xaxis.minorticks_off()
        if not simulated.keys() & theory.keys() or theory.keys() <= simulated.keys():
            axes.legend(fontsize=8)
            return
        # a line without a name beside named ones looks forgotten
        shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        for name in simulated.keys() & theory.keys():
            mark = shown[name]
            shown[name] = Line2D([], [], **DASHED | {"color": tones[name], "linewidth": 1.5},
                                 marker=mark.get_marker(), markersize=mark.get_markersize())  # fmt: skip
        axes.legend([shown[name] for name in names], names, fontsize=8, handlelength=2.8)

    what = settings.get("ylabel", "points")
    said = [f"{begun(what)} against {settings.get('xlabel', 'x')}."]
    said += [f"Dashed, {name}: {course(y)}." for name, (_, y, *_) in theory.items()]
    for name, (_, y, *_) in simulated.items():
        found = listed(y, ".3g") if len(y) <= FEW else f"{len(y)} from {spread(y, '.3g')}"
        said.append(f"Marks, {name}: {found}.")
    return Panel(draw, " ".join([*said, says]).strip(), width=6.2, height=3.6)


def reached(*points: ArrayLike) -> tuple[np.ndarray, ...]:
    """Those that a run came to."""
    x, y, *off = map(np.asarray, points)
    return tuple(each[np.isfinite(y)] for each in (x, y, *off))


def rows(named: Points) -> dict[str, tuple[np.ndarray, ...]]:
    """Each as arrays x, y and, if it is there, the error of y."""
    pairs = {
        name: (list(points), list(points.values())) if isinstance(points, Mapping) else points
        for name, points in named.items()
    }
    return {name: tuple(map(np.asarray, each)) for name, each in pairs.items()}


def agreement(
    measured: ArrayLike, predicted: ArrayLike, group: ArrayLike, name: str, **settings
) -> Panel:
    """Predicted against measured, on a dashed diagonal, both logarithmic, a mark for each group."""
    measured, predicted, group = map(np.asarray, (measured, predicted, group))
    groups = {
        f"{name} {own}": (measured[group == own], predicted[group == own])
        for own in np.unique(group)
    }
    ends = np.array([measured.min() / 1.3, measured.max() * 1.3])
    whole = dots(groups, {"equal": (ends, ends)}, xscale="log", yscale="log", **settings)
    off = np.median(np.abs(predicted / measured - 1))
    says = f"{len(measured)} predicted against simulated values: on the diagonal, half within {off:.1%}."
    return replace(whole, says=says, width=4.6, height=4.2)


def clouds(answer: Float[np.ndarray, " P"], said: Mapping[str, Float[np.ndarray, " P"]]) -> Panel:
    """A panel a predictor: its answers against the right ones, of many sequences, and its error."""
    edge = 3.0
    errors = [float(np.mean((answer - values) ** 2)) for values in said.values()]

    def draw(*axes):
        for panel, (name, values), error, tone in zip(
            axes, said.items(), errors, PREDICTORS, strict=False
        ):
            panel.plot([-edge, edge], [-edge, edge], label="_equal", **DASHED)
            panel.plot(answer[:SHOWN], values[:SHOWN], ".", color=tone, markersize=1.5,
                       label=f"_{name}")  # fmt: skip
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
