"""What the chapter on softmax attention claims."""

from itertools import pairwise

from conftest import close, recorded

softmax = recorded("softmax")


def test_one_drop_or_several():
    assert softmax.merged_drops == 1
    # where two eigenvectors are learned within a hundred steps their drops are one, and a last one may
    # fall past the end
    assert 2 <= softmax.fewest_drops <= softmax.most_drops <= 4


def test_drops_learn_eigenvectors_in_order():
    halves = softmax.half_learned
    assert len(halves) == 4 and all(later - earlier > 200 for earlier, later in pairwise(halves))
    assert max(softmax.next_share) < 0.2
    # of 1,000 sequences y² has 0.06, and what is learned of it less; the first plateau is short
    close(softmax.losses_between[0], softmax.linear_levels[0], within=0.06)
    close(softmax.losses_between[1:], softmax.linear_levels[1:], within=0.02)


def test_the_plateau_has_two_eigenvectors_and_the_end_three():
    """By the shares and not by the loss, which finds the plateau."""
    least, most = softmax.least_learned, softmax.most_learned
    assert min(least[:2]) > 0.7 and max(map(abs, least[2:] + most[2:])) < 0.15
    assert softmax.learned_vectors == 3


def test_heads_read_inputs_or_labels():
    assert all(share > 0.95 or share < 0.05 for share in softmax.label_share)
    assert softmax.label_runs == 5
    plus, minus = softmax.pair_values
    assert minus < -1 and plus > 1
    # attention is broad on average, and less so for the query that is shown, picked for its size
    for spread in (softmax.spread_by_inputs, softmax.spread_by_labels):
        assert 20 < spread < 30
    assert softmax.shown_spread < 10


def test_escape_is_predicted():
    # a tenth of the loss is not infinitely little: three percent at the starts of the chapter
    assert softmax.time_errors[0] < 0.05 and softmax.time_errors[1] < 0.03
    close(softmax.decade_cost, softmax.decade_predicted, within=0.02)
    assert softmax.sum_rate < softmax.difference_rate and min(softmax.later) > 1.02
    # the times exclude that there is no drag, not four times as much
    errors = zip(
        softmax.errors_without_drag, softmax.time_errors, softmax.errors_with_four, strict=True
    )
    assert all(none > 2 * known > four for none, known, four in errors)
    assert softmax.drawn_time < 0.6 * softmax.mirrored_time  # a sample has no saddle
    assert max(softmax.left_in_sum) < 0.5  # heads cancel in part


def test_the_drag_is_as_strong_as_theory_says():
    # steps of 0.02 of rates up to 2κH = 0.5: off by their product times that rate's share
    assert softmax.course_error < 0.01
    close(softmax.fitted_drag, 1, within=0.01)


def test_linear_floor_is_passed_only_on_its_own_sequences():
    assert softmax.late_loss < softmax.floor - 0.005
    assert softmax.last_fresh - 0.005 > softmax.least_fresh > softmax.fresh_floor
