"""What the shapes of a Vision Transformer's arrays say of it, and what its family's conventions add."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.models.geometry import pair
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.settings import give, heads_that

SIXTEEN_HEADS = (1152, 1280, 1408, 1664)
"""Widths that are published with 16 heads (So400m, H, g, G); all others have heads of 64."""

IMAGENET = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
"""Of each channel, 0..255."""

Size = tuple[int, int]
LARGEST_SIDE, SMALLEST_CROP = 2**16, 0.01
"""Pixels of an image's side; share of it that is looked at."""


def num_heads(source: Source, given: Mapping[str, Any], width: int) -> tuple[int, str]:
    """The heads of a file that doesn't say them: given, or those of the published sizes; and a line that says so.

    Raises:
        Refused: neither tells.
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
    source: Source,
    rows: int,
    patch: Size,
    prefixes: Sequence[tuple[str, int]],
    stated: Sequence[Any],
    given: Mapping[str, Any],
) -> tuple[Size, str]:
    """The image size that a table of positions is for, and which tokens before the patches have rows in it.

    Args:
        source: the file.
        rows: of the table.
        patch: height and width of a patch.
        prefixes: `prefix_positions` and how many rows that would be, likeliest first.
        stated: image sizes that the file's config says, likeliest first; None is none.
        given: may have `image_size`, for a grid that isn't square.

    Raises:
        Refused: no size is known that fits.
    """
    for size in [*stated, given.get("image_size")]:
        if size is None:
            continue
        height, width = pair(size)
        for name, prefix in prefixes:
            if rows - prefix == (height // patch[0]) * (width // patch[1]):
                return (height, width), name
    for name, prefix in prefixes:
        side = round(max(rows - prefix, 0) ** 0.5)
        if side and side * side == rows - prefix:
            return (side * patch[0], side * patch[1]), name
    raise source.refused(f"has positions of {rows} rows, which are no square grid: give image_size")


def crop_fraction(part: float, size: Size) -> float:
    """The share that makes our rounding of the resized side timm's and torchvision's, who round down."""
    return size[0] / math.floor(size[0] / part)


def departures(images: Mapping[str, Any], size: Size, offset: str, program: str) -> list[str]:
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


def outputs_of(source: Source, name: str) -> int:
    """The outputs of a torch Linear; 0 where it isn't there."""
    return source.shape(name, 2)[0] if name in source.tensors else 0


def patch_of(source: Source, name: str) -> tuple[int, int, Size]:
    """Width, channels and patch of a convolution [width, channels, rows, columns]."""
    width, channels, rows, columns = source.shape(name, 4)
    return width, channels, (rows, columns)
