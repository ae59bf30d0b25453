"""The 19 tasks of VTAB-1k (Zhai et al. 2020, https://arxiv.org/abs/1910.04867), as a table, and how they make a class
of a record.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vitzoo.data import splits
from vitzoo.data.images import decode
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Example, SourceInfo, kinds_of
from vitzoo.data.sources.tfds import TfdsRecords
from vitzoo.errors import UserError
from vitzoo.spelling import nearest

if TYPE_CHECKING:
    from tensorflow_datasets.core.features import FeatureConnector

Record = Mapping[str, Any]


class Label(Protocol):
    """What makes a class of a record."""

    def __call__(self, record: Record) -> int:
        """The class of a record."""
        ...

    def names(self, features: Mapping[str, "FeatureConnector"]) -> tuple[str, ...]:
        """The classes, where `features` are TFDS's."""
        ...


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature that holds a class; with `classes`, its values grouped into so many of equal width."""

    key: str = "label"
    values: int = 0
    classes: int = 0

    def __call__(self, record: Record) -> int:
        value = int(record[self.key])
        return value * self.classes // self.values if self.classes else value

    def names(self, features: Mapping[str, "FeatureConnector"]) -> tuple[str, ...]:
        if self.classes:
            return tuple(str(number) for number in range(self.classes))
        feature = features[self.key]
        return tuple(feature.names or map(str, range(feature.num_classes)))


@dataclasses.dataclass(frozen=True)
class Count:
    """How many objects there are, `least` of them at least."""

    sequence: str
    key: str
    least: int
    most: int

    def __call__(self, record: Record) -> int:
        return len(record[self.sequence][self.key]) - self.least

    def names(self, features: Mapping[str, "FeatureConnector"]) -> tuple[str, ...]:
        return tuple(str(number) for number in range(self.least, self.most + 1))


@dataclasses.dataclass(frozen=True)
class Nearest:
    """The distance of the nearest object, by the interval of `bounds` in which it lies: class c is above bound c and at
    most bound c + 1.

    Args:
        sequence: of the objects.
        key: their places [objects, 3], of which the last is the distance.
        bounds: of the intervals, rising.
        kinds: where not empty, only objects whose `type` is one of them count.
        without: the distance where there is none.
    """

    sequence: str
    key: str
    bounds: tuple[float, ...]
    kinds: tuple[int, ...] = ()
    without: float = np.inf

    def __call__(self, record: Record) -> int:
        objects = record[self.sequence]
        distance = np.asarray(objects[self.key], np.float64).reshape(-1, 3)[:, 2]
        if self.kinds:
            distance = distance[np.isin(np.asarray(objects["type"]), self.kinds)]
        return int(np.searchsorted(self.bounds, distance.min(initial=self.without), side="left")) - 1

    def names(self, features: Mapping[str, "FeatureConnector"]) -> tuple[str, ...]:
        return tuple(f"{low:g} to {high:g}" for low, high in zip(self.bounds, (*self.bounds[1:], np.inf), strict=True))


TRAIN, HELD = 800, 200
BY_LABEL = Feature()


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Args:
        group: natural, specialized or structured.
        dataset: TFDS's name.
        held: of which split, and from which example on, the 200 of `val200` are; `train800` are the first of `train`.
        test: TFDS's split.
        label: what makes a class of a record.
        scale: what pixels are multiplied by.
        by_hand: what TFDS can't fetch.
    """

    group: str
    dataset: str
    held: tuple[str, int]
    test: str
    label: Label = BY_LABEL
    scale: int = 1
    by_hand: str = ""


