"""Published Vision Transformers at full size with random weights: their own code writes, vitzoo reads, both compute.

Two environments, one model at a time:

    /tmp/peer/bin/python scripts/check_weights_vit.py write FOLDER vit-b16    # torch, timm, torchvision
    python scripts/check_weights_vit.py read FOLDER                           # vitzoo; and FOLDER/out, in timm's form
    /tmp/peer/bin/python scripts/check_weights_vit.py back FOLDER             # timm reads FOLDER/out

`read` and `back` print the largest difference of what the model gives, beside its largest absolute value.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

FOLDER, WEIGHTS = "weights", "expected.npz"
TIMM = {
    "vit-b16": "vit_base_patch16_224",
    "deit-s": "deit_small_patch16_224",
    "deit-s-distilled": "deit_small_distilled_patch16_224",
    "dinov2-s-reg": "vit_small_patch14_reg4_dinov2",
    "siglip-b16": "vit_base_patch16_siglip_224",
}
MODELS = (*TIMM, "torchvision-b16")


def write(folder: Path, name: str) -> None:
    """A model of the published size in its published form, with what it makes of two images."""
    import timm
    import torch
    import torchvision
    from timm.models import save_for_hf

    torch.manual_seed(0)
    model = torchvision.models.vit_b_16() if name == "torchvision-b16" else timm.create_model(TIMM[name])
    for parameter in model.parameters():
        if parameter.ndim == 1 or not parameter.any():  # biases, norms and factors, which begin at 0, 1 and 1e-5
            parameter.data += 0.1 * torch.randn(parameter.shape)
    side = 518 if "dinov2" in name else 224
    images = torch.randn(2, 3, side, side)
    with torch.no_grad():
        output = model.eval()(images)
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    if name == "dinov2-s-reg":
        torch.save(as_facebook(model.state_dict()), folder / FOLDER / "dinov2_vits14_reg4_pretrain.pth")
    elif name == "torchvision-b16":
        torch.save(model.state_dict(), folder / FOLDER / "vit_b_16.pth")
    else:
        save_for_hf(model, folder / FOLDER, safe_serialization=True)
    np.savez(folder / WEIGHTS, images=images.permute(0, 2, 3, 1).numpy(), output=output.numpy())
    print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters")


def as_facebook(names: dict[str, Any]) -> dict[str, Any]:
    """DINOv2's own names: a mask token, registers, and a row of positions for the class token."""
    import torch

    row = 0.1 * torch.randn(1, 1, names["pos_embed"].shape[-1])
    more = {"mask_token": row[0], "register_tokens": names["reg_token"], "cls_token": names["cls_token"] - row}
    more["pos_embed"] = torch.cat([row, names["pos_embed"]], dim=1)
    return {name: x for name, x in names.items() if name != "reg_token"} | more


def read(folder: Path) -> None:
    """The largest difference of vitzoo's output; and the weights in timm's form."""
    import jax

    import vitzoo
    from vitzoo.weights.convert import convert

    start = time.monotonic()
    model, info = vitzoo.load(str(folder / FOLDER))
    loaded = time.monotonic() - start
    with np.load(folder / WEIGHTS) as file:
        images, right = file["images"], file["output"]
    ours = np.asarray(jax.jit(lambda images: model(images))(images))
    size = sum(leaf.size for leaf in jax.tree.leaves(model))
    print(f"{size:,} parameters in {loaded:.1f} s; {info.shown()}")
    print(f"largest difference {abs(ours - right).max():.2e} of {abs(right).max():.3g}")
    convert(str(folder / FOLDER), folder / "out", form="timm-vit")


def back(folder: Path) -> None:
    """The largest difference of timm's output, of what vitzoo wrote."""
    import timm
    import torch

    model = timm.create_model(f"local-dir:{folder / 'out'}", pretrained=True).eval()
    with np.load(folder / WEIGHTS) as file:
        images, right = torch.from_numpy(file["images"]).permute(0, 3, 1, 2), file["output"]
    with torch.no_grad():
        theirs = model(images).numpy()
    print(f"largest difference {abs(theirs - right).max():.2e} of {abs(right).max():.3g}")


def main() -> None:
    """`write FOLDER MODEL`, `read FOLDER` or `back FOLDER`."""
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "read", "back"):
        sys.exit(f"{__doc__}\nMODEL: {', '.join(MODELS)}")
    folder = Path(sys.argv[2])
    if sys.argv[1] == "write":
        write(folder, sys.argv[3])
    else:
        {"read": read, "back": back}[sys.argv[1]](folder)


if __name__ == "__main__":
    main()
