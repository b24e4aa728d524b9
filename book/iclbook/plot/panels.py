"""A small vocabulary of panels, each with a sentence for those who cannot see it.

Dashed is theory, solid is simulation. ``figure`` puts panels in rows and joins what they say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from iclbook.measure import Course, drop_times, thin
from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    ORANGE,
    Animation,
    Figure,
    canvas,
    colours,
    drawn,
    shades,
)
from iclbook.plot.style import (
    levels as draw_levels,
)
from iclcore import History
from iclcore.theory import Drop

QUIET, QUIET_MARK = "#9aa7b5", "#e8b58f"  # of runs behind the one that is shown
SIGNED = "PuOr"
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
    grid = [[row] if isinstance(row, Panel) else list(row) for row in rows]
    panels = [panel for row in grid for panel in row]
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
            if not alone:
                own[0].set_title(next(letters), loc="left", fontweight="bold")
    said = [panel.says for panel in panels]
    if not alone:
        said = [f"{a}: {s}" for a, s in zip("abcdefghijkl", said, strict=False)]
    return Figure(whole, " ".join(said))


@drawn
def animation(frames: Sequence[Sequence[Panel]], says: str) -> Animation:
    """Rows of panels one after another."""
    pictures = []
    for row in frames:
        widths = [w for panel in row for w in panel.widths]
        whole, axes = canvas(len(widths), width=7.4, height=2.3, width_ratios=widths)
        rest = iter(axes)
        for panel in row:
            panel.draw(*(next(rest) for _ in panel.widths))
        pictures.append(whole)
    return Animation(pictures, says)


# -- runs -----------------------------------------------------------------------------------------


def losses(
    runs: Sequence[History],
    shown: History | None = None,
    levels: Sequence[float] = (),
    drops: Sequence[Sequence[Drop]] = (),
    until: int | None = None,
    names: str | None = r"$\mathcal{L}(\mathcal{M}_%d)$",
    of: str = "",
) -> Panel:
    """Losses against steps on the theory's levels; ticks where theory puts the ``drops`` of each run.

    Levels ``of`` another model than the runs' own are there to compare with.
    ``shown`` stands in front. With ``until``, for a frame of an animation, it is drawn as far as that step.
    """
    levels = np.asarray(levels, dtype=float)
    last = max(run.steps[-1] for run in runs)

    def draw(axes):
        for run, own in zip(runs, list(drops) or [()] * len(runs), strict=True):
            front = shown is None or run is shown
            at = thin(len(run.steps))
            tone = BLUE if front and until is None else QUIET
            width = 1.8 if front else 0.9
            axes.plot(run.steps[at], run.loss[at], color=tone, linewidth=width, zorder=2 + front)
            for drop, low, high in zip(own, levels[1:], levels, strict=False):
                if drop.time / run.lr <= last:
                    axes.plot(drop.time / run.lr, (low + high) / 2, "|", markersize=9, zorder=4,
                              color=ORANGE if front else QUIET_MARK, markeredgewidth=1.5)  # fmt: skip
            if front and until is not None:
                gone = at[run.steps[at] <= until]
                axes.plot(run.steps[gone], run.loss[gone], color=BLUE)
                axes.plot(until, run.loss[min(until, len(run.loss) - 1)], "o", color=ORANGE)
        draw_levels(axes, levels, names)
        if drops:
            axes.plot(
                [], [], "|", color=ORANGE, markersize=9, label="drop predicted from the start"
            )
            axes.legend(fontsize=8, loc="upper right")
        axes.set(
            xlabel="step", ylabel="mean squared error", xlim=(0, last), ylim=(0, 1.15 * highest)
        )

    ends, highest = [run.loss[-1] for run in runs], max(run.loss[0] for run in runs)
    says = "Training loss" if len(runs) == 1 else f"Training losses of {len(runs)} seeds"
    first = spread([run.loss[0] for run in runs])
    says += f" against the step, {first} at first and {spread(ends)} at the end"
    if len(levels) > 1:
        passed = max(np.isfinite(drop_times(run, levels)).sum() for run in runs)
        says += f", near the dashed levels of {of}," if of else ", on the dashed levels"
        says += f" {listed(levels[: passed + 1])}"
    says += (
        "; ticks mark the drops that theory predicts from the initial weights" * bool(drops) + "."
    )
    return Panel(draw, says, height=3.9)


def values(run: History, courses: Sequence[Course] = ()) -> Panel:
    """The value weight of each head, dashed what the scalar ODE says of those that have risen."""
    at = thin(len(run.steps))
    owned = {course.head: course.component for course in courses}
    tones = shades(max([1, *owned.values()]))

    def draw(axes):
        for head in range(run.value.shape[1]):
            tone = tones[owned[head] - 1] if head in owned else QUIET
            axes.plot(run.steps[at], run.value[at, head], color=tone, linewidth=1.8)
        for course in courses:
            axes.plot(course.time / run.lr, course.value, **(DASHED | {"color": BLACK}))
        if courses:
            axes.plot([], [], **(DASHED | {"color": BLACK}), label="scalar ODE")
            axes.legend(fontsize=8)
        axes.set(xlabel="step", ylabel="value weight of each head", xlim=(0, run.steps[-1]))

    says = f"Value weights of the {run.value.shape[1]} heads of one run"
    if courses:
        off = [
            np.abs(run.value[at, c.head] - c.value).max() / np.abs(c.value).max() for c in courses
        ]
        says += f": {len(courses)} leave zero, within {max(off):.0%} of the dashed curves of the scalar ODE"
    says += "."
    return Panel(draw, says, height=3.9)


def keys(run: History, at: Sequence[int]) -> Panel:
    """Keys of all heads at the kept steps ``at``, a row each, beside the eigenvectors."""
    stack = run.snapshots["key"][at, :, 0, : run.task.dim]
    limit = np.abs(stack).max()

    def draw(*axes):
        for m, (part, rows) in enumerate(zip(axes, stack, strict=False)):
            heat(part, rows, limit, f"keys at $\\mathcal{{M}}_{{{m}}}$")
        basis = run.task.eigenvectors.T
        heat(axes[-1], basis, np.abs(basis).max(), "eigenvectors")
        for part, letter, count in ((axes[0], "k", stack.shape[1]), (axes[-1], "e", len(basis))):
            part.set_yticks(range(count), [rf"${letter}_{{{i}}}$" for i in range(1, count + 1)])

    along = np.abs(stack @ run.task.eigenvectors).max(axis=2)
    size = np.linalg.norm(stack, axis=2)
    aligned = ((along > 0.9 * size) & (size > limit / 3)).sum(axis=1)
    says = f"Heat maps of the keys on {len(at)} plateaus: {listed(aligned, 'd')} of "
    says += f"{stack.shape[1]} are long and parallel to an eigenvector."
    return Panel(draw, says, widths=(1.0,) * (len(at) + 1), height=2.5)


def rank_one_frame(run: History, snapshot: int, levels: Sequence[float]) -> list[Panel]:
    """For an animation: the loss so far, the keys beside the eigenvectors, and the predictor M."""
    keys_, made = run.snapshots["key"][:, :, 0, : run.task.dim], run.predictors
    loss = losses([run], levels=levels, until=int(run.kept[snapshot]), names=None)
    return [
        replace(loss, widths=(2.1,)),
        matrix(keys_[snapshot], "keys", np.abs(keys_[-1]).max()),
        matrix(run.task.eigenvectors.T, "eigenvectors"),
        matrix(made[snapshot], "predictor M", np.abs(made[-1]).max()),
    ]


# -- matrices, curves, points ---------------------------------------------------------------------


def heat(axes, values: np.ndarray, limit: float, title: str = "") -> None:
    """A small signed heat map without ticks."""
    axes.imshow(values, cmap=SIGNED, vmin=-limit, vmax=limit)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.set_title(title, fontsize=9)


def matrix(values: np.ndarray, title: str, limit: float | None = None) -> Panel:
    """One matrix as a signed heat map."""
    limit = limit or np.abs(values).max()
    return Panel(lambda axes: heat(axes, values, limit, title), f"{title}, as a heat map.")


def curves(
    x: np.ndarray,
    ys: np.ndarray,
    dots: Sequence[int] = (),
    legend: str = "",
    **settings,
) -> Panel:
    """One curve for each row of ``ys``, named by its number; ``dots[i]`` marks a place on curve i."""
    tones = colours(len(ys))

    def draw(axes):
        for i, (row, tone) in enumerate(zip(ys, tones, strict=True)):
            axes.plot(x, row, color=tone, label=f"{i}")
            if i < len(dots):
                axes.plot(x[dots[i]], row[dots[i]], "o", color=tone, markersize=5)
        axes.set(**{"xlabel": "step"} | settings)
        axes.legend(
            title=legend, fontsize=8, title_fontsize=8, ncols=min(9, len(ys)), loc="lower left"
        )

    says = f"{settings.get('ylabel', 'Curves')} against {settings.get('xlabel', 'step')}, "
    says += f"{len(ys)} curves by {legend or 'number'}"
    if len(dots):
        held = [row[at] for row, at in zip(ys, dots, strict=False)]
        first = all(np.argmin(ys[:, at]) == i for i, at in enumerate(dots))
        says += f"; at the dots, one on each, they are {listed(held, '.2g')}"
        says += ", the lowest there of all" * first
    return Panel(draw, f"{says[0].upper()}{says[1:]}.", width=6.6, height=3.3)


def lines(
    simulated: Mapping[str, tuple[ArrayLike, ArrayLike]],
    theory: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    says: str = "",
    wide: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    levels: Sequence[float] = (),
    **settings,
) -> Panel:
    """Named curves, solid; dashed on each what theory says under the same name.

    A theory of another name is dashed in grey. ``wide`` curves lie pale behind, in the colour of their
    name; ``levels`` are dashed across. What a run did not reach is left out by the caller.
    """
    theory, wide = theory or {}, wide or {}
    names = list(dict.fromkeys([*simulated, *wide]))
    tones = dict(zip(names, colours(len(names)), strict=True))

    def draw(axes):
        for drawn_, style in ((wide, {"linewidth": 4.5, "alpha": 0.3}), (simulated, {})):
            for name, (x, y) in drawn_.items():
                at = thin(len(np.asarray(x)))
                label = None if drawn_ is wide and name in simulated else name
                axes.plot(
                    np.asarray(x)[at], np.asarray(y)[at], color=tones[name], label=label, **style
                )
        for name, (x, y) in theory.items():
            own = {"color": BLACK, "zorder": 3} if name in tones else {"label": name}
            axes.plot(x, y, **(DASHED | own))
        draw_levels(axes, levels, "")
        axes.set(**settings)
        if len(names) > 1 or theory.keys() - simulated.keys():
            axes.legend(fontsize=8)

    ends = [f"{name} from {y[0]:.3g} to {y[-1]:.3g}" for name, (_, y) in simulated.items()]
    said = f"{settings.get('ylabel', 'Curves')} against {settings.get('xlabel', 'x')}: {'; '.join(ends)}"
    said += f". Wide and pale: {', '.join(wide)}" * bool(wide)
    said += ". Dashed, the theory" * bool(theory or len(levels)) + "."
    return Panel(draw, f"{said[0].upper()}{said[1:]}{says and ' ' + says}", width=6.6, height=3.3)


def scaling(
    x: ArrayLike, measured: ArrayLike, predicted: ArrayLike, name: str, **settings
) -> Panel:
    """Dots on dashed lines, both logarithmic, a column each: what shrinks or grows as a power."""
    measured, predicted = np.asarray(measured), np.asarray(predicted)
    tones = colours(measured.shape[1])

    def draw(axes):
        for d, tone in enumerate(tones):
            axes.plot(x, predicted[:, d], **(DASHED | {"color": tone}))
            axes.plot(x, measured[:, d], "o", color=tone, markersize=5, label=f"{name} {d + 1}")
        axes.set(xscale="log", yscale="log", **settings)
        axes.invert_xaxis()
        axes.legend(fontsize=8)

    worst = np.nanmax(np.abs(predicted / measured - 1))
    says = (
        f"{settings.get('ylabel', name)} against {settings.get('xlabel', 'x')}, both logarithmic: dots "
        f"within {worst:.1%} of dashed lines, from {np.nanmin(measured):.3g} to {np.nanmax(measured):.3g}."
    )
    return Panel(draw, says[0].upper() + says[1:], width=5.6, height=3.6)


def agreement(
    measured: ArrayLike, predicted: ArrayLike, group: ArrayLike, name: str, **settings
) -> Panel:
    """Predicted against measured, on a dashed diagonal, both logarithmic, a mark for each group."""
    measured, predicted, group = map(np.asarray, (measured, predicted, group))
    groups = np.unique(group)

    def draw(axes):
        ends = np.array([measured.min() / 1.3, measured.max() * 1.3])
        axes.plot(ends, ends, **DASHED)
        for i, (own, tone) in enumerate(zip(groups, colours(len(groups)), strict=True)):
            axes.plot(measured[group == own], predicted[group == own], MARKS[i % len(MARKS)],
                      color=tone, markersize=4, alpha=0.7, label=f"{name} {own}")  # fmt: skip
        axes.set(xscale="log", yscale="log", **settings)
        axes.legend(fontsize=8)

    off = np.median(np.abs(predicted / measured - 1))
    says = f"{len(measured)} predicted against simulated values: on the diagonal, half within {off:.1%}."
    return Panel(draw, says, width=4.6, height=4.2)


# -- words ----------------------------------------------------------------------------------------


def listed(numbers: Sequence[float], form: str = ".2f") -> str:
    """a, b and c."""
    said = [format(number, form) for number in numbers]
    return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)


def spread(numbers: Sequence[float], form: str = ".2f") -> str:
    """The least to the largest, once if they look the same."""
    low, high = format(min(numbers), form), format(max(numbers), form)
    return low if low == high else f"{low} to {high}"
