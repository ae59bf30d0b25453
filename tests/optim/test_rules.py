import jax
import numpy as np
import pytest

from vitzoo.errors import Refused
from vitzoo.optim.adamw import AdamW
from vitzoo.optim.rules import describe, leaf_rules
from vitzoo.optim.sgd import SGD
from vitzoo.schema import build


def vit_shapes(depth=12, width=8):
    def leaf(*shape):
        return jax.ShapeDtypeStruct(shape, np.float32)

    norm = {"scale": leaf(depth, width), "bias": leaf(depth, width)}
    return {
        "patch_embedding": {"kernel": leaf(4, 4, 3, width), "bias": leaf(width)},
        "class_token": leaf(1, 1, width),
        "registers": leaf(1, 2, width),
        "positions": {"embedding": leaf(1, 17, width)},
        "encoder": {
            "blocks": {
                "norm1": norm,
                "attention": {"query": {"kernel": leaf(depth, width, 2, 4), "bias": leaf(depth, 2, 4)}},
                "mlp": {"up": {"kernel": leaf(depth, width, 16), "bias": leaf(depth, 16)}},
                "scale1": leaf(depth, width),
            },
            "norm": {"scale": leaf(width), "bias": leaf(width)},
        },
        "head": {"kernel": leaf(width, 10), "bias": leaf(10)},
    }


def test_layer_decay_counts_as_beit_does():
    rules = leaf_rules(AdamW(layer_decay=0.75), vit_shapes(depth=12))
    for below in ("patch_embedding/kernel", "class_token", "registers", "positions/embedding"):
        assert rules[below].multiplier == pytest.approx(0.75**13)
        assert rules[below].multiplier == pytest.approx(0.02376, abs=5e-6)  # printed in the DeiT and timm threads
    for above in ("head/kernel", "encoder/norm/scale"):
        assert rules[above].multiplier == 1.0
    blocks = rules["encoder/blocks/attention/query/kernel"].multiplier
    assert blocks.shape == (12, 1, 1, 1)
    np.testing.assert_allclose(blocks.ravel(), [0.75**power for power in range(12, 0, -1)])


def test_the_first_learning_rate_rule_that_matches_wins_and_multiplies_the_layer_decay():
    optimizer = AdamW(layer_decay=0.5, learning_rate_rules=(("head/kernel", 10.0), ("head/.*|class_token", 3.0)))
    rules = leaf_rules(optimizer, vit_shapes(depth=2))
    assert rules["head/kernel"].multiplier == 10.0
    assert rules["head/bias"].multiplier == 3.0
    assert rules["class_token"].multiplier == pytest.approx(3 * 0.5**3)
    assert rules["encoder/norm/bias"].multiplier == 1.0


def test_weight_decay_by_rule_gives_the_head_its_own():
    optimizer = AdamW(weight_decay=0.03, weight_decay_rules=((".*head/kernel", 100.0), (".*/kernel", 1.0)))
    rules = leaf_rules(optimizer, vit_shapes())  # Zhai et al. 2022: 3 for the head, 0.03 for the body
    assert rules["head/kernel"].decay == pytest.approx(3.0)
    assert rules["encoder/blocks/mlp/up/kernel"].decay == pytest.approx(0.03)
    assert rules["class_token"].decay == 0.0


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("optimizer.weight_decay_rules", {"weight_decay": 0.1, "weight_decay_rules": ((".*kernle", 1.0),)}),
        ("optimizer.learning_rate_rules", {"learning_rate_rules": (("haed/.*", 10.0),)}),
        ("optimizer.freeze", {"freeze": ("backbone/.*",)}),
        ("optimizer.freeze", {"freeze": (".*", "backbone/.*")}),
        ("optimizer.learning_rate_rules", {"learning_rate_rules": (("encoder/blocks/norm1/.*", 2.0),)}),
    ],
)
def test_a_rule_that_matches_nothing_is_refused(field, settings):
    with pytest.raises(Refused, match=field):
        leaf_rules(SGD(**settings), vit_shapes())


def test_a_rule_that_no_leaf_reaches_is_refused():
    with pytest.raises(Refused, match="the rules before it"):
        leaf_rules(SGD(learning_rate_rules=((".*", 1.0), ("head/.*", 10.0))), vit_shapes())


@pytest.mark.parametrize(
    "values", [{"freeze": ["head/("]}, {"learning_rate_rules": [["head/(", 1]]}, {"weight_decay_rules": [[".*", -1]]}]
)
def test_a_pattern_or_factor_that_cannot_work_is_refused_before_any_model_is_built(values):
    with pytest.raises(Refused, match=f"optimizer.{next(iter(values))}"):
        build(AdamW, values, "optimizer")


def test_layer_decay_without_blocks_is_refused():
    with pytest.raises(Refused, match="no stack of blocks"):
        leaf_rules(SGD(layer_decay=0.9), {"head": vit_shapes()["head"]})


def test_describe_shows_one_row_for_each_leaf_with_the_shape_of_one_layer():
    optimizer = AdamW(weight_decay=0.1, layer_decay=0.5, freeze=("patch_embedding/.*",))
    rows = {row["parameter"]: row for row in describe(optimizer, vit_shapes(depth=2))}
    assert rows["encoder/blocks/*/mlp/up/kernel"] == {
        "parameter": "encoder/blocks/*/mlp/up/kernel",
        "shape": (8, 16),
        "weight_decay": 0.1,
        "learning_rate": (0.25, 0.5),
        "trains": True,
    }
    assert not rows["patch_embedding/kernel"]["trains"]
    assert rows["patch_embedding/kernel"]["weight_decay"] == 0.0
    assert rows["head/bias"]["learning_rate"] == 1.0
