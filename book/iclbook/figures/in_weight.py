"""Pictures of the chapter on in-weight and in-context learning."""

from iclbook.plot.style import (
    BLACK,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    Figure,
    canvas,
    curve,
    drawn,
)
from iclbook.studies import in_weight as study

TESTS = {"in_weight": (ORANGE, "in-weight test"), "in_context": (BLUE, "in-context test")}
SERIES = {"loss": (BLACK, "training"), **TESTS}


@drawn
def sweep(found: study.Sweep) -> Figure:
    """One panel a share; the dashed line is the least-squares floor of that training set."""
    figure, axes = canvas(3, 2, width=8, height=4.9, sharex=True, sharey=True)
    for panel, (share, run) in zip(axes.flat, found.runs.items(), strict=True):
        for name, (color, label) in SERIES.items():
            curve(panel, run, name, color=color, label=label)
        panel.axhline(run.floor, **DASHED)
        panel.set_title(f"share in context: {share:g}", fontsize=10)
        panel.set(ylim=(0, 1.35), xticks=[0, 1000, 2000, 3000, 4000])
    for panel in axes[1]:
        panel.set(xlabel="step", xticklabels=["0", "1,000", "2,000", "3,000", "4,000"])
    for panel in axes[:, 0]:
        panel.set_ylabel("mean squared error")
    axes[0, 0].legend(fontsize=8, loc="center right")
    facts = found.facts
    alt = (
        "Errors against step for six shares of in-context sequences. At share 0 training and in-weight "
        f"error drop together to {facts['end_0']:.2f} and the in-context error rises out of the panel. "
        "From 0.2 to 0.8 the in-weight error drops first, to "
        + ", ".join(f"{facts[study.name('best_in_weight', s)]:.2f}" for s in study.SHARES[1:-1])
        + ", and rises again to about 1 while the in-context error drops to "
        + ", ".join(f"{facts[study.name('in_context', s)]:.2f}" for s in study.SHARES[1:-1])
        + ". At share 1 only the in-context error drops."
    )
    return Figure(figure, alt)


@drawn
def learned_first(found: study.First) -> Figure:
    """What is learned first: singular values of the pull, and which test falls first."""
    figure, (left, right) = canvas(2, width=8, height=3.4)
    for row, width in zip(found.rates, (1.5, 0.9), strict=True):
        left.plot(found.shares, row, **(DASHED | {"color": BLACK, "linewidth": width}))
    context, weights = found.alone
    left.plot(found.shares, found.shares * context, color=BLUE, linewidth=0.9, alpha=0.7)
    left.plot(found.shares, (1 - found.shares) * weights, color=ORANGE, linewidth=0.9, alpha=0.7)
    left.plot(found.simulated, found.measured, "o", color=BLACK, markersize=5)
    for text, place, color in (
        ("in-weight alone", (0.06, 10.0), ORANGE),
        ("in-context alone", (0.42, 0.4), BLUE),
        (r"$\sigma_1$", (0.43, 12.6), BLACK),
        (r"$\sigma_2$", (0.08, 4.4), BLACK),
    ):
        left.annotate(text, place, color=color, fontsize=9)
    left.set(xlabel="share in context", ylabel="singular value of the pull", ylim=(0, None))
    for row, (color, _) in zip(found.gains, TESTS.values(), strict=True):
        right.plot(found.shares, row, **(DASHED | {"color": color, "linewidth": 1.5}))
    right.annotate("in-weight test", (0.3, 13.4), color=ORANGE, fontsize=9)
    right.annotate("in-context test", (0.3, 2.6), color=BLUE, fontsize=9)
    right.axvline(found.facts["flip"], color=GREY, linewidth=0.8, linestyle=":")
    for share, weights_first in zip(found.simulated, found.weights_first, strict=True):
        right.plot(share, -0.9, "s", color=ORANGE if weights_first else BLUE, markersize=5)
    right.annotate("first to fall", (0.02, -0.35), fontsize=8, color=GREY)
    right.set(xlabel="share in context", ylabel="pull on the test error", ylim=(-1.6, 15.5))
    facts = found.facts
    alt = (
        "Left: the first singular value of the pull against the share of in-context sequences falls "
        f"from {facts['weight_alone']:.1f} to {facts['context_alone']:.2f}; dots measured in simulations "
        "lie on it. It follows the line of in-weight sequences alone, then bends to that of in-context "
        "sequences. Right: what the first direction does for the two test errors; the curves cross at "
        f"share {facts['flip']:.2f}, where also the error that falls first in simulations changes."
    )
    return Figure(figure, alt)


@drawn
def what_is_left(found: study.Left) -> Figure:
    """The least-squares optimum by share, and how near training comes."""
    figure, (left, right) = canvas(2, width=8, height=3.4)
    runs = found.swept.runs
    shares = list(runs)
    left.plot(found.shares, found.floor, **(DASHED | {"color": BLACK, "linewidth": 1.5}))
    for marker, color, ends in (
        ("o", BLACK, found.swept.runs),
        ("s", GREY, found.swept.later),
    ):
        losses = [ends[share].loss[-1] for share in shares]
        label = f"after {len(ends[0.0].loss):,} steps"
        left.plot(shares, losses, marker, color=color, markersize=5, label=label)
    floors = [runs[share].floor for share in shares]
    left.plot(shares, floors, "_", color=BLUE, markersize=12, label="floor of the sample")
    left.set(xlabel="share in context", ylabel="training error", ylim=(0, None))
    left.legend(fontsize=8, loc="lower right")
    for test, (color, label) in (TESTS | {"shared": (GREEN, "in weight, true labels")}).items():
        right.plot(found.shares, found.tests[test], **(DASHED | {"color": color, "linewidth": 1.5}))
        # at share 0 the contexts of training are noise: another problem
        had = [share for share in shares if share and test in runs[share].series]
        ends = [runs[share].series[test][-1] for share in had]
        right.plot(had, ends, "o", color=color, markersize=5, label=label)
    right.set(xlabel="share in context", ylabel="error", xlim=(-0.03, 1.03), ylim=(0, 1.2))
    right.legend(fontsize=8, loc="center right")
    facts = found.facts
    alt = (
        "Left: the least-squares floor of the population rises with the share of in-context sequences "
        f"to {facts['context_floor']:.3f}; trained networks lie above it, less so after ten times as "
        "many steps. Right: test errors of that least-squares optimum against the share, with those of "
        "the trained networks: the in-weight error is near 1 for every share above a tenth "
        f"({facts['in_weight_2']:.2f} at 0.2), the in-context error falls from "
        f"{facts['in_context_2']:.2f} to {facts['in_context_10']:.2f}; with true labels the shared "
        f"vector's sequences have {facts['shared_2']:.2f} at share 0.2."
    )
    return Figure(figure, alt)
