"""Pictures of the chapter on context lengths."""

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    Figure,
    canvas,
    curve,
    drawn,
)
from iclbook.studies import context_length as study

COLORS = {"all": BLUE, "one": ORANGE}
LABELS = {"all": "all lengths", "one": "31 examples"}


@drawn
def training(found: study.Training) -> Figure:
    """Training on all lengths at once and on one."""
    figure, axes = canvas(2, width=7.6, height=3.3, sharey=True)
    for ax, (kind, runs) in zip(axes, found.runs.items(), strict=True):
        for name, run in runs.items():
            levels = found.levels[name][[0, -1]] if kind == "merged" else found.levels[name]
            for level in levels:
                ax.axhline(level, **(DASHED | {"color": COLORS[name]}))
            curve(ax, run, color=COLORS[name], label=LABELS[name])
        ax.set(xlabel="step", ylim=(0, None), title=f"key and query {kind}")
        ax.title.set_fontsize(10)
    axes[0].set(ylabel="mean squared error")
    axes[0].legend(fontsize=8, title="trained on", title_fontsize=8)
    facts = found.facts
    alt = (
        "Training losses of linear attention on all lengths and on 31 examples, merged on the left, "
        "separate on the right: one drop and a staircase, each on its own dashed levels, which end at "
        f"{facts['level_all']:.2f} for all lengths and {facts['level_one']:.2f} for 31 examples. On all "
        "lengths the drops come later."
    )
    return Figure(figure, alt)


@drawn
def predictors(found: study.Predictors) -> Figure:
    """The matrix M that each length would learn, and the one that a mixture learns."""
    figure, axes = canvas(width=6.2, height=3.7)
    for d, color in enumerate((BLUE, ORANGE, GREEN, PINK)):
        axes.plot(found.contexts, found.best[:, d], **(DASHED | {"color": color}))
        axes.annotate(rf"$e_{d + 1}$", (found.contexts[-1], found.best[-1, d]), xytext=(5, 0),
                      textcoords="offset points", va="center", color=color)  # fmt: skip
        for at, name, marker in ((found.effective, "all", "o"), (31, "one", "s")):
            axes.plot(at, found.trained[name][d], marker, color=color, markersize=5)
    for at, name in ((found.effective, "all lengths"), (31, "31 examples")):
        axes.axvline(at, color=GREY, linewidth=0.6, zorder=0.5)
        axes.annotate(name, (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
                      textcoords="offset points", ha="center", fontsize=8, color=GREY)  # fmt: skip
    axes.set(xscale="log", xlabel="examples in the context", ylabel="$M$ along an eigenvector",
             ylim=(0, None))  # fmt: skip
    alt = (
        "What the best predictor is along each of four eigenvectors, for contexts of 1 to 100 examples: "
        "dashed curves that rise towards one over the eigenvalue. The values trained on all lengths, as "
        f"dots, lie on the curves at {found.effective:.1f} examples; those trained on 31 examples, as "
        "squares, at 31."
    )
    return Figure(figure, alt)


@drawn
def testing(found: study.Testing) -> Figure:
    """Error on contexts of other lengths than those of training."""
    figure, axes = canvas(2, width=7.6, height=3.7, sharey=True)
    for ax, errors, title in zip(
        axes, (found.linear, found.softmax), ("linear", "softmax"), strict=True
    ):
        ax.plot(found.contexts, found.best, **(DASHED | {"color": BLACK}), label="best at each")
        for name, color in COLORS.items():
            ax.plot(found.contexts, found.formula[name], **(DASHED | {"color": color}))
            ax.plot(found.contexts, errors[name], color=color, label=f"trained on {LABELS[name]}")
        ax.axvline(31, color=GREY, linewidth=0.6, zorder=0.5)
        ax.set(xscale="log", yscale="log", xlabel="examples in the context", title=title)
        ax.title.set_fontsize(10)
        ticks = [1, 3, 10, 31, 100]
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.set_xticks([], minor=True)
        ticks = [0.05, 0.1, 0.2, 0.5, 1]
        ax.set_yticks(ticks, [str(t) for t in ticks])
        ax.set_yticks([], minor=True)
    axes[0].set(ylabel="error on fresh sequences")
    axes[0].legend(fontsize=8)
    facts = found.facts
    alt = (
        "Error on fresh sequences against the examples in their context, 1 to 100. Left, linear "
        "attention lies on its dashed formulas. Trained on 31 examples it is the best at 31, and "
        f"{facts['one_100']:.3f} at 100 where {facts['best_100']:.3f} is possible; trained on all "
        f"lengths it is better below and worse above, {facts['all_100']:.3f} at 100. Right, softmax "
        f"attention: {facts['soft_all_100']:.3f} and {facts['soft_one_100']:.3f} at 100."
    )
    return Figure(figure, alt)
