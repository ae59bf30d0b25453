"""Makes tests/goldens/weights/{vision_transformer,big_vision}: tiny files as Google's two codes keep them, and logits.

The architecture is written here anew, from the papers, in flax.linen, whose modules both codes were written in and
which gives arrays their names. vitzoo is not needed:

    python -m venv /tmp/linen && /tmp/linen/bin/pip install flax
    /tmp/linen/bin/python scripts/make_weight_goldens_google.py tests/goldens/weights
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

WIDTH, DEPTH, HEADS, MLP, PATCH, CLASSES = 12, 2, 3, 20, 4, 5
Flat = dict[str, Any]


class MlpBlock(nn.Module):
    """Two layers with the tanh form of GELU between."""

    @nn.compact
    def __call__(self, x):
        hidden = nn.gelu(nn.Dense(MLP)(x), approximate=True)
        return nn.Dense(x.shape[-1])(hidden)


class Block(nn.Module):
    """Attention, then the MLP, each after a norm and added to what came in."""

    @nn.compact
    def __call__(self, x):
        normed = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS)(normed, normed)
        return x + MlpBlock()(nn.LayerNorm()(x))


class Encoder(nn.Module):
    """The blocks and the last norm."""

    @nn.compact
    def __call__(self, x):
        for layer in range(DEPTH):
            x = Block(name=f"encoderblock_{layer}")(x)
        return nn.LayerNorm(name="encoder_norm")(x)


class MAPHead(nn.Module):
    """A probe looks at the tokens."""

    @nn.compact
    def __call__(self, x):
        probe = self.param("probe", nn.initializers.normal(), (1, 1, x.shape[-1]))
        x = nn.MultiHeadDotProductAttention(num_heads=HEADS)(jnp.tile(probe, (len(x), 1, 1)), x)
        return (x + MlpBlock()(nn.LayerNorm()(x)))[:, 0]


class VisionTransformer(nn.Module):
    """What both codes hold.

    Attributes:
        pooling: token, gap or map.
        first_row: positions have a row for the class token, which is there before they are added.
        learned: positions are parameters; else fixed sines and cosines.
        pre_logits: a tanh layer before the head.
        head: whether there is one.
    """

    pooling: str
    first_row: bool = False
    learned: bool = True
    pre_logits: bool = False
    head: bool = True
    patch: int = PATCH

    @nn.compact
    def __call__(self, images):
        size = (self.patch, self.patch)
        x = nn.Conv(WIDTH, size, strides=size, padding="VALID", name="embedding")(images)
        batch, *grid, _ = x.shape
        x = x.reshape(batch, -1, WIDTH)
        cls = self.param("cls", nn.initializers.normal(), (1, 1, WIDTH)) if self.pooling == "token" else None
        if self.first_row:
            x = before(cls, x)
        if self.learned:
            x = x + self.param("pos_embedding", nn.initializers.normal(), (1, x.shape[1], WIDTH))
        else:
            x = x + sines(grid)
        if cls is not None and not self.first_row:
            x = before(cls, x)
        x = Encoder(name="Transformer")(x)
        pools = {"token": lambda x: x[:, 0], "gap": lambda x: x.mean(1), "map": lambda x: MAPHead()(x)}
        x = pools[self.pooling](x)
        x = nn.tanh(nn.Dense(WIDTH, name="pre_logits")(x)) if self.pre_logits else x
        return nn.Dense(CLASSES, name="head")(x) if self.head else x


def before(cls, x):
    """The class token before the others."""
    return jnp.concatenate([jnp.tile(cls, (len(x), 1, 1)), x], axis=1)


def sines(grid):
    """Of the column, then of the row, each at speeds from 1 to 1 / 10000."""
    speeds = 10_000.0 ** -np.linspace(0, 1, WIDTH // 4)
    rows, columns = (place.reshape(-1, 1) * speeds for place in np.indices(grid))
    parts = [np.sin(columns), np.cos(columns), np.sin(rows), np.cos(rows)]
    return np.concatenate(parts, axis=1).astype(np.float32)[None]


def made(model: VisionTransformer, size: tuple[int, int], seed: int) -> tuple[Flat, np.ndarray]:
    """Random parameters by name, norms' scales near 1, and images."""
    random = np.random.default_rng(seed)
    images = random.normal(size=(2, *size, 3)).astype(np.float32)
    shapes = flatten_dict(jax.eval_shape(lambda: model.init(jax.random.key(0), images))["params"], sep="/")
    draws = {name: 0.3 * random.normal(size=leaf.shape) + name.endswith("scale") for name, leaf in shapes.items()}
    return {name: value.astype(np.float32) for name, value in draws.items()}, images


