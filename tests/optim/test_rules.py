import re
import signal

import jax
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.models.bert import BERT
from vitzoo.models.gpt import GPT
from vitzoo.models.t5 import T5
from vitzoo.models.transformer import Transformer
from vitzoo.models.vit import ViT
from vitzoo.nn import paths, state
from vitzoo.nn.paths import flatten, layer_shape
from vitzoo.optim.optimizers import SGD, AdamW
from vitzoo.optim.rules import describe, leaf_rules
from vitzoo.schema import build


def vit_shapes(depth=12, width=8):
    def leaf(*shape):
        return jax.ShapeDtypeStruct(shape, np.float32)

    norm = {"scale": leaf(depth, width), "bias": leaf(depth, width)}
    blocks = {
        "norm1": norm,
        "attention": {"query": {"kernel": leaf(depth, width, 2, 4), "bias": leaf(depth, 2, 4)}},
        "mlp": {"up": {"kernel": leaf(depth, width, 16), "bias": leaf(depth, 16)}},
        "scale1": leaf(depth, width),
    }
    return {
        "patch_embedding": {"kernel": leaf(4, 4, 3, width), "bias": leaf(width)},
        "class_token": leaf(1, 1, width),
        "registers": leaf(1, 2, width),
        "positions": {"embedding": leaf(1, 17, width)},
        "encoder": {
            "blocks": {"*": blocks},
            "norm": {"scale": leaf(width), "bias": leaf(width)},
        },
        "head": {"kernel": leaf(width, 10), "bias": leaf(10)},
    }


def test_layer_decay_counts_as_beit_does():
    rules = leaf_rules(AdamW(layer_decay=0.75), vit_shapes(depth=12), ViT.EMBEDDINGS)
    for below in ("patch_embedding/kernel", "class_token", "registers", "positions/embedding"):
        assert rules[below].multiplier == pytest.approx(0.75**13)
        assert rules[below].multiplier == pytest.approx(0.02376, abs=5e-6)  # printed in the DeiT and timm threads
    for above in ("head/kernel", "encoder/norm/scale"):
        assert rules[above].multiplier == 1.0
    blocks = rules["encoder/blocks/*/attention/query/kernel"].multiplier
    assert blocks.shape == (12, 1, 1, 1)
    np.testing.assert_allclose(blocks.ravel(), [0.75**power for power in range(12, 0, -1)])


SIZES = {"width": 16, "num_heads": 2, "mlp_dim": 32}
VIT = {**SIZES, "depth": 2, "patch_size": 4, "image_size": 8, "channels": 3, "num_classes": 5, "registers": 2}
FAMILIES = [
    (ViT, {**VIT, "layer_scale": 0.1, "qk_norm": True}),
    *((ViT, {**VIT, "pooling": "map", "positions": kind}) for kind in ("learned2d", "relative", "relative_bias")),
    *((GPT, {**SIZES, "depth": 2, "vocabulary_size": 30, "tied_head": tied}) for tied in (True, False)),
    (BERT, {**SIZES, "depth": 2, "vocabulary_size": 30}),
    (T5, {**SIZES, "vocabulary_size": 30}),
    (Transformer, {**SIZES, "depth": 2, "vocabulary_size": 30}),
]


@pytest.mark.parametrize(("model", "settings"), FAMILIES, ids=lambda value: getattr(value, "__name__", ""))
def test_of_every_family_weight_decay_reaches_the_matrices_that_multiply_tokens_alone(model, settings):
    _, shapes = state.abstract(lambda rngs: model(model.Config(**settings), rngs=rngs))
    rules = leaf_rules(AdamW(weight_decay=0.1), shapes)
    # not tables that are looked up, nor what is added to tokens or multiplies each of their numbers
    others = r".*/(bias|masked_bias|scale[12]?|table|embedding|[xy]|class_token|registers|probe)"
    for path, leaf in flatten(shapes).items():
        decays = bool(rules[path].decay.any())
        assert decays != bool(re.fullmatch(others, f"/{path}")), path
        assert not decays or len(layer_shape(path, leaf)) >= 2, path


def test_a_norm_below_the_blocks_is_an_embedding_for_layer_decay():
    shapes = vit_shapes(depth=12) | {"embedding_norm": {"scale": vit_shapes()["class_token"]}}
    rules = leaf_rules(AdamW(layer_decay=0.75), shapes)
    assert rules["embedding_norm/scale"].multiplier == rules["class_token"].multiplier


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
    assert rules["encoder/blocks/*/mlp/up/kernel"].decay == pytest.approx(0.03)
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
    with pytest.raises(UserError, match=field):
        leaf_rules(SGD(**settings), vit_shapes())


def test_a_rule_that_no_leaf_reaches_is_refused():
    with pytest.raises(UserError, match="the rules before it"):
        leaf_rules(SGD(learning_rate_rules=((".*", 1.0), ("head/.*", 10.0))), vit_shapes())


@pytest.mark.parametrize(
    "values", [{"freeze": ["head/("]}, {"learning_rate_rules": [["head/(", 1]]}, {"weight_decay_rules": [[".*", -1]]}]
)
def test_a_pattern_or_factor_that_cannot_work_is_refused_before_any_model_is_built(values):
    with pytest.raises(UserError, match=f"optimizer.{next(iter(values))}"):
        build(AdamW, values, "optimizer")


