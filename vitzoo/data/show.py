"""Some examples of a dataset for `vitzoo data show`: a picture of images with their labels, or texts as they are."""

import pathlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vitzoo.data.check import class_numbers
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import decode
from vitzoo.data.open import open_dataset, open_split
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Example, Source, holds
from vitzoo.errors import RunError, UserError
from vitzoo.fonts import font_file, tell_missing
from vitzoo.outputs import checked_file, write_whole
from vitzoo.overwriting import Reads, check_is_none_of, save_picture
from vitzoo.schema import build
from vitzoo.streams import on_one_line
from vitzoo.strict_json import JSON

PICTURE = "examples.png"
MANY, FEW = 64, 5  # images and texts that are shown


def show(
    name: str, output: str | pathlib.Path | None = None, *, split: str = "train", count: int = 0, **settings: JSON
) -> pathlib.Path | list[tuple[str, Example]]:
    """Examples taken evenly from a whole split: of images a picture of them with their labels, which is written; else
    where each comes from, and its fields with labels by name.

    Args:
        output: a .png or .jpg file for the picture; examples.png by default.
        count: how many; 64 images or 5 texts by default.
        settings: further fields of `Data` (dir, bad_files, label_field ...).

    Raises:
        UserError: no such data, an example can't be read (an image under `bad_files=stop`), or the file can't be
            written to.
    """
    if output is not None:
        checked_file("output", output, (".png", ".jpg"), Reads([name]))
    data = build(Data, {"name": name, **settings}, "data")
    dataset = open_dataset(data)
    source = open_split(data, dataset, split)
    if not holds(source.fields, "image"):
        if output is not None:
            raise UserError("output", output, "is for pictures; texts are printed")
        return [(source.where(index), _named(source, source[index])) for index in _spread(source, count or FEW)]
    path = checked_file("output", output or PICTURE, (".png", ".jpg"), Reads([name]))
    for part in [part for part, number in dataset.counts().items() if number]:
        check_is_none_of("output", output, path, dataset.open(part).info.files or ())
    chosen = _spread(source, count or MANY)
    pictures = list(_labelled_images(source, chosen, data))
    if not pictures:
        raise RunError(f"none of the {len(chosen)} examples can be read")
    write_whole(path, partial(save_picture, contact_sheet(pictures)))
    return path


def _spread(source: Source, count: int) -> list[int]:
    """Examples taken evenly."""
    return np.unique(np.linspace(0, len(source) - 1, min(count, len(source))).astype(int)).tolist()


def _labelled_images(source: Source, indices: list[int], data: Data) -> Iterator[tuple[np.ndarray, str]]:
    for index in indices:
        example = source[index]
        try:
            # the end of a file's name tells it from its neighbours
            name = pathlib.PurePath(source.where(index)).name[-LETTERS:]
            yield decode(example["image"]), f"{on_one_line(_caption(source, example))[:LETTERS]}\n{on_one_line(name)}"
        except BadImage as error:
            if data.bad_files == "stop":
                where = f"{source.where(index)} can't be read: {error.reason}"
                raise UserError("data.name", data.name, f"{where}; data.bad_files=skip leaves it out") from error


def _caption(source: Source, example: Example) -> str:
    """The classes of an image, or the number or the text that belongs to it."""
    if source.info.classes is not None:
        return ", ".join(_classes(source, example, "label"))
    return str(example.get("label", example.get("text", "")))


def _classes(source: Source, example: Example, field: str) -> list[str]:
    """The names of an example's classes, or of its words'."""
    if source.info.unlabelled:
        return ["unlabelled"]
    return [(source.info.classes or ())[number] for number in class_numbers({field: example[field]})]


def _described(value: Any) -> Any:
    large = isinstance(value, np.ndarray) and value.ndim > 1
    return f"{value.dtype} {list(value.shape)}" if large else value


def _named(source: Source, example: Example) -> Example:
    """An example with the names of its classes, and of arrays what they are."""
    example = {name: _described(value) for name, value in example.items()}
    if source.info.classes is None:
        return example
    for field in {"label", "tags"} & set(example):
        named = _classes(source, example, field)
        alone = source.info.unlabelled or (field == "label" and np.ndim(example[field]) == 0)
        example = {**example, field: named[0] if alone else named}
    return example


CELL, CAPTION, GAP = 96, 14, 6
POINTS = 10
LETTERS = 16  # of a caption that fit under a picture


def contact_sheet(pictures: Sequence[tuple[np.ndarray, str]]) -> Image.Image:
    """Pictures uint8 [H, W, 3] of any size, fitted into equal cells with their captions, of one line or more, below."""
    columns = max(1, round(len(pictures) ** 0.5))
    rows = -(-len(pictures) // columns)
    most = max((caption.count("\n") + 1 for _, caption in pictures), default=1)
    across, down = CELL + GAP, CELL + CAPTION * most + GAP
    sheet = Image.new("RGB", (columns * across + GAP, rows * down + GAP), "white")
    draw, missing = ImageDraw.Draw(sheet), ""
    for number, (pixels, caption) in enumerate(pictures):
        left, top = GAP + number % columns * across, GAP + number // columns * down
        sheet.paste(_fitted(Image.fromarray(pixels)), (left, top))
        for line, text in enumerate(caption.split("\n")):
            font, lacking = _font(text[:LETTERS])
            missing += lacking
            draw.text((left, top + CELL + 1 + line * CAPTION), text[:LETTERS], fill="black", font=font)
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
