"""Writes small Vision Transformers of Hugging Face transformers with random weights, and what its code makes of images.

In an environment of its own, which vitzoo and its tests don't need:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch torchvision transformers pillow
    /tmp/peer/bin/python scripts/make_weight_goldens_hf_vit.py

Into tests/goldens/weights/hf-vit: `CASE/` with the folder as `save_pretrained` leaves it and `expected.npz` (`images`,
`tokens`, `output`, and for some `other_images` and `other_output` of another size), and `preprocessing.npz`: a picture,
and for each processor its preprocessor_config.json and the pixels that it makes. `save_pretrained` writes the names of
the published files; cases `new_...` have those of transformers 5 inside.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers as hf

FOLDER = Path(__file__).parents[1] / "tests" / "goldens" / "weights" / "hf-vit"
BODY: dict[str, Any] = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "patch_size": 2}
PLAIN: dict[str, Any] = {**BODY, "intermediate_size": 20, "image_size": 6}
DINOV2: dict[str, Any] = {**BODY, "mlp_ratio": 2, "image_size": 8, "layerscale_value": 0.5}
DECODER: dict[str, Any] = {
    "decoder_hidden_size": 8,
    "decoder_num_hidden_layers": 1,
    "decoder_num_attention_heads": 2,
    "decoder_intermediate_size": 8,
}
TEXT: dict[str, Any] = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": 9,
    "max_position_embeddings": 4,
    "projection_size": 12,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LABELS = dict(enumerate(["ant", "bee", "cat", "dog", "eel"]))


class Case(NamedTuple):
    """A model to be written.

    Attributes:
        make: the model.
        new: its file has the names of transformers 5.
        other: another side of images that it is tried on.
        processor: beside it.
    """

    make: Callable[[], Any]
    new: bool = False
    other: int = 0
    processor: Callable[[], Any] | None = None


def _vit(**changes: Any) -> Any:
    return hf.ViTConfig(**(PLAIN | changes))


def _dinov2(**changes: Any) -> Any:
    return hf.Dinov2Config(**(DINOV2 | changes))


def _registers(**changes: Any) -> Any:
    return hf.Dinov2WithRegistersConfig(**(DINOV2 | {"num_register_tokens": 2} | changes))


def _siglip(**changes: Any) -> Any:
    return hf.SiglipConfig(vision_config=PLAIN | {"layer_norm_eps": 0.01}, text_config=TEXT, **changes)


def _square(side: int, **more: Any) -> dict[str, Any]:
    return {"size": {"height": side, "width": side}, **more}


CASES = {
    "vit": Case(
        lambda: hf.ViTForImageClassification(_vit(image_size=[4, 6], id2label=LABELS, layer_norm_eps=0.01)),
        processor=lambda: hf.ViTImageProcessorPil(size={"height": 4, "width": 6}),
    ),
    "new_vit": Case(
        lambda: hf.ViTForImageClassification(_vit(num_labels=3, qkv_bias=False, hidden_act="gelu_new")),
        new=True,
        other=10,
    ),
    "vit_pooler": Case(lambda: hf.ViTModel(_vit(pooler_output_size=7, hidden_act="quick_gelu"))),
    "vit_masked": Case(lambda: hf.ViTForMaskedImageModeling(_vit(encoder_stride=2))),
    "dino": Case(lambda: hf.ViTModel(_vit(), add_pooling_layer=False)),
    "deit": Case(
        lambda: hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**PLAIN, id2label=LABELS)),
        processor=lambda: hf.DeiTImageProcessorPil(**_square(8, crop_size={"height": 6, "width": 6})),
    ),
    "new_deit": Case(lambda: hf.DeiTForImageClassification(hf.DeiTConfig(**PLAIN, num_labels=3)), new=True),
    "mae": Case(lambda: hf.ViTMAEForPreTraining(hf.ViTMAEConfig(**PLAIN, **DECODER))),
    "dinov2": Case(lambda: hf.Dinov2Model(_dinov2(layer_norm_eps=0.01)), other=6),
    "dinov2_giant": Case(
        lambda: hf.Dinov2ForImageClassification(_dinov2(id2label=LABELS, use_swiglu_ffn=True)),
        processor=lambda: hf.BitImageProcessorPil(size={"shortest_edge": 10}, crop_size={"height": 8, "width": 8}),
    ),
    "new_dinov2_giant": Case(
        lambda: hf.Dinov2ForImageClassification(_dinov2(num_labels=3, use_swiglu_ffn=True)), new=True
    ),
    "registers": Case(lambda: hf.Dinov2WithRegistersModel(_registers()), other=6),
    "registers_classes": Case(
        lambda: hf.Dinov2WithRegistersForImageClassification(_registers(num_labels=3, qkv_bias=False))
    ),
    "siglip": Case(lambda: hf.SiglipModel(_siglip()), processor=lambda: hf.SiglipImageProcessorPil(**_square(6))),
    "siglip_vision": Case(lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**(PLAIN | {"image_size": 7}))), other=10),
    "siglip_classes": Case(lambda: hf.SiglipForImageClassification(_siglip(id2label=LABELS))),
}

PROCESSORS = {
    "squash": ("vit", hf.ViTImageProcessorPil, _square(16)),
    "squash_oblong": ("vit", hf.ViTImageProcessorPil, {"size": {"height": 12, "width": 20}, "resample": 3}),
    "squash_crop": ("deit", hf.DeiTImageProcessorPil, _square(16, crop_size={"height": 14, "width": 14})),
    "short_side": (
        "dinov2",
        hf.BitImageProcessorPil,
        {"size": {"shortest_edge": 16}, "crop_size": {"height": 14, "width": 14}, "image_mean": [0.485, 0.456, 0.406]},
    ),
    "siglip": ("siglip", hf.SiglipImageProcessorPil, _square(16)),
    "no_mean": ("vit", hf.ViTImageProcessorPil, _square(16, do_normalize=False)),
    "other_scale": ("vit", hf.ViTImageProcessorPil, _square(16, rescale_factor=1 / 127.5)),
    "no_scale": ("vit", hf.ViTImageProcessorPil, _square(16, do_rescale=False, image_mean=[100.0, 110.0, 120.0])),
}
"""Model type, processor and its settings."""


def randomise(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter drawn: norms' scales about 1, nothing zero."""
    norms = {name for name, module in model.named_modules() if isinstance(module, torch.nn.LayerNorm)}
    for name, parameter in model.named_parameters():
        scale = name.endswith(".weight") and name.removesuffix(".weight") in norms
        torch.nn.init.normal_(parameter, mean=float(scale), std=0.2)
    return model.eval()


