"""Weights go onto another model of the family, or are refused by name."""

import dataclasses

import numpy as np
import pytest
from made_checkpoint import random_params

from vitzoo.errors import UserError
from vitzoo.models.base import TransferRules
from vitzoo.models.vit import Config, ViT
from vitzoo.models.vit_weights import resize_patches
from vitzoo.nn import state
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.weights.transfer import match_head, transfer

TINY = Config(patch_size=8, width=16, depth=4, mlp_dim=32, num_heads=2, num_classes=10, image_size=32, channels=3)

FRESH = 0.125
"""What a new leaf is filled with here."""


def build(config):
    return lambda rngs: ViT(config, rngs=rngs)


@pytest.fixture(scope="module")
def trained():
    """Parameters as if trained: no leaf is all zeros."""
    return random_params(TINY)


def onto(params, new, old=TINY, classes=(None, None)):
    """What becomes of the parameters under another Config, flat, and the report."""
    head = match_head(classes[0], old.num_classes, classes[1], new.num_classes)
    shapes = state.abstract(build(new))[1]
    initial = unflatten({path: np.full(leaf.shape, FRESH, leaf.dtype) for path, leaf in flatten(shapes).items()})
    result, report = transfer(params, old, new, shapes, model=ViT, head=head, fresh=lambda: initial)
    assert {path: leaf.shape for path, leaf in flatten(result).items()} == {
        path: leaf.shape for path, leaf in flatten(shapes).items()
    }
    return flatten(result), report


def changed(**changes):
    return dataclasses.replace(TINY, **changes)


def same_but(params, result, *names):
    """Every leaf but the named ones is bitwise what it was."""
    before = flatten(params)
    assert set(names) <= set(before) | set(result)
    for path in set(result) - set(names):
        np.testing.assert_array_equal(result[path], before[path], err_msg=path)


def test_the_same_model_takes_every_leaf_bitwise(trained):
    result, report = onto(trained, TINY)
    same_but(trained, result)
    assert report.lines() == [f"weights: {len(result)} leaves as they are", "  kept     head: the same 10 classes"]


def test_a_head_of_another_size_is_new_and_zero_and_reported(trained):
    result, report = onto(trained, changed(num_classes=4))
    same_but(trained, result, "head/kernel", "head/bias")
    assert not result["head/kernel"].any()
    assert not result["head/bias"].any()
    assert "  new      head/kernel: 10 → 4, new, zero-initialised" in report.lines()
    assert report.lines()[0].endswith("leaves as they are, 2 new")
    assert report.used == len(result) - 2


def test_a_new_head_has_the_bias_that_its_config_says(trained):
    result, _ = onto(trained, changed(num_classes=4, head_bias_init=-1.5))
    np.testing.assert_array_equal(result["head/bias"], np.full(4, -1.5, np.float32))


def test_a_head_of_the_same_size_but_of_other_classes_is_new(trained):
    digits, clothes = [str(i) for i in range(10)], [f"cloth {i}" for i in range(10)]
    result, report = onto(trained, TINY, classes=(digits, clothes))
    assert not result["head/kernel"].any()
    assert "other class names" in " ".join(report.lines())


def test_a_head_of_the_same_classes_is_kept_in_the_order_of_the_data(trained):
    names = [str(i) for i in range(10)]
    kept, report = onto(trained, TINY, classes=(names, names))
    same_but(trained, kept)
    assert not report.notes
    turned, report = onto(trained, TINY, classes=(names, names[::-1]))
    np.testing.assert_array_equal(turned["head/kernel"], trained["head"]["kernel"][:, ::-1])
    np.testing.assert_array_equal(turned["head/bias"], trained["head"]["bias"][::-1])
    assert report.paths("adapted") == ["head/bias", "head/kernel"]


def test_a_renamed_block_is_refused_by_both_names(trained):
    # names that don't match loaded nothing elsewhere, and the score was chance: 0.26 % on 400 classes
    flat = {path.replace("/mlp/", "/ffn/"): leaf for path, leaf in flatten(trained).items()}
    with pytest.raises(
        UserError, match=r"misses 4 leaves: encoder/blocks/\*/mlp/down/bias.*also has 4 leaves: .*/ffn/"
    ):
        onto(unflatten(flat), TINY)


def test_one_missing_leaf_is_refused_by_name(trained):
    flat = flatten(trained)
    del flat["encoder/norm/scale"]
    with pytest.raises(UserError, match=r"misses 1 leaf: encoder/norm/scale"):
        onto(unflatten(flat), TINY)


def test_four_layers_into_six_are_refused(trained):
    with pytest.raises(UserError, match=r"model.depth = 6: can't change: the checkpoint's is 4"):
        onto(trained, changed(depth=6))
    with pytest.raises(UserError, match=r"encoder/blocks/\*/attention/key/bias \(of 4 layers, not 6\)"):
        onto(trained, changed(depth=6), old=changed(depth=6))  # a file that says of itself what isn't so


