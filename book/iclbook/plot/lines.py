"""Named curves: dashed is theory, solid is simulation."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from iclbook.plot.panels import Panel, begun, course, listed
from iclbook.plot.style import DASHED, GREY, THEORY, colours
from iclbook.plot.style import levels as draw_levels
from iclcore.history import thin


def lines(
    simulated: Mapping[str, tuple[ArrayLike, ArrayLike]],
    theory: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    says: str = "",
    wide: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    marks: Mapping[str, tuple[float, float]] | None = None,
    levels: Sequence[float] | np.ndarray = (),
    **settings,
) -> Panel:
    """Named curves, solid; dashed on each what theory says under the same name.

    A theory of another name is dashed in grey. ``wide`` curves lie pale behind, in the colour of their
    name; ``marks`` is a place on each; ``levels`` are dashed across, if they exist. What a run did not reach
    is left out by the caller.
    """
    theory, wide, marks = theory or {}, wide or {}, marks or {}
    levels = [level for level in levels if np.isfinite(level)]
    names = list(dict.fromkeys([*simulated, *wide]))
    tones = dict(zip(names, colours(len(names)), strict=True))

    def draw(axes):
        for drawn_, style in ((wide, {"linewidth": 4.5, "alpha": 0.3}), (simulated, {})):
            for name, (x, y) in drawn_.items():
                at = thin(len(np.asarray(x)))
                label = f"_{name}, wide" if drawn_ is wide and name in simulated else name
                axes.plot(
                    np.asarray(x)[at], np.asarray(y)[at], color=tones[name], label=label, **style
                )
        for name, (x, y) in theory.items():
            at = thin(len(np.asarray(x)))
            own = THEORY | {"label": f"_{name}, theory"}
            style = own if name in tones else DASHED | {"label": name}
            axes.plot(np.asarray(x)[at], np.asarray(y)[at], **style)
        for name, place in marks.items():
            axes.plot(*place, "o", color=tones[name], markersize=5, label=f"_{name}, marked")
        draw_levels(axes, levels, "")
        axes.set(**settings)
        if "xticks" in settings:  # there, and nowhere else
            axes.xaxis.minorticks_off()
        if len(names) > 1 or theory.keys() - simulated.keys():
            axes.legend(fontsize=8)

    ends = [f"{name} from {y[0]:.3g} to {y[-1]:.3g}" for name, (_, y) in simulated.items()]
    said = f"{settings.get('ylabel', 'Curves')} against {settings.get('xlabel', 'x')}: {'; '.join(ends)}"
    said += f". Wide and pale: {', '.join(wide)}" * bool(wide)
    said += f". Dots, a place on each: {listed([y for _, y in marks.values()], '.2g')}" * bool(
        marks
    )
    told = [f"{name} {course(y)}" for name, (_, y) in theory.items()]
    told += [f"levels {listed(levels, '.2g')}"] * bool(len(levels))
    said += f". Dashed, {'; '.join(told)}" * bool(told) + "."
    return Panel(draw, f"{begun(said)}{says and ' ' + says}", width=6.6, height=3.3)


def kinds(
    found: Mapping[str, tuple[Float[np.ndarray, " t"], Float[np.ndarray, "t curves"]]],
    levels: Mapping[str, Sequence[float]] | None = None,
    told: Mapping[str, Sequence[float]] | None = None,
    **settings,
) -> Panel:
    """Curves in the colour of their kind, dashed its levels, dotted the times that theory told of it.

    Levels of no kind are grey.
    """
    levels, told = levels or {}, told or {}
    tones = dict(zip(found, colours(len(found)), strict=True))

    def draw(axes):
        for name, (t, y) in found.items():
            at = thin(len(t), 600)
            axes.plot(t[at], y[at], color=tones[name], label=name)
        for name, heights in levels.items():
            for height in heights:
                style = DASHED | {"color": tones.get(name, GREY), "label": f"_{name}, level"}
                axes.axhline(height, **style)
        for name, times in told.items():
            for time in times:
                axes.axvline(time, color=tones[name], linewidth=0.8, linestyle=":",
                             label=f"_{name}, time told")  # fmt: skip
        axes.set(**{"xlabel": "time (sum of learning rates)"} | settings)
        lines, names = axes.get_legend_handles_labels()
        each = dict(zip(names, lines, strict=True))  # one of its curves stands for a kind
        # above: inside there is a line at every height
        axes.legend(each.values(), each, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1),
                    ncols=len(each), borderaxespad=0.2)  # fmt: skip

    said = []
    for name, (_, y) in found.items():
        said.append(f"{name} from {listed(np.atleast_1d(y[0]))} to {listed(np.atleast_1d(y[-1]))}")
        said[-1] += f", dashed {listed(levels[name])}" if len(levels.get(name, ())) else ""
        said[-1] += (
            f", dotted at times {listed(told[name], '.1f')}" if len(told.get(name, ())) else ""
        )
    over = settings.get("xlabel", "time")
    says = f"{settings['ylabel'].replace('$', '')} over {over}: {'; '.join(said)}."
    return Panel(draw, begun(says))
