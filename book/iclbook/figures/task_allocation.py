"""Pictures of the chapter on task allocation: the model and its training."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    PINK,
    Figure,
    canvas,
    drawn,
)
from iclbook.studies import task_allocation as study
from iclcore import spectral

TASK_COLORS = (BLUE, ORANGE, GREEN)
THEORY = DASHED | {"color": BLACK, "zorder": 3}
TIME = "time (sum of learning rates)"


def thin(t: np.ndarray, *values: np.ndarray, points: int = 600) -> tuple[np.ndarray, ...]:
    """No more points than a picture can show."""
    rows = np.unique(np.linspace(0, len(t) - 1, points).astype(int))
    return tuple(a[rows] for a in (t, *values))


def mark_phases(axes: Axes, ends: tuple[float, float], named: bool) -> None:
    """Vertical lines between the phases, and their names at the top."""
    for t in ends:
        axes.axvline(t, color=GREY, linewidth=0.7, linestyle=":")
    if named:
        middles = (ends[0] / 2, sum(ends) / 2, (ends[1] + study.END) / 2)
        for x, name in zip(middles, ("warm-up", "emergence", "convergence"), strict=True):
            axes.annotate(name, (x, 1.01), xycoords=("data", "axes fraction"), ha="center",
                          fontsize=8, color=GREY)  # fmt: skip


@drawn
def three_phases(run: study.ThreePhases) -> Figure:
    """Figure 1: ω, μ and the loss over time, and ω of every head and task at the end."""
    figure, axes = canvas(2, 2, width=7.6, height=5)
    ends = run.found.warm_up_ends, run.found.emergence_ends
    rows = slice(0, run.end + 1)
    t = run.full.series["time"]
    spectra = zip(spectral.spectra(run.full), spectral.spectra(run.light), strict=True)
    for panel, (full, light), theory in zip(
        axes[0], spectra, (run.path.omega, run.path.mu), strict=True
    ):
        for i, color in enumerate(TASK_COLORS):
            panel.plot(*thin(run.light.series["time"], light[:, i, i]), color=color, linewidth=5,
                       alpha=0.2)  # fmt: skip
            panel.plot(*thin(t[rows], full[rows, i, i]), color=color)
            for j in {0, 1, 2} - {i}:
                panel.plot(*thin(t[rows], full[rows, i, j]), color=GREY, linewidth=0.7)
            panel.plot(run.path.t, theory[:, i, i], **THEORY)
        panel.plot(run.path.t, theory[:, 0, 1], **THEORY)
        mark_phases(panel, ends, True)
    axes[0, 0].axhline(10**-0.5, **DASHED)
    axes[0, 0].annotate(r"$1/\sqrt{d_i}$", (0.2, 10**-0.5), xytext=(0, -11), fontsize=9,
                        textcoords="offset points", color=GREY)  # fmt: skip
    axes[0, 0].set(xlabel=TIME, ylabel=r"$\omega_i^{(h)}$")
    axes[0, 1].set(xlabel=TIME, ylabel=r"$\mu_i^{(h)}$")
    losses = axes[1, 0]
    losses.plot(*thin(run.light.series["time"], smooth(run.light.loss)), color=PINK, linewidth=5,
                alpha=0.3, label="spectral numbers")  # fmt: skip
    losses.plot(*thin(t[rows], smooth(run.full.loss[rows])), color=PINK, label="all matrices")
    losses.plot(run.path.t, run.path.loss.sum(-1), **THEORY, label="gradient flow")
    losses.axhline(run.exact, **DASHED)
    losses.annotate("exact limit", (0.2, run.exact), xytext=(0, 3), textcoords="offset points",
                    fontsize=8, color=GREY)  # fmt: skip
    mark_phases(losses, ends, True)
    losses.set(xlabel=TIME, ylabel="loss of the three tasks", ylim=(0, 33))
    losses.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 0.27))
    omega = spectral.spectra(run.full)[0][run.end]
    table(axes[1, 1], omega, r"$\omega_i^{(h)}$ at $t = 12$")
    facts = run.facts
    alt = (
        "Four panels. Top: ω and μ of each head's own task stay near zero until "
        f"t = {facts['warm_up_ends']:.1f}, rise together, ω to 1/√10 = 0.316 and μ over a peak; "
        "those of other tasks, grey, fade. Bottom left: the loss stays near "
        f"{facts['start']:.0f}, falls to about {facts['exact']:.0f} before "
        f"t = {facts['emergence_ends']:.1f} and stays. Dashed gradient flow leads the simulations "
        "a little. Bottom right: at the end each of three heads has one task, "
        f"ω = {omega.diagonal().min():.2f} to {omega.diagonal().max():.2f} on the diagonal."
    )
    return Figure(figure, alt)


def smooth(loss: np.ndarray, window: int = 25) -> np.ndarray:
    """Means over neighbouring batches, shorter at the ends."""
    kernel = np.ones(window)
    return np.convolve(loss, kernel, "same") / np.convolve(np.ones_like(loss), kernel, "same")


def table(axes: Axes, values: np.ndarray, title: str) -> None:
    """Heads × tasks as a coloured table with its numbers."""
    most = np.abs(values).max()
    axes.imshow(values, cmap="PuOr", vmin=-most, vmax=most)
    for (h, i), value in np.ndenumerate(values):
        said = f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
        axes.annotate(said, (i, h), ha="center", va="center", fontsize=9,
                      color="white" if abs(value) > 0.7 * most else BLACK)  # fmt: skip
    heads, tasks = values.shape
    axes.set_xticks(range(tasks), [f"task {i + 1}" for i in range(tasks)])
    axes.set_yticks(range(heads), [f"head {h + 1}" for h in range(heads)])
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=10)


@drawn
def network() -> Figure:
    """Figure 2: what one head does with the tokens, and that H of them are added."""
    figure, axes = canvas(width=8, height=3.5)
    axes.set(xlim=(0, 16.4), ylim=(0, 7))
    axes.set_axis_off()

    def box(x: float, y: float, w: float, h: float, text: str = "", **style) -> None:
        kind = {"facecolor": "white", "edgecolor": BLACK, "linewidth": 0.9, "zorder": 2} | style
        axes.add_patch(Rectangle((x, y), w, h, **kind))
        axes.annotate(text, (x + w / 2, y + h / 2), ha="center", va="center", fontsize=9, zorder=3)

    def arrow(x0: float, y0: float, x1: float, y1: float) -> None:
        axes.annotate("", (x1, y1), (x0, y0),
                      arrowprops={"arrowstyle": "-|>", "color": BLACK, "linewidth": 0.9})  # fmt: skip

    def diagonal(x: float, y: float, size: float, label: str) -> None:
        box(x, y, size, size)
        part = size / 3
        for i, color in enumerate(TASK_COLORS):
            box(x + i * part, y + size - (i + 1) * part, part, part, rf"${label}_{i + 1}$",
                facecolor=color, alpha=0.35)  # fmt: skip

    for shift in (0.3, 0.15, 0):  # the other heads behind
        axes.add_patch(FancyBboxPatch((3.6 + shift, 0.6 + shift), 9.1, 5.6, facecolor="white",
                                      boxstyle="round,pad=0.1", edgecolor=GREY, linewidth=0.8))  # fmt: skip
    axes.annotate(r"head $h$ of $H$", (3.75, 5.8), fontsize=9, color=GREY, zorder=3)
    # tokens: the groups of x in the colours of the tasks, the labels below
    for i, color in enumerate(TASK_COLORS):
        box(0.4, 5.6 - 0.9 * i, 1.5, 0.9, rf"$x$, group {i + 1}", facecolor=color, alpha=0.35)
        box(0.4, 2.4 - 0.5 * i, 1.5, 0.5, rf"$y_{i + 1}$", facecolor=color, alpha=0.35)
    axes.annotate("$L$ tokens $Z$", (1.15, 0.85), ha="center", fontsize=9)
    axes.annotate(r"query $z_q = (q, 0)$", (1.35, 6.7), ha="center", va="center", fontsize=9)
    arrow(2.4, 6.4, 4.5, 4.65)
    axes.annotate(
        r"$W_X = K_X^\top Q_X/\sqrt{d_e}$", (5.5, 5.25), ha="center", fontsize=9, zorder=3
    )
    diagonal(4.6, 3.1, 1.8, r"\omega")
    axes.annotate("softmax", (8.45, 5.25), ha="center", fontsize=9, zorder=3)
    weights = np.array([0.2, 0.5, 1.5, 0.35, 0.9, 0.15, 0.6])
    for l, height in enumerate(weights):  # noqa: E741
        box(7.6 + 0.25 * l, 3.2, 0.2, height, facecolor=GREY, edgecolor=GREY)
    axes.annotate(r"$p$, one a token", (8.45, 2.7), ha="center", fontsize=9, zorder=3)
    axes.annotate(r"$U_Y = O\,V_Y$", (11.35, 5.25), ha="center", fontsize=9, zorder=3)
    diagonal(10.45, 3.1, 1.8, r"\mu")
    arrow(1.95, 4.1, 4.5, 4.1)
    arrow(6.5, 4.1, 7.4, 4.1)
    arrow(9.45, 4.1, 10.35, 4.1)
    axes.annotate(
        "scores: where to look", (5.5, 2.45), ha="center", fontsize=8, color=GREY, zorder=3
    )
    axes.annotate(
        "answers: what to add", (11.35, 2.45), ha="center", fontsize=8, color=GREY, zorder=3
    )
    axes.plot([1.95, 9.75, 9.75], [1.7, 1.7, 3.6], color=BLACK, linewidth=0.9, zorder=2)
    arrow(9.75, 3.6, 10.35, 3.6)
    axes.annotate(r"labels $y$", (6.0, 1.25), ha="center", fontsize=9, zorder=3)
    arrow(12.35, 4.1, 13.6, 4.1)
    axes.scatter([13.95], [4.1], s=280, color="white", edgecolor=BLACK, linewidth=0.9, zorder=3)
    axes.annotate(r"$\Sigma_h$", (13.95, 4.1), ha="center", va="center", fontsize=9, zorder=4)
    arrow(14.3, 4.1, 15.1, 4.1)
    for i, color in enumerate(TASK_COLORS):
        box(15.2, 4.6 - 0.6 * i, 0.9, 0.6, rf"$\hat y_{i + 1}$", facecolor=color, alpha=0.35)
    alt = (
        "Diagram of one head among H. Inputs and query give scores through a matrix that is ω_i times "
        "the identity on each task's group of inputs; softmax makes them weights p over the tokens; "
        "labels are averaged with these weights and multiplied by a diagonal matrix μ_1, μ_2, μ_3; "
        "the heads are added to three answers."
    )
    return Figure(figure, alt)


@drawn
def two_numbers(found: study.TwoNumbers) -> Figure:
    """Figure 3."""
    figure, (a, b, c) = canvas(3, width=8.4, height=2.9)
    t = 4 + found.run.series["time"]
    omega, mu = (x[:, 0, 0] for x in spectral.spectra(found.run))
    equation = DASHED | {"color": BLUE, "linestyle": (0, (1, 1.5)), "linewidth": 1.6}
    for panel, run, flow, reduced in (
        (a, mu, found.path.mu[:, 0, 0], found.mu),
        (b, omega, found.path.omega[:, 0, 0], found.omega),
    ):
        panel.plot(*thin(t, run), color=ORANGE, label="trained")
        panel.plot(found.path.t, flow, **THEORY, label="two-number flow")
        panel.plot(found.path.t, reduced, **equation, label=r"$\omega$ alone")
        panel.set(xlabel="time")
    a.set(ylabel=r"$\mu$")
    b.set(ylabel=r"$\omega$")
    b.legend(fontsize=8, loc="lower right")
    c.plot(found.grid, found.speed, **(equation | {"linestyle": DASHED["linestyle"]}))
    facts = found.facts
    c.plot(facts["fastest_at"], facts["fastest"], "o", color=BLUE, markersize=4)
    c.set(xlabel=r"$\omega$", ylabel=r"$\dot\omega$")
    for panel, name in zip((a, b, c), "abc", strict=True):
        panel.set_title(name, loc="left", fontsize=10, fontweight="bold")
    alt = (
        f"Three panels. a: μ rises from 1 to a peak of {facts['mu_peak']:.1f} and settles at 2.5. b: "
        f"ω rises from .01 to .316, half of it reached at t = {facts['reached']:.1f}; the equation in "
        f"ω alone is {facts['equation_leads']:.2f} ahead. c: the speed of ω against ω, slow at both "
        f"ends, fastest, {facts['fastest']:.3f}, at ω = {facts['fastest_at']:.3f}."
    )
    return Figure(figure, alt)


@drawn
def starts(found: study.Starts) -> Figure:
    """Which head takes which task, predicted from the start."""
    figure, (left, right) = canvas(2, width=8, height=3.3)
    ok = found.right
    left.plot([0, found.predicted.max()], [0, found.predicted.max()], **DASHED)
    left.scatter(found.predicted[ok], found.happened[ok], s=9, color=BLUE, label="head predicted")
    left.scatter(found.predicted[~ok], found.happened[~ok], s=22, color=ORANGE, marker="x",
                 label="another head")  # fmt: skip
    left.set(
        xlabel="time of the race, from the start alone", ylabel="time at which the task is won"
    )
    left.legend(fontsize=8)
    rng = np.random.default_rng(0)  # spreads the dots sideways
    right.scatter(found.winners + rng.uniform(-0.15, 0.15, len(found.loss)), found.loss, s=9,
                  color=BLUE)  # fmt: skip
    for n, level in found.levels.items():
        right.plot([n - 0.35, n + 0.35], [level, level], **THEORY)
    right.set(xlabel="heads that won a task", ylabel=f"loss at t = {study.SETTLED:.0f}",
              xticks=(1, 2, 3), ylim=(0, None))  # fmt: skip
    facts = found.facts
    alt = (
        f"Left: for {facts['starts']} random starts, the time at which each task is won against the "
        f"predicted time: half of the dots lie within {facts['near']:.1%} of the diagonal, some late ones "
        f"above it; the predicted head wins {facts['right']:.0%} of the tasks. Right: final losses in three "
        f"groups, {facts['three']} starts with three winners near {facts['level_3']:.1f}, "
        f"{facts['two']} with two near {facts['level_2']:.1f}, {facts['one']} with one near "
        f"{facts['level_1']:.1f}."
    )
    return Figure(figure, alt)


@drawn
def sharing(found: study.Sharing) -> Figure:
    """Fewer heads than tasks, and two heads of one task."""
    figure, (left, right) = canvas(2, width=8, height=3.1)
    left.plot(found.heads, found.bounds, **(DASHED | {"marker": "v", "markersize": 4}),
              label="lower bound")  # fmt: skip
    left.plot(found.heads, found.limits, **THEORY, label="limit")
    left.plot(found.heads, found.loss, "o", color=BLUE, label="flow at t = 200")
    left.set(xlabel="heads, for three tasks", ylabel="loss", xticks=found.heads, ylim=(0, None))
    left.legend(fontsize=8)
    for (name, path), color in zip(found.pair.items(), (BLUE, ORANGE), strict=True):
        for head in (0, 1):
            style = {"linestyle": (0, (5, 3) if head == 0 else (1, 1.5)), "linewidth": 1.6}
            label = f"{name} start" if head == 0 else None
            right.plot(path.t, path.mu[:, head, 0], color=color, label=label, **style)
    right.set(xlabel="time", ylabel=r"$\mu$ of two heads, one task")
    right.legend(fontsize=8)
    facts = found.facts
    alt = (
        f"Left: the loss falls with the number of heads, {facts['heads_1']:.1f}, "
        f"{facts['heads_2']:.1f}, {facts['heads_3']:.1f}, and not further with a fourth; the bound "
        "below it falls on. Right: two heads on one task; from equal starts they share it, from "
        "μ = .07 and .06 one of them takes it all."
    )
    return Figure(figure, alt)


@drawn
def beyond(run: study.ThreePhases) -> Figure:
    """After t = 12: the limit is a saddle."""
    figure, (left, middle, right) = canvas(3, width=8.8, height=3, width_ratios=(1.2, 1.2, 1))
    t = run.full.series["time"]
    late = t >= 8
    left.plot(*thin(t[late], smooth(run.full.loss, 60)[late]), color=PINK, label="trained")
    left.plot(run.leaving.t, run.leaving.loss.sum(-1), **THEORY, label="flow, off the limit")
    left.axhline(run.facts["bound"], **DASHED)
    left.annotate(r"bound, $H = 3$", (8, run.facts["bound"]), xytext=(0, -10), fontsize=8,
                  textcoords="offset points", color=GREY)  # fmt: skip
    left.set(xlabel="time", ylabel="loss", ylim=(3, 8.5))
    left.legend(fontsize=8)
    mu = spectral.spectra(run.full)[1]
    for h in range(3):
        for i in range(3):
            own = h == i
            middle.plot(*thin(t[late], mu[late, h, i]), color=TASK_COLORS[i],
                        linewidth=1.4 if own else 0.9, alpha=1 if own else 0.7)  # fmt: skip
    middle.axhline(0, **DASHED)
    middle.set(xlabel="time", ylabel=r"$\mu_i^{(h)}$, all matrices")
    table(right, mu[-1], rf"$\mu_i^{{(h)}}$ at $t = {study.HORIZON:.0f}$")
    facts = run.facts
    alt = (
        f"Left: after t = 12 the trained loss falls again, from {facts['full_end']:.1f} to "
        f"{facts['late']:.1f}, behind a dashed flow that goes to {facts['leaving_end']:.1f}. Middle: "
        "the six μ off the diagonal turn negative one after another, the three on it grow. Right: "
        f"the final table, about {mu[-1].diagonal().mean():.0f} on the diagonal and negative elsewhere."
    )
    return Figure(figure, alt)


@drawn
def saturation(found: study.Saturation) -> Figure:
    """Starts with saturated attention come back."""
    figure, (left, right) = canvas(2, width=8, height=3.1)
    left.plot(found.beta, found.power["exact"], color=BLUE, label="exact")
    left.plot(found.beta, np.minimum(found.power["exponential"], 1.1), **THEORY,
              label=r"$e^{\beta^2}/L$")  # fmt: skip
    left.plot(found.beta, found.power["saturated"], **(DASHED | {"color": ORANGE}),
              label=r"$1 - \sqrt{2\ln L}/\beta$")  # fmt: skip
    left.axvline(found.facts["edge"], color=GREY, linewidth=0.7, linestyle=":")
    left.set(
        xlabel=r"sharpness $\beta$ of the scores", ylabel=r"$\mathrm{E}\,|p|^2$", ylim=(0, 1.02)
    )
    left.legend(fontsize=8)
    for begin, run, color in zip(found.begin, found.runs, PALETTE, strict=False):
        omega = spectral.spectra(run)[0][:, 0, 0] * 10**0.5
        right.plot(*thin(run.series["time"], omega), color=color, label=f"from {begin:g}")
    right.axhline(1, **DASHED)
    right.set(xlabel="time", ylabel=r"$\omega\sqrt{d}$", ylim=(0, None))
    right.legend(fontsize=8)
    facts = found.facts
    alt = (
        "Left: the mean square of the attention weights against the sharpness of the scores: exact and "
        f"e^β²/L agree at small β and part before the dotted line at β = {facts['edge']:.1f}, where the "
        f"exponential is {facts['edge_high']:.0%} high; the exact curve nears 1 slowly, "
        f"{facts['exact_10']:.2f} at β = 10. Right: training from ω√d = 0.5, 1.9 and 3.2 ends at 1 each "
        "time."
    )
    return Figure(figure, alt)
