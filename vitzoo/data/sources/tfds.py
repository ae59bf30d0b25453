"""Datasets in TFDS's layout, prepared as ArrayRecord and read without TensorFlow; nothing here touches the network."""

import functools
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from vitzoo import spelling
from vitzoo.data import splits
from vitzoo.data.duplicates import content_key
from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Dataset, Example, Labels, SourceInfo, fingerprint, kinds_of
from vitzoo.data.sources.label_check import is_unlabelled
from vitzoo.data.sources.prepared_files import builder_of_folder, read_contents
from vitzoo.data.sources.tfds_folders import (
    NAME,
    SMALL,
    catalogue_builder,
    class_config,
    example_counts,
    looked_at,
    missing,
    no_name,
    open_records,
    positions,
    prepared_builder,
    shards_of,
)
from vitzoo.data.sources.tfds_prepare import prepare_class
from vitzoo.data.text.sources.fields import SETTINGS
from vitzoo.errors import UserError

log = logging.getLogger(__name__)
FILE_KEYS = ("file", "file_name", "filename")  # features that hold the name of an image's file


def open_tfds(data: Data, builder_class: Any = None) -> Dataset:
    """A dataset that TFDS's catalogue, a prepared folder or a builder class of ours or the user's describes: of images
    where it has such a feature, and no settings name fields of text; else of text.

    Raises:
        UserError: it isn't prepared in any of the data folders, or not as ArrayRecord, or its fields aren't known.
    """
    own = builder_class is not None and ":" in data.name
    match = NAME.fullmatch(builder_class.name if own else data.name)
    if not match:
        raise no_name(data)
    builder = _builder(data, builder_class, match["name"], match["config"], match["version"])
    of_text = data.template or any(getattr(data, setting) for setting in SETTINGS if setting != "label_field")
    if data.image_field or (not of_text and any(map(_is_image, builder.info.features.values()))):
        return TfdsDataset(data, builder)
    from vitzoo.data.text.sources.tfds import TfdsTexts

    return TfdsTexts(data, builder)


class TfdsDataset:
    """All splits of a dataset of images."""

    def __init__(self, data: Data, builder: Any):
        self.data, self.builder = data, builder
        features = self.builder.info.features
        self.image_key = _feature_key(data, "image_field", features, _is_image)
        self.label_key = _feature_key(data, "label_field", features, _is_label)
        text = [key for key, feature in features.items() if isinstance(feature, tfds.features.Text)]
        self.file_key = next((key for key in FILE_KEYS if key in text), None)

    def open(self, split: str) -> "TfdsSource":
        counts = self.counts()
        pieces = splits.parse(split, counts) if counts else []  # mocked data states no splits
        records = open_records(self.data, self.builder, split)
        return TfdsSource(self, split, records, positions(counts, pieces, len(records)))

    def counts(self) -> Mapping[str, int]:
        return example_counts(self.builder)


