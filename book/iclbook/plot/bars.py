"""Bars: what predictors say of one query, coefficients side by side, what was measured of the machine."""

from collections.abc import Mapping

import numpy as np

from iclbook.plot.panels import Panel, listed
from iclbook.plot.style import BLACK, BLUE, DASHED, GREY, ORANGE, PREDICTORS

LEAST = 1e-7  # where the axis of seconds begins


def bars(said: Mapping[str, float], answer: float) -> Panel:
    """What each predictor says of one query; dashed, the answer."""
    names, values = list(said), list(said.values())

    def draw(axes):
        axes.barh(range(len(names)), values, color=PREDICTORS[: len(names)], label="_prediction")
        axes.axvline(answer, label="_answer", **(DASHED | {"color": BLACK}))
        axes.axvline(0, color=GREY, linewidth=0.6, label="_zero")
        axes.set_yticks(range(len(names)), names, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("prediction")

    says = f"Bars of what {len(names)} predictors say, {', '.join(names)}: {listed(values)}"
    return Panel(draw, f"{says}; the dashed line is the answer, {answer:.2f}.", height=2.6)


def coefficients(target: np.ndarray, answer: np.ndarray, title: str) -> Panel:
    """Hermite coefficients of a target and of what is answered, side by side."""
    degrees = np.arange(len(target))

    def draw(axes):
        axes.bar(degrees - 0.2, target, 0.4, color=GREY, label="target")
        axes.bar(degrees + 0.2, answer, 0.4, color=BLUE, label="answer")
        axes.axhline(0, color=BLACK, linewidth=0.6, label="_zero")
        axes.set(xlabel="Hermite degree", xticks=degrees)
        axes.annotate(title, (0.5, 1.02), xycoords="axes fraction", ha="center", fontsize=9)
        axes.legend(fontsize=8)

    says = f"{title}: the target has {listed(target, 'z.2f')} for degree 0 to {degrees[-1]}"
    says += f", the answer {listed(answer, 'z.2f')}."
    return Panel(draw, says, height=2.8)


def seconds(taken: Mapping[str, float], limits: Mapping[str, float]) -> Panel:
    """How long each takes, a line below the other; those with a ``limit`` are ours, and it is marked."""

    def draw(axes):
        for place, (name, value) in enumerate(taken.items()):
            tone = ORANGE if name in limits else BLUE
            axes.plot(
                [LEAST, value], [place, place], color=tone, linewidth=2, label=f"_{name}, bar"
            )
            axes.plot(value, place, "o", color=tone, label=f"_{name}")
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
