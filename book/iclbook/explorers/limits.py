"""The explorers of trained heads: how good one head is on unequal tasks, and what it does beyond them."""

import numpy as np

from iclbook.explorers.base import Explorer, guess, overlay, preset, real, whole
from iclbook.plot import style
from iclbook.plot.style import Figure, drawn
from iclbook.theory import baselines, beyond
from iclcore.heads import risk, spectral, theory

MEASURED = 2000  # contexts drawn for a dot


class Optimality(Explorer):
    """One head on three unequal tasks: where it looks, what it gives up, and what others would lose."""

    name = "optimality"
    heading = "One head on three tasks"
    LEAD = ("s3", "context", "noise")
    GUESS = guess(
        "Ten examples instead of 100: how many of the three tasks does the single head still look at?",
        ["all three", "the first and second", "only the second"],
        2,
        "set the context to 10",
        "With few examples every task is far from done, so the head goes on filling the one that pays most "
        "for its dimensions, and has spent its attention before the next would pay as much.",
        context=10,
    )
    PRESETS = (
        preset(
            "given up",
            "A tenth of the signal: task 3 gets no attention at all, and the others share what it had.",
            s3=0.1,
        ),
        preset(
            "the third takes all",
            "With 50 times the signal it is the others that get nothing: look at the heat maps.",
            s3=50.0,
        ),
        preset(
            "noisy labels",
            "Noise makes every task cost more, and leaves the head with the one that pays best.",
            noise=20.0,
        ),
    )
    s1 = real(1.0, "signal of task 1", 0.05, 50, log=True)
    s2 = real(2.0, "signal of task 2", 0.05, 50, log=True)
    s3 = real(1.0, "signal of task 3", 0.05, 50, log=True)
    d1 = whole(10, "dimension of task 1", 1, 60)
    d2 = whole(10, "dimension of task 2", 1, 60)
    d3 = whole(20, "dimension of task 3", 1, 60)
    context = whole(100, "context L", 10, 1000).tag(log=True)
    noise = real(1.0, "noise σ²", 0, 20, step=0.1)
    heads = whole(4, "heads H of the bound", 1, 6)
    penalty = real(5.0, "ridge penalty", 0.05, 20, log=True)

    def task(self, context: int | None = None, signal: float | None = None) -> theory.MultiTask:
        signals = self.s1, self.s2, self.s3 if signal is None else signal
        context = self.context if context is None else context
        return theory.MultiTask((self.d1, self.d2, self.d3), context, signals, self.noise)

    def losses(self, task: theory.MultiTask) -> dict[str, float]:
        """Of all tasks together, by each method that the page draws."""
        ratio = task.d / task.context
        each = [
            (baselines.ridge_risk(r, self.penalty * r, s, self.noise), baselines.mmse(r, s, self.noise))
            for r, s in zip(ratio, task.s, strict=True)
        ]  # fmt: skip
        ridge, bayes = np.sum(each, axis=0)
        return {
            "one head": float(theory.loss(task, *theory.one_head(task)).sum()),
            "a head each": float(risk.gradient_flow_risk(task).sum()),
            "bound": risk.equiangular_bound(task, self.heads),
            "ridge": float(ridge),
            "Bayes": float(bayes),
        }

    def answer(self) -> int:
        looked_at = np.flatnonzero(theory.one_head(self.task())[0][0]) + 1
        return [[1, 2, 3], [1, 2], [2]].index(looked_at.tolist())

    def run_finite(self) -> tuple[list[dict], str]:
        """The best single head and a head each, on drawn contexts of a few lengths."""
        lengths = np.array([20, 60, 200, 600])
        dots = {"one head": [], "a head each": []}
        for length in lengths:
            task = self.task(int(length))
            for name, head in (
                ("one head", theory.one_head(task)),
                ("a head each", theory.limit(task)),
            ):
                dots[name].append(spectral.measure(task, *head, MEASURED)[0].sum())
        series = [
            {**overlay(0, f"{name}, measured", np.array(values), lengths, color, 4), "label": False}
            for color, (name, values) in enumerate(dots.items())
        ]
        return series, f"Dots: the true losses, on {MEASURED:,} drawn contexts of each length."

    @drawn
    def picture(self) -> Figure:
        signals = np.geomspace(0.05, 50, 121)
        lengths = np.unique(np.geomspace(10, 1000, 40).round().astype(int)).tolist()
        figure, (left, right) = style.canvas(2, width=7, height=2.9)
        tasks = [self.task(signal=s) for s in signals]
        shares = np.array([task.d * theory.one_head(task)[0][0] ** 2 for task in tasks])
        for i, tone in enumerate(style.PALETTE[:3]):
            left.semilogx(signals, shares[:, i], color=tone, label=f"task {i + 1}")
        left.set(xlabel="signal of task 3", ylabel="share dω² of one head")
        rows = [self.losses(self.task(n)) for n in lengths]
        for name, tone in zip(rows[0], [*style.PALETTE[:4], style.GREY], strict=True):
            if name != "ridge":  # as many curves as a small picture takes
                right.semilogx(lengths, [row[name] for row in rows], color=tone, label=name)
        right.set(xlabel="context L", ylabel="loss, all tasks")
        left.legend(fontsize=8)
        right.legend(fontsize=8)
        now = self.losses(self.task())
        alt = (
            "Left: how one head shares its attention out among three tasks, as the signal of the third "
            f"grows from 0.05, where it has {shares[0, 2]:.2f}, to 50, where it has {shares[-1, 2]:.2f}. "
            "Right: losses against the length of the context; at "
            f"{self.context} {', '.join(f'{name} {value:.2f}' for name, value in now.items())}."
        )
        return Figure(figure, alt)