def computed(model: Any, images: torch.Tensor, *, other: bool = False) -> dict[str, torch.Tensor]:
    """The tokens after the last norm, and the output: logits, or what the model pools."""
    config = getattr(model.config, "vision_config", model.config)
    more = {} if "dinov2" in config.model_type or not other else {"interpolate_pos_encoding": True}
    body = next((part for name in PARTS if (part := getattr(model, name, None)) is not None), model)
    with torch.no_grad():
        if config.model_type == "vit_mae":
            body.config.mask_ratio = 0.0  # all patches, and in their order
            places = torch.arange(9.0).expand(len(images), -1)
            tokens = body(images, noise=places).last_hidden_state
            body.config.mask_ratio = 0.75
            return {"tokens": tokens, "output": tokens[:, 0]}
        seen = body(images, **more)
        tokens, pooled = seen.last_hidden_state, seen.pooler_output
        if "Classification" in type(model).__name__:
            return {"tokens": tokens, "output": model(images, **more).logits}
        return {"tokens": tokens, "output": tokens[:, 0] if pooled is None else pooled}


PARTS = ("vit", "deit", "dinov2", "dinov2_with_registers", "vision_model")


def write(name: str, case: Case) -> None:
    """A case's folder."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model = randomise(case.make())
    model.save_pretrained(folder, save_original_format=not case.new)
    if case.processor is not None:
        case.processor().save_pretrained(folder)
    size = getattr(model.config, "vision_config", model.config).image_size
    height, width = (size, size) if isinstance(size, int) else size
    images = torch.randn(3, 3, height, width)
    found = {"images": images.permute(0, 2, 3, 1), **computed(model, images)}
    if case.other:
        images = torch.randn(2, 3, case.other, case.other)
        other = computed(model, images, other=True)["output"]
        found |= {"other_images": images.permute(0, 2, 3, 1), "other_output": other}
    np.savez(folder / "expected.npz", **{key: value.numpy() for key, value in found.items()})


def write_preprocessing() -> None:
    """A picture of 20 × 30 pixels, smooth with some noise, through every processor."""
    draws = np.random.default_rng(0)
    y, x = np.mgrid[:20, :30]
    waves = np.stack([np.sin(x / 4), np.cos(y / 3), np.sin((x + y) / 5)], axis=-1)
    picture = np.clip(127 + 100 * waves + 20 * draws.normal(size=(20, 30, 3)), 0, 255).astype(np.uint8)
    values: dict[str, Any] = {"picture": picture}
    for name, (kind, processor, settings) in PROCESSORS.items():
        made = processor(**settings)
        with tempfile.TemporaryDirectory() as folder:
            made.save_pretrained(folder)
            content = json.loads((Path(folder) / "preprocessor_config.json").read_text())
        values[f"{name}/config"] = np.array(json.dumps(content))
        values[f"{name}/model"] = np.array(kind)
        values[f"{name}/pixels"] = made(picture, return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)
    np.savez_compressed(FOLDER / "preprocessing.npz", **values)


def main() -> None:
    """Writes everything."""
    torch.manual_seed(0)
    for name, case in CASES.items():
        write(name, case)
    write_preprocessing()
    print(f"transformers {hf.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
