"""The forward pass written a second time, in NumPy and float64, token by token from the paper's equations."""

import math

import numpy as np
import pytest

ERF = np.vectorize(math.erf)


def gelu(x, form):
    if form == "exact":
        return x * (1 + ERF(x / math.sqrt(2))) / 2
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def norm(x, p, epsilon):
    variance = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + epsilon) * p["scale"] + p["bias"]


def attend(queries, context, p):
    """Head by head."""
    out = p["out"]["bias"] * np.ones((len(queries), 1))
    for h in range(p["query"]["kernel"].shape[1]):
        q, k, v = (
            x @ p[name]["kernel"][:, h] + p[name]["bias"][h]
            for x, name in ((queries, "query"), (context, "key"), (context, "value"))
        )
        weights = np.exp(q @ k.T / math.sqrt(q.shape[1]))
        out = out + weights / weights.sum(-1, keepdims=True) @ v @ p["out"]["kernel"][h]
    return out


def transform(x, p, form):
    return gelu(x @ p["up"]["kernel"] + p["up"]["bias"], form) @ p["down"]["kernel"] + p["down"]["bias"]


def forward(image, params, config):
    """Logits of one image."""
    size, tokens = config.patch_size, []
    for row in range(0, image.shape[0], size):
        for column in range(0, image.shape[1], size):
            patch = image[row : row + size, column : column + size]
            kernel = params["patch_embedding"]["kernel"]
            tokens.append(np.tensordot(patch, kernel, axes=3) + params["patch_embedding"]["bias"])
    prefix = [params["class_token"][0, 0]] if config.pooling == "cls" else []
    x = np.stack(prefix + tokens) + params["positions"]["embedding"][0]
    x = np.concatenate([x[: len(prefix)], params["registers"][0], x[len(prefix) :]])
    blocks = params["encoder"]["blocks"]["*"]
    for layer in range(config.depth):
        block = select(blocks, layer)
        y = norm(x, block["norm1"], config.norm_epsilon)
        x = x + block["scale1"] * attend(y, y, block["attention"])
        x = x + block["scale2"] * transform(norm(x, block["norm2"], config.norm_epsilon), block["mlp"], config.gelu)
    x = norm(x, params["encoder"]["norm"], config.norm_epsilon)
    pooled = np.tanh(pool(x, params, config) @ params["pre_logits"]["kernel"] + params["pre_logits"]["bias"])
    return pooled @ params["head"]["kernel"] + params["head"]["bias"]


def select(tree, layer):
    return {name: select(leaf, layer) if isinstance(leaf, dict) else leaf[layer] for name, leaf in tree.items()}


def pool(x, params, config):
    patches = x[-config.patches :]
    if config.pooling == "map":
        p = params["pool"]
        y = attend(p["probe"][0], patches, p["attention"])
        return (y + transform(norm(y, p["norm"], config.norm_epsilon), p["mlp"], config.gelu))[0]
    return x[0] if config.pooling == "cls" else patches.mean(0)


@pytest.mark.parametrize(("pooling", "gelu_form"), [("cls", "tanh"), ("gap", "exact"), ("map", "tanh")])
def test_the_model_gives_what_the_equations_give(tiny, pooling, gelu_form):
    model = tiny(pooling=pooling, gelu=gelu_form, registers=2, layer_scale=0.1, pre_logits=8, norm_epsilon=1e-5)
    wide = [forward(image.astype(np.float64), model.params, model.config) for image in model.images]
    np.testing.assert_allclose(model.logits(), wide, atol=1e-5)
