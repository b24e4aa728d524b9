"""What the chapter on context lengths claims."""

from conftest import close, recorded

lengths = recorded("context_length")


def test_all_lengths_are_slower_by_the_ratio_of_rates():
    for found in (lengths.merged_slower, lengths.separate_slower):
        close(found, lengths.slower, within=2e-3)  # a tenth of the loss, finite steps


def test_training_ends_on_the_ridge_of_one_compromise():
    assert lengths.compromise == 10  # a closed form, no measurement
    assert lengths.ridge_gap < 0.05  # 5,000 sequences


def test_linear_attention_lies_on_its_formula():
    assert lengths.formula_gap < 0.12  # 2,000 fresh sequences, 5,000 trained on


def test_a_compromise_costs_something_at_every_length():
    assert lengths.mean_best < lengths.mean_all < lengths.mean_one
    assert lengths.single_one > lengths.single_all > 1  # the error of answering zero is the trace
    assert lengths.hundred_all > 2 * lengths.hundred_best


def test_softmax_makes_the_same_compromise():
    assert lengths.linear_single < lengths.softmax_single < lengths.softmax_single_one
    for found in (lengths.thousand_all, lengths.thousand_one):
        assert found > 3 * lengths.thousand_best  # a matrix fixed for shorter contexts
