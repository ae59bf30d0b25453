"""Images as rows of a batch: read, decoded and brought to the model's size."""

import dataclasses
import functools
from typing import Any

import numpy as np

from vitzoo.data.augment import augment_image, shift_and_flip, varies_after_resize_only
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import model_pixels, pixel_type, resize_eval
from vitzoo.data.memory import fits, gather
from vitzoo.data.rows import Batch, Row
from vitzoo.data.settings import Augment, Data, Preprocessing
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.sources.labels import refuse_unlabelled
from vitzoo.errors import RunError, UserError


@dataclasses.dataclass(frozen=True)
class ImageRows:
    """Examples of a source as rows: image [height, width, channels] of `pixel_type`, label int32 [] or float32
    [classes], weight, id.

    An example that can't be read raises `BadImage` under `bad_files="stop"`; under `skip` it becomes a black image of
    weight 0, which no loss or metric counts.

    Args:
        source: the examples.
        data: `bad_files`, `in_memory`.
        preprocessing: how an image becomes pixels of one size.
        size: height and width.
        channels: 1 or 3.
        augment: how training varies images; None for evaluation alone.
    """

    source: Source
    data: Data
    preprocessing: Preprocessing
    size: tuple[int, int]
    channels: int
    augment: Augment | None = None

    def __post_init__(self) -> None:
        refuse_unlabelled(self.source.info)

    @property
    def info(self) -> SourceInfo:
        return self.source.info

    def __len__(self) -> int:
        return len(self.source)

    @functools.cached_property
    def held(self) -> bool:
        """Whether the images, as they are before augmentation, lie in RAM."""
        still = self.augment is None or varies_after_resize_only(self.augment)
        return still and fits(self.data, len(self.source) * self.bytes)

    def where(self, id: int) -> str:
        return self.source.where(int(np.flatnonzero(self.source.ids == id)[0]))

    @property
    def bytes(self) -> int:
        """Of an image."""
        height, width = self.size
        return height * width * self.channels * np.dtype(pixel_type(self.preprocessing)).itemsize

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (len(self.source.info.classes or ()),) if self.source.info.multi_label else ()

    @property
    def label_type(self) -> type:
        several_or_number = self.source.info.multi_label or self.source.fields.get("label") == "number"
        return np.float32 if several_or_number else np.int32

    def eval_row(self, index: int) -> Row:
        return self._row(index, lambda image: resize_eval(image, self.size, self.preprocessing))

    def train_row(self, index: int, seed: int, position: int) -> Row:
        augment = self.augment or Augment()
        return self._row(
            index, lambda image: augment_image(image, self.size, augment, self.preprocessing, seed, position)
        )

    def eval_batch(self, indices: np.ndarray) -> Batch:
        return gather(self, indices)

    def train_batch(self, indices: np.ndarray, seed: int, positions: np.ndarray) -> Batch:
        batch = gather(self, indices)
        batch["image"] = shift_and_flip(batch["image"], self.augment or Augment(), seed, positions)
        return batch

    def padding(self) -> Row:
        return self._as_row(None, np.zeros(self.label_shape, self.label_type), 0.0, -1)

    def _row(self, index: int, finish: Any) -> Row:
        try:
            example = self.source[index]
            image = model_pixels(example["image"], self.channels, finish)
        except (BadImage, OSError) as error:
            if self.data.bad_files == "stop":
                raise BadImage(getattr(error, "reason", str(error)), self.source.where(index)) from error
            return self._as_row(None, np.zeros(self.label_shape, self.label_type), 0.0, int(self.source.ids[index]))
        label = example.get("label", np.zeros(self.label_shape))
        self._check_label(label, index)
        return self._as_row(image, label, 1.0, int(self.source.ids[index]))

    def _check_label(self, label: Any, index: int) -> None:
        classes = self.source.info.classes
        if self.source.info.multi_label or classes is None or 0 <= label < len(classes):
            return
        raise RunError(f"{self.source.where(index)}: label {label} lies outside the {len(classes)} classes")

    def _as_row(self, image: np.ndarray | None, label: Any, weight: float, id: int) -> Row:
        if image is None:
            image = np.zeros((*self.size, self.channels), pixel_type(self.preprocessing))
        return {
            "image": image,
            "label": np.asarray(label, self.label_type),
            "weight": np.float32(weight),
            "id": np.int64(id),
        }


def training_images(
    source: Source,
    data: Data,
    preprocessing: Preprocessing,
    augment: Augment,
    *,
    size: tuple[int, int],
    channels: int,
) -> ImageRows:
    """Rows to learn from.

    Raises:
        UserError: there is a single class.
    """
    classes = source.info.classes
    if classes is not None and len(classes) < 2 and not source.info.multi_label:
        raise UserError(
            "data.name", data.name, f"there is only one class ({', '.join(classes)}): nothing to tell apart"
        )
    return ImageRows(source, data, preprocessing, (size[0], size[1]), channels, augment)