@pytest.mark.parametrize("change", [{"width": 32}, {"mlp_dim": 64}, {"num_heads": 4}])
def test_another_body_is_refused_by_setting(trained, change):
    with pytest.raises(UserError, match=f"model.{next(iter(change))}"):
        onto(trained, changed(**change))


def test_positions_go_to_a_larger_and_to_an_oblong_image(trained):
    table = trained["positions"]["embedding"]
    for size, grid in ((48, (6, 6)), ((16, 64), (2, 8))):
        result, report = onto(trained, changed(image_size=size))
        same_but(trained, result, "positions/embedding")
        new = result["positions/embedding"]
        np.testing.assert_array_equal(new[:, 0], table[:, 0])  # the class token's row, bitwise
        corners = new[0, 1:].reshape(*grid, 16)[[0, 0, -1, -1], [0, -1, 0, -1]]
        np.testing.assert_allclose(corners, table[0, 1:].reshape(4, 4, 16)[[0, 0, -1, -1], [0, -1, 0, -1]], rtol=1e-6)
        assert f"positions/embedding: 4×4 → {grid[0]}×{grid[1]} patches (corner_linear)" in " ".join(report.lines())


def test_a_grid_of_as_many_patches_but_another_form_is_resized_too(trained):
    result, report = onto(trained, changed(image_size=(16, 64)))
    assert report.paths("resized") == ["positions/embedding"]
    assert result["positions/embedding"].shape == trained["positions"]["embedding"].shape
    assert not np.array_equal(result["positions/embedding"], trained["positions"]["embedding"])


def test_another_patch_size_resizes_the_patch_embedding_and_keeps_the_grid(trained):
    result, report = onto(trained, changed(patch_size=(16, 8), image_size=(64, 32)))
    same_but(trained, result, "patch_embedding/kernel")
    right = resize_patches(trained["patch_embedding"]["kernel"], (16, 8))
    np.testing.assert_array_equal(result["patch_embedding/kernel"], right)
    assert "  resized  patch_embedding/kernel: 8×8 → 16×8 pixels (pseudo-inverse of bilinear)" in report.lines()


def test_another_patch_size_of_the_same_image_resizes_positions_too(trained):
    _, report = onto(trained, changed(patch_size=4))
    assert report.paths("resized") == ["positions/embedding", "patch_embedding/kernel"]


def test_patches_with_a_norm_of_their_pixels_keep_their_size():
    old = changed(patch_norms=True)
    with pytest.raises(
        UserError, match=r"model.patch_size = 4: can't change under patch_norms: the checkpoint's is 8×8"
    ):
        onto(random_params(old), changed(patch_norms=True, patch_size=4), old=old)


def test_grey_images_have_the_same_response_with_one_channel_or_three(trained):
    grey, report = onto(trained, changed(channels=1))
    same_but(trained, grey, "patch_embedding/kernel")
    kernel = trained["patch_embedding"]["kernel"]
    patch = np.random.default_rng(1).normal(size=(8, 8, 1))
    response = np.einsum("hwc,hwcd->d", np.repeat(patch, 3, axis=2), kernel)
    np.testing.assert_allclose(np.einsum("hwc,hwcd->d", patch, grey["patch_embedding/kernel"]), response, rtol=1e-4)
    assert "3 → 1 channels, summed" in " ".join(report.lines())
    back, report = onto(unflatten(grey), TINY, old=changed(channels=1))
    again = np.einsum("hwc,hwcd->d", np.repeat(patch, 3, axis=2), back["patch_embedding/kernel"])
    np.testing.assert_allclose(again, response, rtol=1e-4)
    assert "1 → 3 channels, a third each" in " ".join(report.lines())


def test_other_numbers_of_channels_are_refused(trained):
    with pytest.raises(UserError, match=r"model.channels = 4: can't be made from the checkpoint's 3"):
        onto(trained, changed(channels=4))


def test_class_token_to_average_drops_the_token_and_its_row(trained):
    result, report = onto(trained, changed(pooling="gap"))
    same_but(trained, result, "positions/embedding")
    np.testing.assert_array_equal(result["positions/embedding"], trained["positions"]["embedding"][:, 1:])
    assert report.paths("dropped") == ["class_token"]


@pytest.mark.parametrize("rows", ["none", "all"])
def test_without_the_class_token_its_row_goes_where_it_had_one(trained, rows):
    old = changed(prefix_positions=rows, registers=1)
    params = random_params(old)
    table = params["positions"]["embedding"]
    result, report = onto(params, changed(prefix_positions=rows, registers=1, pooling="gap"), old=old)
    np.testing.assert_array_equal(result["positions/embedding"], table if rows == "none" else table[:, 1:])
    assert report.paths("adapted") == ([] if rows == "none" else ["positions/embedding"])


def test_average_to_class_token_makes_the_token_new_and_its_row_zero(trained):
    average, _ = onto(trained, changed(pooling="gap"))
    result, report = onto(unflatten(average), TINY, old=changed(pooling="gap"))
    assert report.paths("new") == ["class_token"]
    assert not result["positions/embedding"][:, 0].any()
    np.testing.assert_array_equal(result["positions/embedding"][:, 1:], average["positions/embedding"])


