"""Where linear theory still speaks of softmax."""

from iclbook.plot.style import BLACK, BLUE, DASHED, ORANGE, PINK, Figure, canvas, drawn
from iclbook.studies import small_scores as study


@drawn
def escape(found: study.Escape) -> Figure:
    """When softmax leaves zero: theory of small scores against training."""
    figure, axes = canvas(2, rows=2, width=7.6, height=5.4)
    for (name, time), ax in zip(found.time.items(), axes[0], strict=True):
        ax.plot(time, found.linear[name], color=BLUE, label="linear")
        ax.plot(time, found.softmax[name], color=ORANGE, label="softmax")
        ax.plot(time, found.predicted[name], **(DASHED | {"color": BLACK}), label="small scores")
        ax.set(xlabel="time", ylim=(0, None), xlim=(0, time[-1]))
        ax.set_title(f"{name}, init {1e-3 if name == 'merged' else 0.02:g}", fontsize=10)
    axes[0, 0].set(ylabel="mean squared error")
    axes[0, 0].legend(fontsize=8, loc="lower left")
    for (name, inits), ax in zip(found.inits.items(), axes[1], strict=True):
        soft, predicted, linear, as_drawn = found.left[name]
        at = inits if name == "merged" else 1 / inits
        ax.plot(at, predicted, **(DASHED | {"color": BLACK}))
        ax.plot(at, linear, "^", color=BLUE, markersize=4, label="linear")
        ax.plot(at, soft, "o", color=ORANGE, markersize=5, label="softmax")
        ax.plot(at, as_drawn, "x", color=PINK, markersize=5, label="softmax, not mirrored")
    axes[1, 0].set(xscale="log", xlabel="initial weights")
    axes[1, 0].invert_xaxis()
    axes[1, 1].set(xlabel="1 / initial weights")
    axes[1, 0].set(ylabel="time to lose a tenth")
    axes[1, 0].legend(fontsize=8, loc="upper left")
    facts = found.facts
    alt = (
        "Above: from one start the loss of softmax attention falls a little later than that of linear "
        "attention, merged and separate, and the dashed theory of small scores leaves with it. Below: "
        "the time to lose a tenth of the loss, for smaller and smaller weights; softmax lies on the "
        f"dashed theory within {100 * max(facts['merged_error'], facts['separate_error']):.0f}%, linear "
        "attention below; on sequences that are not mirrored the time stops growing, near "
        f"{facts['merged_drawn']:.0f} for merged weights."
    )
    return Figure(figure, alt)
