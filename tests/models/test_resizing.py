"""A model's parameters at another image or patch size."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.models.vit import ViT
from vitzoo.models.vit_config import POSITIONS
from vitzoo.models.vit_weights import resize_patches, resize_positions
from vitzoo.nn import paths, state
from vitzoo.nn.positions import resize_table, resize_weights

FAST = {"xla_backend_optimization_level": 0}  # these functions are compiled for one run
GOLDENS = Path(__file__).parents[1] / "goldens" / "resizing.npz"
RULES = {
    "corners": ("corner_linear",),
    "bilinear": ("bilinear",),
    "bilinear_antialias": ("bilinear", True),
    "bicubic": ("bicubic",),
    "bicubic_antialias": ("bicubic", True),
    "timm": ("bicubic", True),
    "dino": ("bicubic", False, 0.1),
    "dinov2_antialias": ("bicubic", True, 0.1),
    "transformers_vit": ("bicubic",),
    "transformers_dinov2": ("bicubic",),
    "transformers_dinov2_registers": ("bicubic", True),
}
"""Whose rule → our method, antialias and offset for it."""


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_of_every_kind_fit_the_new_grid_and_nothing_else_changes(tiny, positions):
    model = tiny(positions=positions, registers=1)
    new = dataclasses.replace(model.config, image_size=(16, 20))
    _, shapes = state.abstract(lambda rngs: ViT(new, rngs=rngs))
    resized, before = paths.flatten(resize_positions(model.params, model.config, new)), paths.flatten(model.params)
    for path, leaf in paths.flatten(shapes).items():
        assert (resized[path].shape, resized[path].dtype) == (leaf.shape, leaf.dtype), path
        if "positions" not in path and "relative" not in path:
            np.testing.assert_array_equal(resized[path], before[path])


def test_the_class_tokens_row_stays_bit_for_bit(tiny):
    model = tiny()
    new = dataclasses.replace(model.config, image_size=(16, 24))
    resized = resize_positions(model.params, model.config, new)["positions"]["embedding"]
    np.testing.assert_array_equal(resized[:, 0], model.params["positions"]["embedding"][:, 0])
    corners = model.params["positions"]["embedding"][0, [1, 3, 4, 6]]
    np.testing.assert_allclose(resized[0, [1, 6, 19, 24]], corners, rtol=1e-6)


FORMS = [
    {"distillation": "head", "registers": 2, "prefix_positions": "all"},
    pytest.param({"positions": "relative_bias", "registers": 1}, marks=pytest.mark.gate),
    *(pytest.param({"positions": one, "registers": 1}, marks=pytest.mark.slow) for one in POSITIONS),
]


@pytest.mark.parametrize("fields", FORMS, ids=str)
def test_images_of_another_size_are_seen_as_by_a_model_loaded_for_that_size(tiny, fields):
    model = tiny(position_resize="bicubic", position_antialias=True, **fields)
    new = dataclasses.replace(model.config, image_size=(16, 20))
    images = np.random.default_rng(1).normal(size=(2, 16, 20, 3)).astype(np.float32)
    graph, _ = state.abstract(lambda rngs: ViT(new, rngs=rngs))
    loaded = jax.jit(lambda params: state.merge(graph, params)(images), compiler_options=FAST)
    right = loaded(resize_positions(model.params, model.config, new))  # as loading does, in NumPy
    np.testing.assert_allclose(model.logits(images), right, atol=1e-5)
    assert model.run("features", images)["tokens"].shape == (2, model.config.prefix_tokens + 20, 16)


@pytest.mark.slow
def test_a_model_takes_crops_of_several_sizes_in_one_step_and_its_positions_learn_from_all(tiny):
    model = tiny(positions="learned2d", depth=1)
    small = np.random.default_rng(1).normal(size=(3, 4, 8, 3)).astype(np.float32)
    graph, params = model.graph, model.params
    new = dataclasses.replace(model.config, image_size=(4, 8))
    of_small, _ = state.abstract(lambda rngs: ViT(new, rngs=rngs))

    def slopes(graph, params, *crops):
        def loss(params):
            vit = state.merge(graph, params)
            return sum(jnp.sin(vit(crop)).sum() for crop in crops)

        return jax.jit(jax.grad(loss), compiler_options=FAST)(params)["positions"]

    both, large = slopes(graph, params, model.images, small), slopes(graph, params, model.images)
    alone = slopes(of_small, resize_positions(params, model.config, new), small)
    for axis, old, size in (("x", 3, 2), ("y", 2, 1)):  # the gradient goes back by the transposed weights
        right = large[axis] + resize_weights(old, size, new.position_resize).T @ alone[axis]
        np.testing.assert_allclose(both[axis], right, atol=1e-5)


def test_images_of_the_models_own_size_are_not_resized(tiny):
    def text(method):
        model = tiny(position_resize=method)
        return jax.jit(lambda params: state.merge(model.graph, params)(model.images)).lower(model.params).as_text()

    model = tiny()
    assert model.config.of_images(model.images) is model.config
    assert text("bicubic") == text("corner_linear")


def test_the_same_grid_is_the_same_parameters(tiny):
    model = tiny()
    finer = dataclasses.replace(model.config, image_size=(16, 24), patch_size=8)
    assert resize_positions(model.params, model.config, finer) is model.params


@pytest.mark.parametrize("rule", RULES)
def test_every_family_resizes_positions_by_its_own_rule(rule):
    with np.load(GOLDENS) as goldens:
        cases = [name.split("/")[1:] for name in goldens if name.startswith(f"{rule}/")]
        assert len(cases) >= 5
        for before, after in cases:
            old, new = (tuple(map(int, grid.split("x"))) for grid in (before, after))
            table, right = goldens[f"table/{before}"], goldens[f"{rule}/{before}/{after}"]
            ours = resize_table(table, old, new, 1, *RULES[rule])
            np.testing.assert_allclose(ours, right, atol=1e-5, rtol=0, err_msg=f"{before} to {after}")
            np.testing.assert_array_equal(ours[:, 0], table[:, 0])


def bilinear(images, size):
    """Images [n, rows, columns, channels] resized without antialias, by JAX."""
    shape = (len(images), *size, images.shape[-1])
    return np.asarray(jax.image.resize(images, shape, "bilinear", antialias=False, precision="highest"))


@pytest.mark.parametrize("size", [(8, 8), (5, 12), (4, 9)])
def test_a_larger_patch_has_the_token_of_the_one_that_it_was_resized_from(size):
    random = np.random.default_rng(0)
    kernel = random.normal(size=(4, 4, 3, 7)).astype(np.float32)
    patches = random.normal(size=(20, 4, 4, 3)).astype(np.float32)
    larger = resize_patches(kernel, size)
    assert (larger.shape, larger.dtype) == ((*size, 3, 7), np.float32)
    tokens = np.einsum("nrci,rcid->nd", patches, kernel)
    np.testing.assert_allclose(np.einsum("nrci,rcid->nd", bilinear(patches, size), larger), tokens, atol=1e-5)


@pytest.mark.parametrize(("old", "new"), [((8, 8), (4, 4)), ((8, 8), (5, 3)), ((4, 6), (7, 5)), ((3, 3), (8, 8))])
def test_a_patch_embedding_is_resized_by_the_pseudo_inverse_of_resizing(old, new):
    kernel = np.random.default_rng(1).normal(size=(*old, 2, 3)).astype(np.float32)
    every = np.eye(old[0] * old[1], dtype=np.float32).reshape(-1, *old, 1)
    resizing = bilinear(every, new).reshape(len(every), -1).T.astype(np.float64)  # [new pixels, old pixels]
    inverse = np.linalg.pinv(resizing.T, rcond=1e-6)
    right = np.einsum("no,oid->nid", inverse, kernel.reshape(-1, 2, 3))
    np.testing.assert_allclose(resize_patches(kernel, new), right.reshape(*new, 2, 3), atol=1e-5)


def test_an_image_that_the_patch_does_not_divide_is_filled_up_with_the_mean(tiny):
    model = tiny(image_size=(7, 10), pad_to_patch=True)
    filled = np.pad(model.images, ((0, 0), (0, 1), (0, 2), (0, 0)))
    np.testing.assert_array_equal(model.config.padded(model.images), filled)
    seen = jax.eval_shape(lambda params: state.merge(model.graph, params).features(model.images), model.params)
    assert seen["tokens"].shape == (3, 1 + 2 * 3, 16)
