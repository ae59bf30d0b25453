"""Datasets in TFDS's layout, prepared as ArrayRecord and read without TensorFlow; nothing here touches the network."""

import functools
import logging
import pathlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from vitzoo import spelling
from vitzoo.data import splits
from vitzoo.data.duplicates import content_key
from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Example, Labels, SourceInfo, fingerprint, kinds_of, no_labels
from vitzoo.data.sources.fields import SETTINGS, USUAL, recognise
from vitzoo.data.sources.labels import is_unlabelled
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
from vitzoo.data.sources.values import Stored, answers, plain, read_field
from vitzoo.errors import UserError
from vitzoo.schema import patch

log = logging.getLogger(__name__)
FILE_KEYS = ("file", "file_name", "filename")  # features that hold the name of an image's file


class TfdsDataset:
    """A dataset that TFDS's catalogue, a prepared folder or a builder class of ours or the user's describes: of images
    where it has such a feature and no setting names fields of text; else of text and classes.

    A translation's languages are its fields: name them by `data.source_field` and `data.target_field`.

    Raises:
        UserError: it isn't prepared in any of the data folders, or not as ArrayRecord, or its fields aren't known.
    """

    def __init__(self, data: Data, builder_class: type[tfds.core.DatasetBuilder] | None = None):
        self.data = data
        own = builder_class if ":" in data.name else None
        match = NAME.fullmatch(data.name if own is None else own.name)
        if not match:
            raise no_name(data)
        self.builder = _builder(data, builder_class, match["name"], match["config"], match["version"])
        self.features = dict(self.builder.info.features.items())
        stated = data.template or any(
            getattr(data, one) for one in SETTINGS if one not in ("label_field", "text_field")
        )
        images = any(map(_is_image, self.features.values())) and not stated
        self.own = self._of_images() if data.image_field or images else self._of_texts()

    def _of_images(self) -> dict[str, str]:
        """What the dataset calls the fields of images with classes, with texts, or with both."""
        data, features = self.data, self.features
        own = {"image": _feature_key(data, "image_field", features, _is_image)}
        text = data.text_field or next((name for name in USUAL["text"][1] if _is_text(features.get(name))), "")
        if text:
            own["text"] = _feature_key(data, "text_field", features, _is_text) if data.text_field else text
        if data.label_field or not text or any(map(_is_label, features.values())):
            wanted = _is_number if data.regression else _is_label
            own["label"] = _feature_key(data, "label_field", features, wanted)
        return own

    def _of_texts(self) -> dict[str, str]:
        self.features = {name: feature for name, feature in self.features.items() if _is_known(feature)}
        return recognise({name: _like(feature) for name, feature in self.features.items()}, self.data)

    def open(self, split: str) -> "TfdsSource":
        counts = self.counts()
        pieces = splits.parse(split, counts) if counts else []  # mocked data states no splits
        records = open_records(self.data, self.builder, split)
        return TfdsSource(self, split, records, positions(counts, pieces, len(records)))

    def counts(self) -> Mapping[str, int]:
        return example_counts(self.builder)


class TfdsSource:
    """One split of a prepared dataset. Images stay encoded until the pipeline decodes them."""

    def __init__(self, dataset: TfdsDataset, split: str, records: Sequence[Mapping[str, Stored]], ids: np.ndarray):
        self.records, self.ids, self.own = records, ids, dataset.own
        info, features = dataset.builder.info, dataset.features
        label: Any = features.get(self.own.get("label", ""))
        self.multi_label = isinstance(label, tfds.features.Sequence)
        of_one = label.feature if self.multi_label else label
        classes: tuple[str, ...] | None = None
        if isinstance(of_one, tfds.features.ClassLabel):
            classes = tuple(of_one.names or map(str, range(of_one.num_classes or 0)))
        self.classes = len(classes or ())
        self.fields = kinds_of(self.own, "labels" if self.multi_label else "label" if classes else "number")
        channels, shape, self.files = 0, None, None
        if "image" in self.own:
            height, width, channels = features[self.own["image"]].shape
            channels, shape = 1 if channels == 1 else 3, None if height is None or width is None else (height, width)
            file = next((key for key in FILE_KEYS if _is_text(features.get(key))), None)
            self.files = None if file is None else FileNames(records, file)
        self.kept = read_contents(pathlib.Path(dataset.builder.data_dir), dataset.counts())
        self.info = SourceInfo(
            name=info.full_name,
            split=split,
            n=len(records),
            classes=classes,
            channels=channels,
            image_shape=shape,
            multi_label=self.multi_label,
            fingerprint=fingerprint(info.full_name, split, len(records), self.own, classes, shards_of(dataset.builder)),
            files=self.files,
            labels_at_hand=len(records) <= SMALL,
            unlabelled=classes is not None and self._unlabelled(dataset.data.name, split, classes),
            labels=self.labels if "label" in self.own else no_labels,
        )

    def _unlabelled(self, name: str, split: str, classes: Sequence[str]) -> bool:
        def where(row: int) -> str:
            return f"{split} example {row}"

        rows = looked_at(len(self.records))
        found = [np.asarray(self.records[index][self.own["label"]], int) for index in rows.tolist()]
        if not self.multi_label:
            return is_unlabelled(name, classes, np.array(found, int), where, rows.tolist())
        for row, several in zip(rows.tolist(), found, strict=True):
            if (outside := several[(several < 0) | (several >= len(classes))]).size:
                message = f"{where(row)} has the label {outside[0]}; there are {len(classes)} classes, 0 and up"
                raise UserError("data.name", name, message)
        return False

    @functools.cached_property
    def contents(self) -> np.ndarray | None:
        """A number for each example, the same for equal images; None of texts, or where all had to be read."""
        if self.kept is not None:
            return self.kept[self.ids]
        if len(self) > SMALL or "image" not in self.own:
            return None
        images = [self.records[index][self.own["image"]] for index in range(len(self))]
        return np.array(
            [content_key(one if isinstance(one, bytes) else np.asarray(one).tobytes()) for one in images], np.uint64
        )

    def labels(self) -> Labels:
        """Every label. Reads all records, though no image is decoded."""
        labels = [self._label(self.records[index]) for index in range(len(self))]
        return np.array(labels, np.int32 if self.fields["label"] == "label" else np.float32)

    def _label(self, record: Mapping[str, Any]) -> Any:
        label = record[self.own["label"]]
        if not self.multi_label:
            return np.int32(label) if self.classes else float(label)
        row = np.zeros(self.classes, np.float32)
        row[np.asarray(label, int)] = 1
        return row

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Example:
        record = self.records[int(index)]
        example = {field: self._value(field, record) for field in self.own}
        return example | {"answers": answers(example["answers"])} if "answers" in example else example

    def _value(self, field: str, record: Mapping[str, Any]) -> Any:
        if field == "image":
            return record[self.own[field]]
        if field == "label" and "image" in self.own:
            return self._label(record)
        return read_field(record, self.own[field])

    def where(self, index: int) -> str:
        file = "" if self.files is None else f", {self.files[index]}"
        return f"{self.info.name} {self.info.split} example {index}{file}"


