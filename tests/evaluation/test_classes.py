"""Classes are matched by name; what doesn't match is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.evaluation.classes import match

TEN = ("airplane", "bird", "car", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def test_a_subset_given_by_name_takes_the_arg_max_over_those_logits_only():
    # ImageNet-A numbers 200 of the 1000 classes its own way: scored by number it gave 0.08 %
    mapping = match(TEN, 10, ("ship", "cat", "dog", "bird"), 4)
    logits = jnp.arange(10.0)[None]  # truck is the largest, but isn't among the four
    chosen = mapping.select(lambda images, train: images)(logits, train=False)
    np.testing.assert_array_equal(chosen, [[8, 3, 5, 1]])
    assert mapping.names[int(chosen.argmax())] == "ship"
    assert mapping.relabel(jnp.array([0, 3])).tolist() == [0, 3]
    says = "4 of the model's 10 occur in this data; predictions over these 4 only (--all-classes: over all 10)"
    assert mapping.text == says


def test_a_subset_given_by_name_is_predicted_among_all_classes_where_that_is_asked_for():
    mapping = match(TEN, 10, ("ship", "cat", "dog", "bird"), 4, restrict=False)

    def model(images):
        return images

    assert mapping.select(model) is model
    assert (mapping.names, mapping.count) == (TEN, 10)
    assert mapping.relabel(jnp.array([0, 3, 1])).tolist() == [8, 1, 3]
    several = mapping.relabel(jnp.array([[1.0, 0, 0, 1]]))
    assert several.tolist() == [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0]]
    assert mapping.text == "4 of the model's 10 occur in this data; predictions over all 10"


def test_a_permuted_list_of_the_same_names_is_put_in_order():
    for restrict in (False, True):
        mapping = match(("neutral", "no", "yes"), 3, ("yes", "neutral", "no"), 3, restrict=restrict)
        assert mapping.relabel(jnp.array([0, 1, 2])).tolist() == [2, 0, 1]
        assert (mapping.names, mapping.text) == (("neutral", "no", "yes"), "the model's 3, matched by name")


def test_equal_lists_leave_the_model_as_it_is():
    def model(images):
        return images

    assert match(TEN, 10, TEN, 10).select(model) is model


def test_equal_lists_with_a_name_twice_are_equal_still():
    twice = ("crane", "dog", "crane")  # ImageNet's bird and machine
    assert match(twice, 3, twice, 3).columns is None


def test_names_that_do_not_match_are_refused():
    with pytest.raises(UserError, match=r"boat, cart.*aren't among the model's 10"):
        match(TEN, 10, ("boat", "cat", "cart"), 3)


def test_a_name_of_two_classes_is_refused():
    with pytest.raises(UserError, match="crane: names two classes"):
        match(("crane", "dog", "crane"), 3, ("dog", "crane"), 2)


def test_without_names_equal_counts_go_by_number_and_other_counts_are_refused():
    assert "by number" in match(TEN, 10, None, 10).text
    assert match(None, 3, ("a", "b", "c"), 3).names == ("a", "b", "c")
    assert match(None, 3, None, 3).names is None
    with pytest.raises(UserError, match="4 classes and the model 10; the dataset has no names"):
        match(TEN, 10, None, 4)
