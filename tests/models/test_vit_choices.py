"""What a Vision Transformer may have for the sake of published weights."""

import numpy as np
import pytest


def normalised(x, p):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]


def dense(x, p):
    return x @ p["kernel"] + p["bias"]


@pytest.fixture(scope="module")
def distilled(tiny):
    """A model with a second token and head, registers without positions, norms wherever they may be."""
    model = tiny(distillation="head", registers=1, patch_norms=True, embedding_norm=True)
    return model, {name: np.asarray(x) for name, x in model.run("features", model.images).items()}


def test_two_tokens_go_to_two_heads_and_their_logits_are_averaged(distilled):
    model, seen = distilled
    assert seen["tokens"].shape == (3, 2 + 1 + 6, 16)
    one, two = (dense(seen["tokens"][:, i], model.params[name]) for i, name in enumerate(("head", "distillation_head")))
    np.testing.assert_allclose(seen["logits"], (one + two) / 2, atol=1e-5)
    by_head = model.run("logits_by_head", model.images)
    np.testing.assert_allclose(by_head, [one, two], atol=1e-5)
    np.testing.assert_allclose(seen["pooled"], seen["tokens"][:, :2].mean(1), atol=1e-6)


def test_tokens_stand_in_their_order_and_get_positions_and_norms(distilled):
    model, seen = distilled
    p = model.params
    rows, patch = p["positions"]["embedding"][0], p["patch_embedding"]
    pixels = normalised(model.images[0, :4, :4].reshape(-1), patch["input_norm"])
    token = pixels @ patch["kernel"].reshape(-1, 16) + patch["bias"]
    before = [p["class_token"][0, 0] + rows[0], p["distillation_token"][0, 0] + rows[1], p["registers"][0, 0]]
    before.append(normalised(token, patch["output_norm"]) + rows[2])
    np.testing.assert_allclose(seen["embedded"][0, :4], normalised(np.stack(before), p["embedding_norm"]), atol=1e-4)


def test_the_class_token_may_stand_beside_the_mean_of_the_patches(tiny):
    model = tiny(pooling="cls_gap", registers=2)
    seen = model.run("features", model.images)
    tokens = np.asarray(seen["tokens"])
    np.testing.assert_allclose(seen["pooled"], np.concatenate([tokens[:, 0], tokens[:, 3:].mean(1)], -1), atol=1e-5)
    assert model.params["head"]["kernel"].shape == (32, 5)


def test_the_average_may_be_over_the_tokens_before_the_patches_too(tiny):
    model = tiny(pooling="gap", registers=2, class_token=True, pool_include_prefix=True, prefix_positions="all")
    seen = model.run("features", model.images)
    np.testing.assert_allclose(seen["pooled"], np.asarray(seen["tokens"]).mean(1), atol=1e-5)
