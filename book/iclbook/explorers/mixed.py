"""The explorer of the comparison chapter: from linear attention to softmax, on one slider."""

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from iclbook.explorers.base import Explorer, guess, position, preset, real, whole
from iclbook.plot import style
from iclbook.plot.style import Figure, drawn
from iclbook.theory import linear_heads
from iclcore.heads import theory


class TwoPapers(Explorer):
    """Attention weights (1 − s)·linear + s·softmax, in the flow of the chapter.

    Both have the same mean μω; their noise is E p·p'. With x = Σ_j d_j ω_j^h ω_j^h' linear weights are
    scores z ~ N(0, x_hh) over L, softmax's e^{z − x_hh/2}: E zz' = x, E z e^{z' − …} = x and
    E e^{z − …} e^{z' − …} = eˣ. The mixed term is the linear one, so B = (1 − s²) x + s² eˣ, and the losses
    too are mixed by s².
    """

    name = "two_papers"
    heading = "From linear attention to softmax"
    LEAD = ("share", "context")
    GUESS = guess(
        "Softmax ends above linear attention. Of the difference, how much is there at half and half?",
        ["about a quarter", "about half", "about three quarters"],
        0,
        "set the share of softmax to 0.5",
        "The noise is an overlap of two weights, and linear with softmax overlaps as linear with linear: "
        "only where both are softmax's is there more. With half and half that is a quarter.",
        share=0.5,
    )
    PRESETS = (
        preset("linear", "Heads that look nowhere do no harm: no drag, and the first step is the soonest."),
        preset(
            "softmax",
            "Every head averages from the start: later steps, one sharpness for all, a higher end.",
            share=1.0
        ),
        preset(
            "long contexts",
            "With ten times as many examples both ends are low: softmax's is e times as high.",
            share=1.0,
            context=600
        ),
    )  # fmt: skip
    share = real(0.0, "share of softmax", 0, 1, step=0.01)
    tasks = whole(3, "tasks I, and heads", 2, 5)
    dim = whole(6, "dimensions a task", 2, 10)
    context = whole(60, "context L", 20, 1000).tag(log=True)
    init = real(0.015, "ω at the start", 0.003, 0.03, log=True)
    horizon = real(28.5, "until time", 5, 100, step=0.5)
    at = position()

    def task(self) -> theory.MultiTask:
        signal = (2.0 ** np.arange(self.tasks, 0, -1)).tolist()
        return theory.MultiTask([self.dim] * self.tasks, self.context, signal)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        init = self.init
        return theory.aligned_start(self.task(), omega=init, mu=5 * init, own=10 * init)

    def ends(self, share: float | None = None) -> Float[np.ndarray, " tasks"]:
        """What each task ends at with a head of its own: s ρ/(1+ρ), by the least of B/x, at x = 1."""
        task, soft = self.task(), (self.share if share is None else share) ** 2
        noise = task.d * task.phi * (1 - soft + soft * np.e) + 1 - soft
        return task.s * noise / (task.context + noise)

    def loss(self, omega: np.ndarray, mu: np.ndarray) -> Float[np.ndarray, " tasks"]:
        task, soft = self.task(), self.share**2
        linear, softmax = linear_heads.loss, theory.loss
        return (1 - soft) * linear(task, omega, mu) + soft * softmax(task, omega, mu)

    def gradient(self, omega: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """∂/∂ω and ∂/∂μ of the total loss."""
        task, soft = self.task(), self.share**2
        load = task.s * task.phi / task.context
        M = mu.T @ omega  # of linear attention, whose loss is quadratic in it
        pull = load[:, None] * task.d * M
        own = task.s * (1 - M.diagonal() - M.diagonal() / task.context)
        linear = 2 * (mu @ pull - mu * own), 2 * (omega @ pull.T - omega * own)
        both = zip(linear, theory.gradient(task, omega, mu), strict=True)
        return tuple((1 - soft) * a + soft * b for a, b in both)

    def flow(self, times: np.ndarray, tolerance: float = theory.TOLERANCE):
        """ω and μ at these times: eq. ta-flow, in logarithms as ``theory.flow``."""
        task, start = self.task(), np.stack(self.start())
        rate = 2 / (theory.root_width(task, None) * task.d)

        def speed(_: float, u: np.ndarray) -> np.ndarray:
            by_omega, by_mu = self.gradient(*np.exp(u.reshape(start.shape)))
            return -np.stack([rate * by_omega, 2 * by_mu]).ravel()

        logs = np.log(start).ravel()
        path = solve_ivp(
            speed, times[[0, -1]], logs, "DOP853", times, rtol=tolerance, atol=tolerance
        )
        return np.exp(path.y.T).reshape(-1, *start.shape).swapaxes(0, 1)

    def answer(self) -> int:
        linear, now, softmax = (self.ends(share).sum() for share in (0, self.share, 1))
        return [0.25, 0.5, 0.75].index(round(4 * (now - linear) / (softmax - linear)) / 4)

    @drawn
    def picture(self) -> Figure:
        times, shares = np.linspace(0, self.horizon, 200), np.linspace(0, 1, 51)
        figure, (left, right) = style.canvas(2, width=8.4, height=3.4)
        for share, color in zip((0.0, 0.5, 1.0), style.PALETTE, strict=False):
            mixed = type(self)(**{**self.settings(), "share": share})
            losses = [mixed.loss(*each).sum() for each in zip(*mixed.flow(times), strict=True)]
            left.plot(times, losses, color=color, label=f"share {share:g}")
        left.set(xlabel="time", ylabel="loss, all tasks", ylim=(0, None))
        left.legend()
        ends = [self.ends(share).sum() for share in shares]
        right.plot(shares, ends, **style.DASHED)
        right.set(xlabel="share of softmax", ylabel="loss at the end", ylim=(0, None))
        alt = (
            f"Left: the loss of {self.tasks} tasks falls in steps with linear attention, half and half, and "
            f"softmax, each later than the one before. Right: the loss at the end rises from {ends[0]:.2f} "
            f"with linear attention to {ends[-1]:.2f} with softmax."
        )
        return Figure(figure, alt)