def run(model: VisionTransformer, params: Flat, images: np.ndarray) -> np.ndarray:
    """Logits."""
    return np.asarray(model.apply({"params": unflatten_dict(params, sep="/")}, images))


def renamed(params: Flat, *pairs: tuple[str, str]) -> Flat:
    """With the first of each pair replaced by the second, in order."""

    def name_of(name: str) -> str:
        for old, new in pairs:
            name = name.replace(old, new)
        return name

    return {name_of(name): value for name, value in params.items()}


ONE_COUNTER = (
    ("LayerNorm_1", "LayerNorm_2"),
    ("MultiHeadDotProductAttention_0", "MultiHeadDotProductAttention_1"),
    ("MlpBlock_0", "MlpBlock_3"),
)
"""The numbers in a block before linen, whose modules had one counter for all classes."""
IN_INPUT = ("pos_embedding", "Transformer/posembed_input/pos_embedding")


def stacked(params: Flat) -> Flat:
    """Blocks as a scan keeps them: one, with a leading axis of depth."""
    first = "Transformer/encoderblock_0/"
    rest = {name: value for name, value in params.items() if "encoderblock_" not in name}
    for name in [name for name in params if name.startswith(first)]:
        layers = [params[name.replace("encoderblock_0", f"encoderblock_{layer}")] for layer in range(DEPTH)]
        rest[name.replace("encoderblock_0", "encoderblock")] = np.stack(layers)
    return rest


def token() -> tuple[Flat, Flat]:
    """AugReg: as published, `B_16-...npz`."""
    model = VisionTransformer("token", first_row=True)
    params, images = made(model, (12, 12), 0)
    return renamed(params, *ONE_COUNTER, IN_INPUT), {"images": images, "logits": run(model, params, images)}


def in21k() -> tuple[Flat, Flat]:
    """2020: pre-trained on ImageNet-21k, with a layer before a head that is all zeros."""
    model = VisionTransformer("token", first_row=True, pre_logits=True, head=False)
    params, images = made(model, (12, 12), 1)
    head = {"head/kernel": np.zeros((WIDTH, CLASSES), np.float32), "head/bias": np.zeros(CLASSES, np.float32)}
    file = renamed(params | head, *ONE_COUNTER, IN_INPUT)
    return file, {"images": images, "logits": run(model, params, images)}


def training() -> tuple[Flat, Flat]:
    """A training's checkpoint in linen's names, beside its optimizer's state; average pooling."""
    model = VisionTransformer("gap")
    params, images = made(model, (12, 12), 2)
    file = {f"opt/target/{name}": value for name, value in renamed(params, IN_INPUT).items()}
    state = {"opt/state/step": np.array(7), "opt/state/param_states/head/bias/momentum": np.ones(CLASSES)}
    return {**state, **file}, {"images": images, "logits": run(model, params, images)}


def sincos() -> tuple[Flat, Flat]:
    """As `vit_s16_i1k`: no class token, fixed positions that aren't stored, a tanh layer."""
    model = VisionTransformer("gap", learned=False, pre_logits=True)
    params, images = made(model, (8, 12), 3)
    file = {f"params/{name}": value for name, value in params.items()}
    return file, {"images": images, "logits": run(model, params, images)}


def separate() -> tuple[Flat, Flat]:
    """A class token without a row of positions."""
    model = VisionTransformer("token")
    params, images = made(model, (12, 12), 4)
    return params, {"images": images, "logits": run(model, params, images)}


