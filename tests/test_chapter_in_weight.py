"""What the chapter on in-weight and in-context learning claims."""

import numpy as np
from conftest import close, recorded

said = recorded("in_weight")

# every 500 steps from 0, as the published code with seed 10 gives them: two digits each
TRAINING = {
    "runs[0.2].loss": (1.02, 1.02, 0.312, 0.272, 0.238, 0.181, 0.141, 0.130),
    "runs[0.6].loss": (1.00, 1.00, 1.00, 0.717, 0.360, 0.158, 0.144, 0.141),
    "runs[1].loss": (1.02, 1.02, 1.02, 1.02, 1.02, 0.986, 0.395, 0.141),
}
TESTS = {
    "knows[0.2]": (1.04, 1.04, 0.26, 0.30, 0.35, 0.52, 0.81, 0.97),
    "knows[0.6]": (1.04, 1.04, 1.04, 0.54, 0.66, 1.02, 1.05, 1.07),
    "reads[0]": (0.96, 0.96, 2.25, 2.25, 2.25, 2.25, 2.25, 2.25),
    "reads[0.2]": (0.98, 0.98, 1.21, 1.04, 0.88, 0.60, 0.39, 0.31),
    "reads[0.6]": (0.98, 0.98, 0.98, 0.98, 0.53, 0.19, 0.15, 0.15),
}


def of_both(what, form):
    """At the shares 0.2, 0.4, 0.6 and 0.8."""
    return np.array(said(f"[{what} for s in both] {form}"))


def test_the_published_sweep():
    for curve, wanted in (TRAINING | TESTS).items():
        # half a unit of the second digit; recorded with one more
        close(said(f"{curve}[:4000:500] .3f"), wanted, within=0.005)


def test_weights_first_then_context_then_forgotten():
    half = of_both("measure.fallen(knows[s], 0.25)", ",.0f")
    assert np.all((half > 0) & (half < of_both("measure.fallen(reads[s], 0.25)", ",.0f")))
    ends = of_both("knows[s][-1]", ".3f")
    assert np.all(of_both("knows[s].min()", ".2f") < 0.65)
    assert np.all(ends > 0.97 * of_both("knows[s][0]", ".3f"))
    reads = of_both("reads[s][-1]", ".3f")
    assert np.all(reads < 0.3)
    # not lost: with true labels the shared vector helps beyond what the context gives
    assert np.all((of_both("shared[s]", ".3f") < 0.95 * reads)[:3])
    floor, later, end = (
        of_both(what, ".4f") for what in ("runs[s].floor", "runs[s].loss[-1]", "runs[s].loss[end]")
    )
    assert np.all((floor < later) & (later < end))


def test_the_pull_dates_the_drop():
    """One singular pair, no quadratic part: that part is a hundredth where the loss is, so the
    step is right to a few, of up to 2,350; three thousandths of it."""
    predicted, trained = (np.array(said(f"[leaves(s)[{i}] for s in shares] ,.0f")) for i in (0, 1))
    close(trained / predicted, np.ones(6), within=0.003)


def test_what_is_learned_first_is_predicted():
    # Two crossings 232 steps apart, ln 100/ln 1.02, from starts whose nonlinear part is the same. Between two
    # steps the loss grows by 4% and is taken as a line: half a hundredth of a step too late, either.
    assert said("max(abs(found[s][0] / sigmas(s)[0] - 1) for s in tried) .0e") < 2 * 0.005 / 232
    # two of them around the turn, a hundredth to either side
    assert said("sum(found[s][1] == predicted[s] for s in tried)") == said("len(tried)") == 9
    assert said("turn .2f") == 0.96


def test_forgetting_is_the_optimum():
    weights, context, shared = (
        of_both(f'best[s]["{kind}"]', ".3f") for kind in ("in_weight", "in_context", "shared")
    )
    assert np.all((weights > 1) & (context < 0.25) & (shared < context))
    # the floors of 5,000 sequences: a standard deviation of 0.004, and 0.003 for what a fit gains
    close(of_both("mixtures[s].floor()", ".4f"), of_both("runs[s].floor", ".4f"), within=0.005)


def test_a_hundredth_of_the_map_is_what_is_stored():
    assert said("np.sum(gaps < 1e-4)") == said("gaps.size") == 100
