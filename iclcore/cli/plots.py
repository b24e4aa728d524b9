"""The picture of any one run, or of a sweep."""

import numpy as np

from iclcore import theory
from iclcore.heads.spectral import share, spectra
from iclcore.heads.theory import MultiTask, flow
from iclcore.history import History, thin
from iclcore.style import DASHED, ORANGE, PINK, Picture, canvas, colours, curve, drawn, levels
from iclcore.sweep import Plan, Swept

MOST_CURVES = 400  # of a sweep: more are a blot
MOST_NAMED = 12  # lines of a legend


@drawn
def run(history: History) -> Picture:
    """What ``train --show`` shows: losses on the theory's levels, and the values where recorded."""
    values = history.series.get("value")
    columns, width = (1, 7.2) if values is None else (2, 9.6)
    figure, axes = canvas(columns, width=width, squeeze=False)
    left = axes[0, 0]
    tests = {"test_in_weight": "in-weight test", "test_in_context": "in-context test"}
    for name, label in ({"loss": "training"} | tests).items():
        if name in history.series:
            curve(left, history, name, label=label)
    task = history.task
    if task and task.in_context == 1 and history.engine != "rows":
        levels(left, theory.plateau_losses(task))
    if history.floor is not None:
        left.axhline(history.floor, color=ORANGE, linestyle=":", label="least-squares floor")
    left.set(xlabel="step", ylabel="mean squared error")
    diverged = history.ended == "diverged"
    most = 3 * history.loss[0]
    calm = np.argmin(
        np.append((history.loss <= most) & np.isfinite(history.loss), False)
    )  # the steps before it leaves the picture
    if diverged and calm:  # or all that came before would be a line on the axis
        left.set(ylim=(0, most))
    left.legend(fontsize=8, loc="upper right")
    if values is not None:
        curve(axes[0, 1], history, "value")
        axes[0, 1].set(xlabel="step", ylabel="value weight of each head")
        if diverged and calm:
            widest = 1.1 * np.abs(values[:calm]).max()
            axes[0, 1].set(ylim=(-widest, widest))
    finite = history.loss[np.isfinite(history.loss)]  # none of a run that began beyond all bounds
    final = finite[-1] if len(finite) else np.nan
    span = f"from {history.loss[0]:.3g} to {final:.3g} in {len(history.loss):,} steps"
    left_out = "; what is above three times the first is left out" * diverged
    return Picture(figure, f"Training loss against step: {span}{left_out}.")


@drawn
def multihead_run(history: History, task: MultiTask) -> Picture:
    """What ``train --model multihead --show`` shows: the loss, ω and μ, with the flow's."""
    omega, mu = spectra(history)
    t = history.series["time"]
    path, part = None, share(history)  # the flow's time and loss are those of the sum over tasks
    if t[-1]:
        times = np.linspace(0, part * t[-1], 201)
        path = flow(task, omega[0], mu[0], times, history.settings["width"])
    figure, axes = canvas(columns=3, width=9.6)
    shown = thin(len(t))
    axes[0].plot(t[shown], history.loss[shown], color=PINK, linewidth=0.8)
    for panel, values, name in ((axes[1], omega, r"$\omega$"), (axes[2], mu, r"$\mu$")):
        for i, color in enumerate(colours(task.tasks)):
            lines = panel.plot(t[shown], values[shown, :, i], color=color)
            lines[0].set_label(f"task {i + 1}")
        panel.set(ylabel=f"{name} of each head and task")
    if path:
        courses = part * path.loss.sum(-1), path.omega, path.mu
        for panel, values in zip(axes, courses, strict=True):
            panel.plot(path.t / part, values.reshape(len(path.t), -1), **DASHED)
    for panel in axes:
        panel.set(xlabel="time (sum of learning rates)")
    axes[0].set(ylabel=f"loss, {history.settings['loss']}", ylim=(0, None))
    axes[1].legend(fontsize=8)
    alt = (
        f"Loss of {task.tasks} tasks, from {history.loss[0]:.3g} to {history.loss[-50:].mean():.3g}, "
        "and ω and μ of every head and task against time; dashed, the gradient flow."
    )
    return Picture(figure, alt)


@drawn
def swept(found: Swept) -> Picture:
    """What ``sweep`` leaves beside its table: the curves, coloured by the first thing that differs.

    The seed comes last: it is what curves of one colour differ in.
    """
    name = min(found.axes, key=lambda name: name == "seed", default="seed")
    groups: dict[object, list[Plan]] = {}
    for run in (found.ended("finished") + found.ended("diverged"))[:MOST_CURVES]:
        groups.setdefault(run.row.get(name), []).append(run)
    values = sorted(groups, key=lambda v: (0, v) if isinstance(v, (int, float)) else (1, str(v)))
    # of more than fit beside the panel the first, the last and some between, as their colours are
    few = len(values) if len(values) <= MOST_NAMED else MOST_NAMED // 2
    named = {values[i] for i in np.linspace(0, len(values) - 1, few).astype(int)}
    figure, panel = canvas()
    for value, color in zip(values, colours(len(values)), strict=True):
        label = str(value) if value in named else None
        for run in groups[value]:
            history = found.history(run)
            curve(panel, history, color=color, linewidth=0.8, alpha=0.8, label=label)
            label = None
    if len(values) > 1:
        title = name if few == len(values) else f"{name}, {few} of {len(values)}"
        panel.legend(title=title, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    panel.set(xlabel="step", ylabel="mean squared error")
    ends = ", ".join(f"{len(found.ended(how))} {how}" for how in ("finished", "diverged", "failed"))
    alt = f"Training loss against step of a sweep's runs, a colour for each {name}: {ends}."
    return Picture(figure, alt)