def test_layer_decay_without_blocks_is_refused():
    with pytest.raises(UserError, match=r"no blocks to count: .* 1 is off"):
        leaf_rules(SGD(layer_decay=0.9), {"head": vit_shapes()["head"]})


def test_layer_decay_counts_the_blocks_of_a_plain_list_too():
    leaf = jax.ShapeDtypeStruct((4, 4), np.float32)
    rules = leaf_rules(SGD(layer_decay=0.5), {"blocks": {str(i): {"kernel": leaf} for i in range(12)}, "out": leaf})
    assert rules["blocks/11/kernel"].multiplier == 0.5
    assert rules["blocks/0/kernel"].multiplier == 0.5**12
    assert rules["out"].multiplier == 1


def test_rules_take_blocks_by_number_and_the_first_that_matches_a_layer_wins():
    optimizer = AdamW(
        weight_decay=0.1,
        layer_decay=0.5,
        weight_decay_rules=((r".*/blocks/[12]/.*", 0.0), (".*kernel", 1.0)),
        learning_rate_rules=((r"encoder/blocks/0/mlp/.*", 3.0),),
        freeze=(r".*/blocks/1/.*", r"encoder/blocks/\*/norm1/.*"),
    )
    rules = leaf_rules(optimizer, vit_shapes(depth=3))
    up = rules["encoder/blocks/*/mlp/up/kernel"]
    assert up.decay.ravel().tolist() == [0.1, 0.0, 0.0]
    assert up.multiplier.ravel().tolist() == [3 * 0.5**3, 0.5**2, 0.5]
    assert up.frozen.tolist() == [False, True, False]
    assert up.trained.multiplier.shape == (2, 1, 1)
    assert rules["encoder/blocks/*/norm1/scale"].frozen
    assert not rules["head/kernel"].frozen


def test_all_but_the_last_block_can_be_frozen():
    rules = leaf_rules(SGD(freeze=(r"(?!encoder/blocks/11/|head/).*",)), vit_shapes(depth=12))
    assert rules["encoder/blocks/*/scale1"].frozen.tolist() == [True] * 11 + [False]
    assert rules["class_token"].frozen
    assert not rules["head/kernel"].frozen


def test_a_rule_for_a_block_that_there_is_not_is_refused():
    with pytest.raises(UserError, match=r"blocks/12/.*matches no parameter; .* such as class_token, encoder/blocks/0/"):
        leaf_rules(SGD(freeze=(r"encoder/blocks/12/.*",)), vit_shapes(depth=12))


def test_a_training_of_nothing_is_refused():
    with pytest.raises(
        UserError, match=r"optimizer.freeze = \.\*: freezes every parameter, so nothing would be trained"
    ):
        leaf_rules(SGD(freeze=(".*",)), vit_shapes())
    with pytest.raises(UserError, match="freezes every parameter"):
        leaf_rules(SGD(freeze=(".*/blocks/0/.*", r"(?!.*/blocks/0/).*")), vit_shapes())


def test_describe_has_a_row_for_each_leaf():
    optimizer = AdamW(weight_decay=0.1, layer_decay=0.5, freeze=("patch_embedding/.*", ".*/blocks/0/attention/.*"))
    shapes = vit_shapes(depth=2)
    rows = {row["path"]: row for row in describe(leaf_rules(optimizer, shapes), shapes)}
    assert rows["encoder/blocks/*/mlp/up/kernel"] == {
        "path": "encoder/blocks/*/mlp/up/kernel",
        "shape": [2, 8, 16],
        "weight_decay": 0.1,
        "learning_rate": [0.25, 0.5],
        "frozen": False,
    }
    query = rows["encoder/blocks/*/attention/query/kernel"]
    assert (query["weight_decay"], query["learning_rate"], query["frozen"]) == ([0.0, 0.1], [0.0, 0.5], [0])
    patches = rows["patch_embedding/kernel"]
    assert (patches["weight_decay"], patches["learning_rate"], patches["frozen"]) == (0.0, 0.0, True)
    assert rows["head/bias"]["learning_rate"] == 1.0


@pytest.mark.parametrize("pattern", [r"(\w*/*)*!", r"(.*)*(.*)*!", r"((\w|/)+)+!"])
@pytest.mark.parametrize("field", ["freeze", "weight_decay_rules", "learning_rate_rules"])
@pytest.mark.parametrize("before", [(), (".*",)])
def test_a_pattern_that_tries_for_ever_is_refused(pattern, field, before, monkeypatch):
    monkeypatch.setattr(paths, "LONGEST_MATCH", 0.2)
    patterns = (*before, pattern)
    rules = patterns if field == "freeze" else tuple((one, 0.5) for one in patterns)
    handler, timed = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 0
    with pytest.raises(UserError, match=rf"^optimizer\.{field} = .*{re.escape(pattern)}: takes more than 0\.2 s"):
        leaf_rules(AdamW(**{"weight_decay": 0.1, field: rules}), vit_shapes())
    # another's alarm is as it was
    assert signal.getsignal(signal.SIGALRM) == handler
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == timed


def test_a_repetition_within_another_is_fine_where_it_is_quick():
    rules = leaf_rules(SGD(freeze=(r"(\w+/)*kernel",)), vit_shapes())
    assert rules["head/kernel"].frozen
    assert not rules["head/bias"].frozen
