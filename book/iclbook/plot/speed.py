"""What was measured of the machine."""

from collections.abc import Mapping

from iclbook.plot.panels import Panel
from iclbook.plot.style import BLACK, BLUE, ORANGE

LEAST = 1e-7  # where the axis of seconds begins


def seconds(taken: Mapping[str, float], limits: Mapping[str, float]) -> Panel:
    """How long each takes, a line below the other; those with a ``limit`` are ours, and it is marked."""

    def draw(axes):
        for place, (name, value) in enumerate(taken.items()):
            tone = ORANGE if name in limits else BLUE
            axes.plot([LEAST, value], [place, place], color=tone, linewidth=2)
            axes.plot(value, place, "o", color=tone)
        places = [list(taken).index(name) for name in limits]
        axes.plot(list(limits.values()), places, "|", color=BLACK, markersize=14, markeredgewidth=2,
                  label="the machine's limit")  # fmt: skip
        axes.set_yticks(range(len(taken)), list(taken), fontsize=8)
        axes.invert_yaxis()
        axes.set(xscale="log", xlabel="seconds a step", xlim=(LEAST, None))
        axes.legend(fontsize=8, loc="lower right")

    said = [
        f"{name} {value:.2g}" + (f", limit {limits[name]:.2g}" if name in limits else "")
        for name, value in taken.items()
    ]
    return Panel(draw, f"Seconds a step, on a logarithmic axis: {'; '.join(said)}.", width=6.4)
