"""Makes tests/goldens/vit_timm.npz: logits, loss and gradients of timm's VisionTransformer with random weights.

In an environment of its own, which vitzoo and its tests don't need:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch timm
    /tmp/peer/bin/python scripts/make_vit_goldens.py tests/goldens/vit_timm.npz
"""

import sys
from typing import Any

import numpy as np
import timm
import torch
from timm.models.vision_transformer import VisionTransformer

SIZES: dict[str, Any] = {
    "img_size": (8, 12),
    "patch_size": 4,
    "embed_dim": 12,
    "depth": 2,
    "num_heads": 2,
    "mlp_ratio": 2,
    "num_classes": 5,
}
CASES: dict[str, dict[str, Any]] = {
    "token": {},
    "average": {"global_pool": "avg", "reg_tokens": 2, "no_embed_class": True, "init_values": 0.1},
}


def golden(**changes: Any) -> dict[str, np.ndarray]:
    """Everything a reader needs to compute the same numbers, by name."""
    model = VisionTransformer(**SIZES, **changes).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("norm" in name and name.endswith("weight")), std=0.2)
    images, labels = torch.randn(3, 3, *SIZES["img_size"]), torch.tensor([0, 3, 4])
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    values = {"images": images.permute(0, 2, 3, 1), "labels": labels, "logits": logits, "loss": loss}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        values |= {f"parameter/{name}": parameter, f"gradient/{name}": parameter.grad}
    return {name: value.detach().numpy() for name, value in values.items()}


def main() -> None:
    """Writes the file named on the command line."""
    torch.manual_seed(0)
    arrays = {f"{case}/{name}": value for case, changes in CASES.items() for name, value in golden(**changes).items()}
    versions = np.array(f"timm {timm.__version__}, torch {torch.__version__}")
    np.savez_compressed(sys.argv[1], versions=versions, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
