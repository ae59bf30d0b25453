"""The shortest way to data of one's own: arrays in memory."""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from vitzoo.data.sources.base import Labels, Table
from vitzoo.data.sources.label_check import UNLABELLED
from vitzoo.errors import Refused

Images = np.ndarray | Sequence[np.ndarray]


def from_arrays(
    splits: Mapping[str, tuple[Images, Sequence | np.ndarray]],
    classes: Sequence[str] | None = None,
    name: str = "arrays",
) -> Table:
    """A dataset of images in memory, for a function that `data.name=my_file:my_data` names.

        def my_data(data):
            return from_arrays({"train": (images, labels), "test": (other_images, other_labels)}, ["cat", "dog"])

    Args:
        splits: by name (`train`, `validation`, `test` ...), the images and labels. Images are uint8, `[N, H, W]` or
            `[N, H, W, C]` with 1 or 3 channels, or a list of such arrays of any sizes. Labels are class numbers `[N]`,
            or 0 and 1 `[N, classes]` where an image may have several; -1 throughout a split without labels.
        classes: their names, by number; the numbers by default.
        name: what the dataset is called in what is printed.

    Raises:
        Refused: images or labels of another form, or not as many of one as of the other.
    """
    images: list[np.ndarray] = []
    rows: dict[str, np.ndarray] = {}
    for split, (pictures, labels) in splits.items():
        if len(pictures) != len(labels):
            raise Refused("data.name", name, f"{split} has {len(pictures)} images and {len(labels)} labels")
        rows[split] = np.arange(len(images), len(images) + len(pictures))
        images.extend(_image(np.asarray(picture), name) for picture in pictures)
    if not images:
        raise Refused("data.name", name, "holds no image")
    labels = _labels(np.concatenate([np.asarray(labels) for _, labels in splits.values()]), classes, name)
    count = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    shapes = {image.shape[:2] for image in images}
    return Table(
        name=name,
        classes=tuple(str(number) for number in range(count)) if classes is None else tuple(classes),
        labels=labels,
        checksums=np.array([zlib.crc32(np.ascontiguousarray(image).data) for image in images], np.uint32),
        splits=rows,
        channels=max(image.shape[2] for image in images),
        image_shape=shapes.pop() if len(shapes) == 1 else None,
        read=images.__getitem__,
    )


def _image(image: np.ndarray, name: str) -> np.ndarray:
    if image.dtype != np.uint8:
        raise Refused("data.name", name, f"holds an image of {image.dtype}; wanted is uint8, from 0 to 255")
    image = image[:, :, None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        message = f"holds an image of shape {image.shape}; wanted is [height, width] or [height, width, 1 or 3]"
        raise Refused("data.name", name, message)
    return image


def _labels(labels: np.ndarray, classes: Sequence[str] | None, name: str) -> Labels:
    several = labels.ndim == 2
    whole = np.issubdtype(labels.dtype, np.integer) or labels.dtype == bool
    fits = bool(np.isin(labels, (0, 1)).all()) if several else labels.ndim == 1 and whole and labels.min() >= UNLABELLED
    if not fits:
        raise Refused("data.name", name, "labels must be class numbers from 0 on [N], or 0 and 1 [N, classes]")
    if not several and classes is not None and labels.max() >= len(classes):
        row = int(np.argmax(labels >= len(classes)))
        message = f"row {row} has the label {labels[row]}; there are {len(classes)} classes, 0 to {len(classes) - 1}"
        raise Refused("data.name", name, message)
    count = labels.shape[1] if several else int(labels.max()) + 1
    if classes is not None and several and count != len(classes):
        raise Refused("data.name", name, f"has labels of {count} classes, and {len(classes)} names of classes")
    return labels.astype(np.float32 if several else np.int32)
