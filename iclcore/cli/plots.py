"""The pictures of --show and of a sweep, with solid lines for simulation and dashed lines for theory."""

import numpy as np

from iclcore import theory
from iclcore.extras import needs
from iclcore.heads.theory import MultiTask, flow
from iclcore.history import History, thin
from iclcore.sweep import Swept

with needs("plots"):
    from matplotlib import colormaps, rc_context
    from matplotlib.figure import Figure

# a decorator: pictures have this style, whatever the user's own settings are
in_style = rc_context({"axes.spines.top": False, "figure.constrained_layout.use": True})
DASHED = {"color": "grey", "linestyle": "--", "linewidth": 1, "zorder": 1.5}
MOST_CURVES = 400  # in the picture of a sweep; more curves cannot be told apart


@in_style
def run(history: History) -> Figure:
    """Draw the losses on the plateaus of theory, and each head's value weight if it was recorded."""
    rows = thin(len(history.steps))
    if history.ended == "diverged":  # the steep end would flatten the rest of the curve
        rows = rows[history.loss[rows] <= 3 * history.loss[0]]
    steps, values = history.steps[rows], history.series.get("value")
    figure = Figure(figsize=(7.2 if values is None else 9.6, 3.4))
    panels = figure.subplots(1, 1 if values is None else 2, squeeze=False)[0]
    for name, errors in history.series.items():
        if errors.ndim == 1:
            panels[0].plot(steps, errors[rows], label=name.replace("_", " "))
    task = history.task
    if task and task.in_context == 1 and not history.model.softmax:
        for level in theory.plateau_losses(task):
            panels[0].axhline(level, **DASHED)
    if history.floor is not None:
        panels[0].axhline(history.floor, color="C3", linestyle=":", label="least-squares floor")
    panels[0].legend()
    panels[0].set(xlabel="step", ylabel="mean squared error")
    if values is not None:
        panels[1].plot(steps, values[rows])
        panels[1].set(xlabel="step", ylabel="value weight of each head")
    return figure


@in_style
def multihead_run(history: History, task: MultiTask) -> Figure:
    """Draw the loss, and ω and μ of every head and task. Dashed lines show the gradient flow."""
    time, rows = history.time, thin(len(history.steps))
    omega, mu = history.series["omega"], history.series["mu"]
    figure = Figure(figsize=(9.6, 3.4))
    panels = figure.subplots(1, 3)
    panels[0].plot(time[rows], history.loss[rows], linewidth=0.8)
    for panel, values in ((panels[1], omega), (panels[2], mu)):
        for i in range(task.tasks):
            first, *_ = panel.plot(time[rows], values[rows, :, i], color=f"C{i}")
            first.set_label(f"task {i + 1}")
    if time[-1] > 0:
        # the loss of the flow is a sum over tasks, but that of a run may be a mean: convert time and loss
        scale = history.settings["loss_scale"]
        times = np.linspace(0, time[-1], 201)
        path = flow(task, omega[0], mu[0], scale * times, history.settings["width"])
        courses = (scale * path.loss.sum(-1), path.omega, path.mu)
        for panel, course in zip(panels, courses, strict=True):
            panel.plot(times, course.reshape(len(times), -1), **DASHED)
    panels[1].legend()
    labels = (f"loss, {history.settings['loss']}", r"$\omega$", r"$\mu$")
    for panel, label in zip(panels, labels, strict=True):
        panel.set(xlabel="time (sum of learning rates)", ylabel=label)
    return figure


@in_style
def swept(found: Swept) -> Figure:
    """Draw the losses of a sweep's runs, coloured by the first setting other than the seed that differs."""
    name = min(found.axes, key=lambda name: name == "seed", default="seed")
    plans = (found.ended("finished") + found.ended("diverged"))[:MOST_CURVES]
    values = list(dict.fromkeys(str(plan.row.get(name)) for plan in plans))
    figure = Figure(figsize=(7.2, 3.4))
    panel, lines = figure.subplots(), {}
    for plan in plans:
        history, value = found.history(plan), str(plan.row.get(name))
        color = colormaps["viridis"](0.9 * values.index(value) / len(values))
        rows = thin(len(history.steps))
        (line,) = panel.plot(history.steps[rows], history.loss[rows], color=color, linewidth=0.8)
        lines[value] = line
    if 1 < len(values) <= 20:  # more names do not fit
        figure.legend(lines.values(), lines.keys(), title=name, loc="outside right upper")
    panel.set(xlabel="step", ylabel="mean squared error")
    return figure
