"""What the chapter on speed counts; what it measures is the bench's."""

import nbformat
import pytest
from chapters import chapters
from conftest import recorded
from torch.utils.flop_counter import FlopCounterMode

from iclcore import MergedAttention, RegressionTask, SeparateAttention
from iclcore.engines import MOST_FEATURES, choose
from iclcore.engines.autograd import AutogradEngine, PublishedEngine
from iclcore.moments import features

how_it_is_fast = recorded("how_it_is_fast")


@pytest.fixture(scope="module")
def counts():
    """The chapter's own functions, by name."""
    cells = nbformat.read(chapters()["how_it_is_fast"], as_version=4).cells
    (cell,) = (cell.source for cell in cells if "def every_row" in cell.source)
    names = {}
    exec(cell, names)
    return names


def counted(engine, model, task, sequences=2):
    """Multiply-adds of one step, as torch counts its matrix products, a head and sequence."""
    data = task.sample(sequences)
    descent = engine(model, model.start(task.dim, seed=0), data, [], 1e-3)
    with FlopCounterMode(display=False) as counter:
        descent.advance(1)
    return counter.get_total_flops() / 2 / sequences / model.heads


@pytest.mark.parametrize("rank", [None, 2, 3])
def test_a_step_has_as_many_multiply_adds_as_torch_counts(counts, rank):
    """At rank one torch multiplies without a product of matrices, and does not count that."""
    task = RegressionTask(dim=4, context=6)
    model = MergedAttention(2) if rank is None else SeparateAttention(2, rank=rank)
    assert counted(PublishedEngine, model, task) == counts["every_row"](7, 5, rank)
    assert counted(AutogradEngine, model, task) == counts["query_row"](7, 5, rank)


def test_the_ratios_are_of_these_counts():
    first = counted(PublishedEngine, MergedAttention(8), RegressionTask())
    fourth = counted(PublishedEngine, SeparateAttention(9), RegressionTask(dim=8))
    moments = [
        features(model, dim, 1).size ** 2 + 3 * heads * dim * (dim + 1) ** 2
        for model, dim, heads in ((MergedAttention(8), 4, 8), (SeparateAttention(9), 8, 9))
    ]
    assert how_it_is_fast.less_first == round(5000 * 8 * first / moments[0])
    assert how_it_is_fast.less_fourth == round(80_000 * 9 * fourth / moments[1])


def test_auto_leaves_moments_where_the_chapter_says():
    most = int(how_it_is_fast.most_dim)
    kinds = [choose(MergedAttention(), "auto", (dim, 1)) for dim in (most, most + 1)]
    assert kinds == ["moments", "autograd"]
    assert how_it_is_fast.feature_count == features(MergedAttention(), 4, 1).size
    assert features(MergedAttention(), most, 1).size <= MOST_FEATURES


def test_both_curves_are_one():
    assert how_it_is_fast.digits == 12


def test_the_floor_is_lower_than_a_count_of_features_says():
    """The population's gap of least squares at D = 4: tests of low rank hold its law."""
    book = how_it_is_fast
    assert book.kappa - 4 * book.kappa_error > 1.25 * book.feature_count
