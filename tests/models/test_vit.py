"""The Vision Transformer."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.models.vit import PUBLISHED, ViT, ViTConfig
from vitzoo.models.vit_config import POSITIONS
from vitzoo.nn import paths, state
from vitzoo.nn.execution import Execution
from vitzoo.nn.stochastic import fold, kept_patches, kept_tokens

FAST = {"xla_backend_optimization_level": 0}  # these functions are compiled for one run


def permuted(images, order, patch=4):
    """Images with their patches in another order."""
    batch, height, width, channels = images.shape
    grid = (height // patch, width // patch)
    cut = images.reshape(batch, grid[0], patch, grid[1], patch, channels).swapaxes(2, 3)
    cut = cut.reshape(batch, -1, patch, patch, channels)[:, order].reshape(batch, *grid, patch, patch, channels)
    return cut.swapaxes(2, 3).reshape(images.shape)


@pytest.mark.slow
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pooling", ["cls", "gap"])
def test_the_order_of_the_patches_matters_unless_there_are_no_positions(tiny, positions, pooling):
    model = tiny(positions=positions, pooling=pooling, registers=1)
    both = np.concatenate([model.images, permuted(model.images, [3, 5, 0, 1, 4, 2])])
    before, after = np.split(np.asarray(model.logits(both)), 2)
    gap = abs(before - after).max() / abs(before).max()
    assert gap < 1e-5 if positions == "none" else gap > 1e-3


@pytest.mark.parametrize("variant", PUBLISHED)
def test_every_variant_is_built_from_shapes_alone(variant):
    config = ViTConfig.from_variant(variant, num_classes=7)
    graph, shapes = state.abstract(lambda rngs: ViT(config, rngs=rngs))
    images = jax.ShapeDtypeStruct((2, 224, 224, 3), jnp.float32)
    logits = jax.eval_shape(lambda params, images: state.merge(graph, params)(images), shapes, images)
    assert (logits.shape, logits.dtype) == ((2, 7), jnp.float32)


def test_parameters_have_the_paths_that_loaders_rely_on(tiny):
    flat = paths.flatten(tiny(registers=3, layer_scale=0.1, pre_logits=True).params)
    shapes = {path: paths.layer_shape(path, leaf) for path, leaf in flat.items()}
    block = "encoder/blocks/*"
    assert shapes == {
        "patch_embedding/kernel": (4, 4, 3, 16),
        "patch_embedding/bias": (16,),
        "class_token": (1, 1, 16),
        "registers": (1, 3, 16),
        "positions/embedding": (1, 1 + 6, 16),
        **{f"{block}/{norm}/{leaf}": (16,) for norm in ("norm1", "norm2") for leaf in ("scale", "bias")},
        **{f"{block}/attention/{name}/kernel": (16, 2, 8) for name in ("query", "key", "value")},
        **{f"{block}/attention/{name}/bias": (2, 8) for name in ("query", "key", "value")},
        f"{block}/attention/out/kernel": (2, 8, 16),
        f"{block}/attention/out/bias": (16,),
        f"{block}/mlp/up/kernel": (16, 32),
        f"{block}/mlp/up/bias": (32,),
        f"{block}/mlp/down/kernel": (32, 16),
        f"{block}/mlp/down/bias": (16,),
        f"{block}/scale1": (16,),
        f"{block}/scale2": (16,),
        "encoder/norm/scale": (16,),
        "encoder/norm/bias": (16,),
        "pre_logits/kernel": (16, 16),
        "pre_logits/bias": (16,),
        "head/kernel": (16, 5),
        "head/bias": (5,),
    }


CHOICES = [
    {"positions": positions, "pooling": pooling, "registers": 2, "qk_norm": True, "layer_scale": 0.1, "pre_logits": 8}
    for positions, pooling in itertools.product(POSITIONS, ("cls", "map"))
]
CHOICES.append(
    {"distillation": "head", "gated_mlp": True, "patch_norms": True, "embedding_norm": True, "head_dim": 20}
    | {"qk_norm": True, "qk_norm_bias": True, "out_bias": False, "prefix_positions": "all", "registers": 1}
)


@pytest.mark.parametrize("changes", [*CHOICES, {"pooling": "gap", "norm_after_pooling": True}], ids=str)
def test_every_leaf_of_every_choice_has_one_sharding_rule_of_its_rank(changes):
    config = ViTConfig(image_size=32, num_classes=3, **changes)
    _, shapes = state.abstract(lambda rngs: ViT(config, rngs=rngs))
    axes = paths.match_rules(ViT.SHARDING_RULES, shapes, "SHARDING_RULES", every_leaf=True, every_rule=False)
    for path, leaf in paths.flatten(shapes).items():
        assert len(axes[path]) == len(paths.layer_shape(path, leaf)), path


def test_no_sharding_rule_is_left_over():
    trees = []
    for changes in CHOICES:
        config = ViTConfig(image_size=32, num_classes=3, **changes)
        trees.append(state.abstract(lambda rngs, config=config: ViT(config, rngs=rngs))[1])
    merged = {path: leaf for tree in trees for path, leaf in paths.flatten(tree).items()}
    paths.match_rules(ViT.SHARDING_RULES, paths.unflatten(merged), "SHARDING_RULES", every_leaf=True)


def test_features_name_everything_seen_on_the_way(tiny):
    model = tiny(registers=2, pre_logits=8)
    seen = model.run("features", model.images, attention=True)
    tokens = (3, 1 + 2 + 6, 16)
    assert {name: value.shape for name, value in seen.items()} == {
        "embedded": tokens,
        "block_0": tokens,
        "block_1": tokens,
        "tokens": tokens,
        "pooled": (3, 8),
        "logits": (3, 5),
        "attention": (2, 3, 2, 9, 9),
    }
    np.testing.assert_allclose(seen["attention"].sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(seen["logits"], model.logits(), atol=1e-5)


def test_a_probe_pools_the_patches_alone(tiny):
    seen = (model := tiny(pooling="map", registers=2)).run("features", model.images, attention=True)
    assert seen["tokens"].shape == (3, 2 + 6, 16)  # no class token
    assert seen["pool_attention"].shape == (3, 2, 1, 6)


def test_global_average_pooling_takes_the_patches_alone(tiny):
    seen = (model := tiny(pooling="gap", registers=2, class_token=True)).run("features", model.images)
    np.testing.assert_allclose(seen["pooled"], seen["tokens"][:, 3:].mean(1), atol=1e-5)


def test_the_norm_may_come_after_pooling(tiny):
    model = tiny(pooling="gap", norm_after_pooling=True)
    assert "head_norm" in model.params
    assert "norm" not in model.params["encoder"]
    seen = model.run("features", model.images)
    np.testing.assert_array_equal(seen["tokens"], seen["block_1"])
    mean = np.asarray(seen["tokens"]).mean(1)
    normal = (mean - mean.mean(-1, keepdims=True)) / mean.std(-1, keepdims=True)
    norm = model.params["head_norm"]
    np.testing.assert_allclose(seen["pooled"], normal * norm["scale"] + norm["bias"], atol=1e-4)


def test_a_model_without_head_gives_what_the_head_would_see(tiny):
    model = tiny(num_classes=0)
    assert "head" not in model.params
    assert model.logits().shape == (3, 16)
    assert "logits" not in model.run("features", model.images)


def test_the_new_head_says_nothing_and_its_bias_is_the_configs():
    config = ViTConfig(image_size=16, num_classes=4, depth=1, head_bias_init=-6.9)
    params = state.initialise(lambda rngs: ViT(config, rngs=rngs), 0)
    assert (params["head"]["kernel"] == 0).all()
    np.testing.assert_allclose(params["head"]["bias"], -6.9)
    assert (params["class_token"] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_parameters_and_logits_are_float32_whatever_the_blocks_compute_in(tiny, dtype):
    model = tiny(Execution(dtype=dtype), pooling="map", qk_norm=True, layer_scale=0.5, positions="rotary")
    seen = model.run("features", model.images)
    assert seen["block_1"].dtype == jnp.dtype(dtype)
    assert seen["logits"].dtype == seen["pooled"].dtype == jnp.float32
    _, shapes = state.abstract(lambda rngs: ViT(model.config, rngs=rngs, execution=Execution(dtype=dtype)))
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {jnp.dtype("float32")}


def test_bfloat16_is_close_to_float32(tiny):
    wide, narrow = (np.asarray(tiny(Execution(dtype=dtype)).logits()) for dtype in ("float32", "bfloat16"))
    assert 0 < abs(wide - narrow).max() < 0.05 * abs(wide).max()


@pytest.mark.slow
def test_logits_and_gradients_do_not_depend_on_how_they_are_computed(tiny):
    def gradients(execution):
        model = tiny(execution, positions="relative_bias", qk_norm=True)
        loss = lambda p: jnp.sin(state.merge(model.graph, p)(model.images)).sum()  # noqa: E731
        compiled = jax.jit(jax.value_and_grad(loss), compiler_options=FAST)
        return compiled(model.params)

    ways = Execution(custom_gradient=True), Execution(custom_gradient=False)
    for one, other in zip(*(jax.tree.leaves(gradients(way)) for way in ways), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * max(1, float(abs(one).max())))


def test_plain_derivatives_have_a_forward_mode(tiny):
    model = tiny(Execution(custom_gradient=False))

    def slopes(images, step=1e-2):
        apply = state.merge(model.graph, model.params)
        _, tangent = jax.jvp(apply, (images,), (images,))
        return tangent, (apply(images * (1 + step)) - apply(images * (1 - step))) / (2 * step)

    tangent, difference = jax.jit(slopes, compiler_options=FAST)(model.images)
    np.testing.assert_allclose(tangent, difference, atol=1e-2 * float(abs(difference).max()))


STOCHASTIC = {"dropout": 0.3, "drop_path": 0.4, "patch_dropout": 0.5, "attention_dropout": 0.1}


@pytest.mark.gate
def test_training_draws_from_the_key_alone(tiny):
    model = tiny(registers=1, **STOCHASTIC)
    key, other = jax.random.key(0), jax.random.key(1)
    one, two, again = (model.run("features", model.images, train=True, key=k) for k in (key, other, key))
    assert one["embedded"].shape == (3, 1 + 1 + 3, 16)  # half of six patches
    jax.tree.map(np.testing.assert_array_equal, one, again)
    assert (one["logits"] != two["logits"]).any()
    np.testing.assert_array_equal(model.logits(), model.logits(train=False, key=key))


def test_each_image_loses_the_patches_that_its_own_key_says(tiny):
    model, key = tiny(patch_dropout=0.5, depth=1), jax.random.key(0)
    keys = jax.random.split(jax.random.key(1), 3)
    how = {"train": True, "key": key}
    whole = model.run("tokens", model.images, row_keys=keys, **how)
    assert whole.shape == (3, 1 + 3, 16)
    again = model.run("tokens", model.images[::-1], row_keys=keys[::-1], **how)
    np.testing.assert_allclose(again[::-1], whole, atol=1e-6)
    other = model.run("tokens", model.images, row_keys=keys[::-1], **how)
    assert abs(other - whole).max() > 1e-2


def test_training_with_random_parts_needs_a_key(tiny):
    with pytest.raises(UserError, match="key: training with dropout"):
        tiny(drop_path=0.1).logits(train=True)
    assert tiny().logits(train=True).shape == (3, 5)  # nothing random, no key needed


@pytest.mark.slow
@pytest.mark.parametrize(
    "positions",
    ["learned1d", "relative", *(pytest.param(one, marks=pytest.mark.slow) for one in ("relative_bias", "rotary"))],
)
def test_leaving_patches_out_is_the_same_as_not_looking_at_them(tiny, positions):
    model, key = tiny(positions=positions, registers=1, patch_dropout=0.5), jax.random.key(5)

    def both(params):
        vit = state.merge(model.graph, params)
        out = vit.features(model.images, train=True, key=key)["tokens"]
        kept = kept_patches(0.5, jax.random.split(fold(fold(key, 0), 0), 3), 6)
        tokens, places = vit._embed(model.images, None)
        seen = jnp.ones((3, 2 + 6), bool).at[:, 2:].set(False).at[jnp.arange(3)[:, None], 2 + kept].set(True)
        whole = vit.encoder(tokens, places=places, mask=seen[:, None, None]).tokens
        return out, kept_tokens(whole, kept, 2)

    out, whole = jax.jit(both, compiler_options=FAST)(model.params)
    np.testing.assert_allclose(out, whole, atol=1e-5)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 8, 10, 3), np.float32), r"image_size = 10: does not divide by patch_size 4 \(nearest: 8, 12\)"),
        (np.zeros((2, 0, 8, 3), np.float32), r"\(8, 12, 3\)"),
        (np.zeros((2, 3, 8, 12), np.float32), r"\(8, 12, 3\)"),
        (np.zeros((8, 12, 3), np.float32), r"\(8, 12, 3\)"),
        (np.zeros((2, 8, 12, 3), np.uint8), "floats"),
    ],
)
def test_images_of_another_shape_or_type_are_refused(tiny, images, message):
    with pytest.raises(UserError, match=message):
        tiny().logits(images)
