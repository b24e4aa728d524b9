"""The pictures of --show and of a sweep: simulation solid, theory dashed."""

import numpy as np

from iclcore import theory
from iclcore.extras import needs
from iclcore.heads.theory import MultiTask, flow
from iclcore.history import History, thin
from iclcore.sweep import Plan, Swept

with needs("plots"):
    from matplotlib import colormaps, rc_context
    from matplotlib.figure import Figure

MOST_CURVES = 400  # of a sweep; more cannot be told apart
# The style of every picture, whatever the settings of the user are.
in_style = rc_context(
    {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "figure.constrained_layout.use": True,
    }
)
DASHED = {"color": "grey", "linestyle": "--", "linewidth": 1, "zorder": 1.5}
LABELS = {"loss": "training", "test_in_weight": "in-weight test", "test_in_context": "in-context test"}


@in_style
def run(history: History) -> Figure:
    """Draw the losses on the plateaus of theory, and each head's value weight if it was recorded."""
    rows = thin(len(history.steps))
    if history.ended == "diverged":  # the steep end would flatten all that came before
        rows = rows[history.loss[rows] <= 3 * history.loss[0]]
    steps, values = history.steps[rows], history.series.get("value")
    figure = Figure(figsize=(7.2 if values is None else 9.6, 3.4))
    panels = figure.subplots(1, 1 if values is None else 2, squeeze=False)[0]
    for name, label in LABELS.items():
        if name in history.series:
            panels[0].plot(steps, history.series[name][rows], label=label)
    task = history.task
    if task and task.in_context == 1 and not history.model.softmax:
        for loss in theory.plateau_losses(task):
            panels[0].axhline(loss, **DASHED)
    if history.floor is not None:
        panels[0].axhline(history.floor, color="C3", linestyle=":", label="least-squares floor")
    panels[0].set(xlabel="step", ylabel="mean squared error")
    panels[0].legend()
    if values is not None:
        panels[1].plot(steps, values[rows])
        panels[1].set(xlabel="step", ylabel="value weight of each head")
    return figure


@in_style
def multihead_run(history: History, task: MultiTask) -> Figure:
    """Draw the loss, ω and μ of every head and task, and dashed those of the gradient flow."""
    rows, time = thin(len(history.steps)), history.time
    scale = history.settings["loss_scale"]  # the time and the loss of the flow are those of the sum
    drawn = [history.series[name] for name in ("loss", "omega", "mu")]
    figure = Figure(figsize=(9.6, 3.4))
    panels = figure.subplots(1, 3)
    panels[0].plot(time[rows], history.loss[rows], linewidth=0.8)
    for panel, values in zip(panels[1:], drawn[1:], strict=True):
        for i in range(task.tasks):
            lines = panel.plot(time[rows], values[rows, :, i], color=f"C{i}")
            lines[0].set_label(f"task {i + 1}")
    if time[-1] > 0:
        times = np.linspace(0, scale * time[-1], 201)
        path = flow(task, drawn[1][0], drawn[2][0], times, history.settings["width"])
        courses = scale * path.loss.sum(-1), path.omega, path.mu
        for panel, course in zip(panels, courses, strict=True):
            panel.plot(times / scale, course.reshape(len(times), -1), **DASHED)
    labels = (f"loss, {history.settings['loss']}", r"$\omega$", r"$\mu$")
    for panel, label in zip(panels, labels, strict=True):
        panel.set(xlabel="time (sum of learning rates)", ylabel=label)
    panels[1].legend()
    return figure


@in_style
def swept(found: Swept) -> Figure:
    """Draw the losses of a sweep's runs, coloured by the first setting that differs between them.

    The seed is taken last, so that curves of one colour differ in it.
    """
    name = min(found.axes, key=lambda name: name == "seed", default="seed")
    groups: dict[str, list[Plan]] = {}
    for plan in (found.ended("finished") + found.ended("diverged"))[:MOST_CURVES]:
        groups.setdefault(str(plan.row.get(name)), []).append(plan)
    figure = Figure(figsize=(7.2, 3.4))
    panel = figure.subplots()
    colours = colormaps["viridis"](np.linspace(0, 0.9, len(groups)))
    for (value, plans), color in zip(groups.items(), colours, strict=True):
        for plan in plans:
            history = found.history(plan)
            rows = thin(len(history.steps))
            (line,) = panel.plot(history.steps[rows], history.loss[rows], color=color, linewidth=0.8)
        line.set_label(value)
    if 1 < len(groups) <= 20:  # more names do not fit
        panel.legend(title=name, loc="upper left", bbox_to_anchor=(1, 1))
    panel.set(xlabel="step", ylabel="mean squared error")
    return figure
