"""The same of several kinds of model, a colour a kind."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from iclbook.measure import thin
from iclbook.plot.panels import Panel, listed
from iclbook.plot.style import DASHED, GREY, colours


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
                axes.axhline(height, **(DASHED | {"color": tones.get(name, GREY)}))
        for name, times in told.items():
            for time in times:
                axes.axvline(time, color=tones[name], linewidth=0.8, linestyle=":")
        axes.set(xlabel="time (sum of learning rates)", **settings)
        lines, names = axes.get_legend_handles_labels()
        each = dict(zip(names, lines, strict=True))  # one of its curves stands for a kind
        axes.legend(each.values(), each, fontsize=8)

    said = []
    for name, (_, y) in found.items():
        said.append(f"{name} from {listed(np.atleast_1d(y[0]))} to {listed(np.atleast_1d(y[-1]))}")
        said[-1] += f", dashed {listed(levels[name])}" if len(levels.get(name, ())) else ""
        said[-1] += (
            f", dotted at times {listed(told[name], '.1f')}" if len(told.get(name, ())) else ""
        )
    says = f"{settings['ylabel'].replace('$', '')} over time: {'; '.join(said)}."
    return Panel(draw, f"{says[0].upper()}{says[1:]}")
