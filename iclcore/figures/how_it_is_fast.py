"""Pictures of the chapter on speed."""

from iclcore.figures.style import BLACK, BLUE, DASHED, GREEN, ORANGE, Figure, canvas, curve, drawn
from iclcore.studies import how_it_is_fast as study

FORMS = {"full": ("every row of attention", BLUE), "row": ("the query's row", GREEN),
         "moments": ("moments", ORANGE)}  # fmt: skip


@drawn
def same_curve(found: study.Same) -> Figure:
    """Autograd on the torch module and descent on moments, one on the other."""
    figure, axes = canvas(width=5.4, height=2.9)
    curve(axes, found.autograd, color=BLUE, linewidth=5, alpha=0.35, label="autograd on the module")
    curve(axes, found.moments, color=BLACK, label="descent on moments")
    axes.axhline(found.moments.floor, **(DASHED | {"color": ORANGE}), label="least-squares floor")
    axes.set(xlabel="step", ylabel="mean squared error", ylim=(0, None))
    axes.legend(fontsize=8)
    alt = (
        "Two loss curves of one run lie on one another: autograd through attention, and descent on "
        f"moments. They agree to {found.facts['digits']} digits; both stay above the dashed floor."
    )
    return Figure(figure, alt)


@drawn
def costs(found: study.Costs) -> Figure:
    """Multiply-adds of one step against the number of sequences."""
    figure, axes = canvas(2, width=8, height=3, sharey=True)
    for panel, dim in zip(axes, (4, 8), strict=True):
        for form, (label, color) in FORMS.items():
            panel.plot(found.sequences, found.operations[dim, form], color=color, label=label)
        published = {4: 5000, 8: 80_000}[dim]
        panel.axvline(published, **DASHED)
        panel.annotate(
            "published", (published, 2e2), xytext=(4, 0), textcoords="offset points", fontsize=8
        )
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="sequences, $P$",
            title=f"$D = {dim}$",
            ylim=(1e2, None),
        )
    axes[0].set_ylabel("multiply-adds a step")
    axes[0].legend(fontsize=8, loc="upper left")
    alt = (
        "Multiply-adds of a step against the number of sequences, for D = 4 and D = 8: full attention and "
        "the query's row rise in proportion, moments are flat. At the published sizes full attention needs "
        f"{found.facts['ratio_first']:,.0f} and {found.facts['ratio_fourth']:,.0f} times more."
    )
    return Figure(figure, alt)


@drawn
def measured(found: study.Measured) -> Figure:
    """Measured seconds a step, and how they grow."""
    figure, (left, right) = canvas(2, width=8, height=3, width_ratios=(1.25, 1))
    results = found.results
    first, fourth = results["first_published"], results["fourth_published"]
    bars = {
        "D = 8, P = 80,000: full attention": (fourth["naive_step"], BLUE),
        "moments ": (fourth["descent"] / fourth["steps"], ORANGE),
        "D = 4, P = 5,000: full attention": (first["naive_step"], BLUE),
        "moments": (first["descent"] / first["steps"], ORANGE),
        "softmax: full attention": (results["softmax"]["naive_step"], BLUE),
        "softmax: query's row, torch": (results["softmax"]["torch_row_step"], GREEN),
        "softmax: query's row, fused": (results["softmax"]["fused_step"], ORANGE),
    }
    for place, (seconds, color) in enumerate(bars.values()):
        left.plot([1e-7, seconds], [place, place], color=color, linewidth=2)
        left.plot(seconds, place, "o", color=color)
    left.set_yticks(range(len(bars)), list(bars), fontsize=8)
    left.invert_yaxis()
    left.set(xscale="log", xlabel="seconds a step", xlim=(3e-7, None))
    for name, axis, color in (("moments_P", "P", BLUE), ("moments_N", "N", GREEN)):
        rows = results["growth"][name]
        right.plot([r[axis] for r in rows], [r["seconds"] for r in rows], "o-", color=color, markersize=4,
                   label=f"moments against {axis}")  # fmt: skip
    rows = results["growth"]["step_D"]
    right.plot([r["F"] for r in rows], [r["seconds"] for r in rows], "s-", color=ORANGE, markersize=4,
               label="a step against F")  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="P, N or number of features F", ylabel="seconds")
    right.legend(fontsize=8)
    facts = found.facts
    alt = (
        "Left: seconds a step on a logarithmic axis; descent on moments takes microseconds where full "
        f"attention takes a good part of a second to many seconds, {facts['first_times']:,} and "
        f"{facts['fourth_times']:,} times longer; fused softmax is {facts['softmax_times']:.0f} times "
        "faster. Right: moments grow in proportion to P and N; a step grows with the number of features."
    )
    return Figure(figure, alt)
