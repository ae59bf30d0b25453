"""Vision Transformers of vitzoo's, converted to the layout of transformers, are there the same models.

Two environments:

    python scripts/check_export_hf_vit.py write FOLDER                  # vitzoo: a small model of each kind, converted
    /tmp/peer/bin/python scripts/check_export_hf_vit.py check FOLDER    # torch, torchvision and transformers

`check` loads each by its architecture, strictly (no array missing, left over or of another shape), and prints the
largest difference of what it makes of images, and of what its image processor makes of a picture, in steps of 255.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

BODY: dict[str, Any] = {"width": 48, "depth": 3, "num_heads": 3, "mlp_dim": 96, "patch_size": 4, "image_size": 16}
CLASSES: dict[str, Any] = {**BODY, "num_classes": 5}
FEATURES: dict[str, Any] = {**BODY, "num_classes": 0}
SCALED: dict[str, Any] = {"layer_scale": 0.1, "gelu": "exact"}
MEANS: dict[str, Any] = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
CROPPED: dict[str, Any] = {"resize": "short_side_crop", "interpolation": "bicubic", "crop_fraction": 0.8, **MEANS}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "vit": (CLASSES | {"image_size": (8, 16), "gelu": "exact", "norm_epsilon": 1e-3}, {}),
    "vit-grey": (CLASSES | {"qkv_bias": False, "channels": 1}, {"mean": (127.5,), "std": (127.5,)}),
    "vit-sincos": (CLASSES | {"positions": "sincos2d"}, {"interpolation": "bicubic"}),
    "vit-learned2d": (CLASSES | {"positions": "learned2d", "dropout": 0.1}, MEANS),
    "vit-no-positions": (CLASSES | {"positions": "none"}, {"interpolation": "nearest"}),
    "vit-heads": (CLASSES | {"head_dim": 8, "prefix_positions": "none"}, {"interpolation": "lanczos"}),
    "vit-pooler": (FEATURES | {"pre_logits": 20, "gelu": "quick"}, {}),
    "vit-features": (FEATURES, {}),
    "deit": (CLASSES | {"distillation": "head"}, {"crop_fraction": 0.8, **MEANS}),
    "deit-one-head": (CLASSES | {"distillation": "token"}, {}),
    "deit-features": (FEATURES | {"distillation": "token", "pre_logits": True}, {}),
    "dinov2": (FEATURES | SCALED, CROPPED),
    "dinov2-classes": (CLASSES | SCALED | {"pooling": "cls_gap"}, CROPPED),
    "dinov2-giant": (CLASSES | SCALED | {"pooling": "cls_gap", "gated_mlp": True, "mlp_dim": 64}, CROPPED),
    "registers": (FEATURES | SCALED | {"registers": 4}, {**CROPPED, "crop_fraction": 1.0}),
    "registers-classes": (CLASSES | SCALED | {"registers": 2, "pooling": "cls_gap", "qkv_bias": False}, CROPPED),
    "siglip": (FEATURES | {"pooling": "map"}, {}),
    "siglip-mean": (FEATURES | {"pooling": "gap"}, {}),
    "siglip-classes": (CLASSES | {"pooling": "gap", "positions": "sincos2d"}, {}),
}
"""What differs in the Config, and the preprocessing."""
PICTURE = (np.random.default_rng(0).integers(0, 256, (9, 15, 3)).repeat(4, 0).repeat(4, 1)).astype(np.uint8)


def write(folder: Path) -> None:
    """Every case as a checkpoint of vitzoo's, converted, with what it computes."""
    for number, (name, (fields, preprocessing)) in enumerate(CASES.items()):
        with tempfile.TemporaryDirectory() as scratch:
            expected = _converted(folder / name, Path(scratch), number, fields, preprocessing)
        np.savez(folder / name / "expected.npz", allow_pickle=False, **expected)
        print(f"{name}: {', '.join(sorted(file.name for file in (folder / name).iterdir()))}")


