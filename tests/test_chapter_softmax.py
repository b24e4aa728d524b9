"""What the chapter on softmax attention claims."""

from itertools import pairwise

from conftest import close, recorded

said = recorded("softmax")
OF = {"merged": 'times["merged"]', "separate": 'times["separate"]'}


def test_one_drop_or_several():
    assert said('sorted({*drops["merged"]})') == 1
    # where two eigenvectors are learned within a hundred steps their drops are one, and a last one may
    # fall past the end
    assert 2 <= said('min(drops["separate"])') <= said('max(drops["separate"])') <= 4


def test_drops_learn_eigenvectors_in_order():
    halves = said("[round(half, -2) for half in halves] ,.0f")
    assert len(halves) == 4 and all(later - earlier > 200 for earlier, later in pairwise(halves))
    assert max(said("then .2f")) < 0.2
    # of 1,000 sequences y² has 0.06, and what is learned of it less; the first plateau is short
    losses, levels = said("flat"), said("levels[1 : len(flat) + 1] .3f")
    close(losses[0], levels[0], within=0.06)
    close(losses[1:], levels[1:], within=0.02)


def test_the_plateau_has_two_eigenvectors_and_the_end_three():
    """By the shares and not by the loss, which finds the plateau."""
    least, most = said("np.min(held, axis=0) .2f"), said("np.max(held, axis=0) .2f")
    assert min(least[:2]) > 0.7 and max(map(abs, least[2:] + most[2:])) < 0.15
    for extreme in ("min", "max"):
        close(said(f"{extreme}(losses) .2f"), 0.377, within=0.035)
    assert min(said("np.min(ends, axis=0) .2f")[:3]) > 0.9
    assert said("np.max(ends, axis=0) .2f")[3] < 0.3


def test_each_kind_of_head_is_where_it_is_said():
    shares = said("label_share .2f")
    assert all(share > 0.95 or share < 0.05 for share in shares)
    assert sum(share > 0.5 for share in shares) == 5
    plus, minus = said("by_inputs.value")
    assert minus < -1 and plus > 1
    # attention is broad on average, and less so for the query that is shown, picked for its size
    for kind in ("inputs", "labels"):
        mean, shown = (said(f"by_{kind}.sharper[{i}]") for i in (0, 1))
        assert 20 < mean < 30 and shown < mean - 4
    assert said("by_labels.attention[1].max() .0%") > 0.25 and said("by_labels.sharper[1]") < 10


def test_escape_is_predicted():
    # a tenth of the loss is not infinitely little: three percent at the starts of the chapter
    assert said('off("merged") .1%') < 0.05 and said('off("separate") .1%') < 0.03
    decade = said('np.diff(times["merged"]["softmax"][1:]).mean()')
    close(decade, said("np.log(10) / (2 * np.linalg.norm(a))"), within=0.02)
    assert said("together") < said("pull")
    for kind, of in OF.items():
        assert said(f'{of}["softmax"][-1] / {of}["linear"][-1]') > 1.02
        # the times exclude that there is no drag, not four times as much
        none, known, four = (
            said(f'off("{kind}"{drag}) .1%') for drag in (", drag=0", "", ", drag=4")
        )
        assert none > 2 * known > four
    drawn = said('times["merged"]["softmax, not mirrored"][-1]')
    assert drawn < 0.6 * said('times["merged"]["softmax"][-1]')  # a sample has no saddle


def test_the_drag_is_as_strong_as_theory_says():
    # steps of 0.02 of rates up to 2κH = 0.5: off by their product times that rate's share
    assert said("np.abs(by_drag(1) - total).max() .3f") < 0.01
    close(said("tried[np.argmin(fits)] .2f"), 1, within=0.01)
    for times in (0.5, 2):  # the course itself is between 0.5 and 1
        assert said(f"np.abs(by_drag({times}) - total).max() .1f") > 0.5


def test_heads_that_leave_cancel_in_part():
    for kind in OF:
        assert said(f'in_sum(away["{kind}"]["softmax"][2])') < 0.5


def test_linear_floor_is_passed_only_on_its_own_sequences():
    assert said("late.loss[-1]") < said('floor["own"]') - 0.005
    least = said("on_fresh.min()")
    assert least > said('floor["fresh"]') > said("measure.loss_of_best(fresh)")
    assert said("on_fresh[-1]") > least + 0.005