VALIDATION = ("validation", 0)
CLEVR, KITTI = (0.0, 8.0, 8.5, 9.0, 9.5, 10.0), (-100.0, 8.0, 20.0, 999.0)
RETINA = "Kaggle's files of diabetic-retinopathy-detection"
TASKS: dict[str, Task] = {
    "caltech101": Task("natural", "caltech101", ("train", 2754), "test"),
    "cifar100": Task("natural", "cifar100", ("train", 45_000), "test"),
    "dtd": Task("natural", "dtd", VALIDATION, "test"),
    "flowers": Task("natural", "oxford_flowers102", VALIDATION, "test"),
    "pets": Task("natural", "oxford_iiit_pet", ("train", 2944), "test"),
    "sun397": Task("natural", "sun397", VALIDATION, "test"),
    "svhn": Task("natural", "svhn_cropped", ("train", 65_931), "test"),
    "camelyon": Task("specialized", "patch_camelyon", VALIDATION, "test"),
    "eurosat": Task("specialized", "eurosat/rgb", ("train", 16_200), "train[21600:]"),
    "resisc45": Task("specialized", "resisc45", ("train", 18_900), "train[25200:]", by_hand="NWPU-RESISC45.rar"),
    "retinopathy": Task(
        "specialized", "diabetic_retinopathy_detection/btgraham-300", VALIDATION, "test", by_hand=RETINA
    ),
    "clevr-count": Task("structured", "clevr", ("train", 63_000), "validation", Count("objects", "size", 3, 10)),
    "clevr-distance": Task(
        "structured", "clevr", ("train", 63_000), "validation", Nearest("objects", "pixel_coords", CLEVR)
    ),
    "dmlab": Task("structured", "dmlab", VALIDATION, "test"),
    "dsprites-location": Task(
        "structured", "dsprites", ("train", 589_824), "train[663552:]", Feature("label_x_position", 32, 16), scale=255
    ),
    "dsprites-orientation": Task(
        "structured", "dsprites", ("train", 589_824), "train[663552:]", Feature("label_orientation", 40, 16), scale=255
    ),
    "kitti-distance": Task(
        "structured",
        "kitti",
        VALIDATION,
        "test",
        Nearest("objects", "location", KITTI, kinds=(0, 1, 2), without=1000.0),  # cars, vans and trucks
    ),
    "smallnorb-azimuth": Task("structured", "smallnorb", ("test", 0), "test[50%:]", Feature("label_azimuth")),
    "smallnorb-elevation": Task("structured", "smallnorb", ("test", 0), "test[50%:]", Feature("label_elevation")),
}


class Vtab:
    """`vtab/TASK`: the splits `train800`, `val200`, `train800val200` (both) and `test`, with the classes of the task.

    Raises:
        UserError: there is no such task, or its dataset isn't prepared.
    """

    def __init__(self, data: Data):
        self.name = data.name
        _, _, task = data.name.partition("/")
        if task not in TASKS:
            raise UserError("data.name", data.name, f"vtab/TASK names a task; {nearest(task, TASKS)}")
        self.task = TASKS[task]
        self.records = TfdsRecords(data, self.task.dataset)

    def counts(self) -> Mapping[str, int]:
        test = sum(piece.stop - piece.start for piece in splits.parse(self.task.test, self.records.counts()))
        return {"train800": TRAIN, "val200": HELD, "train800val200": TRAIN + HELD, "test": test}

    def open(self, split: str) -> "VtabSource":
        part, start = self.task.held
        train, held = f"train[:{TRAIN}]", f"{part}[{start}:{start + HELD}]"
        whole = {"train800": train, "val200": held, "train800val200": f"{train}+{held}", "test": self.task.test}
        pieces = splits.parse(split, self.counts())
        return VtabSource(self, split, [(whole[piece.name], piece.start, piece.stop) for piece in pieces])


class VtabSource:
    """Some examples of a task: of each (split of TFDS, start, stop), those from `start` up to `stop`."""

    fields: Mapping[str, str] = kinds_of(("image", "label"))

    def __init__(self, dataset: Vtab, split: str, pieces: list[tuple[str, int, int]]):
        self.task, self.split = dataset.task, split
        opened = {name: dataset.records.open(name) for name, _, _ in pieces}
        self.places = [(opened[name], index) for name, start, stop in pieces for index in range(start, stop)]
        ids = {name: dataset.records.ids(name) for name in opened}
        self.ids = np.concatenate([ids[name][start:stop] for name, start, stop in pieces])
        features = dataset.records.features
        self.info = SourceInfo(
            name=dataset.name,
            split=split,
            n=len(self.places),
            classes=self.task.label.names(features),
            channels=1 if features["image"].shape[-1] == 1 else 3,
            image_shape=_shape(features["image"].shape),
            multi_label=False,
            fingerprint=dataset.records.mark(dataset.name, split),
            labels_at_hand=False,
            labels=self.labels,
        )

    def labels(self) -> np.ndarray:
        """Every class, int32; reads all records."""
        return np.array([self.task.label(records[index]) for records, index in self.places], np.int32)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Example:
        records, place = self.places[int(index)]
        record = records[place]
        image: Any = record["image"]
        if self.task.scale != 1:
            image = _scaled(image, self.task.scale)
        return {"image": image, "label": np.int32(self.task.label(record))}

    def where(self, index: int) -> str:
        return f"{self.info.name} {self.split} example {index}"


def _scaled(image: Any, scale: int) -> np.ndarray:
    """A stored grey image with its pixels multiplied."""
    return (decode(image, 1).astype(np.int64) * scale).clip(0, 255).astype(np.uint8)


def _shape(shape: tuple[int | None, ...]) -> tuple[int, int] | None:
    height, width = shape[:2]
    return None if height is None or width is None else (height, width)