class FileNames(Sequence):
    """The file of each example, read when it is asked for."""

    def __init__(self, records: Sequence[Mapping[str, Stored]], key: str):
        self.records, self.key = records, key

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):  # which ends an iteration
            raise IndexError(index)
        return str(plain(self.records[int(index)][self.key]))


class TfdsRecords:
    """All splits of a dataset of TFDS's catalogue, prepared as ArrayRecord; images are left encoded.

    Args:
        data: where it is looked for; what is asked of it is named in refusals.
        name: TFDS's, NAME or NAME/CONFIG.

    Raises:
        UserError: it isn't prepared in any of the data folders, or not as ArrayRecord.
    """

    def __init__(self, data: Data, name: str):
        self.data = patch(data, {"name": name})
        match = NAME.fullmatch(name)
        if not match:
            raise UserError("data.name", name, "is no name of TFDS")
        found = prepared_builder(self.data, match["name"], match["config"], match["version"])
        self.builder = found or catalogue_builder(self.data)
        if not self.counts():  # of the catalogue, and on no disk
            raise missing(self.data, known=True)

    @property
    def features(self) -> Mapping[str, tfds.features.FeatureConnector]:
        """TFDS's features by name."""
        return self.builder.info.features

    def counts(self) -> Mapping[str, int]:
        """The examples of each split."""
        return example_counts(self.builder)

    def open(self, split: str) -> Sequence[Mapping[str, Stored]]:
        """The records of a split, by position: dicts of NumPy values."""
        return open_records(self.data, self.builder, split)

    def ids(self, split: str) -> np.ndarray:
        """Positions int64 [examples] in all splits laid end to end, so that no two examples of a dataset share one."""
        counts = self.counts()
        pieces = splits.parse(split, counts)
        return positions(counts, pieces, sum(piece.stop - piece.start for piece in pieces))

    def mark(self, *told: Hashable) -> str:
        """A fingerprint of the prepared files and of what is told besides."""
        return fingerprint(self.builder.info.full_name, shards_of(self.builder), *told)


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


def _is_text(feature: Any) -> bool:
    return isinstance(feature, tfds.features.Text)


def _is_number(feature: Any) -> bool:
    one = isinstance(feature, tfds.features.Scalar | tfds.features.Tensor) and feature.shape == ()
    return one and not isinstance(feature, tfds.features.ClassLabel) and np.issubdtype(feature.np_dtype, np.number)


def _is_known(feature: Any) -> bool:
    if _holds_texts(feature):
        return True
    if isinstance(feature, tfds.features.Text | tfds.features.ClassLabel):
        return True
    return isinstance(feature, tfds.features.Scalar | tfds.features.Tensor) and feature.shape == ()


def _holds_texts(feature: Any) -> bool:
    """Whether a feature is a list of texts, or SQuAD's, whose `text` is one."""
    if not isinstance(feature, tfds.features.Sequence):
        return False
    inner = feature.feature
    if isinstance(inner, tfds.features.FeaturesDict):
        inner = dict(inner.items()).get("text")
    return isinstance(inner, tfds.features.Text)


def _like(feature: Any) -> Any:
    """A value as a feature's are: texts, text or a number."""
    if _holds_texts(feature):
        return [""]
    return "" if feature.np_dtype in (str, bytes, object) else 0
