"""The shapes of a row of text, by its kind, without the text: `vitzoo.data.text.rows` says what the arrays hold."""

from typing import Any

import jax
import numpy as np

from vitzoo.data.text.masked import chosen_of
from vitzoo.data.text.row_kinds import has_source
from vitzoo.models.text import is_prefix_lm, kind_of

Shapes = dict[str, jax.ShapeDtypeStruct]


def image_row(
    size: tuple[int, int], channels: int, classes: int | None, multi_label: bool, pixel: type = np.uint8
) -> Shapes:
    """A row of images, as training loads it."""
    label = _array(np.float32, classes or 0) if multi_label else _array(np.int32)
    return {"image": _array(pixel, *size, channels), "label": label, "weight": _array(np.float32)}


def text_row(rows: str, text: Any, config: Any, number: bool = False) -> Shapes:
    """A row of text, as training loads it.

    Args:
        rows: a key of `vitzoo.data.text.feed.MAKERS` from which models learn.
        text: the config's section.
        config: the model's settings.
        number: labels are numbers, not classes.
    """
    length = text.sequence_length
    integers, more = ["tokens", "targets", "segments", "positions"], {}
    if has_source(rows, kind_of(config)):
        source = ("source_tokens", "source_segments", "source_positions")
        more = {name: _array(np.int32, text.source_length) for name in source}
    elif is_prefix_lm(config):
        more = {"prefix": _array(bool, length)}
    elif rows == "masked":
        room = length - 2 - int(text.next_sentence)
        integers.append("sentence_types")
        more = {"chosen": _array(np.int32, chosen_of(room, text.mask_rate))}
        more |= {"label": _array(np.int32)} if text.next_sentence else {}
    elif rows == "labelled":
        integers.append("sentence_types")
        more = {"label": _array(np.float32 if number else np.int32)}
    elif rows == "tagged":
        integers.append("words")
    row = {name: _array(np.int32, length) for name in integers} | more
    return row | {"weights": _array(np.float32, length), "weight": _array(np.float32)}


def batch_of(row: Shapes, size: int) -> Shapes:
    """A batch of `size` such rows."""
    return {name: jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype) for name, leaf in row.items()}


def _array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)
