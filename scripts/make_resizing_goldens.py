"""Makes tests/goldens/resizing.npz: tables of positions brought to other grids by each family's own rule.

In an environment of its own, which vitzoo and its tests don't need:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch timm transformers
    /tmp/peer/bin/python scripts/make_resizing_goldens.py tests/goldens/resizing.npz
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from timm.layers import resample_abs_pos_embed
from torch.nn.functional import interpolate
from transformers import Dinov2Config, Dinov2WithRegistersConfig, ViTConfig
from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings
from transformers.models.dinov2_with_registers.modeling_dinov2_with_registers import Dinov2WithRegistersEmbeddings
from transformers.models.vit.modeling_vit import ViTEmbeddings

WIDTH = 1
Grid = tuple[int, int]
SQUARE: list[tuple[Grid, Grid]] = [
    ((14, 14), (24, 24)),
    ((14, 14), (7, 7)),
    ((14, 14), (16, 10)),
    ((9, 9), (5, 13)),
    ((6, 6), (15, 13)),
]
OBLONG: list[tuple[Grid, Grid]] = [((6, 9), (11, 5)), ((3, 7), (9, 9))]


def of_torch(**how: Any) -> Callable[[torch.Tensor, Grid, Grid], torch.Tensor]:
    """Torch's resizing to a size, of a table with one row before the patches."""
    return lambda table, old, new: _patches(table, old, lambda image: interpolate(image, size=new, **how))


def of_facebook(**how: Any) -> Callable[[torch.Tensor, Grid, Grid], torch.Tensor]:
    """The rule of DINO and DINOv2: torch's resizing by a factor, a tenth of a patch too large."""

    def resized(table: torch.Tensor, old: Grid, new: Grid) -> torch.Tensor:
        factor = tuple((side + 0.1) / before for side, before in zip(new, old, strict=True))
        return _patches(table, old, lambda image: interpolate(image, scale_factor=factor, mode="bicubic", **how))

    return resized


def of_timm(table: torch.Tensor, old: Grid, new: Grid) -> torch.Tensor:
    """timm's rule for its own files."""
    return resample_abs_pos_embed(table, list(new), list(old), num_prefix_tokens=1)


def of_transformers(embeddings: type, config: type) -> Callable[[torch.Tensor, Grid, Grid], torch.Tensor]:
    """The rule of a model of transformers."""

    def resized(table: torch.Tensor, old: Grid, new: Grid) -> torch.Tensor:
        module = embeddings(config(image_size=old[0] * 4, patch_size=4, hidden_size=WIDTH))
        module.position_embeddings = torch.nn.Parameter(table)
        tokens = torch.zeros(1, 1 + new[0] * new[1], WIDTH)
        return module.interpolate_pos_encoding(tokens, new[0] * 4, new[1] * 4)

    return resized


RULES: dict[str, Callable[[torch.Tensor, Grid, Grid], torch.Tensor]] = {
    "corners": of_torch(mode="bilinear", align_corners=True),
    "bilinear": of_torch(mode="bilinear"),
    "bilinear_antialias": of_torch(mode="bilinear", antialias=True),
    "bicubic": of_torch(mode="bicubic"),
    "bicubic_antialias": of_torch(mode="bicubic", antialias=True),
    "timm": of_timm,
    "dino": of_facebook(),
    "dinov2_antialias": of_facebook(antialias=True),
    "transformers_vit": of_transformers(ViTEmbeddings, ViTConfig),
    "transformers_dinov2": of_transformers(Dinov2Embeddings, Dinov2Config),
    "transformers_dinov2_registers": of_transformers(Dinov2WithRegistersEmbeddings, Dinov2WithRegistersConfig),
}


def _patches(table: torch.Tensor, old: Grid, resize: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    image = table[:, 1:].reshape(1, *old, -1).permute(0, 3, 1, 2)
    return torch.cat([table[:, :1], resize(image).permute(0, 2, 3, 1).reshape(1, -1, table.shape[-1])], dim=1)


@torch.no_grad()
def main() -> None:
    """Writes the file named on the command line."""
    torch.manual_seed(0)
    arrays: dict[str, torch.Tensor] = {}
    for old, new in SQUARE + OBLONG:
        before, after = ("x".join(map(str, grid)) for grid in (old, new))
        table = arrays.setdefault(f"table/{before}", torch.randn(1, 1 + old[0] * old[1], WIDTH))
        for name, rule in RULES.items():
            if "transformers" not in name or (old, new) in SQUARE:
                arrays[f"{name}/{before}/{after}"] = rule(table, old, new)
    values = {name: value.detach().numpy() for name, value in arrays.items()}
    np.savez_compressed(sys.argv[1], versions=np.array(f"torch {torch.__version__}"), allow_pickle=False, **values)


if __name__ == "__main__":
    main()