def _converted(target: Path, scratch: Path, seed: int, fields: dict, preprocessing: dict) -> dict[str, np.ndarray]:
    import jax
    import jax.numpy as jnp

    from vitzoo.checkpoints.metadata import describe
    from vitzoo.checkpoints.store import Store
    from vitzoo.config.assembly import assemble
    from vitzoo.config.model import ModelChoice
    from vitzoo.data.processors.image import described_images
    from vitzoo.data.settings import Preprocessing
    from vitzoo.models.geometry import image_shape
    from vitzoo.nn import paths
    from vitzoo.schema import to_json
    from vitzoo.weights.convert import convert
    from vitzoo.weights.load import load

    made = assemble(ModelChoice("vit", "", fields))
    config: Any = made.config
    _, shapes = made.abstract
    draws = np.random.default_rng(seed)
    leaves = {path: _random(draws, path, leaf.shape) for path, leaf in paths.flatten(shapes).items()}
    height, width, channels = image_shape(config)
    description = describe(
        version="0",
        model={"name": "vit", "variant": "", **to_json(config)},
        objective={"name": "classification"},
        classes=["ant", "bee", "cat", "dog", "eel"] if config.num_classes else None,
        data={"name": "any", "split": "train", "fingerprint": ""},
        step=1,
        examples=1,
        inputs={"image": described_images(Preprocessing(**preprocessing), (height, width), channels)},
    )
    params = jax.tree.map(jnp.asarray, paths.unflatten(leaves))
    store = Store(scratch / "run" / "checkpoints")
    store.save(1, {"params": params, "step": 1, "updates": 1, "skipped": 0}, description, {}, None)
    store.close()
    convert(scratch / "run", target)
    model, info = load(str(scratch / "run"))
    images = draws.normal(size=(2, height, width, channels)).astype(np.float32)
    seen = model.features(jnp.asarray(images))
    found = {"images": images, "tokens": seen["tokens"], "pixels": info.preprocess(PICTURE[..., :channels])}
    found["std"] = np.array(info.preprocessing.std or 127.5)
    found["output"] = seen["logits"] if "logits" in seen else seen["pooled"]
    return {name: np.asarray(value) for name, value in found.items()}


def _random(draws: np.random.Generator, path: str, shape: tuple[int, ...]) -> np.ndarray:
    return (0.15 * draws.normal(size=shape) + path.endswith("/scale")).astype(np.float32)


def check(folder: Path) -> None:
    """Loads and compares every case."""
    for name in CASES:
        with np.load(folder / name / "expected.npz") as file:
            _check(folder / name, {key: file[key] for key in file.files})


def _check(folder: Path, expected: dict[str, np.ndarray]) -> None:
    import torch
    import transformers as hf

    config = json.loads((folder / "config.json").read_text())
    architecture = config["architectures"][0]
    # a ViTModel has a layer after the class token unless it is told that there is none
    alone = architecture in ("ViTModel", "DeiTModel") and "pooler_output_size" not in config
    more = {"add_pooling_layer": False} if alone else {}
    model, info = getattr(hf, architecture).from_pretrained(folder, output_loading_info=True, **more)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, f"{folder.name}: {wrong}"
    assert type(hf.AutoConfig.from_pretrained(folder)) is type(model.config)
    with torch.no_grad():
        seen = model.eval()(torch.from_numpy(expected["images"].transpose(0, 3, 1, 2)))
    if "logits" in seen:
        pairs = [(seen.logits, expected["output"])]
        assert model.config.id2label == dict(enumerate(["ant", "bee", "cat", "dog", "eel"]))
    else:
        pairs = [(seen.last_hidden_state, expected["tokens"])]
        pooled = seen.pooler_output
        pairs += [] if pooled is None else [(pooled, expected["output"])]
    difference = max(float(np.abs(theirs.numpy() - ours).max()) for theirs, ours in pairs)
    steps = [_steps(folder, backend, expected) for backend in ("pil", "torchvision")]
    print(f"{folder.name:18}{architecture:42}{difference:.1e}; pixels, in steps of 255: {steps[0]:.1e}, {steps[1]:.1e}")
    assert difference < 1e-5, f"{folder.name}: {difference}"
    assert steps[0] < 1e-3, f"{folder.name}: {steps}"


def _steps(folder: Path, backend: str, expected: dict[str, np.ndarray]) -> float:
    """The largest difference of pixels; PIL's are ours, torchvision's are rounded otherwise."""
    import transformers as hf

    processor = hf.AutoImageProcessor.from_pretrained(folder, backend=backend)
    picture = PICTURE[..., : expected["images"].shape[-1]].transpose(2, 0, 1)
    pixels = processor(picture, input_data_format="channels_first", return_tensors="np")["pixel_values"]
    return float(np.abs((np.asarray(pixels).transpose(0, 2, 3, 1) - expected["pixels"]) * expected["std"]).max())


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    (write if sys.argv[1] == "write" else check)(Path(sys.argv[2]))
