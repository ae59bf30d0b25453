"""One example read, decoded and brought to the model's size."""

import dataclasses
from typing import Any

import numpy as np

from vitzoo.data.augment import augment_image
from vitzoo.data.images import BadImage, decode, resize_eval
from vitzoo.data.settings import Augment, Preprocessing
from vitzoo.data.sources.base import Source
from vitzoo.errors import Failed

Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class RowReader:
    """Reads examples of a source as rows of a batch: image uint8 [height, width, channels], label, weight, id.

    An example that can't be read raises `BadImage` under `bad_files="stop"`; under `skip` it becomes a black image of
    weight 0, which no loss or metric counts.
    """

    source: Source
    preprocessing: Preprocessing
    size: tuple[int, int]
    channels: int
    bad_files: str

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (len(self.source.info.classes or ()),) if self.source.info.multi_label else ()

    @property
    def label_type(self) -> type:
        return np.float32 if self.source.info.multi_label else np.int32

    def read(self, index: int) -> Row:
        """Example `index` as in evaluation."""
        return self._row(index, lambda image: resize_eval(image, self.size, self.preprocessing))

    def read_augmented(self, index: int, augment: Augment, seed: int, position: int) -> Row:
        """Example `index` as the stream's `position`-th training image."""
        return self._row(
            index, lambda image: augment_image(image, self.size, augment, self.preprocessing, seed, position)
        )

    def padding(self) -> Row:
        """A row that fills up a batch: weight 0, id -1."""
        return self._as_row(None, np.zeros(self.label_shape, self.label_type), 0.0, -1)

    def _row(self, index: int, finish: Any) -> Row:
        try:
            example = self.source[index]
            image = finish(decode(example["image"], self.channels))
        except (BadImage, OSError) as error:
            if self.bad_files == "stop":
                raise BadImage(getattr(error, "reason", str(error)), self.source.where(index)) from error
            return self._as_row(None, np.zeros(self.label_shape, self.label_type), 0.0, int(self.source.ids[index]))
        self._check_label(example["label"], index)
        return self._as_row(image, example["label"], 1.0, example["id"])

    def _check_label(self, label: Any, index: int) -> None:
        classes = self.source.info.classes
        if self.source.info.multi_label or classes is None or 0 <= label < len(classes):
            return
        raise Failed(f"{self.source.where(index)}: label {label} lies outside the {len(classes)} classes")

    def _as_row(self, image: np.ndarray | None, label: Any, weight: float, id: int) -> Row:
        if image is None:
            image = np.zeros((*self.size, self.channels), np.uint8)
        return {
            "image": image,
            "label": np.asarray(label, self.label_type),
            "weight": np.float32(weight),
            "id": np.int64(id),
        }
