"""The explorers of softmax attention, on one task and on several, and of what a run costs."""

import time

import numpy as np

from iclbook.explorers.base import (
    Explorer,
    choice,
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
from iclcore.heads import theory
from iclcore.history import History
from iclcore.models import MergedAttention, Model, SeparateAttention
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import train

LOOKS = {0: "the sharpest head"} | {h: f"head {h}" for h in range(1, 9)}  # as many as there are


class Softmax(Explorer):
    """Softmax attention trained live on sequences drawn in the page, linear attention beside it."""

    name = "softmax"
    heading = "Softmax: trained here and now"
    LEAD = ("heads", "look", "init")
    GUESS = guess(
        "Make the initial weights ten times smaller. How much later does each model's first drop come?",
        [
            "both about ten times later",
            "linear about ten times, softmax about twice",
            "softmax about ten times, linear about twice",
        ],
        1,
        "set the initial weights to 0.003 and press Play",
        "Softmax has a slope in its values alone, where the mean token can be read before any key or query "
        "has grown; linear attention needs all three.",
        init=0.003,
    )
    PRESETS = (
        preset("one head", "One head learns one direction: both losses stay high.", heads=1),
        preset(
            "long contexts",
            "With 64 examples softmax ends below linear attention on the same sequences.",
            context=64,
        ),
        preset(
            "merged, too fast",
            "At this learning rate the losses rise again and again: the note counts the steps.",
            kind="merged",
        ),
    )
    eigenvalues = spectrum((0.4, 0.3, 0.2, 0.1))
    kind = choice("separate", "key and query", {"separate": "separate", "merged": "merged"})
    heads = whole(4, "heads H", 1, 8)
    look = choice(0, "tokens seen by", LOOKS).tag(view=True)
    init = real(0.03, "initial weights", 1e-3, 0.5, log=True)
    context = whole(31, "context N", 2, 64)
    sequences = whole(300, "sequences P", 50, 1000)
    lr = real(0.3, "learning rate", 0.01, 3, log=True)
    steps = whole(4000, "steps", 200, 10_000)
    seed = whole(1, "seed", 0, 999)

    def model(self, softmax: bool = True) -> Model:
        shape = {"heads": self.heads, "init": self.init, "softmax": softmax}
        if not softmax:
            shape["divisor"] = "tokens"
        return MergedAttention(**shape) if self.kind == "merged" else SeparateAttention(**shape)

    def data(self) -> Sequences:
        """The page's sequences, in the eigenbasis."""
        return self.sample(self.sequences)

    def sample(self, sequences: int) -> Sequences:
        values = np.array(self.eigenvalues)
        dim, tokens = len(values), self.context + 1
        draws = normals(self.seed + 1_000_000, sequences * dim * (tokens + 1))
        draws = draws.reshape(sequences, tokens + 1, dim)
        x = draws[:, 1:] * np.sqrt(values)
        return Sequences(x, np.einsum("ptd,pd->pt", x, draws[:, 0])[:, :, None])

    def history(self, softmax: bool = True, engine: str = "auto") -> History:
        model = self.model(softmax)
        weights = start(model, np.eye(len(self.eigenvalues)), self.seed)
        return train(model, self.data(), self.steps, self.lr, start=weights, engine=engine)

    def answer(self) -> int:
        """Compares the steps at which a tenth of the loss is gone."""

        def first(explorer: Softmax, softmax: bool) -> int:
            loss = explorer.history(softmax).loss
            return np.argmax(loss < 0.9 * loss[0])

        later = tuple(round(first(self, each) / first(Softmax(), each)) for each in (True, False))
        return [(10, 10), (2, 10), (10, 2)].index(later)

    def run_finite(self) -> tuple[list[dict], str]:
        """Python's own run on the same sequences."""
        clock = time.perf_counter()
        history = self.history()
        seconds = time.perf_counter() - clock
        line = overlay(0, "Python", history.loss, color=3)
        return [line], f"Trained in Python on the same sequences in {seconds:.1f} s."

    @drawn
    def picture(self) -> Figure:
        figure, axes = style.canvas(width=7.2, height=3.6)
        ends = []
        for softmax, color in ((True, style.ORANGE), (False, style.BLUE)):
            history = self.history(softmax)
            style.curve(axes, history, color=color, label="softmax" if softmax else "linear")
            ends.append(history.loss[-1])
        axes.set(xlabel="step", ylabel="mean squared error", ylim=(0, None))
        axes.legend()
        alt = (
            f"Losses of {self.kind} attention against the step, trained on the same "
            f"{self.sequences} sequences: softmax ends at {ends[0]:.3f}, linear at {ends[1]:.3f}."
        )
        return Figure(figure, alt)


class TaskAllocation(Explorer):
    """Multi-head softmax on several tasks: heads divide the tasks among them."""

    name = "task_allocation"
    heading = "Task allocation: which head does which task"
    LEAD = ("heads", "tasks")
    GUESS = guess(
        "One head fewer than tasks: two heads, three tasks. How many tasks are done by the end?",
        ["two: one task is left undone", "all three: a head does two", "none"],
        1,
        "set the heads to 2",
        "A head that serves two tasks serves neither as well as one of its own would: the limit of the loss "
        "is higher.",
        heads=2,
    )
    PRESETS = (
        preset(
            "more heads than tasks",
            "The lean gives each task its own head; two of five stay without a task: see μω.",
            heads=5,
        ),
        preset(
            "a tie",
            "Two heads start alike, and the third task is shared between them.",
            heads=2,
            spread=0.0,
        ),
        preset(
            "an unlucky start",
            "With a wide spread a task may wait past the end: only what is done is counted.",
            spread=3.0,
            seed=2,
        ),
        preset(
            "no lean",
            "No head leans to a task: chance alone decides who takes which. Draw another seed.",
            lean=0.0,
        ),
        preset(
            "more heads, no lean",
            "Five heads, three tasks, and head 1 takes two of them: chance decides, not their number.",
            heads=5,
            lean=0.0,
        ),
        preset(
            "a head start",
            "Head 2 starts ahead on task 1 and wins it beside its own; head 1 is left with none. Drag it.",
            moved=[21.0, 0.02, 0.2],
        ),
    )
    heads = whole(3, "heads H", 1, 5)
    tasks = whole(3, "tasks I", 1, 5)
    dim = whole(10, "dimensions a task", 2, 40)
    context = whole(100, "context L", 10, 1000)
    noise = real(0.0, "noise σ²", 0, 20, step=0.1)
    spread = real(0.3, "spread of starts", 0, 3, step=0.05)
    lean = real(1.0, "lean of head i to task i", 0, 3, step=0.05)
    horizon = real(16.0, "until time", 5, 60, step=1)
    moved = points("starts moved by hand", 25)
    seed = whole(1, "seed", 0, 999)
    at = position()

    def setting(self) -> tuple[theory.MultiTask, np.ndarray, np.ndarray]:
        """The task, and ω and μ at the start as the page draws them.

        Head i leans to task i: its μ there is 1 + ``lean`` times the others'. Every number is then
        multiplied by a random one, without spread by 1. Where
        the reader has put head h on task i, at point 10 h + i, that is where it starts.
        """
        task = theory.MultiTask((self.dim,) * self.tasks, self.context, noise=self.noise)
        omega, mu = theory.aligned_start(task, self.heads, own=0.05 * (1 + self.lean))
        factors = np.exp(self.spread / 2 * normals(self.seed, 2 * omega.size)).reshape(
            2, *omega.shape
        )
        omega, mu = omega * factors[0], mu * factors[1]
        for point, x, y in triples(self.moved):
            h, i = divmod(point, 10)
            if 1 <= h <= self.heads and 1 <= i <= self.tasks:
                omega[h - 1, i - 1], mu[h - 1, i - 1] = x, y
        return task, omega, mu

    @staticmethod
    def finished(path: theory.Flow) -> np.ndarray:
        """Which tasks are done at the end: Σ_h μω is above half of its limit, and that is not 0."""
        done = (path.omega[-1] * path.mu[-1]).sum(0)
        omega, mu = theory.limit(path.task, path.owner, path.omega.shape[-2])
        goal = (omega * mu).sum(0)
        return (goal > 0) & (done >= goal / 2)

    def answer(self) -> int:
        path = theory.flow(*self.setting(), np.linspace(0, self.horizon, 50))
        return [2, 3, 0].index(self.finished(path).sum())

    def run_finite(self) -> tuple[list[dict], str]:
        """SGD on fresh batches of 256 sequences, by the model's spectral numbers."""
        from iclcore.heads.spectral import train_spectral

        until = min(self.horizon, 12.0)
        task, omega, mu = self.setting()
        history = train_spectral(task, omega, mu, [(until, 0.02)], seed=self.seed)
        line = overlay(0, "SGD, batches of 256", history.loss, history.series["time"])
        note = (
            f"Trained in Python by SGD on batches of 256 sequences to time {until:g}, in "
            f"{history.seconds['training']:.1f} s: its noise is that of the batches."
        )
        return [{**line, "label": "SGD"}], note

    @drawn
    def picture(self) -> Figure:
        task, omega, mu = self.setting()
        path = theory.flow(task, omega, mu, np.linspace(0, self.horizon, 200))
        figure, (left, right) = style.canvas(2, width=8.4, height=3.4)
        left.plot(path.t, path.loss.sum(-1), color=style.BLACK)
        end = theory.loss(task, *theory.limit(task, path.owner, self.heads)).sum()
        left.axhline(end, **style.DASHED)
        left.set(xlabel="time", ylabel="loss, all tasks", ylim=(0, None))
        for i in range(self.tasks):
            for h in range(self.heads):
                own = h == path.owner[i]
                color = style.PALETTE[i] if own else style.GREY
                right.plot(path.t, path.omega[:, h, i], color=color, zorder=2 + own)
        right.set(xlabel="time", ylabel="ω of each head and task")
        alt = (
            f"Left: the loss, {path.loss[-1].sum():.2f} at time {self.horizon:g}; dashed, its limit "
            f"{end:.2f}. Right: ω of each head and task, coloured for the head that does most of a "
            f"task. {self.finished(path).sum()} of {self.tasks} tasks are done by then."
        )
        return Figure(figure, alt)


class Speed(Explorer):
    """What a training run costs: sequence by sequence, and on its moments."""

    name = "speed"
    heading = "What a run costs"
    LEAD = ("context", "dim")
    GUESS = guess(
        "Contexts of 200 examples instead of 31. How many times longer does each way take?",
        [
            "both six times",
            "sequence by sequence 36 times, on moments 1.4 times",
            "both 36 times",
        ],
        1,
        "set the context to 200",
        "Attention's scores are a square of the context's length; the moments are formed once, and their "
        "size is the dimension's alone.",
        context=200,
    )
    PRESETS = (
        preset(
            "sixteen dimensions",
            "The moments' cost grows with the sixth power of the dimension: the curves draw together.",
            dim=16,
        ),
        preset(
            "a million sequences",
            "The moments are formed once: only at this size does forming them cost more than training.",
            sequences=1_000_000,
        ),
    )
    sequences = whole(5000, "sequences P", 100, 1_000_000).tag(log=True)
    context = whole(31, "context N", 1, 200)
    dim = whole(4, "dimension D", 2, 16)
    heads = whole(8, "heads H", 1, 16)
    steps = whole(6000, "steps", 100, 100_000).tag(log=True)
    rate = real(10.0, "GFlop/s", 1, 1000, log=True)

    def costs(self, sequences: float | None = None) -> tuple[float, float]:
        """Seconds, naive and on moments: the counts of speed.mjs."""
        sequences = self.sequences if sequences is None else sequences
        tokens, size = self.context + 1, self.dim + 1
        features = self.dim * size * (size + 1) // 2
        step = sequences * self.heads * 2 * (5 * tokens**2 * size + 4 * tokens * size**2)
        once = sequences * (2 * tokens * size**2 + 2 * features**2)
        each = 2 * features**2 + 6 * self.heads * self.dim * size**2
        return self.steps * step / self.rate / 1e9, (once + self.steps * each) / self.rate / 1e9

    def answer(self) -> int:
        naive, moments = np.divide(self.costs(), Speed().costs())
        return [(6, 6), (36, 1.4), (36, 36)].index((round(naive), round(moments, 1)))

    def run_finite(self) -> tuple[list[dict], str]:
        """This very run, timed here; on at most 20,000 sequences."""
        sequences = min(self.sequences, 20_000)
        task = RegressionTask(dim=self.dim, context=self.context)
        data = task.sample(sequences)
        model = SeparateAttention(heads=self.heads, divisor="context")
        train(model, data[:10], 1, 1e-3)  # compiles
        history = train(model, data, self.steps, 1e-3)
        seconds = history.seconds["moments"] + history.seconds["descent"]
        dots = [
            overlay(0, "measured", np.array([seconds]), [sequences], 2, dots=6),
            overlay(1, "measured", np.array([seconds]), [self.dim], 2, dots=6),
        ]
        note = f"Measured here on moments: {seconds:.3g} s for {sequences:,} sequences."
        return dots, note

    @drawn
    def picture(self) -> Figure:
        figure, axes = style.canvas(width=7.2, height=3.6)
        sizes = np.geomspace(100, 1e6, 40)
        rows = [self.costs(size) for size in sizes]
        curves = zip(np.transpose(rows), ("naive", "moments"), style.PALETTE[1::-1], strict=True)
        for line, name, color in curves:
            axes.loglog(sizes, line, color=color, label=name)
        axes.set(xlabel="sequences P", ylabel="seconds")
        axes.legend()
        naive, fast = self.costs()
        alt = (
            f"Predicted seconds against the number of sequences, both axes logarithmic: at "
            f"{self.sequences:,} sequences {naive:.3g} s sequence by sequence and {fast:.2g} s on moments."
        )
        return Figure(figure, alt)