def towers() -> tuple[Flat, Flat]:
    """As SigLIP: an image's and a text's tower, the former scanned, in bfloat16."""
    model = VisionTransformer("map", head=False)
    params, images = made(model, (12, 12), 5)
    params = {name: value.astype(ml_dtypes.bfloat16) for name, value in params.items()}
    image = {f"params/img/{name}": value for name, value in stacked(params).items()}
    text = {"txt/Embed_0/embedding": np.ones((4, WIDTH)), "txt/pos_embedding": np.ones((1, 3, WIDTH))}
    others = {f"params/{name}": value for name, value in {**text, "t": np.ones(1), "b": np.ones(1)}.items()}
    exact = {name: value.astype(np.float32) for name, value in params.items()}
    return {**image, **others}, {"images": images, "logits": run(model, exact, images)}


def inlined() -> tuple[Flat, Flat]:
    """Of the time of ViT-G: the probe at the root, positions within the encoder, one counter for all classes."""
    model = VisionTransformer("map")
    params, images = made(model, (12, 12), 6)
    probe = [("MAPHead_0/LayerNorm_0", "LayerNorm_1"), ("MAPHead_0/MlpBlock_0", "MlpBlock_2"), ("MAPHead_0/", "")]
    head = {name: value for name, value in params.items() if name.startswith("MAPHead_0")}
    body = {name: value for name, value in params.items() if name not in head}
    file = renamed(body, *ONE_COUNTER, ("pos_embedding", "Transformer/pos_embedding")) | renamed(head, *probe)
    return file, {"images": images, "logits": run(model, params, images)}


def oblong() -> tuple[Flat, Flat]:
    """2 rows of 5 patches and a class token without a row: ten rows, as 3 × 3 patches and a class token have."""
    model = VisionTransformer("token")
    params, images = made(model, (8, 20), 7)
    return params, {"images": images, "logits": run(model, params, images)}


def flexible() -> tuple[Flat, Flat]:
    """As FlexiViT: patches and positions are kept at one size and used at others."""
    model = VisionTransformer("gap", patch=8)
    params, _ = made(model, (24, 24), 8)
    images = np.random.default_rng(9).normal(size=(2, 16, 16, 3)).astype(np.float32)
    places = params["pos_embedding"].reshape(1, 3, 3, WIDTH)
    used = {
        "embedding/kernel": smaller_patches(params["embedding/kernel"]),
        "pos_embedding": jax.image.resize(places, (1, 4, 4, WIDTH), "linear").reshape(1, 16, WIDTH),
    }
    logits = run(VisionTransformer("gap"), {**params, **used}, images)
    return {f"params/{name}": value for name, value in params.items()}, {"images": images, "logits": logits}


def smaller_patches(kernel: np.ndarray) -> np.ndarray:
    """The kernel whose product with a patch is nearest to the old kernel's with the patch resized the other way."""
    pixels = np.eye(64, dtype=np.float32).reshape(64, 8, 8)
    resized = jax.vmap(lambda image: jax.image.resize(image, (PATCH, PATCH), "bilinear", antialias=False))(pixels)
    inverse = np.linalg.pinv(np.asarray(resized, np.float64).reshape(64, PATCH**2))
    flat = np.einsum("np,pcw->ncw", inverse, kernel.reshape(64, 3, WIDTH))
    return flat.reshape(PATCH, PATCH, 3, WIDTH).astype(np.float32)


CASES: dict[str, tuple[Callable[[], tuple[Flat, Flat]], ...]] = {
    "vision_transformer": (token, in21k, training),
    "big_vision": (sincos, separate, towers, inlined, oblong, flexible),
}


def main() -> None:
    """Writes the files below the folder named on the command line."""
    jax.config.update("jax_default_matmul_precision", "highest")
    for form, cases in CASES.items():
        folder = Path(sys.argv[1]) / form
        folder.mkdir(parents=True, exist_ok=True)
        expected: dict[str, np.ndarray] = {}
        for case in cases:
            file, values = case()
            arrays = {name: np.asarray(value) for name, value in file.items()}
            np.savez_compressed(folder / f"{case.__name__}.npz", allow_pickle=False, **arrays)
            expected |= {f"{case.__name__}/{name}": value for name, value in values.items()}
        np.savez_compressed(folder / "expected.npz", allow_pickle=False, **expected)


if __name__ == "__main__":
    main()
