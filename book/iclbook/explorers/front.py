"""The explorer of the front page: merged and separate key and query from the same initial weights."""

import numpy as np

from iclbook.explorers.base import Explorer, guess, position, preset, real
from iclbook.explorers.start import start
from iclbook.plot import style
from iclbook.plot.style import Figure, drawn
from iclcore import theory
from iclcore.history import History
from iclcore.models import MergedAttention, Model, SeparateAttention
from iclcore.task import RegressionTask
from iclcore.trainer import train

UNTIL = 1e5  # the axis of time ends there
# learning rates, below the edges of stability at .158 and .407
RATES = {"merged": 0.1, "separate": 0.4}


class Front(Explorer):
    """One drop and a staircase, on one axis of time."""

    name = "front"
    heading = "One drop, or one step at a time"
    GUESS = guess(
        "Make the initial weights ten times smaller. How much later does each curve fall?",
        [
            "both hardly later",
            "both about ten times later",
            "merged hardly later, each stair about ten times later",
        ],
        2,
        "set the initial weights to 0.003",
        "Merged weights grow at a fixed rate and wait for the logarithm of their start; in a product of "
        "three factors each grows by the other two, and waits for one over its size.",
        init=0.003,
    )
    PRESETS = (
        preset(
            "small weights", "The stairs have moved to the right, the drop has hardly.", init=0.003
        ),
        preset("large weights", "The waits are gone, and with them most of the stairs.", init=0.3),
    )
    init = real(0.03, "initial weights", 0.003, 0.3, log=True)
    at = position()

    def task(self) -> RegressionTask:
        return RegressionTask(dim=4, context=31)

    def model(self, name: str) -> Model:
        kind = {"merged": MergedAttention, "separate": SeparateAttention}[name]
        return kind(heads=4, init=self.init, divisor="context")

    def history(self, name: str, until: float) -> History:
        """The run that the page draws, to this time."""
        task, model = self.task(), self.model(name)
        weights = start(model, task.eigenvectors, 1)
        return train(model, task, int(until / RATES[name]), RATES[name], start=weights)

    def answer(self) -> int:
        """Compares the times at which half of the merged drop and of the first stair are done."""

        def half(explorer: Front, name: str) -> float:
            history, levels = explorer.history(name, 2000), theory.plateau_losses(self.task())
            first = levels[[0, -1]] if name == "merged" else levels[:2]
            return history.time[np.argmax(history.loss < first.mean())]

        later = tuple(round(half(self, name) / half(Front(), name)) for name in RATES)
        return [(1, 1), (10, 10), (1, 10)].index(later)

    @drawn
    def picture(self) -> Figure:
        """From the explorer's own initial weights all is learned by a thirtieth of its axis."""
        figure, axes = style.canvas(width=8.4, height=3.4)
        levels, drops = theory.plateau_losses(self.task()), {}
        for name, colour in (("merged", style.ORANGE), ("separate", style.BLUE)):
            history = self.history(name, UNTIL / 30)
            rows = np.unique(np.geomspace(1, len(history.loss), 600).astype(int)) - 1
            axes.plot(np.append(history.time[rows], UNTIL), np.append(history.loss[rows], history.loss[-1]),
                      color=colour, label=name)  # fmt: skip
            middle = np.argmax(history.loss < (levels[0] + levels[-1]) / 2)
            drops[name] = history.time[middle]
        style.levels(axes, levels)
        axes.set(xscale="log", xlim=(1, UNTIL), ylim=(0, None), xlabel="time, learning rate × steps",
                 ylabel="mean squared error")  # fmt: skip
        axes.legend()
        alt = (
            f"Two losses against time on a logarithmic axis, from initial weights of {self.init:g}. With "
            f"key and query merged the loss falls once, around time {drops['merged']:.2g}; with separate "
            "ones it falls in four steps, at rest between them on the plateaus that theory gives, and "
            f"passes the middle at {drops['separate']:.2g}."
        )
        return Figure(figure, alt)
