"""A run folder with a checkpoint of a tiny ViT whose weights are random but not zero, and its config."""

import json

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.checkpoints import metadata
from vitzoo.checkpoints.store import Store
from vitzoo.models.vit import Config, ViT
from vitzoo.nn import state
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.schema import to_json

TINY = Config(patch_size=4, width=16, depth=2, mlp_dim=32, num_heads=2, num_classes=10, image_size=(8, 8), channels=1)
DIGITS = tuple(str(digit) for digit in range(10))


def random_params(config, seed=0):
    shapes = flatten(state.abstract(lambda rngs: ViT(config, rngs=rngs))[1])
    random = np.random.default_rng(seed)
    return unflatten({path: 0.3 * random.normal(size=leaf.shape).astype(np.float32) for path, leaf in shapes.items()})


def make_run(
    folder,
    config=TINY,
    classes=DIGITS,
    *,
    loss="softmax",
    ema=True,
    step=7,
    data="digits",
    preprocessing=None,
    **settings,
):
    """A run that was at `step`; `preprocessing` has what differs from the plainest; `settings` go to its config.json.
    Returns its (moving average) parameters.
    """
    params = random_params(config)
    saved = {"params": jax.tree.map(jnp.asarray, params), "optimizer": {"count": jnp.int32(step)}}
    if ema:
        params = random_params(config, seed=1)
        saved["ema"] = jax.tree.map(jnp.asarray, params)
    saved |= {"step": jnp.int32(step), "updates": jnp.int32(step), "skipped": jnp.int32(0)}
    model = {"name": "vit", "variant": "", **to_json(config)}
    images = {"kind": "image", "size": list(config.image_shape[:2]), "channels": config.channels, "resize": "squash"}
    images |= {"interpolation": "bilinear", "antialias": True, "crop_fraction": 1.0}
    images |= {"mean": [127.5] * config.channels, "std": [127.5] * config.channels, **(preprocessing or {})}
    objective = {"name": "classification", "loss": loss}
    content = metadata.describe(
        version="0",
        model=model,
        objective=objective,
        inputs={"image": images},
        classes=None if classes is None else list(classes),
        data={"name": data, "split": "train", "fingerprint": "f"},
        step=step,
        examples=4 * step,
    )
    store = Store(folder / "checkpoints")
    store.save(step, saved, content, {"best": {"step": step, "value": 0.5}})
    store.close()
    values = {"total_steps": step, "model": model, "objective": objective, "data": {"name": data, "batch_size": 64}}
    (folder / "config.json").write_text(json.dumps(values | settings))
    return params
