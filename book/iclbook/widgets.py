"""Run it for real: a panel of ipywidgets that trains on finite data, with a kernel.

The built pages leave it out: their explorers run on finite data themselves (maths/sample.mjs). Where a
notebook is read without a kernel it is its last picture and a line that says how to start one.
"""

import base64
import html
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import ipywidgets
import numpy as np
from ipywidgets import BoundedIntText, Button, Dropdown, HBox, Image, IntProgress, VBox

from iclbook.measure import rises
from iclbook.plot.style import BLUE, SKY, Figure, canvas, curve, drawn, levels
from iclbook.plot.trace import trace
from iclcore import theory
from iclcore.checks import choice
from iclcore.history import History
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention
from iclcore.task import SPECTRA, RegressionTask
from iclcore.trainer import train

MODELS: dict[str, Callable[..., Model]] = {
    "merged": lambda heads, init, rank: MergedAttention(heads, init),
    "separate": lambda heads, init, rank: SeparateAttention(heads, init, rank=rank),
    "MLP(z)": lambda heads, init, rank: CubicMLP(heads, init),
    "merged, softmax": lambda heads, init, rank: MergedAttention(heads, init, softmax=True),
    "separate, softmax": lambda heads, init, rank: SeparateAttention(heads, init, rank=rank, softmax=True),
}  # fmt: skip
WITHOUT_KERNEL = (
    "This panel trains on finite data and needs a running kernel: <code>make lab</code> opens the "
    "notebook with one. Above is its last picture."
)


class Run(VBox):
    """Choose task, model and seeds; train; see the losses on the theory's levels.

    Keywords set the controls: ``Run(model="separate", heads=4, steps=10_000, lr=0.02)``.
    """

    def __init__(self, **settings: Any) -> None:
        slim = {"layout": {"width": "15em"}, "style": {"description_width": "7em"}}
        self.controls = {
            "model": Dropdown(options=list(MODELS), description="model", **slim),
            "spectrum": Dropdown(options=list(SPECTRA), description="spectrum", **slim),
            "dim": BoundedIntText(4, 1, 12, description="dimension D", **slim),
            "context": BoundedIntText(31, 1, 200, description="examples N", **slim),
            "sequences": BoundedIntText(2000, 10, 100_000, description="sequences P", **slim),
            "in_context": ipywidgets.BoundedFloatText(
                1.0, min=0, max=1, step=0.1, description="in-context", **slim
            ),
            "heads": BoundedIntText(8, 1, 64, description="heads H", **slim),
            "rank": BoundedIntText(1, 1, 12, description="rank R", **slim),
            "init": ipywidgets.BoundedFloatText(
                1e-2, min=1e-9, max=1, description="initial", **slim
            ),
            "lr": ipywidgets.BoundedFloatText(0.002, min=1e-6, max=10, description="learning rate", **slim),
            "steps": BoundedIntText(3000, 1, 1_000_000, description="steps", **slim),
            "seeds": BoundedIntText(3, 1, 12, description="seeds", **slim),
        }  # fmt: skip
        for name, value in settings.items():
            choice("setting", name, tuple(self.controls))
            self.controls[name].value = value
        self.button = Button(description="Train", button_style="primary")
        self.bar = IntProgress(0, 0, 1, layout={"width": "16em"})
        self.status = ipywidgets.HTML()
        self.image = Image(format="png", layout={"max_width": "100%"})
        rows = list(self.controls.values())
        grid = [HBox(rows[i : i + 4], layout={"flex_flow": "row wrap"}) for i in (0, 4, 8)]
        super().__init__([*grid, HBox([self.button, self.bar, self.status]), self.image])
        self.button.on_click(self.run)
        self.alt, self.trace = "", ""
        self.run()

    def settings(self) -> dict[str, Any]:
        """The values of the controls, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def run(self, _: object = None) -> None:
        """Train once for each seed; on a wrong setting keep the picture and say what is wrong."""
        asked = self.settings()
        self.button.disabled, self.bar.value = True, 0
        self.bar.max = asked["seeds"] * asked["steps"]
        try:
            task = RegressionTask(
                asked["dim"], asked["context"], 1, asked["spectrum"], asked["in_context"]
            )
            model = MODELS[asked["model"]](asked["heads"], asked["init"], asked["rank"])
            with warnings.catch_warnings(
                action="ignore"
            ):  # what goes wrong stands in the line below
                histories = [
                    train(
                        model, task.sample(asked["sequences"], seed), asked["steps"], asked["lr"],
                        seed=seed, callback=partial(self._advance, seed * asked["steps"]),
                    )
                    for seed in range(asked["seeds"])
                ]  # fmt: skip
        except ValueError as wrong:
            self.status.value = html.escape(str(wrong))
        else:
            picture = losses(task, histories)
            self.image.value, self.alt = picture.file(), picture.alt
            self.trace = trace(picture.figure)
            self.status.value = html.escape(outcome(histories))
        finally:
            self.button.disabled = False

    def _advance(self, before: int, step: int, loss: float) -> None:
        self.bar.value = before + step

    def __repr__(self) -> str:
        return f"Run({', '.join(f'{name}={value!r}' for name, value in self.settings().items())})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        source = base64.b64encode(self.image.value).decode()
        still = (
            f'<div class="panel"><img alt="{html.escape(self.alt, quote=True)}" '
            f'src="data:image/png;base64,{source}"><p>{WITHOUT_KERNEL}</p></div>'
        )
        shown = super()._repr_mimebundle_(**kwargs)
        data = {**shown, "text/plain": repr(self), "text/html": still}
        return data, {"text/html": {"trace": self.trace}}


def outcome(histories: list[History]) -> str:
    """What happened to the runs, in a line."""
    lost = [h for h in histories if h.ended == "diverged"]
    if lost:
        step = min(len(h.loss) - 1 for h in lost)
        gone = f"{len(lost)} of {len(histories)} runs diverge"
        return f"{gone}, the first at step {step}: lower the learning rate"
    rising = sum(map(rises, histories))
    if rising:  # such a run has a sharpness over 2 / rate, where rounding decides how it goes on
        return f"the loss rises again in {rising} of {len(histories)} runs: lower the learning rate"
    ends = [h.loss[-1] for h in histories]
    seconds = sum(h.seconds["moments"] + h.seconds["descent"] for h in histories)
    return f"final loss {min(ends):.4f} to {max(ends):.4f}, {seconds:.2f} s"


@drawn
def losses(task: RegressionTask, histories: list[History]) -> Figure:
    """Losses of several seeds, dashed the theory where there is one."""
    figure, axes = canvas(width=6.6, height=3.3)
    for history, color in zip(histories, [BLUE] + [SKY] * (len(histories) - 1), strict=True):
        curve(axes, history, color=color, linewidth=1)
    if task.in_context == 1:
        levels(axes, theory.plateau_losses(task))
    top = max(np.nanmin(h.loss[:1]) for h in histories)
    axes.set(xlabel="step", ylabel="mean squared error", ylim=(0, 1.15 * top))
    alt = (
        f"Training losses of {len(histories)} seeds against the step, from {histories[0].loss[0]:.2f}; "
        f"{outcome(histories).split(',')[0]}. Dashed: the losses of the theory's fixed points."
    )
    return Figure(figure, alt)
