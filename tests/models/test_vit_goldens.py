"""The same numbers as timm's VisionTransformer; the file is made by scripts/make_vit_goldens.py."""

import pathlib

import jax
import numpy as np
import optax
import pytest

from vitzoo.models.vit import ViT, ViTConfig
from vitzoo.nn import paths, state
from vitzoo.nn.execution import Execution

FILE = pathlib.Path(__file__).parents[1] / "goldens" / "vit_timm.npz"
HEADS, DEPTH = 2, 2
SIZES = {"image_size": (8, 12), "patch_size": 4, "width": 12, "mlp_dim": 24, "depth": DEPTH, "num_heads": HEADS}
CASES = {
    "token": {},
    "average": {
        "pooling": "gap",
        "class_token": True,
        "registers": 2,
        "layer_scale": 0.1,
        "norm_after_pooling": True,
    },
}


def linear(names, path, shape=None):
    kernel = names[f"{path}.weight"].T
    return {"kernel": kernel if shape is None else kernel.reshape(shape), "bias": names[f"{path}.bias"]}


def norm(names, path):
    return {"scale": names[f"{path}.weight"], "bias": names[f"{path}.bias"]}


def block(names, index):
    path, width = f"blocks.{index}", SIZES["width"]
    heads = (HEADS, width // HEADS)
    kernels = names[f"{path}.attn.qkv.weight"].reshape(3, *heads, width).transpose(0, 3, 1, 2)
    biases = names[f"{path}.attn.qkv.bias"].reshape(3, *heads)
    parts = {part: {"kernel": kernels[i], "bias": biases[i]} for i, part in enumerate(("query", "key", "value"))}
    parts["out"] = linear(names, f"{path}.attn.proj", (*heads, width))
    mlp = {"up": linear(names, f"{path}.mlp.fc1"), "down": linear(names, f"{path}.mlp.fc2")}
    norms = {name: norm(names, f"{path}.{name}") for name in ("norm1", "norm2")}
    scales = {f"scale{i}": names[f"{path}.ls{i}.gamma"] for i in (1, 2) if f"{path}.ls{i}.gamma" in names}
    return {"attention": parts, "mlp": mlp, **norms, **scales}


def from_timm(names, config):
    """timm's parameters, or their gradients, under our names."""
    patch = names["patch_embed.proj.weight"].transpose(2, 3, 1, 0)
    table = names["pos_embed"]
    table = np.pad(table, ((0, 0), (1 + config.patches - table.shape[1], 0), (0, 0)))
    blocks = [block(names, index) for index in range(DEPTH)]
    tree = {
        "patch_embedding": {"kernel": patch, "bias": names["patch_embed.proj.bias"]},
        "class_token": names["cls_token"],
        "positions": {"embedding": table},
        "encoder": {"blocks": {"*": jax.tree.map(lambda *layers: np.stack(layers), *blocks)}},
        "head": linear(names, "head"),
    }
    if config.registers:
        tree |= {"registers": names["reg_token"], "head_norm": norm(names, "fc_norm")}
    else:
        tree["encoder"]["norm"] = norm(names, "norm")
    return tree


@pytest.fixture(scope="module")
def goldens():
    with np.load(FILE) as file:
        return dict(file)


@pytest.mark.parametrize(("case", "how"), [("token", False), ("average", True)])
def test_logits_loss_and_gradients_are_timms(goldens, case, how):
    config = ViTConfig(num_classes=5, gelu="exact", **SIZES, **CASES[case])
    known = {name.removeprefix(f"{case}/"): value for name, value in goldens.items() if name.startswith(case)}
    params, gradients = (
        from_timm({k.removeprefix(kind): v for k, v in known.items() if k.startswith(kind)}, config)
        for kind in ("parameter/", "gradient/")
    )
    graph, shapes = state.abstract(lambda rngs: ViT(config, rngs=rngs, execution=Execution(custom_gradient=how)))
    jax.tree.map(lambda leaf, shape: np.testing.assert_equal(leaf.shape, shape.shape), params, shapes)

    def loss(params):
        logits = state.merge(graph, params)(known["images"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, known["labels"]).mean(), logits

    compiled = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options={"xla_backend_optimization_level": 0})
    (value, logits), ours = compiled(params)
    np.testing.assert_allclose(logits, known["logits"], atol=1e-5)
    np.testing.assert_allclose(value, known["loss"], atol=1e-5)
    if case == "average":  # timm's table has no row for the class token, where ours was zero
        gradients["positions"]["embedding"], ours["positions"]["embedding"] = (
            tree["positions"]["embedding"][:, 1:] for tree in (gradients, ours)
        )
    ours = paths.flatten(ours)
    for path, right in paths.flatten(gradients).items():
        np.testing.assert_allclose(ours[path], right, atol=1e-5, err_msg=path)
