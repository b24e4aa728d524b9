"""The explorer of context lengths: linear attention trained on some, tested on others."""

from dataclasses import replace

import numpy as np

from iclbook.explorers.base import (
    Explorer,
    choice,
    guess,
    overlay,
    position,
    preset,
    real,
    spectrum,
    whole,
)
from iclbook.explorers.start import start
from iclbook.plot import style
from iclbook.plot.style import Figure, drawn
from iclcore import theory
from iclcore.models import MergedAttention
from iclcore.moments import coefficients, of_sequences
from iclcore.task import RegressionTask
from iclcore.trainer import train

SEQUENCES = 1_000  # of the run on finite data


class ContextLength(Explorer):
    """Merged attention trained on contexts of one length or of all up to it, tested on others."""

    name = "context_length"
    heading = "Context length: trained on one, tested on others"
    LEAD = ("context", "test", "pooling")
    GUESS = guess(
        "Let β be the sum over the context divided by 31, whatever its length. What is the error on 100 "
        "examples?",
        ["smaller than before", "the same", "larger than of an answer that is always zero"],
        2,
        "choose that β is sum / N",
        "On 100 examples such a β is about three times too large, and so is the answer; the curves leave the "
        "picture at its top. A mean forgets how many examples there were.",
        pooling="sum",
    )
    PRESETS = (
        preset(
            "trained on 5",
            "From five examples one learns to trust none: on long contexts both stay far above the best.",
            context=5,
            test=40,
        ),
        preset(
            "trained on 100, tested on 5",
            "Who saw only long contexts trusts the few examples of a short one too much.",
            context=100,
            test=5,
        ),
    )
    eigenvalues = spectrum((0.4, 0.3, 0.2, 0.1))
    context = whole(31, "train length N", 1, 100)
    test = whole(10, "test length", 1, 100)
    pooling = choice("mean", "β is", {"mean": "the mean", "sum": "sum / N"})
    init = real(0.01, "initial weights", 1e-4, 0.1, log=True)
    heads = whole(4, "heads H", 1, 16)
    lr = real(0.1, "learning rate", 0.01, 3, log=True)
    steps = whole(2000, "steps", 200, 4000)
    seed = whole(1, "seed", 0, 999)
    at = position()

    def task(self, every: bool = False, context: int | None = None) -> RegressionTask:
        values = tuple(self.eigenvalues)
        size = self.context if context is None else context
        return RegressionTask(dim=len(values), context=size, spectrum=values, every_length=every)

    def answer(self) -> int:
        """Compares the error on 100 examples with that of a mean, and with that of the answer zero."""
        task, test = self.task(), self.task(context=100)
        end = (task.eigenvectors * theory.learned(task, "context")) @ task.eigenvectors.T
        scale = 100 / self.context if self.pooling == "sum" else 1
        mean, error = (theory.population_loss(test, end * by, "context") for by in (1, scale))
        return int(np.searchsorted([mean, sum(self.eigenvalues)], error))

    def run_finite(self) -> tuple[list[dict], str]:
        """Both models trained on sequences, tested on 2,000 fresh ones of each of a few lengths."""
        mean = self.pooling == "mean"
        divisor = "context" if mean else "one"
        scale = 1.0 if mean else self.context  # a sum divided by N: y over N, then β is a mean
        model = MergedAttention(heads=self.heads, init=self.init, divisor=divisor)
        lengths = np.unique(np.geomspace(1, 100, 12).astype(int))
        series, ends = [], []
        for color, every in enumerate((False, True)):
            task = self.task(every)
            data = task.sample(SEQUENCES, self.seed)
            weights = start(model, task.eigenvectors, self.seed)
            moments = scaled(of_sequences(data, model), scale)
            final = train(model, moments, self.steps, self.lr, start=weights).final
            c = coefficients(model.factors(final, task.dim), moments.features)
            errors = []
            for n in lengths:
                fresh = self.task(context=int(n)).sample(2000, self.seed + 1)
                errors.append(scaled(of_sequences(fresh, model), scale).loss(c))
            name = f"{('one length', 'every length')[every]}, finite"
            line = overlay(0, name, np.array(errors), lengths, color, dots=4)
            series.append({**line, "label": False})
            ends.append(errors[-1])
        note = (
            f"Dots: both models trained in Python on {SEQUENCES:,} sequences, tested on 2,000 "
            f"fresh ones of each length; on {lengths[-1]} examples {ends[0]:.3f} and {ends[1]:.3f}."
        )
        return series, note

    @drawn
    def picture(self) -> Figure:
        lengths = np.arange(1, 101)
        figure, axes = style.canvas(width=7.2, height=3.6)
        errors = {}
        for every, color in ((False, style.BLUE), (True, style.ORANGE)):
            task = self.task(every)
            end = (task.eigenvectors * theory.learned(task, "context")) @ task.eigenvectors.T
            tests = [self.task(context=int(n)) for n in lengths]
            errors[every] = [theory.population_loss(t, end, "context") for t in tests]
            label = "trained on every length" if every else "trained on one length"
            axes.plot(lengths, errors[every], color=color, label=label)
        best = [theory.plateau_losses(self.task(context=int(n)))[-1] for n in lengths]
        axes.plot(lengths, best, **style.DASHED, label="best for each length")
        axes.set(xlabel="examples in the test context", ylabel="mean squared error", ylim=(0, 2))
        axes.legend()
        alt = (
            f"Error against the length of the test context. Trained on {self.context} examples only, "
            f"the error on 5 is {errors[False][4]:.2f}; trained on every length up to it, "
            f"{errors[True][4]:.2f}; the best for 5 is {best[4]:.2f}."
        )
        return Figure(figure, alt)


def scaled(moments, by: float):
    """Moments of the same data with S divided by ``by``."""
    return replace(moments, gram=moments.gram / by**2, cross=moments.cross / by)
