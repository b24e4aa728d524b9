"""Runs: losses on the theory's levels, values on their ODE, keys beside the eigenvectors."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from iclbook.measure import Course, drop_times
from iclbook.plot.heat import heat, matrix
from iclbook.plot.panels import Panel, listed, seeds, spread
from iclbook.plot.style import BLUE, GREY, ORANGE, THEORY, colours, shades
from iclbook.plot.style import levels as draw_levels
from iclcore.history import History, thin
from iclcore.theory import Drop

QUIET = "#9aa7b5"  # runs behind the one that is shown
TICK = {"markersize": 13, "markeredgewidth": 2.2, "color": ORANGE, "zorder": 5}
QUIET_TICK = {"markersize": 8, "markeredgewidth": 1.2, "color": "#c8703a", "zorder": 4}


def losses(
    runs: Sequence[History],
    shown: History | None = None,
    levels: Sequence[float] | np.ndarray = (),
    drops: Sequence[Sequence[Drop]] = (),
    until: int | None = None,
    names: str | None = r"$\mathcal{L}(\mathcal{M}_%d)$",
    of: str = "",
    **settings,
) -> Panel:
    """Losses against steps on the theory's levels; ticks where theory puts the ``drops`` of each run, long
    ones for the run in front.

    Levels ``of`` another model than the runs' own are there to compare with.
    ``shown`` stands in front. With ``until``, for a frame of an animation, it is drawn as far as that step.
    """
    levels = np.asarray(levels, dtype=float)
    last = max(run.steps[-1] for run in runs)

    def draw(axes):
        each = zip(runs, list(drops) or [()] * len(runs), seeds(runs), strict=True)
        for run, own, name in each:
            front = shown is None or run is shown
            at = thin(len(run.steps))
            tone = BLUE if front and until is None else QUIET
            width = 1.8 if front else 0.9
            axes.plot(run.steps[at], run.loss[at], color=tone, linewidth=width, zorder=2 + front,
                      label=f"_{name}")  # fmt: skip
            for drop, low, high in zip(own, levels[1:], levels, strict=False):
                if drop.time / run.lr <= last:
                    axes.plot(drop.time / run.lr, (low + high) / 2, "|",
                              **TICK if front else QUIET_TICK,
                              label=f"_{name}, drop predicted")  # fmt: skip
            if front and until is not None:
                gone = at[run.steps[at] <= until]
                axes.plot(run.steps[gone], run.loss[gone], color=BLUE, linewidth=width, zorder=4,
                          label=f"_{name}, so far")  # fmt: skip
                axes.plot(until, run.loss[min(until, len(run.loss) - 1)], "o", color=ORANGE,
                          zorder=5, clip_on=False, label=f"_{name}, now")  # fmt: skip
        draw_levels(axes, levels, names)
        if drops:
            axes.plot([], [], "|", **TICK, label="drop predicted from the start")
            axes.legend(fontsize=8, loc="upper right")
        own = {"xlabel": "step", "xlim": (0, last), "ylim": (0, 1.15 * highest)}
        axes.set(**own | {"ylabel": "mean squared error"} | settings)

    highest, left = max(run.loss[0] for run in runs), sum(run.ended == "diverged" for run in runs)
    ends = [run.loss[-1] for run in runs if run.ended != "diverged"]
    says = "Training loss" if len(runs) == 1 else f"Training losses of {len(runs)} seeds"
    first = spread([run.loss[0] for run in runs])
    says += f" against the step, {first} at first" + (
        f" and {spread(ends)} at the end" if ends else ""
    )
    says += f"; {left} of {len(runs)} leave all bounds" * bool(left)
    if len(levels) > 1:
        passed = max(np.isfinite(drop_times(run, levels)).sum() for run in runs)
        says += f", near the dashed levels of {of}," if of else ", on the dashed levels"
        says += f" {listed(levels[: passed + 1])}"
    says += (
        "; ticks mark the drops that theory predicts from the initial weights" * bool(drops) + "."
    )
    return Panel(draw, says, height=3.9)


def values(run: History, courses: Sequence[Course] = ()) -> Panel:
    """The value weight of each head, dashed what the scalar ODE says of those that have risen, which are
    named by their key and the eigenvector that it is parallel to."""
    at = thin(len(run.steps))
    owned = {course.head: course.component for course in courses}
    tones = shades(max([1, *owned.values()]))
    heads = colours(run.value.shape[1])  # where no course says which have risen

    def draw(axes):
        for head in range(run.value.shape[1]):
            tone = tones[owned[head] - 1] if head in owned else QUIET if courses else heads[head]
            axes.plot(run.steps[at], run.value[at, head], color=tone, linewidth=2.4,
                      label=f"_head {head + 1}")  # fmt: skip
        for course in courses:
            axes.plot(course.time / run.lr, course.value, **THEORY,
                      label=f"_head {course.head + 1}, scalar ODE")  # fmt: skip
            axes.annotate(rf"$k_{{{course.head + 1}}} \parallel e_{{{course.component}}}$",
                          (1, run.value[-1, course.head]), xycoords=("axes fraction", "data"),
                          xytext=(3, 0), textcoords="offset points", va="center", fontsize=8,
                          color=GREY)  # fmt: skip
        if courses:
            axes.plot([], [], **THEORY, label="scalar ODE")
            axes.legend(fontsize=8)
        axes.set(xlabel="step", ylabel="value weight of each head", xlim=(0, run.steps[-1]))

    says = f"Value weights of the {run.value.shape[1]} heads of one run"
    if run.ended == "diverged":
        says += ", which leave all bounds"
    elif courses:
        off = [
            np.abs(run.value[at, c.head] - c.value).max() / np.abs(c.value).max() for c in courses
        ]
        says += f": {len(courses)} leave zero, within {max(off):.0%} of the dashed curves of the scalar ODE"
    says += "."
    return Panel(draw, says, height=3.9)


def keys(run: History, at: Sequence[int]) -> Panel:
    """Keys of all heads at the kept steps ``at``, a row each, beside the eigenvectors."""
    stack = _kept_keys(run)[at]
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
    return Panel(draw, says, widths=(1.0,) * (len(at) + 1), height=2.1)


def _kept_keys(run: History) -> Float[np.ndarray, "kept heads dim"]:
    """The part of each rank-one key that reads inputs, at the kept steps."""
    if "key" not in run.snapshots:
        raise ValueError("keys: this run kept none; train(..., snapshots=10) does")
    return run.snapshots["key"][:, :, 0, : run.task.dim]


def rank_one_frame(run: History, snapshot: int, levels: Sequence[float]) -> list[Panel]:
    """For an animation: the loss so far, the keys beside the eigenvectors, and the predictor M."""
    keys_, made = _kept_keys(run), run.predictors
    loss = losses([run], levels=levels, until=int(run.kept[snapshot]), names=None)
    return [
        replace(loss, widths=(2.1,)),
        matrix(keys_[snapshot], "keys", np.abs(keys_[-1]).max()),
        matrix(run.task.eigenvectors.T, "eigenvectors"),
        matrix(made[snapshot], "predictor M", np.abs(made[-1]).max()),
    ]