class TfdsSource:
    """One split of a prepared dataset. Images stay encoded until the pipeline decodes them."""

    fields: Mapping[str, str] = kinds_of(("image", "label"))

    def __init__(self, dataset: TfdsDataset, split: str, records: Sequence[Any], ids: np.ndarray):
        self.records, self.ids = records, ids
        self.image_key, self.label_key = dataset.image_key, dataset.label_key
        self.kept = read_contents(pathlib.Path(dataset.builder.data_dir), dataset.counts())
        self.files = None if dataset.file_key is None else FileNames(records, dataset.file_key)
        info = dataset.builder.info
        image, label = info.features[self.image_key], info.features[self.label_key]
        self.multi_label = not isinstance(label, tfds.features.ClassLabel)
        classes = label.feature if self.multi_label else label
        self.classes = len(classes.names) if classes.names else classes.num_classes
        height, width, channels = image.shape
        names_of_classes = tuple(classes.names or map(str, range(self.classes)))
        self.info = SourceInfo(
            name=info.full_name,
            split=split,
            n=len(records),
            classes=names_of_classes,
            channels=1 if channels == 1 else 3,
            image_shape=None if height is None or width is None else (height, width),
            multi_label=self.multi_label,
            fingerprint=fingerprint(
                info.full_name, split, len(records), tuple(classes.names or ()), shards_of(dataset.builder)
            ),
            files=self.files,
            labels_at_hand=len(records) <= SMALL,
            unlabelled=self._unlabelled(dataset.data.name, split, names_of_classes),
            labels=self.labels,
        )

    def _unlabelled(self, name: str, split: str, classes: Sequence[str]) -> bool:
        def where(row: int) -> str:
            return f"{split} example {row}"

        rows = looked_at(len(self.records))
        found = [np.asarray(self.records[index][self.label_key], int) for index in rows.tolist()]
        if not self.multi_label:
            return is_unlabelled(name, classes, np.array(found, int), where, rows.tolist())
        for row, several in zip(rows.tolist(), found, strict=True):
            if (outside := several[(several < 0) | (several >= len(classes))]).size:
                message = f"{where(row)} has the label {outside[0]}; there are {len(classes)} classes, 0 and up"
                raise UserError("data.name", name, message)
        return False

    @functools.cached_property
    def contents(self) -> np.ndarray | None:
        """A number for each example, the same for equal ones; None where it isn't known and all had to be read."""
        if self.kept is not None:
            return self.kept[self.ids]
        if len(self) > SMALL:
            return None
        images = [self.records[index][self.image_key] for index in range(len(self))]
        return np.array(
            [content_key(one if isinstance(one, bytes) else np.asarray(one).tobytes()) for one in images], np.uint64
        )

    def labels(self) -> Labels:
        """Every label. Reads all records, though no image is decoded."""
        return np.stack([self._label(self.records[index]) for index in range(len(self))])

    def _label(self, record: dict) -> Any:
        label = record[self.label_key]
        if not self.multi_label:
            return np.int32(label)
        row = np.zeros(self.classes, np.float32)
        row[np.asarray(label, int)] = 1
        return row

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Example:
        record = self.records[int(index)]
        return {"image": record[self.image_key], "label": self._label(record)}

    def where(self, index: int) -> str:
        file = "" if self.files is None else f", {self.files[index]}"
        return f"{self.info.name} {self.info.split} example {index}{file}"


class FileNames(Sequence):
    """The file of each example, read when it is asked for."""

    def __init__(self, records: Sequence[Any], key: str):
        self.records, self.key = records, key

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):  # which ends an iteration
            raise IndexError(index)
        return self.records[int(index)][self.key].decode("utf-8", "replace")


def _builder(data: Data, builder_class: Any, name: str, config: str | None, version: str | None) -> Any:
    """Of a prepared folder; else of our own class, prepared now; else TFDS's, which reads only mocked data."""
    folders = data_folders(data)
    known = class_config(builder_class, config)
    if found := prepared_builder(data, name, known, version):
        return found
    if builder_class is not None:
        if not getattr(builder_class, "PREPARED_ON_FIRST_USE", False):
            raise missing(data, known=True)
        log.info("preparing %s in %s", data.name, folders[0])
        return builder_of_folder(data.name, prepare_class(data, builder_class, folders))
    return catalogue_builder(data)


def _is_image(feature: Any) -> bool:
    return isinstance(feature, tfds.features.Image)


def _is_label(feature: Any) -> bool:
    if isinstance(feature, tfds.features.Sequence):
        return isinstance(feature.feature, tfds.features.ClassLabel)
    return isinstance(feature, tfds.features.ClassLabel)


def _feature_key(data: Data, setting: str, features: Any, wanted: Any) -> str:
    """The feature to read: the one the setting names, else the dataset's only one of that kind."""
    fitting = [key for key, feature in features.items() if wanted(feature)]
    asked = getattr(data, setting)
    if asked:
        if (found := spelling.find(asked, fitting)) is None:
            raise UserError(
                f"data.{setting}", asked, f"no such feature in {data.name}; there are: {', '.join(fitting) or 'none'}"
            )
        return found
    usual = setting.removesuffix("_field")
    if usual in fitting:
        return usual
    if len(fitting) != 1:
        raise UserError(
            f"data.{setting}",
            None,
            f"name the feature of {data.name} to read; there are: {', '.join(fitting) or 'none'}",
        )
    return fitting[0]
