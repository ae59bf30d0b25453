"""Many small pictures with captions in one."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vitzoo.fonts import font_file, tell_missing

CELL, CAPTION, GAP = 96, 14, 6
POINTS = 10
LETTERS = 16  # of a caption that fit under a picture


def contact_sheet(pictures: Sequence[tuple[np.ndarray, str]]) -> Image.Image:
    """Pictures uint8 [H, W, 3] of any size, fitted into equal cells with their captions below."""
    columns = max(1, round(len(pictures) ** 0.5))
    rows = -(-len(pictures) // columns)
    across, down = CELL + GAP, CELL + CAPTION + GAP
    sheet = Image.new("RGB", (columns * across + GAP, rows * down + GAP), "white")
    draw, missing = ImageDraw.Draw(sheet), ""
    for number, (pixels, caption) in enumerate(pictures):
        left, top = GAP + number % columns * across, GAP + number // columns * down
        sheet.paste(_fitted(Image.fromarray(pixels)), (left, top))
        font, lacking = _font(caption[:LETTERS])
        missing += lacking
        draw.text((left, top + CELL + 1), caption[:LETTERS], fill="black", font=font)
    tell_missing(missing)
    return sheet


def _font(text: str) -> tuple[ImageFont.FreeTypeFont | None, str]:
    """The installed font that has most of the characters, and those that it lacks; None for PIL's own, which has those
    of plain English.
    """
    if text.isascii():
        return None, ""
    file, missing = font_file(text)
    return ImageFont.truetype(file, POINTS), missing


def _fitted(picture: Image.Image) -> Image.Image:
    ratio = CELL / max(picture.size)
    size = max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio))
    # Pixels of small pictures stay visible as squares.
    return picture.resize(size, Image.Resampling.NEAREST if ratio > 1 else Image.Resampling.BILINEAR)
