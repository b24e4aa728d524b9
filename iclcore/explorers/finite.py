"""Explorers of what is not one population: a context, a mixture, softmax, many tasks, the cost."""

import base64
import time

import numpy as np

from iclcore import theory
from iclcore.explorers import bundle
from iclcore.explorers.base import (
    Explorer,
    choice,
    overlay,
    position,
    real,
    spectrum,
    traitlets,
    whole,
)
from iclcore.explorers.start import normals, start
from iclcore.figures import style
from iclcore.figures.style import Figure, drawn
from iclcore.models import MergedAttention, Model, SeparateAttention
from iclcore.moments import Moments, coefficients, mix, of_sequences
from iclcore.task import RegressionTask, Sequences
from iclcore.theory import multihead
from iclcore.trainer import train


class Task(Explorer):
    """One context, and what least squares, ridge, principal components and attention make of it."""

    name = "task"
    heading = "A context, and four ways to answer"
    _esm = bundle.widget(name)
    eigenvalues = spectrum((0.4, 0.3, 0.2, 0.1))
    examples = whole(12, "examples n", 1, 40)
    components = whole(4, "components m", 0, 8)
    ridge = real(0.3, "ridge penalty", 1e-3, 30, log=True)
    noise = real(0.0, "label noise", 0, 1, step=0.05)
    seed = whole(4, "seed", 0, 999)

    def context(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, inputs and labels as the page draws them, in the eigenbasis."""
        dim = len(self.eigenvalues)
        draws = normals(self.seed, dim + (40 + 24) * (dim + 1))
        w, rows = draws[:dim], draws[dim:].reshape(-1, dim + 1)
        x = rows[:40, :dim] * np.sqrt(self.eigenvalues)
        return w, x, x @ w + self.noise * rows[:40, dim]

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
        note = f"Attention trained in Python on 5,000 sequences of {self.examples} examples: {error:.4f} here."
        return [{**dot, "label": False}], note

    @drawn
    def picture(self) -> Figure:
        w, x, y = self.context()
        values = np.array(self.eigenvalues)
        lengths = np.arange(1, 41)
        errors = {"least squares": [], "ridge": [], "attention": []}
        for n in lengths:
            gram, cross = x[:n].T @ x[:n], x[:n].T @ y[:n]
            task = RegressionTask(dim=len(values), context=int(n), spectrum=tuple(values))
            guesses = (
                np.linalg.lstsq(x[:n], y[:n])[0],
                np.linalg.solve(gram + self.ridge * np.eye(len(values)), cross),
                theory.learned(task, "context") * cross / n,
            )
            for name, guess in zip(errors, guesses, strict=True):
                errors[name].append(np.sum(values * (guess - w) ** 2))
        figure, axes = style.canvas(width=7.2, height=3.6)
        for (name, line), color in zip(
            errors.items(), (style.BLUE, style.ORANGE, style.PINK), strict=True
        ):
            axes.plot(lengths, line, color=color, label=name)
        axes.set(xlabel="examples n", ylabel="squared error at a query", ylim=(0, 1.5))
        axes.legend()
        alt = (
            "Squared error at a query against the number of examples in one context: least squares is "
            f"exact from {len(values)} examples on, ridge near it, attention at {errors['attention'][30]:.2f} "
            "after 31."
        )
        return Figure(figure, alt)


class InWeight(Explorer):
    """The published in-weight run with its mixture moved continuously.

    Its data are the reference's draws at seed 10 and share 0.6, of which 3,000 sequences have tasks
    of their own and 2,000 share one: at 0.6 the moments are those of the published training set.
    """

    name = "in_weight"
    heading = "In weights or in context"
    _esm = bundle.widget(name)
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
        self._kinds = self._draw()
        self.moments = {name: pack(each) for name, each in self._kinds.items()}

    def model(self) -> MergedAttention:
        return MergedAttention(heads=self.heads, init=self.init)

    def task(self, share: float) -> RegressionTask:
        return RegressionTask(dim=4, spectrum="white", in_context=share)

    def _draw(self) -> dict[str, Moments]:
        from iclcore.reference import draw  # loads torch

        model = MergedAttention()
        sequences, test, seed = self.DRAWN
        mixed = draw(self.task(self.OWN), model, sequences, test, seed)
        noise = draw(self.task(0.0), model, sequences, 0, seed).train
        own = int(sequences * self.OWN)
        sets = {
            "own": mixed.train[:own],
            "shared": mixed.train[own:],
            "noise": noise,
            **mixed.tests,
        }
        return {name: of_sequences(wide(each), model) for name, each in sets.items()}

    def mixture(self) -> Moments:
        if self.share == 0:
            return self._kinds["noise"]
        return mix([(self.share, self._kinds["own"]), (1 - self.share, self._kinds["shared"])])

    def history(self, data: Moments | Sequences | None = None):
        weights = start(self.model(), np.eye(4), self.seed)
        tests = {name: self._kinds[name] for name in ("in_weight", "in_context")}
        data = self.mixture() if data is None else data
        return train(
            self.model(),
            data,
            self.steps,
            self.lr,
            start=weights,
            tests=tests if isinstance(data, Moments) else None,
        )

    def run_finite(self) -> tuple[list[dict], str]:
        """The same start on the published draws at just this share, drawn anew."""
        from iclcore.reference import draw

        sequences, _, seed = self.DRAWN
        data = wide(draw(self.task(self.share), self.model(), sequences, 0, seed).train)
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
    """In float64, where the page computes."""
    return Sequences(data.x.astype(float), data.y.astype(float), data.every_length)


def pack(moments: Moments) -> dict:
    """gram's lower triangle and cross in base64 of little-endian float64: 20 KB for 60 features."""
    parts = moments.gram[np.tril_indices(len(moments.gram))], moments.cross[0]
    gram, cross = (base64.b64encode(each.astype("<f8").tobytes()).decode() for each in parts)
    return {"gram": gram, "cross": cross, "power": moments.power}


class Softmax(Explorer):
    """Softmax attention trained live on sequences drawn in the page, linear attention beside it."""

    name = "softmax"
    heading = "Softmax: trained here and now"
    _esm = bundle.widget(name)
    eigenvalues = spectrum((0.4, 0.3, 0.2, 0.1))
    kind = choice(
        "separate", "key and query", {"separate": "separate", "merged": "merged"}
    )
    heads = whole(5, "heads H", 1, 8)
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
        values = np.array(self.eigenvalues)
        dim, tokens = len(values), self.context + 1
        draws = normals(self.seed + 1_000_000, self.sequences * dim * (tokens + 1))
        draws = draws.reshape(self.sequences, tokens + 1, dim)
        x = draws[:, 1:] * np.sqrt(values)
        return Sequences(x, np.einsum("ptd,pd->pt", x, draws[:, 0])[:, :, None])

    def history(self, softmax: bool = True, engine: str = "auto"):
        model = self.model(softmax)
        weights = start(model, np.eye(len(self.eigenvalues)), self.seed)
        return train(model, self.data(), self.steps, self.lr, start=weights, engine=engine)

    def run_finite(self) -> tuple[list[dict], str]:
        """Python's own run on the same sequences, and on five times as many."""
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
    _esm = bundle.widget(name)
    heads = whole(3, "heads H", 1, 5)
    tasks = whole(3, "tasks I", 1, 5)
    dim = whole(10, "dimensions a task", 2, 40)
    context = whole(100, "context L", 10, 1000)
    noise = real(0.0, "noise σ²", 0, 20, step=0.1)
    starts = choice("aligned", "start", {"aligned": "aligned", "random": "random"})
    horizon = real(16.0, "time", 5, 60, step=1)
    seed = whole(1, "seed", 0, 999)
    at = position()

    def setting(self) -> tuple[multihead.MultiTask, np.ndarray, np.ndarray]:
        """The task, and ω and μ at the start as the page draws them."""
        task = multihead.MultiTask((self.dim,) * self.tasks, self.context, noise=self.noise)
        shape = (self.heads, self.tasks)
        if self.starts == "aligned":
            return task, *multihead.aligned_start(task, self.heads)
        draws = normals(self.seed, 2 * self.heads * self.tasks).reshape(2, *shape)
        return task, 0.01 * np.exp(0.3 * draws[0]), 0.05 * np.exp(0.5 * draws[1])

    def run_finite(self) -> tuple[list[dict], str]:
        """SGD on fresh batches of 256 sequences, by the model's spectral numbers."""
        from iclcore.spectral import train_spectral

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
        path = multihead.flow(task, omega, mu, np.linspace(0, self.horizon, 200))
        figure, (left, right) = style.canvas(2, width=8.4, height=3.4)
        left.plot(path.t, path.loss.sum(-1), color=style.BLACK)
        end = multihead.loss(task, *multihead.limit(task, path.owner, self.heads)).sum()
        left.axhline(end, **style.DASHED)
        left.set(xlabel="time", ylabel="loss, all tasks", ylim=(0, None))
        for i in range(self.tasks):
            for h in range(self.heads):
                own = h == path.owner[i]
                color = style.PALETTE[i] if own else style.GREY
                right.plot(path.t, path.omega[:, h, i], color=color, zorder=2 + own)
        right.set(xlabel="time", ylabel="ω of each head and task")
        alt = (
            f"Left: the loss falls to the dashed limit {end:.2f}. Right: of each task's {self.heads} heads "
            "one number ω rises, the others decay."
        )
        return Figure(figure, alt)


class Speed(Explorer):
    """What a training run costs: sequence by sequence, and on its moments."""

    name = "speed"
    heading = "What a run costs"
    _esm = bundle.widget(name)
    sequences = whole(5000, "sequences P", 100, 1_000_000).tag(log=True)
    context = whole(31, "context N", 1, 200)
    dim = whole(4, "dimension D", 2, 16)
    heads = whole(8, "heads H", 1, 16)
    steps = whole(6000, "steps", 100, 100_000).tag(log=True)
    rate = real(10.0, "GFlop/s", 1, 1000, log=True)

    def costs(self) -> tuple[float, float]:
        """Seconds, naive and on moments: the counts of speed.mjs."""
        tokens, size = self.context + 1, self.dim + 1
        features = self.dim * size * (size + 1) // 2
        step = self.sequences * self.heads * 6 * (2 * tokens**2 * size + 2 * tokens * size**2)
        once = self.sequences * (2 * tokens * size**2 + 2 * features**2)
        each = 2 * features**2 + 6 * self.heads * self.dim * size**2
        return self.steps * step / self.rate / 1e9, (once + self.steps * each) / self.rate / 1e9

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
        held, sizes, rows = self.sequences, np.geomspace(100, 1e6, 40), []
        for size in sizes:
            self.sequences = int(size)
            rows.append(self.costs())
        self.sequences = held
        for line, name, color in zip(
            np.transpose(rows), ("naive", "moments"), (style.ORANGE, style.BLUE), strict=True
        ):
            axes.loglog(sizes, line, color=color, label=name)
        axes.set(xlabel="sequences P", ylabel="seconds")
        axes.legend()
        naive, fast = self.costs()
        alt = (
            f"Predicted seconds against the number of sequences, both axes logarithmic: at {held:,} "
            f"sequences {naive:.3g} s sequence by sequence and {fast:.2g} s on moments."
        )
        return Figure(figure, alt)
