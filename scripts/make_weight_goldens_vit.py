"""Writes small published forms of Vision Transformers with random weights, and what their own code makes of images.

In an environment of its own, which vitzoo and its tests don't need:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch torchvision timm vit-pytorch
    /tmp/peer/bin/pip install --no-deps --target /tmp/vit_pytorch_1_0 vit-pytorch==1.0.0
    /tmp/peer/bin/pip install --no-deps --target /tmp/vit_pytorch_1_5 vit-pytorch==1.5.0
    /tmp/peer/bin/python scripts/make_weight_goldens_vit.py --older /tmp/vit_pytorch_1_0 /tmp/vit_pytorch_1_5

Into tests/goldens/weights: `FORMAT/CASE/` with the file, its config.json where the form has one, and `expected.npz`
(`images`, `output`); and `position_resize.npz`, a table of positions resized by each project's rule. Facebook's own
models are timm's under other names, so their files are written from timm's arrays.
"""

import argparse
import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import torchvision
from timm.layers.pos_embed import resample_abs_pos_embed
from timm.models import save_for_hf
from torchvision.models.vision_transformer import VisionTransformer, interpolate_embeddings

FOLDER = Path(__file__).parents[1] / "tests" / "goldens" / "weights"
SIZES: dict[str, Any] = {"img_size": 4, "patch_size": 2, "embed_dim": 12, "depth": 2, "num_heads": 3, "mlp_ratio": 2}
CLASSES = ["ant", "bee", "cat", "dog", "eel"]

TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "wide": ("vit_base_patch16_224", {"img_size": (4, 6), "num_classes": 5}),
    "deit3": ("deit3_base_patch16_224", {"num_classes": 5}),
    "distilled": ("deit_base_distilled_patch16_224", {"num_classes": 5}),
    "dinov2_giant_reg": ("vit_giant_patch14_reg4_dinov2", {"reg_tokens": 2, "mlp_ratio": 3, "num_classes": 0}),
    "reg4_gap": ("vit_betwixt_patch16_reg4_gap_256", {"reg_tokens": 2, "num_classes": 5}),
    "so150m": ("vit_so150m2_patch16_reg1_gap_256", {"reg_tokens": 2, "num_classes": 5}),
    "so150m_map": ("vit_so150m_patch16_reg4_map_256", {"reg_tokens": 2, "num_classes": 5}),
    "siglip": ("vit_so400m_patch16_siglip_256", {"num_classes": 0}),
    "clip": ("vit_base_patch32_clip_quickgelu_224", {"num_classes": 5}),
    "qk_norm": ("vit_base_patch16_224", {"qk_norm": True, "num_classes": 5, "pool_include_prefix": True}
                | {"global_pool": "avg", "act_layer": "gelu_tanh"}),
}  # fmt: skip
"""Architecture, and arguments beside `SIZES`."""
TIMM_LAST: dict[str, tuple[str, dict[str, Any]]] = {"dinov2": ("vit_small_patch14_dinov2", {"num_classes": 0})}
"""Made after all others, whose numbers come from one stream."""


