"""What a ViT may be."""

import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.models.vit import ViT, ViTConfig
from vitzoo.nn import state


def test_a_variant_is_a_size_and_a_patch():
    config = ViTConfig.from_variant("s/28", num_classes=10)
    assert (config.width, config.depth, config.mlp_dim, config.num_heads) == (256, 6, 1024, 8)
    assert (config.patch_size, config.num_classes) == (28, 10)
    assert ViTConfig.from_variant("B/28").grid == (8, 8)
    assert ViTConfig.from_variant("g/14").width != ViTConfig.from_variant("G/14").width


@pytest.mark.parametrize(
    ("variant", "hint"),
    [("S16", "S/16"), ("B/16x", "B/16"), ("b/16", "B/16"), ("S/", "S/16"), ("L/0", "L/16"), ("", "a size")],
)
def test_an_unknown_variant_names_the_nearest(variant, hint):
    with pytest.raises(UserError, match=hint) as refusal:
        ViTConfig.from_variant(variant)
    assert refusal.value.field == "variant"


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"image_size": 225}, "image_size", r"225: does not divide by patch_size 16 \(nearest: 224, 240\)"),
        ({"image_size": (224, 100)}, "image_size", r"100: does not divide by patch_size 16 \(nearest: 96, 112\)"),
        ({"image_size": 8}, "image_size", r"nearest: 16\)"),
        ({"num_heads": 7}, "num_heads", r"does not divide width 384 \(nearest: 6, 8\)"),
        ({"positions": "rotary", "width": 36, "num_heads": 6}, "width", r"multiple of 24 \(nearest: 24, 48\)"),
        ({"positions": "learned2d", "width": 33, "num_heads": 3}, "width", r"multiple of 2 \(nearest: 32, 34\)"),
        ({"positions": "sincos2d", "width": 6}, "width", r"multiple of 4 \(nearest: 4, 8\)"),
        ({"class_token": False}, "class_token", "pooling=cls needs it"),
        ({"class_token": False, "pooling": "cls_gap"}, "class_token", "pooling=cls_gap needs it"),
        ({"pooling": "gap", "distillation": "token"}, "class_token", "distillation=token needs it"),
        ({"pooling": "cls_gap", "distillation": "head"}, "distillation", "needs pooling cls"),
        ({"pool_include_prefix": True}, "pool_include_prefix", "acts with pooling gap or map; it is cls"),
        ({"pooling": "map", "num_heads": 7, "head_dim": 5}, "num_heads", "does not divide width 384"),
        ({"positions": "rotary", "head_dim": 6}, "head_dim", "multiple of 4"),
    ],
)
def test_what_does_not_fit_is_refused_by_field_with_what_would(changes, field, message):
    with pytest.raises(UserError, match=message) as refusal:
        ViTConfig.from_variant("S/16", **changes)
    assert refusal.value.field == field


def test_a_model_at_the_default_size_needs_a_patch_that_divides_it():
    config = ViTConfig(patch_size=15)
    config.check()  # the size comes from the data
    with pytest.raises(UserError, match="nearest: 210, 225"):
        state.abstract(lambda rngs: ViT(config, rngs=rngs))


def test_sizes_from_the_data_default_to_224_and_three_channels():
    assert ViTConfig().image_shape == (224, 224, 3)
    assert ViTConfig(image_size=28, channels=1).image_shape == (28, 28, 1)
    assert ViTConfig(image_size=(32, 64), patch_size=(8, 16)).grid == (4, 4)


def test_an_image_that_does_not_divide_into_patches_may_be_padded():
    with pytest.raises(UserError, match="pad_to_patch=true fills it up"):
        ViTConfig(image_size=(225, 200)).check()
    config = ViTConfig(image_size=(225, 200), pad_to_patch=True)
    config.check()
    assert config.grid == (15, 13)


def test_tokens_before_the_patches():
    assert ViTConfig().prefix_tokens == 1
    assert ViTConfig(pooling="gap", registers=4).prefix_tokens == 4
    assert ViTConfig(pooling="map", class_token=True).prefix_tokens == 1
    assert ViTConfig(distillation="token", registers=2).prefix_tokens == 4


@pytest.mark.parametrize(("rows", "placed"), [("none", 0), ("class", 2), ("all", 5)])
def test_tokens_before_the_patches_with_rows_of_their_own(rows, placed):
    config = ViTConfig(distillation="head", registers=3, prefix_positions=rows, image_size=32)
    assert config.placed_prefix == placed
    _, shapes = state.abstract(lambda rngs: ViT(config, rngs=rngs))
    assert shapes["positions"]["embedding"].shape == (1, placed + 4, 384)


def test_heads_may_have_any_size():
    config = ViTConfig(num_heads=7, head_dim=5, image_size=32)
    config.check()
    _, shapes = state.abstract(lambda rngs: ViT(config, rngs=rngs))
    assert shapes["encoder"]["blocks"]["*"]["attention"]["out"]["kernel"].shape == (12, 7, 5, 384)


def test_stochastic_depth_grows_from_zero_or_is_uniform():
    np.testing.assert_allclose(ViTConfig(depth=5, drop_path=0.4).drop_path_rates, [0, 0.1, 0.2, 0.3, 0.4], atol=1e-7)
    uniform = ViTConfig(depth=3, drop_path=0.4, drop_path_schedule="uniform")
    np.testing.assert_allclose(uniform.drop_path_rates, 0.4)
    np.testing.assert_allclose(ViTConfig(depth=1, drop_path=0.4).drop_path_rates, 0.4)
    assert ViTConfig().drop_path_rates is None