def test_what_a_changed_setting_adds_or_takes_away_is_new_or_dropped(trained):
    result, report = onto(trained, changed(pooling="map", registers=2, layer_scale=0.1, positions="rotary"))
    assert {"pool/probe", "registers", "encoder/blocks/*/scale1"} <= set(report.paths("new"))
    assert report.paths("dropped") == ["class_token", "positions/embedding"]
    np.testing.assert_array_equal(result["encoder/blocks/*/scale1"], FRESH)
    same_but(trained, {path: leaf for path, leaf in result.items() if path in flatten(trained)})


def test_another_layer_before_the_head_makes_the_head_new(trained):
    result, report = onto(trained, changed(pre_logits=True))
    assert not result["head/kernel"].any()
    assert {"pre_logits/kernel", "head/kernel"} <= set(report.paths("new"))


def test_no_head_leaves_the_head_out(trained):
    result, report = onto(trained, changed(num_classes=0))
    assert not any(path.startswith("head/") for path in result)
    assert report.paths("dropped") == ["head/bias", "head/kernel"]


@pytest.mark.parametrize("kind", ["learned2d", "relative", "relative_bias", "sincos2d", "none"])
def test_every_kind_of_positions_goes_to_another_grid(kind):
    old = changed(positions=kind)
    params = random_params(old)
    _, report = onto(params, changed(positions=kind, image_size=(48, 32)), old=old)
    resized = {"learned2d": ["positions/y"], "relative": ["encoder/blocks/*/attention/relative/embedding"]}
    resized["relative_bias"] = ["encoder/blocks/*/attention/relative/table"]
    assert set(report.paths("resized")) >= set(resized.get(kind, []))


def test_a_distilled_models_second_token_and_head_are_new_and_its_row_zero(trained):
    result, report = onto(trained, changed(distillation="head"))
    assert set(report.paths("new")) == {"distillation_token", "distillation_head/kernel", "distillation_head/bias"}
    table = flatten(trained)["positions/embedding"]
    np.testing.assert_array_equal(result["positions/embedding"][:, [0, *range(2, 18)]], table)
    assert not result["positions/embedding"][:, 1].any()
    same_but(
        trained,
        result,
        *("positions/embedding", "distillation_token", "distillation_head/kernel", "distillation_head/bias"),
    )


def test_both_heads_of_a_distilled_model_are_new_for_other_classes():
    old = changed(distillation="head")
    result, _ = onto(random_params(old), changed(distillation="head", num_classes=4, head_bias_init=-2.0), old=old)
    for head in ("head", "distillation_head"):
        assert not result[f"{head}/kernel"].any()
        np.testing.assert_array_equal(result[f"{head}/bias"], np.full(4, -2.0, np.float32))


def test_a_head_that_sees_something_of_another_size_is_new(trained):
    result, report = onto(trained, changed(pooling="cls_gap"))
    assert result["head/kernel"].shape == (32, 10)
    assert "since pooling gives another size" in "".join(report.lines())


class Own:
    """A user's own model, which says what its settings mean for its weights."""

    TRANSFER = TransferRules(fixed=("size",), leaves={"gate": "gate/.*"}, head="classes/.*", new_head={"kind": "{new}"})


@dataclasses.dataclass(frozen=True)
class OwnConfig:
    size: int = 2
    gate: bool = False
    kind: str = "a"
    num_classes: int = 0


def onto_own(new, model=Own, **more):
    params = {"body": {"kernel": np.ones(2, np.float32)}, "classes": {"kernel": np.ones((2, 3), np.float32)}}
    shapes = {**params, **more}
    head = match_head(None, 3, None, 3)
    return transfer(params, OwnConfig(), new, shapes, model=model, head=head, fresh=lambda: more)


def test_a_users_own_model_says_what_its_settings_mean_for_its_weights():
    gate = {"gate": {"kernel": np.full(2, 5, np.float32)}}
    params, report = onto_own(OwnConfig(gate=True), **gate)
    assert params["gate"]["kernel"].tolist() == [5, 5]
    assert (report.notes, report.head) == ([("new", "gate/kernel", "initialised")], "the same 3 classes")
    params, report = onto_own(OwnConfig(kind="b"))
    assert not params["classes"]["kernel"].any()
    assert report.notes == [("new", "classes/kernel", "b")]
    with pytest.raises(UserError, match=r"model\.size = 3: can't change: the checkpoint's is 2"):
        onto_own(OwnConfig(size=3))


def test_weights_of_a_model_that_says_nothing_go_onto_one_with_the_same_leaves():
    params, _ = onto_own(OwnConfig(size=3), model=object)
    assert params["body"]["kernel"].tolist() == [1, 1]
    with pytest.raises(UserError, match="it misses 1 leaf: gate/kernel"):
        onto_own(OwnConfig(gate=True), model=object, gate={"kernel": np.ones(2, np.float32)})
