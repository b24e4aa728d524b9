"""The explorers of given data: one context, and a mixture of in-context and in-weight sequences."""

import base64
from dataclasses import replace
from functools import cache

import numpy as np
import traitlets

from iclbook.explorers.base import (
    Explorer,
    guess,
    overlay,
    points,
    position,
    preset,
    real,
    spectrum,
    triples,
    whole,
)
from iclbook.explorers.start import normals, start
from iclbook.plot import style
from iclbook.plot.style import Figure, drawn
from iclcore import published, theory
from iclcore.history import History
from iclcore.models import MergedAttention
from iclcore.moments import Moments, mix, of_sequences
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import train

LONGEST, QUERIES = 40, 24  # examples of a context, and queries put to it


class Task(Explorer):
    """One context, answered by least squares, ridge, principal components and attention."""

    name = "task"
    heading = "A context, and four ways to answer"
    LEAD = ("examples", "noise")
    GUESS = guess(
        "Four weights, a context of four examples, and now noise in the labels. Whose answer suffers most?",
        ["least squares", "ridge", "attention"],
        0,
        "set the label noise to 0.5 and the examples to 4",
        "With as many examples as weights least squares fits the noise exactly; attention does not divide by "
        "what the context happens to hold, and hardly notices.",
        noise=0.5,
        examples=4,
    )
    PRESETS = (
        preset(
            "two components",
            "Who uses two directions of four keeps the error of the other two, however long the context.",
            components=2,
        ),
        preset(
            "two examples",
            "Least squares takes the smallest weights that fit; none of the four can know the rest.",
            examples=2,
        ),
        preset(
            "one wrong label",
            "Example 1 is pulled far from its line, and least squares goes with it. Drag it, and others.",
            examples=6,
            moved=[1.0, 0.9, 2.2],
        ),
    )
    eigenvalues = spectrum((0.4, 0.3, 0.2, 0.1))
    examples = whole(12, "examples n", 1, 40)
    components = whole(4, "components m", 0, 8)
    ridge = real(0.3, "ridge penalty", 1e-3, 30, log=True)
    noise = real(0.0, "label noise", 0, 1, step=0.05)
    moved = points("examples moved by hand", LONGEST)
    seed = whole(2, "seed", 0, 999)

    def context(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, inputs and labels as the page draws them, in the eigenbasis."""
        dim = len(self.eigenvalues)
        draws = normals(self.seed, dim + (LONGEST + QUERIES) * (dim + 1))
        w, rows = draws[:dim], draws[dim:].reshape(-1, dim + 1)
        x = rows[:LONGEST, :dim] * np.sqrt(self.eigenvalues)
        y = x @ w + self.noise * rows[:LONGEST, dim]
        for n, along, label in triples(self.moved):
            x[n - 1, 0], y[n - 1] = along, label
        return w, x, y

    def errors(self, examples: int) -> np.ndarray:
        """The errors of least squares, ridge and attention at a query, after so many examples."""
        w, x, y = self.context()
        x, y, values = x[:examples], y[:examples], np.array(self.eigenvalues)
        task = RegressionTask(dim=len(values), context=examples, spectrum=tuple(values))
        answers = (
            np.linalg.lstsq(x, y)[0],
            np.linalg.solve(x.T @ x + self.ridge * np.eye(len(values)), x.T @ y),
            theory.learned(task, "context") * (x.T @ y) / examples,
        )
        return np.array([values @ (each - w) ** 2 for each in answers])

    def answer(self) -> int:
        quiet = Task(**{**self.settings(), "noise": 0.0})
        return int(np.argmax(self.errors(self.examples) - quiet.errors(self.examples)))

    def run_finite(self) -> tuple[list[dict], str]:
        """Attention trained on 5,000 sequences of this length: its error on this context."""
        values = tuple(sorted(self.eigenvalues, reverse=True))
        order = np.argsort(self.eigenvalues, kind="stable")[::-1]
        task = RegressionTask(dim=len(values), context=self.examples, spectrum=values)
        model = MergedAttention(heads=1, init=1e-2, divisor="context")
        final = train(model, task.sample(5000, self.seed), 2000, 0.1).final
        c = final["value"][0, -1, -1] * final["key_query"][0, : task.dim, : task.dim]
        seen = task.eigenvectors.T @ c.T @ task.eigenvectors
        w, x, y = self.context()
        beta = (x[: self.examples, order].T @ y[: self.examples]) / self.examples
        error = float(np.sum(np.array(values) * (seen.T @ beta - w[order]) ** 2))
        dot = overlay(0, "attention, P = 5,000", np.array([error]), [self.examples], 3, dots=6)
        note = (
            f"Attention trained in Python on 5,000 sequences of {self.examples} examples: its error "
            f"here is {error:.4f}."
        )
        return [{**dot, "label": False}], note

    @drawn
    def picture(self) -> Figure:
        lengths = np.arange(1, LONGEST + 1)
        errors = np.array([self.errors(int(n)) for n in lengths])
        figure, axes = style.canvas(width=7.2, height=3.6)
        names, colors = ("least squares", "ridge", "attention"), (0, 1, 3)
        for line, name, color in zip(errors.T, names, colors, strict=True):
            axes.plot(lengths, line, color=style.PALETTE[color], label=name)
        axes.set(xlabel="examples n", ylabel="squared error at a query", ylim=(0, 1.5))
        axes.legend()
        alt = (
            "Squared error at a query against the number of examples in one context: least squares is "
            f"exact from {len(self.eigenvalues)} examples on, ridge near it, attention at "
            f"{errors[30, 2]:.2f} after 31."
        )
        return Figure(figure, alt)


class InWeight(Explorer):
    """The published in-weight run with any share of in-context sequences.

    Its data are the published draws at seed 10 and share 0.6: 3,000 sequences with tasks of their own and
    2,000 that share one. So at 0.6 the moments are those of the published training set.
    """

    name = "in_weight"
    heading = "In weights or in context"
    LEAD = ("share",)
    GUESS = guess(
        "Let one sequence in ten have a task of its own. Which test error is smaller at the end?",
        ["the one in context", "the one in weight", "they are equal"],
        1,
        "set the share in context to 0.1",
        "The shared task fills most sequences, and within these steps its weights are remembered; the "
        "context is read too seldom.",
        share=0.1,
    )
    PRESETS = (
        preset(
            "one in five",
            "The in-weight error falls first, and rises again while the in-context one falls.",
            share=0.2,
        ),
        preset("all in context", "Nothing can be remembered: only the labels are read.", share=1.0),
    )
    share = real(0.6, "share in context", 0, 1, step=0.01)
    heads = whole(8, "heads H", 1, 8)
    init = real(1e-6, "initial weights", 1e-7, 1e-2, log=True)
    lr = real(5e-4, "learning rate", 5e-5, 1e-3, log=True)
    steps = whole(4000, "steps", 1000, 4000)
    seed = whole(1, "seed", 0, 999)
    at = position()
    moments = traitlets.Dict().tag(sync=True)

    DRAWN = 5_000, 2_000, 10  # sequences to train on, to test on, seed
    OWN = 0.6

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.moments = {name: pack(each) for name, each in self.draw().items()}

    def model(self) -> MergedAttention:
        return MergedAttention(heads=self.heads, init=self.init)

    @staticmethod
    def task(share: float) -> RegressionTask:
        return RegressionTask(dim=4, spectrum="white", in_context=share)

    @classmethod
    @cache
    def draw(cls) -> dict[str, Moments]:
        """Moments of each kind of sequence; no control changes them."""
        model = MergedAttention()
        sequences, test, seed = cls.DRAWN
        mixed = published.sample(cls.task(cls.OWN), sequences, seed, test)
        noise = published.sample(cls.task(0.0), sequences, seed)
        own = int(sequences * cls.OWN)
        sets = {
            "own": mixed[:own],
            "shared": mixed[own:],
            "noise": noise,
            **mixed.tests,
        }
        return {name: single(of_sequences(wide(each), model)) for name, each in sets.items()}

    def mixture(self, share: float) -> Moments:
        kinds = self.draw()
        return (
            mix([(share, kinds["own"]), (1 - share, kinds["shared"])]) if share else kinds["noise"]
        )

    def answer(self) -> int:
        ends = self.history().series
        return int(np.argmin([ends["in_context"][-1], ends["in_weight"][-1]]))

    def history(self, data: Moments | Sequences | None = None) -> History:
        """The run that the page draws, with its test errors; or the same start on other data."""
        model = self.model()
        weights = start(model, np.eye(4), self.seed)
        tests = {name: self.draw()[name] for name in ("in_weight", "in_context")}
        data = self.mixture(self.share) if data is None else data
        return train(model, data, self.steps, self.lr, start=weights, tests=tests)

    def run_finite(self) -> tuple[list[dict], str]:
        """The same start on the published draws at just this share, drawn anew."""
        sequences, _, seed = self.DRAWN
        data = wide(published.sample(self.task(self.share), sequences, seed))
        history = self.history(data)
        last = history.loss[np.isfinite(history.loss)][-1]
        note = (
            f"Trained in Python on {sequences:,} sequences drawn at share {self.share:g}: "
            f"{last:.4f}, floor {history.floor:.4f}."
        )
        return [overlay(0, f"P = {sequences:,}", history.loss, color=3)], note

    @drawn
    def picture(self) -> Figure:
        history = self.history()
        figure, axes = style.canvas(width=7.2, height=3.6)
        for name, label, color in (
            ("loss", "training", style.BLACK),
            ("in_weight", "in-weight test", style.ORANGE),
            ("in_context", "in-context test", style.BLUE),
        ):
            style.curve(axes, history, name, label=label, color=color)
        axes.axhline(history.floor, **style.DASHED)
        axes.set(xlabel="step", ylabel="mean squared error", ylim=(0, None))
        axes.legend()
        alt = (
            f"Losses against the step at a share of {self.share:g} in-context sequences: training ends at "
            f"{history.loss[-1]:.3f}, the in-weight test error falls first and rises again to "
            f"{history.series['in_weight'][-1]:.2f}, the in-context one ends at "
            f"{history.series['in_context'][-1]:.2f}."
        )
        return Figure(figure, alt)


def wide(data: Sequences) -> Sequences:
    """In float64, as the page computes."""
    return Sequences(data.x.astype(float), data.y.astype(float), every_length=data.every_length)


def single(moments: Moments) -> Moments:
    """Rounded to float32, as the draws are, and as a page gets them."""
    gram, cross = (each.astype(np.float32).astype(float) for each in (moments.gram, moments.cross))
    return replace(moments, gram=gram, cross=cross, power=float(np.float32(moments.power)))


def pack(moments: Moments) -> dict[str, str]:
    """For a page, gram's lower triangle, cross and power as base64 of little-endian float32: 10 KB."""
    lower = moments.gram[np.tril_indices(len(moments.gram))]
    parts = {"gram": lower, "cross": moments.cross[0], "power": np.array([moments.power])}
    encoded = {name: base64.b64encode(each.astype("<f4").tobytes()) for name, each in parts.items()}
    return {name: f"float32:{each.decode()}" for name, each in encoded.items()}
