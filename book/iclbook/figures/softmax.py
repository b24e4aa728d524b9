"""Pictures of the chapter on softmax attention."""

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    ORANGE,
    PINK,
    Figure,
    canvas,
    curve,
    drawn,
    levels,
)
from iclbook.studies import softmax as study


@drawn
def loss_curves(found: study.LossCurves) -> Figure:
    """Figure 5."""
    figure, axes = canvas(2, width=7.6, height=3.3, sharey=True)
    for ax, runs, name in zip(
        axes, (found.merged, found.separate), ("merged", "separate"), strict=True
    ):
        for run in runs:
            curve(ax, run, color=BLACK, linewidth=0.8)
        ax.set(xlabel="step", ylim=(0, 1.05), title=f"key and query {name}")
        ax.title.set_fontsize(10)
    levels(axes[1], found.levels)
    axes[0].set(ylabel="mean squared error")
    facts = found.facts
    alt = (
        f"Training losses of softmax attention, {facts['runs']} starts each. Left, merged: all fall "
        f"from {facts['start']:.2f} to {facts['merged_end']:.2f} in one drop. Right, separate: a long "
        f"plateau, then {facts['separate_least']} to {facts['separate_most']} drops with plateaus "
        "between them, near the dashed levels of linear attention."
    )
    return Figure(figure, alt)


@drawn
def learned(found: study.Learned) -> Figure:
    """Which eigenvector each drop of softmax attention learns."""
    figure, (top, bottom) = canvas(rows=2, width=6.6, height=4.6, sharex=True)
    curve(top, found.history, color=BLACK)
    levels(top, found.levels)
    top.set(ylabel="mean squared error", ylim=(0, 1.05))
    names = ("first", "second", "third", "fourth")
    steps = found.history.kept
    for d, color in enumerate((BLUE, ORANGE, GREEN, PINK)):
        bottom.plot(steps, found.shares[:, d], color=color, label=rf"$e_{d + 1}$")
    bottom.axhline(1, **DASHED)
    bottom.set(xlabel="step", ylabel="share learned")
    bottom.legend(ncols=2, fontsize=8, loc="center")
    halves = ", ".join(
        f"the {name} near step {round(found.facts[f'half_{d + 1}'], -2):,}"
        for d, name in enumerate(names)
    )
    alt = (
        "Above, the loss of a run with separate key and query: a staircase close to the dashed levels "
        "of linear attention. Below, the share of each eigenvector in the predictions: they rise from "
        f"zero to about one, one after another: {halves}."
    )
    return Figure(figure, alt)


@drawn
def reading(found: study.Reading) -> Figure:
    """What the heads attend to."""
    figure, axes = canvas(3, rows=2, width=7.6, height=4.4, sharey="row")
    moments = ("start", "two eigenvectors learned", "end")
    for kind, (row, reads) in enumerate(
        zip(axes, (r"input along the key, $k^\top x_m/|k|$", "label $y_m$"), strict=True)
    ):
        colors = (BLUE, ORANGE) if kind == 0 else (GREEN, PINK)
        for moment, ax in enumerate(row):
            ax.axhline(1 / found.reads.shape[-1], **DASHED)
            for head, (color, marker) in enumerate(zip(colors, "os", strict=True)):
                ax.plot(found.reads[kind, moment, head], found.attention[kind, moment, head], marker,
                        color=color, markersize=3.5, alpha=0.8)  # fmt: skip
            ax.set_xlabel(reads, fontsize=9)
            if kind == 0:
                ax.set_title(moments[moment], fontsize=10)
        row[0].set(ylabel="attention weight $p_m$", ylim=(0, None))
    facts = found.facts
    alt = (
        "Attention weights of two heads on the 32 tokens of one sequence, in two runs. At the start "
        "all are 1/32. Above, heads whose weights rise or fall with the input along their key: with "
        f"two eigenvectors learned, the sharper one is spread over {facts['inputs_tokens_two']:.0f} tokens. "
        "Below, heads whose weights rise or fall with the label; there it is "
        f"{facts['labels_tokens_two']:.0f}."
    )
    return Figure(figure, alt)


@drawn
def long_run(found: study.LongRun) -> Figure:
    """Ten times the steps: below the linear floor on its own sequences, not on fresh ones."""
    figure, axes = canvas(width=6.2, height=3.4)
    shown = found.time > 0
    axes.plot(found.time[shown], found.train[shown], color=BLUE, label="its own sequences")
    axes.plot(found.time[shown], found.fresh[shown], color=ORANGE, label="fresh sequences")
    end = found.time[-1]
    for level, color, text, up in (
        (found.floor, BLUE, "linear, fitted to its own", -9),
        (found.floor_fresh, ORANGE, "the same on fresh ones", 2),
    ):
        axes.axhline(level, **(DASHED | {"color": color}))
        axes.annotate(text, (found.time[shown][0], level), xytext=(2, up), fontsize=8, color=color,
                      textcoords="offset points")  # fmt: skip
    axes.set(xscale="log", xlabel="time", ylabel="mean squared error", yscale="log")
    axes.set_yticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
    axes.set_yticks([], minor=True)
    axes.set_ylim(0.1, 1.2)
    axes.legend(fontsize=8, loc="upper right")
    facts = found.facts
    alt = (
        f"Loss of merged softmax attention up to time {end:.0f}. On its own sequences it falls below "
        f"the dashed floor of linear attention, {facts['floor']:.3f}, and reaches {facts['train']:.3f}; "
        f"on fresh sequences it is lowest, {facts['fresh_best']:.3f}, near time "
        f"{facts['fresh_best_time']:.0f}, rises to {facts['fresh']:.3f}, and never reaches linear "
        f"attention's {facts['floor_fresh']:.3f}."
    )
    return Figure(figure, alt)
