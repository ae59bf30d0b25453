"""What formats of Vision Transformers share: what shapes say, the family's conventions, rows of those born in torch."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from vitzoo.data.described import ImageDescription
from vitzoo.errors import UserError
from vitzoo.models.geometry import pair
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn.positions import square_side
from vitzoo.weights.files.weights import Weights
from vitzoo.weights.formats.registry import Given
from vitzoo.weights.formats.settings import defaults, give, heads_that
from vitzoo.weights.mapping import NameMap

SIXTEEN_HEADS = (1152, 1280, 1408, 1664)
"""Widths that are published with 16 heads (So400m, H, g, G); all others have heads of 64."""

IMAGENET = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
"""Of each channel, 0..255."""

Size = tuple[int, int]
LARGEST_SIDE, SMALLEST_CROP = 2**16, 0.01
"""Pixels of an image's side; share of it that is looked at."""


def num_heads(source: Weights, given: Given, width: int) -> tuple[int, str]:
    """The heads of a file that doesn't say them: given, or those of the published sizes; and a line that says so.

    Raises:
        UserError: neither tells.
    """
    if "num_heads" in given:
        return heads_that(source, None, "", given, width), ""
    heads = 16 if width in SIXTEEN_HEADS else width // 64
    if heads == 0 or width % 64:
        raise source.refused(
            f"has no config.json that says num_heads, and a width of {width} isn't a published one: {give('num_heads')}"
        )
    return heads, f"num_heads={heads} by convention of the width {width}; the file doesn't say it"


