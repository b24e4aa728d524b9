"""What the chapter on merged key and query claims."""

import numpy as np
from conftest import close, recorded

from iclcore import RegressionTask, theory

said = recorded("merged")


def test_one_drop_to_the_best_linear_attention():
    assert said("levels[-1] .4f") == 0.1360
    assert said("run.floor .4f") <= said("run.loss[-1] .4f") < 0.15 < 0.9 < said("run.loss[0] .2f")
    assert said("same.loss[-1] - run.loss[-1] .1g") < 0.01 and 500 < said("drop .0f") < 1500


def test_attention_and_mlp_differ_on_a_sample():
    """The draw that is shown is better than most: the text quotes the others."""
    shown = said("np.abs(run.loss - same.loss).max() .3f")
    assert shown < said("np.median(apart) .2f") < said("max(apart) .2f")
    halves = said("np.round(halves, -1) ,.0f")
    assert abs(halves[0] - said("drop .0f")) < 100 and halves == sorted(halves)


def test_paths_end_in_the_valley_and_pass_the_saddle_at_a_distance():
    assert said("np.abs(ends - a / b).max() .0e") < 1e-9
    assert (said("len(passed)"), said("sum(np.array(passed) > side / 2)")) == (6, 4)
    # v² − u² is kept, but a step of a·rate = 1/160 loses 4 (a·rate)²(1 − b uv/a)² of it: on the slow paths
    # 5% in all, and half in its root
    side = np.sqrt(said("a / b"))
    kept = side * np.sqrt([0.12**2 - 0.09**2, 1 - 0.04**2])
    close([said("min(passed) .2f"), said("max(passed) .2f")], kept, within=0.025)


def test_white_course():
    # A step of 0.05 multiplies by 1 + 2a·lr: the course is late by a·lr = 0.6% of its longest wait, 54, where
    # it falls by 0.128 a unit of time. Half the rate, half of that, to a relative 2a·lr.
    assert said("largest .2f") < 0.128 * 0.125 * 0.05 * 54
    assert 1.9 < said("largest / halved .2f") < 2.1
    # 5,000 sequences: a standard deviation of 0.004
    close(said("sampled[0].loss[-1] .3f"), said("closed[0][-1] .3f"), within=0.006)
    assert said("whole / a - 1 +z.0%") > 0.05 > said("own / a - 1 +z.0%")
    assert said("len(draws)") / 2 < said("harder")


def test_a_decade_of_the_weights():
    growths = [theory.growth_rate(RegressionTask(spectrum=law), "context")
               for law in ("white", "linear", "power")]  # fmt: skip
    close(said("decades"), np.log(10) / np.array(growths), within=1e-3)
    # a step multiplies by 1 + 1/800, which is late by half of that; of large starts 1e-3 besides
    close(said("fitted"), said("decades"), within=2e-3)
    # ln 10 and ten times; a step of small ones is late by up to dt ln(1/s₀)/2, and the next step ends it
    close(said("waits[0] .1f"), np.log([10, 100, 1000]), within=0.02)
    close(said("waits[1] .0f"), [9, 99, 999])


def test_training_overfits_between_m_alone_and_all_features():
    """On fresh sequences too; of 16 draws the mean excess is known to a tenth of itself, the own error to
    0.0015, a quarter of one draw's standard deviation."""
    inside, every = said("inside .0f"), said("every .0f")
    assert 4**2 < inside < said("kept_up .0f") < every
    level = theory.plateau_losses(RegressionTask())[-1]
    fresh, own = said("on_fresh[:, -1].mean() .4f"), said("on_own[:, -1].mean() .4f")
    assert 0.9 * inside < 5000 * (fresh / level - 1) < 1.1 * every
    assert level * (1 - every / 5000) - 0.0045 < own < level
    assert said("on_own[:, 0].mean() .3f") < own and fresh < said("on_fresh[:, 0].mean() .3f")
