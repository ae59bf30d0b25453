"""Names of parameters and rules that decide by name."""

import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.nn import paths

TREE = {
    "head": {"kernel": np.zeros((4, 2)), "bias": np.zeros(2)},
    "encoder": {"norm": {"scale": np.zeros(4)}, "blocks": {"*": {"mlp": {"up": {"kernel": np.zeros((3, 4, 8))}}}}},
}


def test_flatten_sorts_by_name_and_unflatten_undoes_it():
    flat = paths.flatten(TREE)
    assert list(flat) == ["encoder/blocks/*/mlp/up/kernel", "encoder/norm/scale", "head/bias", "head/kernel"]
    assert paths.flatten(paths.unflatten(flat)) == flat


def test_a_stacked_leaf_has_a_star_for_the_layers_number():
    path = "encoder/blocks/*/mlp/up/kernel"
    leaf = paths.flatten(TREE)[path]
    assert paths.is_stacked(path)
    assert paths.numbered(path, 2) == "encoder/blocks/2/mlp/up/kernel"
    assert paths.layer_shape(path, leaf) == (4, 8)


@pytest.mark.parametrize("path", ["head/kernel", "encoder/blocks/0/mlp/up/kernel", "stage1/blocks/conv/kernel"])
def test_no_other_leaf_is_taken_for_stacked_whatever_its_attributes_are_called(path):
    assert not paths.is_stacked(path)
    assert paths.numbered(path, 2) == path
    assert paths.layer_shape(path, np.zeros((4, 2))) == (4, 2)


def test_the_first_rule_that_matches_the_whole_path_wins():
    rules = [(r"encoder/blocks/\*/.*", 1), (r".*/kernel", 2)]
    assert paths.match_rules(rules, TREE, "rules") == {"encoder/blocks/*/mlp/up/kernel": 1, "head/kernel": 2}


@pytest.mark.parametrize(
    ("pattern", "layers"),
    [
        (r".*blocks/[01]/.*", [0, 1]),
        (r"encoder/blocks/2/mlp/up/kernel", [2]),
        (r"encoder/blocks/\*/.*", [0, 1, 2]),
        (r".*/kernel", [0, 1, 2]),
        (r"(?!encoder/blocks/1/).*", [0, 2]),
        (r"(?!encoder/blocks/[*]/).*", []),
    ],
)
def test_layers_are_matched_by_number_unless_the_rule_names_the_star(pattern, layers):
    found = paths.match_layers([(pattern, 1), (".*", 0)], TREE, "rules")["encoder/blocks/*/mlp/up/kernel"]
    assert [layer for layer, value in enumerate(found) if value] == layers


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([("kernel", 1)], "matches no parameter"),  # part of a path only
        ([(".*", 1), ("head/bias", 2)], "decides nothing"),  # hidden by the rule before it
        ([("head/(", 1)], "not a regular expression"),
    ],
)
def test_a_rule_without_effect_is_refused_by_name(rules, message):
    with pytest.raises(UserError, match=message) as refusal:
        paths.match_rules(rules, TREE, "optimizer.decay_rule")
    assert refusal.value.field == "optimizer.decay_rule"
    assert refusal.value.value == rules[-1][0]


def test_a_leaf_without_rule_is_refused_where_each_needs_one():
    with pytest.raises(UserError, match="no rule matches encoder/norm/scale"):
        paths.match_rules([(".*kernel", 1)], TREE, "SHARDING_RULES", every_leaf=True)


def test_rules_that_match_nothing_are_fine_in_a_table_for_many_models():
    rules = [("registers", 0), (".*", 1)]
    assert set(paths.match_rules(rules, TREE, "SHARDING_RULES", every_leaf=True, every_rule=False).values()) == {1}
