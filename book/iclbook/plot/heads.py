"""Panels of several heads on several tasks: their two numbers, their loss, what theory says of both."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from iclbook.measure import owned, smooth
from iclbook.plot.panels import Panel, listed, spread
from iclbook.plot.style import BLUE, DASHED, GREY, PINK, THEORY, colours
from iclcore.heads.theory import Flow
from iclcore.history import History, thin

TIME = "time (sum of learning rates)"
PHASES = ("warm-up", "emergence", "convergence")
LETTERS = {"omega": "ω", "mu": "μ"}


def shown(run: History, since: float) -> np.ndarray:
    """Rows from a time on, no more than a picture can show."""
    first = int(np.searchsorted(run.time, since))
    return first + thin(len(run.time) - first, 600)


def mark_phases(axes: Axes, ends: Sequence[float]) -> None:
    """Lines between the phases and their names above; an end that was not reached is nan."""
    reached = [t for t in ends if np.isfinite(t)]
    edges = [axes.get_xlim()[0], *reached, axes.get_xlim()[1]]
    for name, t in zip(PHASES, ends, strict=False):
        if np.isfinite(t):
            axes.axvline(t, color=GREY, linewidth=0.7, linestyle=":", label=f"_end of {name}")
    for name, low, high in zip(PHASES * bool(len(ends)), edges, edges[1:], strict=False):
        axes.annotate(name, ((low + high) / 2, 1.01), xycoords=("data", "axes fraction"),
                      ha="center", fontsize=8, color=GREY)  # fmt: skip


def weights(
    which: str,
    run: History,
    light: History | None = None,
    path: Flow | None = None,
    ends: Sequence[float] = (),
    since: float = 0.0,
) -> Panel:
    """ω or μ of each head and task: a colour a task, thin for the heads that have not got it.

    Wide and pale the same of ``light``, dashed of the flow. Shown from time ``since``.
    """
    letter = LETTERS[which]
    omega, mu = run.series["omega"], run.series["mu"]
    owner, values = (omega * mu)[-1].argmax(0), run.series[which]
    heads, tasks = values.shape[1:]
    tones = colours(tasks)

    def draw(axes):
        at = shown(run, since)
        for i, h in np.ndindex(tasks, heads):
            own = {} if h == owner[i] else {"linewidth": 0.7, "alpha": 0.8}
            name = f"_head {h + 1}, task {i + 1}"
            axes.plot(run.time[at], values[at, h, i], color=tones[i], label=name, **own)
            if path is not None:
                axes.plot(path.t, getattr(path, which)[:, h, i], **THEORY, label=f"{name}, flow")
        if light is not None:
            at = shown(light, since)
            same = owned(owner, light.series[which])[at]
            for i, each in enumerate(same.T):
                axes.plot(light.time[at], each, color=tones[i], linewidth=5, alpha=0.2,
                          label=f"_head {owner[i] + 1}, task {i + 1}, spectral numbers")  # fmt: skip
        if (values < 0).any():
            axes.axhline(0, color=GREY, linewidth=0.7, label="_zero")
        axes.set(xlabel=TIME, ylabel=rf"$\{which}_i^{{(h)}}$")
        axes.set_xlim(since, run.time[-1])
        mark_phases(axes, ends)

    first, last = (owned(owner, values[row]) for row in (shown(run, since)[0], -1))
    rest = np.delete(values[-1].T.ravel(), np.arange(tasks) * heads + owner)
    says = f"{letter} of each task's head starts at {spread(first, 'z.2f')}, ends at {spread(last, 'z.2f')}"
    if len(rest):
        says += f", those of all other heads at {spread(rest, 'z.2f')}"
    says += "; dashed, the flow beside it." if path is not None else "."
    return Panel(draw, says, height=3)


def fall(
    run: History,
    light: History | None = None,
    path: Flow | None = None,
    level: tuple[str, float] = ("", float("nan")),
    ends: Sequence[float] = (),
    since: float = 0.0,
) -> Panel:
    """The loss of all tasks over time, smoothed over batches; dashed the flow's, and a named level.

    Shown from time ``since``.
    """
    name, height = level
    window = 25 if light is not None else 60

    def draw(axes):
        at = shown(run, since)
        if light is not None:
            also = shown(light, since)
            axes.plot(light.time[also], smooth(light.loss, window)[also], color=PINK,
                      linewidth=5, alpha=0.3, label="spectral numbers")  # fmt: skip
        axes.plot(run.time[at], smooth(run.loss, window)[at], color=PINK, label="all matrices")
        if path is not None:
            axes.plot(path.t, path.loss.sum(-1), **THEORY, label="gradient flow")
        if np.isfinite(height):
            axes.axhline(height, label=f"_{name}", **DASHED)
            axes.annotate(name, (since, height), xytext=(3, 3), textcoords="offset points",
                          fontsize=8, color=GREY)  # fmt: skip
        axes.set(xlabel=TIME, ylabel="loss of all tasks")
        axes.set(ylim=(None if since else 0, None), xlim=(since, run.time[-1]))
        mark_phases(axes, ends)
        axes.legend(fontsize=8)

    seen = smooth(run.loss, window)[shown(run, since)]
    says = f"The loss goes from {seen[0]:.1f} to {seen[-1]:.1f}"
    if path is not None:
        says += f", the dashed flow's from {path.loss[0].sum():.1f} to {path.loss[-1].sum():.1f}"
    says += f"; {name}, {height:.2f}" * bool(np.isfinite(height)) + "."
    reached = [t for t in ends if np.isfinite(t)]
    says += f" The phases part at {listed(reached, '.1f')}." * bool(reached)
    return Panel(draw, says, height=3)


def winners(count: np.ndarray, loss: np.ndarray, limits: np.ndarray, name: str) -> Panel:
    """Final losses by how many heads won something; dashed, the limits of those allocations."""
    groups = np.unique(count)

    def draw(axes):
        spots = np.random.default_rng(0).uniform(-0.15, 0.15, len(count))  # sideways
        axes.scatter(count + spots, loss, s=9, color=BLUE, label="_runs, moved sideways")
        for n in groups:
            for level in np.unique(limits[count == n].round(6)):
                axes.plot([n - 0.35, n + 0.35], [level, level], **THEORY, label="_limit")
        axes.set(xlabel="heads that won a task", ylabel=name, xticks=groups, ylim=(0, None))

    parts = [f"{(count == n).sum()} with {n} at {spread(loss[count == n])}" for n in groups]
    return Panel(draw, f"{name} by the number of winners: {'; '.join(parts)}.", height=4.2)
