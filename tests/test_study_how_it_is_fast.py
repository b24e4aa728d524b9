"""What the chapter on speed counts; what it measures is the bench's."""

from iclbook.figures import how_it_is_fast as figures
from iclbook.studies import how_it_is_fast as study
from iclcore import MergedAttention, SeparateAttention
from iclcore.moments import features
from iclcore.trainer import MOST_FEATURES, choose


def test_counts():
    facts = study.costs().facts
    for dim in (1, 4, 8):
        assert study.count(dim) == features(MergedAttention(), dim, 1).size
    row, moments = (
        lambda p, d, m, form=form: study.step_operations(p, 32, d, m, form)
        for form in ("row", "moments")
    )
    eight, rank_one = MergedAttention(8), SeparateAttention(9)
    least = facts["breaks_even_8"]
    assert row(least - 1, 8, rank_one) < moments(1, 8, rank_one) <= row(least, 8, rank_one)
    wins = facts["row_wins"]
    assert row(5000, wins - 1, eight) > moments(1, wins - 1, eight)
    assert row(5000, wins, eight) < moments(1, wins, eight)
    # where auto leaves moments
    most = facts["most_dim"]
    kinds = [choose(MergedAttention(), "auto", (dim, 1)) for dim in (most, most + 1)]
    assert kinds == ["moments", "autograd"] and study.count(most) <= MOST_FEATURES
    for dim in (4, 8):
        heads = facts[f"even_heads_{dim}"]
        assert (
            abs(3 * heads * dim * (dim + 1) ** 2 / study.count(dim) ** 2 - 1) < 0.5 / heads + 1e-9
        )
        assert facts[f"even_context_{dim}"] == dim**2 * (dim + 1) * (dim + 2) // 4


def test_the_floor_is_lower_than_a_count_of_features_says():
    """The population's gap of least squares at D = 4: tests of low rank hold its law."""
    found = study.overfit("quick")
    assert found["kappa"] - 4 * found["error"] > 1.25 * study.count(4)


def test_the_picture_says_what_was_measured():
    found = study.measured()
    assert f"{found.facts['moments_n_times']:.1f} times as long" in figures.growth(found).alt