class Beyond(Explorer):
    """A trained head on other lengths, at other sharpness, on other targets."""

    name = "beyond"
    heading = "Other lengths, other sharpness, other targets"
    LEAD = ("test", "context")
    GUESS = guess(
        "Trained on 100 examples, tested on 10,000 instead of 400: how much of the loss goes away?",
        ["nearly all of it", "about half", "hardly any"],
        1,
        "set the context at test to 10,000",
        "The variance goes, with the number of examples; the bias was learned for 100 and stays, and at 400 "
        "the two are about equal.",
        test=10_000,
    )
    PRESETS = (
        preset(
            "trained on few",
            "Its bias is that of 20 examples: longer contexts at test hardly help it.",
            context=20,
        ),
        preset(
            "noisy labels",
            "Noise makes the head answer more timidly: the bias grows with the variance.",
            noise=2.0,
        ),
        preset(
            "frozen",
            "Past the last mark a few tokens have all the weight: the exponential law has left the picture.",
            beta=5.0,
        ),
    )
    dim = whole(10, "dimension d", 2, 60)
    context = whole(100, "context L in training", 10, 1000).tag(log=True)
    test = whole(400, "context at test", 10, 10_000).tag(log=True)
    noise = real(0.0, "noise σ²/s", 0, 10, step=0.1)
    beta = real(2.0, "sharpness β", 0, 8, step=0.05)

    def task(self) -> theory.MultiTask:
        return theory.MultiTask([self.dim], self.context, 1.0, self.noise)

    def answer(self) -> int:
        before, now = (
            beyond.length_generalisation(each.task(), [each.test]).item(0)
            for each in (Beyond(), self)
        )
        return [1.0, 0.5, 0.0].index(round(1 - now / before, 1))

    def run_finite(self) -> tuple[list[dict], str]:
        """The head at its limit on drawn contexts of a few lengths, and softmax on drawn scores."""
        task, lengths = self.task(), np.array([20, 50, 100, 200, 500, 1000])
        limit, rng = theory.limit(task), np.random.default_rng(0)
        found = [spectral.measure(task, *limit, MEASURED, context=int(n))[0][0] for n in lengths]
        beta, weights = np.arange(0.5, 8.1, 1.5), []
        for each in beta:
            p = np.exp(each * rng.standard_normal((MEASURED, self.context)))
            weights.append(((p / p.sum(1, keepdims=True)) ** 2).sum(1).mean())
        series = [
            overlay(0, "loss, measured", np.array(found), lengths, 0, 4),
            overlay(2, "exact, drawn", np.array(weights), beta, 0, 4),
        ]
        note = (
            f"Dots: {MEASURED:,} drawn contexts of each length, and as many drawn sets of scores."
        )
        return [{**each, "label": False} for each in series], note

    @drawn
    def picture(self) -> Figure:
        lengths, beta = np.geomspace(10, 10_000, 91), np.linspace(0, 8, 25)
        figure, (left, right) = style.canvas(2, width=8.4, height=3.4)
        losses = beyond.length_generalisation(self.task(), lengths)[:, 0]
        floor = risk.gradient_flow_risk(self.task())[0] ** 2  # the bias (ρ/(1+ρ))²
        left.semilogx(lengths, losses, color=style.BLUE, label=f"trained on {self.context}")
        left.axhline(floor, **style.DASHED)
        left.set(xlabel="examples at test", ylabel="loss / signal", ylim=(0, 1))
        left.legend(fontsize=8)
        power = beyond.participation(beta, self.context)
        right.plot(beta, power["exact"], color=style.BLUE)
        early = np.linspace(0, np.sqrt(np.log(self.context)), 50)
        right.plot(early, np.exp(early**2) / self.context, **style.DASHED)
        right.set(xlabel="sharpness β of the scores", ylabel="E |p|²", ylim=(0, 1))
        alt = (
            f"Left: the loss of a head trained on {self.context} examples, from {losses[0]:.2f} of the "
            f"signal on 10 to {losses[-1]:.3f} on 10,000; dashed, its bias {floor:.3f}. Right: the sum of "
            f"the squares of softmax weights rises from {power['exact'][0]:.3f} to "
            f"{power['exact'][-1]:.2f} as scores sharpen; dashed, the exponential law."
        )
        return Figure(figure, alt)