def randomise(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter drawn: norms' scales about 1, nothing zero."""
    norms = {name for name, module in model.named_modules() if "Norm" in type(module).__name__}
    for name, parameter in model.named_parameters():
        scale = name.endswith(".weight") and name.removesuffix(".weight") in norms
        torch.nn.init.normal_(parameter, mean=float(scale), std=0.2)
    return model.eval()


def fresh(form: str, case: str) -> Path:
    """An empty folder."""
    folder = FOLDER / form / case
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def expect(folder: Path, model: Callable, images: torch.Tensor) -> None:
    """Writes what the model makes of images."""
    with torch.no_grad():
        output = model(images)
    np.savez(folder / "expected.npz", images=images.permute(0, 2, 3, 1).numpy(), output=output.numpy())


def timm_model(architecture: str, **changes: Any) -> tuple[torch.nn.Module, torch.Tensor]:
    """One of timm's with random parameters, and images for it."""
    model = randomise(timm.create_model(architecture, **(SIZES | changes)))
    return model, torch.randn(3, *model.pretrained_cfg["input_size"][:1], *model.patch_embed.img_size)


def write_timm(cases: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Folders as on the Hub."""
    for case, (architecture, changes) in cases.items():
        model, images = timm_model(architecture, **changes)
        folder = fresh("timm-vit", case)
        named = {"label_names": CLASSES} if changes["num_classes"] else {}
        save_for_hf(model, folder, model_config=named, safe_serialization=True)
        expect(folder, model, images)


def write_alone() -> None:
    """One torch file without a config."""
    model, images = timm_model("vit_base_patch16_224", num_classes=5)
    folder = fresh("timm-vit", "alone")
    torch.save(model.state_dict(), folder / "vit.pth")
    expect(folder, model, images)


def write_facebook() -> None:
    """Torch files of each project."""
    kinds: dict[str, tuple[str, dict[str, Any], Callable]] = {
        "deit_distilled": ("deit_base_distilled_patch16_224", {"num_classes": 5}, lambda names: {"model": names}),
        "deit3": ("deit3_base_patch16_224", {"num_classes": 5}, as_deit3),
        "dino": ("vit_base_patch16_224", {"num_classes": 0}, as_dino),
        "dinov2_giant": ("vit_giant_patch14_dinov2", {"num_classes": 0, "mlp_ratio": 3}, as_dinov2),
        "dinov2_reg": ("vit_base_patch14_reg4_dinov2", {"num_classes": 0, "reg_tokens": 2}, as_dinov2),
        "mae": ("vit_base_patch16_224", {"num_classes": 0}, as_mae),
        "mae_tuned": ("vit_base_patch16_224", {"num_classes": 5, "global_pool": "avg"}, lambda names: {"model": names}),
    }
    for case, (architecture, changes, form) in kinds.items():
        model, images = timm_model(architecture, **changes)
        folder = fresh("facebook-vit", case)
        torch.save(form(model.state_dict()), folder / f"{case}.pth")
        expect(folder, model, images)


def as_deit3(names: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Factors of branches without a module of their own."""
    return {"model": {renamed(name, {"ls1.gamma": "gamma_1", "ls2.gamma": "gamma_2"}): x for name, x in names.items()}}


def as_dino(names: dict[str, torch.Tensor]) -> dict[str, Any]:
    """A training's checkpoint: the teacher and the student, each with the head of pretraining."""
    head = {"head.mlp.0.weight": torch.randn(8, 12), "head.last_layer.weight_g": torch.randn(9, 1)}
    both = {f"backbone.{name}": x for name, x in names.items()} | head | {"head.last_layer.weight_v": torch.randn(9, 8)}
    student = {f"module.{name}": torch.randn_like(x) for name, x in list(both.items())[:4]}
    return {"student": student, "teacher": both, "epoch": 3}


def as_dinov2(names: dict[str, torch.Tensor]) -> dict[str, Any]:
    """With a mask token; registers come with a row of the table for the class token, which timm adds to the token."""
    names = dict(names)
    if names["blocks.0.mlp.fc1.weight"].shape[0] != names["blocks.0.mlp.fc2.weight"].shape[1]:  # gated
        names = {renamed(name, {"mlp.fc1": "mlp.w12", "mlp.fc2": "mlp.w3"}): x for name, x in names.items()}
    names["mask_token"] = torch.randn(1, 12)
    if "reg_token" in names:
        row = torch.randn(1, 1, 12)
        names["register_tokens"] = names.pop("reg_token")
        names["cls_token"] = names["cls_token"] - row
        names["pos_embed"] = torch.cat([row, names["pos_embed"]], dim=1)
    return names


def as_mae(names: dict[str, torch.Tensor]) -> dict[str, Any]:
    """With the decoder of pretraining."""
    more = ("mask_token", "decoder_pos_embed", "decoder_embed.weight", "decoder_blocks.0.norm1.weight")
    return {"model": names | {name: torch.randn(1, 1, 8) for name in more}}


def write_torchvision() -> None:
    """With a layer before the head and the MLP's old names, and plain."""
    for case, width in (("plain", None), ("representation", 7)):
        sizes = {"num_layers": 2, "num_heads": 3, "hidden_dim": 12, "mlp_dim": 24, "num_classes": 5}
        model = randomise(VisionTransformer(image_size=4, patch_size=2, representation_size=width, **sizes))
        names = model.state_dict()
        if width:
            old = {"mlp.0.": "mlp.linear_1.", "mlp.3.": "mlp.linear_2."}
            names = {renamed(name, old): x for name, x in names.items()}
        folder = fresh("torchvision-vit", case)
        torch.save(names, folder / "vit.pth")
        expect(folder, model, torch.randn(3, 3, 4, 4))


def renamed(name: str, changes: dict[str, str]) -> str:
    """A name with parts of it replaced."""
    for old, new in changes.items():
        name = name.replace(old, new)
    return name


def write_vit_pytorch(older: list[Path]) -> None:
    """The package's two models, and older versions of the first."""
    from vit_pytorch import SimpleViT, ViT

    sizes = {"image_size": 4, "patch_size": 2, "num_classes": 5, "dim": 12, "depth": 2, "heads": 3, "mlp_dim": 24}
    models = {
        "cls": ViT(**sizes, dim_head=5),
        "mean": ViT(**sizes, dim_head=5, pool="mean"),
        "simple": SimpleViT(**sizes, dim_head=5),
    }
    for folder in older:
        form = module_at(folder / "vit_pytorch" / "vit.py")
        models[folder.name.removeprefix("vit_pytorch_")] = form.ViT(**sizes, dim_head=5, pool="mean")
    for case, model in models.items():
        folder = fresh("vit-pytorch", case)
        torch.save(randomise(model).state_dict(), folder / "vit.pt")
        expect(folder, model, torch.randn(3, 3, 4, 4))


def module_at(path: Path) -> Any:
    """A file of Python as a module."""
    spec = importlib.util.spec_from_file_location(path.parts[-3], path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_resizes() -> None:
    """Each project's rule for positions on another grid, to a larger and a smaller one."""
    table = torch.randn(1, 1 + 16, 5)
    values = {"table": table}
    for side in (3, 7):
        values[f"timm/{side}"] = resample_abs_pos_embed(table, (side, side), (4, 4), num_prefix_tokens=1)
        state = {"encoder.pos_embedding": table.clone()}
        values[f"torchvision/{side}"] = interpolate_embeddings(2 * side, 2, state)["encoder.pos_embedding"]
        image = table[:, 1:].reshape(1, 4, 4, 5).permute(0, 3, 1, 2)
        factor = (side + 0.1) / 4  # as the code of DINO and DINOv2 does
        grid = torch.nn.functional.interpolate(image, scale_factor=(factor, factor), mode="bicubic")
        values[f"dino/{side}"] = torch.cat([table[:, :1], grid.permute(0, 2, 3, 1).reshape(1, -1, 5)], dim=1)
    np.savez(FOLDER / "position_resize.npz", **{name: value.numpy() for name, value in values.items()})


def main() -> None:
    """Writes everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--older", nargs="*", type=Path, default=[], help="folders with older versions of vit-pytorch")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    write_timm(TIMM)
    write_alone()
    write_facebook()
    write_torchvision()
    write_vit_pytorch(arguments.older)
    write_resizes()
    write_timm(TIMM_LAST)
    print(f"timm {timm.__version__}, torch {torch.__version__}, torchvision {torchvision.__version__}")


if __name__ == "__main__":
    main()