def table_of(
    source: Weights,
    rows: int,
    patch: Size,
    prefixes: Sequence[tuple[str, int]],
    stated: Sequence[Size | int | None],
    given: Given,
) -> tuple[Size, str]:
    """The image size that a table of positions is for, and which tokens before the patches have rows in it.

    What the file's config says counts first, then `square_or_given`.

    Args:
        source: the file.
        rows: of the table.
        patch: height and width of a patch.
        prefixes: `prefix_positions` and how many rows that would be, likeliest first.
        stated: image sizes that the file's config says, likeliest first; None is none.
        given: what a user states.

    Raises:
        UserError: no size is known that fits.
    """
    for size in (pair(size) for size in stated if size is not None):
        for name, prefix in prefixes:
            if rows - prefix == (size[0] // patch[0]) * (size[1] // patch[1]):
                return size, name
    found = square_or_given(rows, patch, prefixes, given.get("image_size"))
    if found is None:
        raise source.refused(f"has positions of {rows} rows, which are no square grid: give image_size")
    return found


def square_or_given(
    rows: int, patch: Size, prefixes: Sequence[tuple[str, int]], given: Size | int | None
) -> tuple[Size, str] | None:
    """The image size that a table of positions is for, and its prefix, where its file doesn't say the size.

    As many patches as fill a square are one, whatever size a user states: that may be the size to which the positions
    are to be brought. Only where they fill none, the stated size is the file's, if as many patches fit into it.

    Args:
        rows, patch, prefixes: as in `table_of`.
        given: the `image_size` that a user states, or None.
    """
    for name, prefix in prefixes:
        if side := square_side(rows - prefix):
            return (side * patch[0], side * patch[1]), name
        size = None if given is None else pair(given)
        if size is not None and rows - prefix == (size[0] // patch[0]) * (size[1] // patch[1]):
            return size, name
    return None


def check_square(grid: Size, where: str) -> None:
    """Refuses a grid of patches that is none but has as many as one, of which a format keeps the number alone."""
    if grid[0] != grid[1] and (side := square_side(grid[0] * grid[1])):
        shown = f"{grid[0]} × {grid[1]} patches"
        message = f"have no place in {where}, which keeps no image size: they would be read as {side} × {side}"
        raise UserError("model.image_size", shown, message)


def crop_fraction(part: float, size: Size) -> float:
    """The share that makes our rounding of the resized side timm's and torchvision's, who round down."""
    return size[0] / math.floor(size[0] / part)


def departures(images: ImageDescription, size: Size, offset: str, program: str) -> list[str]:
    """Notes on what another program, which resizes by PIL, will do otherwise with images.

    Args:
        images: `preprocessing` of `model.json`.
        size: of the model's images.
        offset: the program's `crop_offset`.
        program: its name.
    """
    ours, notes = images.get("crop_offset", "floor"), []
    margins = [round(side / images["crop_fraction"]) - side for side in size]
    # of a margin of 1, 5, 9 ... both rules take the smaller half first
    if ours != offset and (images["resize"] == "short_side_crop" or any(margin % 4 == 3 for margin in margins)):
        notes.append(f"{program} cuts an odd margin by crop_offset={offset}, here it was {ours}: one pixel beside it")
    if images["interpolation"] != "nearest":
        if not images.get("antialias", True):
            notes.append(f"{program} smooths when it shrinks an image; here points were read (antialias=false)")
        if (rounding := images.get("rounding", "round")) != "round":
            notes.append(f"{program} rounds resized pixels; here it was rounding={rounding}")
    return notes


BLOCKS = "encoder/blocks/*"


@dataclasses.dataclass(frozen=True)
class Leaves:
    """What a file of torch has of a ViT's leaves, asked for by our paths; of blocks' leaves, the first block's."""

    source: Weights
    names: NameMap

    def has(self, path: str) -> bool:
        """Whether it is there."""
        return self._name(path) in self.source.tensors

    def shape(self, path: str, dimensions: int) -> tuple[int, ...]:
        """As `Weights.shape`."""
        return self.source.shape(self._name(path), dimensions)

    def outputs(self, layer: str) -> int:
        """Of a dense layer; 0 where it isn't there."""
        return self.shape(f"{layer}/kernel", 2)[0] if self.has(f"{layer}/kernel") else 0

    def fields(self, *names: str) -> dict[str, Any]:
        """What names and shapes say of these fields of the Config."""
        return {name: FIELDS[name](self) for name in names}

    def _name(self, path: str) -> str:
        return self.names.of_leaf(path).replace("{i}", "0")


FIELDS: dict[str, Callable[[Leaves], Any]] = {
    "patch_size": lambda file: file.shape("patch_embedding/kernel", 4)[2:],
    "width": lambda file: file.shape("patch_embedding/kernel", 4)[0],
    "channels": lambda file: file.shape("patch_embedding/kernel", 4)[1],
    "depth": lambda file: file.source.depth(file.names.of_leaf(f"{BLOCKS}/norm1/scale").partition("{")[0]),
    "mlp_dim": lambda file: file.shape(f"{BLOCKS}/mlp/down/kernel", 2)[1],
    "num_classes": lambda file: file.outputs("head"),
    "pre_logits": lambda file: file.outputs("pre_logits"),
    "class_token": lambda file: file.has("class_token"),
    "registers": lambda file: file.shape("registers", 3)[1] if file.has("registers") else 0,
    "patch_bias": lambda file: file.has("patch_embedding/bias"),
    "embedding_norm": lambda file: file.has("embedding_norm/scale"),
    "qkv_bias": lambda file: file.has(f"{BLOCKS}/attention/query/bias"),
    "qk_norm": lambda file: file.has(f"{BLOCKS}/attention/query_norm/scale"),
    "qk_norm_bias": lambda file: file.has(f"{BLOCKS}/attention/query_norm/bias"),
    "norm_after_pooling": lambda file: file.has("head_norm/scale"),
}
SIZES = ("patch_size", "width", "channels", "depth", "mlp_dim", "num_classes")


PLAIN = defaults(
    ViTConfig,
    *("pool_include_prefix", "pad_to_patch", "patch_bias", "patch_norms", "embedding_norm", "out_bias", "qk_norm"),
    "norm_after_pooling",
)
"""Settings that hardly a format has a place for, and their one value there."""
PLAINER = PLAIN | defaults(ViTConfig, "distillation", "registers", "qkv_bias", "gated_mlp", "layer_scale")
"""Those of formats that hold nothing but the first paper's model."""
