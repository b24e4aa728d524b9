"""Pictures of the chapter on speed."""

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
)
from iclbook.studies import how_it_is_fast as study

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
    """Measured seconds a step."""
    figure, axes = canvas(width=6.4, height=3)
    results = found.results
    first, fourth, soft = (results[n] for n in ("first_published", "fourth_published", "softmax"))
    bars = {
        "D = 8, P = 80,000: full attention": (fourth["naive_step"], BLUE),
        "moments ": (fourth["descent"] / fourth["steps"], ORANGE),
        "D = 4, P = 5,000: full attention": (first["naive_step"], BLUE),
        "moments": (first["descent"] / first["steps"], ORANGE),
        "softmax: full attention": (soft["naive_step"], BLUE),
        "query's row, torch": (soft["torch_row_step"], GREEN),
        "query's row, fused": (soft["fused_step"], ORANGE),
    }
    for place, (seconds, color) in enumerate(bars.values()):
        axes.plot([1e-7, seconds], [place, place], color=color, linewidth=2)
        axes.plot(seconds, place, "o", color=color)
    limits = {1: results["step_against_blas"][2]["blas"], 3: results["step_against_blas"][0]["blas"],
              6: soft["limit_step"]}  # fmt: skip
    axes.plot(list(limits.values()), list(limits), "|", color=BLACK, markersize=14, markeredgewidth=2,
              label="the machine's limit")  # fmt: skip
    axes.set_yticks(range(len(bars)), list(bars), fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="seconds a step", xlim=(1e-7, None))
    axes.legend(fontsize=8, loc="lower right")
    facts = found.facts
    alt = (
        "Seconds a step on a logarithmic axis; descent on moments takes microseconds where full "
        f"attention takes a good part of a second to many seconds, {facts['first_times']:,} and "
        f"{facts['fourth_times']:,} times longer; fused softmax is {facts['softmax_times']:.0f} times "
        "faster. Marks: a BLAS matrix-vector product, and softmax's multiply-adds at the processor's peak."
    )
    return Figure(figure, alt)


AXES = {"P": "sequences P", "N": "context N", "D": "dimension D", "H": "heads H", "R": "rank R"}
TITLES = {"moments": "moments", "step": "a step on moments", "softmax": "a softmax step"}


@drawn
def growth(found: study.Measured) -> Figure:
    """How measured cost grows with each size, the others held."""
    figure, panels = canvas(3, width=8.4, height=2.9)
    colors = dict(zip(AXES, (BLUE, GREEN, ORANGE, PINK, BLACK), strict=True))
    for panel, (what, title) in zip(panels, TITLES.items(), strict=True):
        for name, color in colors.items():
            rows = found.results["growth"].get(f"{what}_{name}", [])
            if rows:
                panel.plot([row[name] for row in rows], [row["seconds"] for row in rows], "o-",
                           color=color, markersize=4, label=AXES[name])  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="size", title=title)
        panel.legend(fontsize=7)
    panels[0].set_ylabel("seconds")
    alt = (
        "Measured seconds against one size at a time, on logarithmic axes. Left: moments grow with the "
        "number of sequences and with the dimension; the longest context takes "
        f"{found.facts['moments_n_times']:.1f} times as long as the shortest. Middle: a step on moments "
        f"takes {found.facts['step_d_times']:,.0f} times as long in the largest dimension as in one, "
        f"{found.facts['step_h_times']:.1f} times with the most heads, and little longer for more rank. "
        "Right: a softmax step grows with every size."
    )
    return Figure(figure, alt)
