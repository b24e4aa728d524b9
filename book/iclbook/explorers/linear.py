"""The explorers of linear attention on a population: merged, rank one, low rank."""

import numpy as np

from iclbook.explorers.base import (
    Explorer,
    choice,
    guess,
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
from iclcore.history import History, thin
from iclcore.models import MergedAttention, Model, SeparateAttention, Weights
from iclcore.moments import of_population
from iclcore.task import RegressionTask
from iclcore.trainer import train


class Population(Explorer):
    """A model that descends on the population loss; β is a mean over the context."""

    def task(self) -> RegressionTask:
        values = tuple(self.eigenvalues)
        return RegressionTask(dim=len(values), context=self.context, spectrum=values)

    def model(self) -> Model:
        raise NotImplementedError

    def start(self) -> Weights:
        return start(self.model(), self.task().eigenvectors, self.seed)

    def history(self) -> History:
        """The run that the page draws."""
        data = of_population(self.task(), self.model())
        return train(self.model(), data, self.steps, self.lr, start=self.start())

    @drawn
    def picture(self) -> Figure:
        task, history = self.task(), self.history()
        figure, axes = style.canvas(width=7.2, height=3.6)
        style.curve(axes, history, color=style.BLACK)
        style.levels(axes, self.levels())
        axes.set(xlabel="step", ylabel="mean squared error", ylim=(0, None))
        alt = (
            f"{self.heading}. The loss against the step falls from {history.loss[0]:.3g} to "
            f"{history.loss[-1]:.3g}; dashed lines are theory's plateaus, {len(self.levels())} of "
            f"them, for the eigenvalues {', '.join(f'{v:.3g}' for v in task.eigenvalues)}."
        )
        return Figure(figure, alt)

    def levels(self) -> np.ndarray:
        return theory.plateau_losses(self.task())

    def first_drop(self) -> int:
        """The step at which half of the first drop is done."""
        return int(np.argmax(self.history().loss < self.levels()[:2].mean()))


class Merged(Population):
    """Merged key and query: one abrupt drop, from one fixed point to the other."""

    name = "merged"
    heading = "Merged key and query: one abrupt drop"
    LEAD = ("eigenvalues", "init")
    GUESS = guess(
        "Four equal eigenvalues of 0.25 become 0.4, 0.3, 0.2 and 0.1. When is half of the loss gone?",
        ["sooner", "at the same step", "later"],
        0,
        "choose the spectrum λ ∝ D + 1 − d",
        "Small weights grow at a rate of which an eigenvector's part is the square of its eigenvalue: the "
        "large ones gain more than the small ones lose. What is late is the end, of the smallest.",
        eigenvalues=[0.4, 0.3, 0.2, 0.1],
    )
    PRESETS = (
        preset("white", "All eigenvalues are equal: the dashed closed form lies on the loss."),
        preset(
            "one large eigenvalue",
            "The large eigenvalue brings the drop forward; the others are finished long after it.",
            eigenvalues=[0.7, 0.1, 0.1, 0.1],
        ),
        preset(
            "tiny weights",
            "A thousand times smaller weights do not wait a thousand times longer: look at the dots.",
            init=1e-6,
        ),
        preset(
            "past the saddle",
            "One head starts on the far side of the saddle, walks up to it and lingers: its small dots are "
            "equally far in time. Drag its start.",
            heads=1,
            v0=-1.5,
            u0=1.5,
        ),
    )
    eigenvalues = spectrum((0.25, 0.25, 0.25, 0.25))
    init = real(1e-3, "initial weights", 1e-6, 0.1, log=True)
    heads = whole(8, "heads H", 1, 16)
    context = whole(31, "context N", 1, 200)
    lr = real(0.03, "learning rate", 0.01, 3, log=True)
    steps = whole(3000, "steps", 200, 12_000)
    seed = whole(1, "seed", 0, 999)
    v0 = real(0.0, "start of head 1: add v", -3, 3)
    u0 = real(0.0, "start of head 1: add u", -3, 3)
    at = position()

    def model(self) -> MergedAttention:
        return MergedAttention(heads=self.heads, init=self.init, divisor="context")

    def start(self) -> Weights:
        """As drawn, with v0 added to v of head 1, and u0 to its U along what training ends at."""
        weights, task = super().start(), self.task()
        end = theory.learned(task, "context")
        along = (task.eigenvectors * end / np.linalg.norm(end)) @ task.eigenvectors.T
        weights["value"][0, -1, -1] += self.v0
        weights["key_query"][0, : task.dim, : task.dim] += self.u0 * along
        return weights

    def levels(self) -> np.ndarray:
        return theory.plateau_losses(self.task())[[0, -1]]

    def answer(self) -> int:
        return int(np.searchsorted([0.8, 1.25], self.first_drop() / Merged().first_drop()))


class RankOne(Population):
    """Separate key and query of rank one: eigenvectors are learned one after another."""

    name = "rank_one"
    heading = "Rank one: one eigenvector after another"
    LEAD = ("eigenvalues", "heads", "init")
    GUESS = guess(
        "Make the initial weights three times smaller. How much longer is the wait for the first drop?",
        ["hardly longer", "about three times as long", "about nine times as long"],
        1,
        "set the initial weights to 0.01",
        "A head's growth rate is its own size: the wait grows as one over the weights at the start. Merged "
        "key and query grow at a fixed rate, and wait for the logarithm only.",
        init=0.01,
    )
    PRESETS = (
        preset(
            "two equal eigenvalues",
            "Equal eigenvalues do not fall together: which head leads, and when, is the start's choice.",
            eigenvalues=[0.3, 0.3, 0.2, 0.1],
        ),
        preset(
            "three heads",
            "A head learns one eigenvector: with three heads the loss stays on the plateau L(M₃).",
            heads=3,
        ),
        preset(
            "too fast",
            "The learning rate is far past the edge that the slider marks: the run leaves.",
            lr=5.0,
        ),
    )
    eigenvalues = spectrum((0.4, 0.3, 0.2, 0.1))
    init = real(0.03, "initial weights", 0.003, 0.3, log=True)
    heads = whole(5, "heads H", 1, 10)
    context = whole(31, "context N", 1, 200)
    lr = real(0.5, "learning rate", 0.05, 5, log=True)
    steps = whole(4000, "steps", 500, 16_000)
    seed = whole(1, "seed", 0, 999)
    at = position()

    def model(self) -> SeparateAttention:
        return SeparateAttention(heads=self.heads, init=self.init, divisor="context")

    def answer(self) -> int:
        return [1, 3, 9].index(round(self.first_drop() / RankOne().first_drop()))

    @drawn
    def picture(self) -> Figure:
        task, history = self.task(), self.history()
        figure, (left, right) = style.canvas(2, width=8.4, height=3.4)
        style.curve(left, history, color=style.BLACK)
        style.levels(left, self.levels())
        left.set(xlabel="step", ylabel="mean squared error", ylim=(0, None))
        value, index = history.series["value"], thin(len(history.loss), 600)
        for size in theory.head_limit(task, "context"):
            right.axhline(size, **style.DASHED)
        right.plot(history.steps[index], value[index])
        right.set(xlabel="step", ylabel="value of each head")
        alt = (
            f"Left: the loss falls in steps from {history.loss[0]:.3g} to {history.loss[-1]:.3g} and "
            "rests at the dashed plateaus of theory. Right: the heads' values rise one after another "
            "to the dashed sizes that theory gives each eigenvector."
        )
        return Figure(figure, alt)


class LowRank(Population):
    """Separate key and query of rank R: a head learns R eigenvectors before the next plateau."""

    name = "low_rank"
    heading = "Low rank: R eigenvectors a head"
    LEAD = ("rank", "heads")
    GUESS = guess(
        "Rank 4 instead of 2, for eight eigenvectors. Where does the loss rest for long, after the start?",
        ["after 2, 4 and 6 are learned", "after 4 are learned", "nowhere"],
        1,
        "choose rank 4",
        "A head that has begun learns as many eigenvectors as it has rows before the next head is needed.",
        rank=4,
    )
    PRESETS = (
        preset("rank one", "One eigenvector a head: each drop has a plateau before it.", rank=1),
        preset(
            "four eigenvalues",
            "Heads of rank 2: two long waits for four eigenvalues, at the start and after two are learned.",
            eigenvalues=[0.4, 0.3, 0.2, 0.1],
            init=0.02,
        ),
        preset(
            "full rank",
            "One head holds all eight: a single long plateau at the start, and none after it.",
            rank=8,
        ),
        preset(
            "too fast",
            "The learning rate is far past the edge that the slider marks: the run leaves.",
            lr=5.0,
        ),
    )
    eigenvalues = spectrum(tuple(RegressionTask(dim=8, spectrum="power").eigenvalues.round(6)))
    rank = choice(2, "rank R", {rank: str(rank) for rank in range(1, 9)})
    init = real(0.05, "initial weights", 0.003, 0.3, log=True)
    heads = whole(9, "heads H", 1, 10)
    context = whole(31, "context N", 1, 200)
    lr = real(0.8, "learning rate", 0.05, 5, log=True)
    steps = whole(3000, "steps", 500, 12_000)
    seed = whole(1, "seed", 0, 999)
    at = position()

    def model(self) -> SeparateAttention:
        return SeparateAttention(
            heads=self.heads, init=self.init, rank=self.rank, divisor="context"
        )

    def answer(self) -> int:
        near = np.abs(self.history().loss[:, None] - self.levels()[1:-1]) < 0.006
        rests = np.flatnonzero(near.sum(0) > self.steps / 12) + 1
        return [[2, 4, 6], [4], []].index(rests.tolist())
