"""The picture of any one run."""

import numpy as np

from iclcore import theory
from iclcore.figures.style import ORANGE, Figure, canvas, curve, drawn, levels
from iclcore.history import History
from iclcore.task import RegressionTask


@drawn
def run(history: History, task: RegressionTask) -> Figure:
    """What ``train --show`` shows: losses on the theory's levels, and the values where recorded."""
    values = history.series.get("value")
    figure, axes = canvas(columns=2 if values is not None else 1, squeeze=False)
    left = axes[0, 0]
    for name, label in {
        "loss": "training",
        "test_in_weight": "in-weight test",
        "test_in_context": "in-context test",
    }.items():
        if name in history.series:
            curve(left, history, name, label=label)
    if task.in_context == 1 and history.engine != "rows":
        levels(left, theory.plateau_losses(task))
    if history.floor is not None:
        left.axhline(history.floor, color=ORANGE, linestyle=":", label="least-squares floor")
    left.set(xlabel="step", ylabel="mean squared error")
    left.legend(fontsize=8)
    if values is not None:
        curve(axes[0, 1], history, "value")
        axes[0, 1].set(xlabel="step", ylabel="value weight of each head")
    final = history.loss[np.isfinite(history.loss)][-1]
    alt = (
        f"Training loss against step: from {history.loss[0]:.3g} to {final:.3g} "
        f"in {len(history.loss):,} steps."
    )
    return Figure(figure, alt)
