"""The shortest way to data of one's own: arrays in memory."""

import functools
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from vitzoo.data.duplicates import content_key
from vitzoo.data.sources.base import Example, Labels, Table, kinds_of
from vitzoo.data.sources.labels import class_names, is_unlabelled
from vitzoo.errors import UserError

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
        UserError: images or labels of another form, or not as many of one as of the other.
    """
    images: list[np.ndarray] = []
    rows: dict[str, np.ndarray] = {}
    for split, (pictures, labels) in splits.items():
        if len(pictures) != len(labels):
            raise UserError("data.name", name, f"{split} has {len(pictures)} images and {len(labels)} labels")
        rows[split] = np.arange(len(images), len(images) + len(pictures))
        images.extend(_image(np.asarray(picture), name) for picture in pictures)
    if not images:
        raise UserError("data.name", name, "holds no image")
    names = None if classes is None else class_names(name, classes)
    labels = _labels([np.asarray(labels) for _, labels in splits.values()], name)
    count = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    names = tuple(str(number) for number in range(count)) if names is None else names
    for found in rows.values():
        if len(found):
            is_unlabelled(name, names, labels[found], lambda row: f"{name} example {row}", found.tolist())
    return image_table(name, names, images, labels.astype(np.float32 if labels.ndim == 2 else np.int32), rows)


def image_table(
    name: str, classes: Sequence[str], images: Images, labels: Labels, splits: Mapping[str, np.ndarray]
) -> Table:
    """A table over images uint8 [H, W, C] and labels int32 [N] or float32 [N, classes], and the rows of each split."""
    shapes = {image.shape[:2] for image in images}
    return Table(
        name=name,
        fields=kinds_of(("image", "label"), "labels" if labels.ndim == 2 else "label"),
        classes=tuple(classes),
        labels=labels,
        checksums=np.array([zlib.crc32(np.ascontiguousarray(image).data) for image in images], np.uint32),
        splits=splits,
        channels=max(image.shape[2] for image in images),
        image_shape=shapes.pop() if len(shapes) == 1 else None,
        read=functools.partial(_example, images),
        contents=np.array([content_key(image.tobytes()) for image in images], np.uint64),
    )


def _example(images: Images, index: int) -> Example:
    return {"image": images[index]}


def _image(image: np.ndarray, name: str) -> np.ndarray:
    if image.dtype != np.uint8:
        raise UserError("data.name", name, f"holds an image of {image.dtype}; wanted is uint8, from 0 to 255")
    image = image[:, :, None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        message = f"holds an image of shape {image.shape}; wanted is [height, width] or [height, width, 1 or 3]"
        raise UserError("data.name", name, message)
    return image


def _labels(parts: Sequence[np.ndarray], name: str) -> Labels:
    """The labels of all splits, one after another; what they hold is checked where a split is known."""
    parts = [part for part in parts if len(part)]
    shapes = sorted({part.shape[1:] for part in parts})
    whole = all(np.issubdtype(part.dtype, np.integer) or part.dtype == bool for part in parts)
    numbers = whole or all(np.issubdtype(part.dtype, np.number) or part.dtype == bool for part in parts)
    if len(shapes) > 1 or len(shapes[0]) > 1 or not (numbers if shapes[0] else whole):
        found = ", ".join(sorted({f"{part.dtype} {part.shape}" for part in parts}))
        wanted = "class numbers from 0 on [N], or 0 and 1 [N, classes], the same in every split"
        raise UserError("data.name", name, f"labels must be {wanted}; these are {found}")
    return np.concatenate(parts)
