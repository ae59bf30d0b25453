"""A dataset of any kind written once as a prepared TFDS dataset."""

import io
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from vitzoo.data.duplicates import content_key
from vitzoo.data.folders import path_of
from vitzoo.data.images import decode, to_pil
from vitzoo.data.open import refuse_without
from vitzoo.data.progress import progress
from vitzoo.data.sources.base import Dataset, Source, SourceInfo
from vitzoo.data.splits import ALL
from vitzoo.errors import UserError

FILE = "file"  # the feature that holds an image's file, relative to the folder or to the CSV file's folder


def builder_of(dataset: Dataset, origin: str, name: str) -> type:
    """A TFDS builder class that writes a dataset's images as they are, in their order, with its classes and splits.

    Args:
        dataset: what is copied.
        origin: its `data.name`.
        name: that of the copy.

    Raises:
        UserError: there are no images, or a split has a name that isn't read back.
    """
    sources = {split: dataset.open(split) for split, count in dataset.counts().items() if count}
    for split, source in sources.items():
        refuse_without(origin, source.fields, "image")
        if split == ALL or not re.fullmatch(r"[\w-]+", split):
            right = "prepared data name splits by letters, digits, _ and -, and `all` is all of them"
            raise UserError("data.name", origin, f"has a split named {split!a}; {right}")
    made = f"{name.title().replace('_', '')}Copy"
    namespace = {"name": name, "origin": origin, "sources": sources, "__module__": __name__}
    return type(made, (CopyBuilder,), namespace, skip_registration=True)  # type: ignore[call-overload]


class CopyBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Base of the classes that `builder_of` makes."""

    VERSION = tfds.core.Version("1.0.0")
    origin: str
    sources: dict[str, Source]

    def __init__(self, **settings: Any):
        self.contents: dict[str, list[int]] = {}  # of each split the keys of what is written
        super().__init__(**settings)

    def _info(self) -> tfds.core.DatasetInfo:
        source = next(iter(self.sources.values()))
        info = source.info
        features = {"image": tfds.features.Image(shape=(*(info.image_shape or (None, None)), info.channels))}
        if "text" in source.fields:
            features["text"] = tfds.features.Text()
        if "label" in source.fields:
            features["label"] = _label_feature(source)
        if info.files is not None:
            features[FILE] = tfds.features.Text()
        count = sum(len(source) for source in self.sources.values())
        return tfds.core.DatasetInfo(
            builder=self,
            description=f"{self.origin}, {count:,} images",
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("image", "label") if "label" in features else None,
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
        return {split: self._generate_examples(source) for split, source in self.sources.items()}

    def _generate_examples(self, source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
        for index in progress(range(len(source)), len(source), f"writing {self.name} {source.info.split}"):
            example = source[index]
            image = _encoded(example["image"], source.info.channels)
            self.contents.setdefault(source.info.split, []).append(content_key(image))
            written: dict[str, Any] = {"image": image}
            if "text" in example:
                written["text"] = example["text"]
            if "label" in source.fields:
                written["label"] = _label(example["label"], source.info)
            if source.info.files is not None:
                written[FILE] = _relative(source.info.files[index], self.origin)
            yield index, written


def _label_feature(source: Source) -> Any:
    """A feature for classes, one or several, or for numbers."""
    if source.info.classes is None:
        return tfds.features.Scalar(np.float32)
    classes = tfds.features.ClassLabel(names=list(source.info.classes))
    return tfds.features.Sequence(classes) if source.info.multi_label else classes


def _label(label: Any, info: SourceInfo) -> Any:
    """A label as its feature takes it."""
    if info.classes is None:
        return float(label)
    return np.flatnonzero(label).tolist() if info.multi_label else int(label)


def _encoded(image: Any, channels: int) -> bytes:
    """A file's bytes as they are, pixels as PNG."""
    if isinstance(image, bytes):
        return image
    content = io.BytesIO()
    to_pil(decode(image, channels)).save(content, "PNG")
    return content.getvalue()


def _relative(file: str, origin: str) -> str:
    """A file's path from the folder, or from the CSV file's folder; bytes that are no UTF-8 become question marks."""
    root = path_of(origin)
    if root is not None and os.path.isabs(file):
        file = os.path.relpath(file, root if root.is_dir() else root.parent)
    return file.replace(os.sep, "/").encode("utf-8", "replace").decode()
