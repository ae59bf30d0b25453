"""What is known of a training's data without reading them: how many examples, which images, how many classes."""

import dataclasses
from typing import Any

import numpy as np

from vitzoo.config.experiment import feed_kind
from vitzoo.data import splits
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import SourceInfo
from vitzoo.errors import UserError
from vitzoo.paths import expanded


@dataclasses.dataclass(frozen=True)
class Known:
    """A published set of images: examples of each split, classes, size (None: various), channels."""

    splits: dict[str, int]
    classes: int
    image_shape: tuple[int, int] | None = None
    channels: int = 3


PUBLISHED: dict[str, Known] = {
    "imagenet2012": Known({"train": 1_281_167, "validation": 50_000, "test": 100_000}, 1000),
    "imagenet21k": Known({"train": 14_197_122}, 21_841),
    "cifar10": Known({"train": 50_000, "test": 10_000}, 10, (32, 32)),
    "cifar100": Known({"train": 50_000, "test": 10_000}, 100, (32, 32)),
    "mnist": Known({"train": 60_000, "test": 10_000}, 10, (28, 28), 1),
    "fashion_mnist": Known({"train": 60_000, "test": 10_000}, 10, (28, 28), 1),
    "oxford_iiit_pet": Known({"train": 3680, "test": 3669}, 37),
    "oxford_flowers102": Known({"train": 1020, "test": 6149, "validation": 1020}, 102),
    "food101": Known({"train": 75_750, "validation": 25_250}, 101),
    "digits": Known({"train": 1437, "test": 360}, 10, (8, 8), 1),
    "mnist_5k": Known({"train": 4000, "test": 1000}, 10, (28, 28), 1),
}
"""As TFDS's catalogue states them; the last two are ours."""

ASSUMED_CLASSES = 1000
UNKNOWN = 1_000_000  # in place of a count that no one stated: shapes don't depend on it


def images(data: Data, stated: int | None, classes: int | None) -> tuple[SourceInfo, int | None, tuple[str, ...]]:
    """The training split's description, its number of examples (None: not known), and what was assumed.

    Args:
        data: the config's section.
        stated: the number of examples, where the user says it; wins.
        classes: the config's own number of classes.

    Raises:
        UserError: the split isn't one of a known set's.
    """
    name = data.name.partition(":")[0].partition("/")[0]
    if name in PUBLISHED and ":" not in data.name:
        known = PUBLISHED[name]
        count = sum(piece.stop - piece.start for piece in splits.parse(data.split, known.splits))
        return _info(data, stated or count, known.classes, known.image_shape, known.channels), stated or count, ()
    if _is_there(data):
        info = open_source(data).info
        return dataclasses.replace(info, n=stated or info.n), stated or info.n, ()
    notes = [] if classes else [f"{ASSUMED_CLASSES} classes assumed (--config.model.num_classes states them)"]
    return _info(data, stated, classes or ASSUMED_CLASSES, None, 3), stated, tuple(notes)


def texts(experiment: Any, stated: int | None) -> SourceInfo:
    """A description of rows of text: what an objective is bound to. Text isn't read, so only `stated` counts."""
    two_parts = experiment.text.next_sentence and experiment.objective.rows == "masked"
    classes = ("follows", "random") if two_parts else None
    return dataclasses.replace(_info(experiment.data, stated, 0, None, 0), classes=classes)


def is_text(experiment: Any) -> bool:
    """Whether the model is given text."""
    return feed_kind(experiment.objective) == "text"


def _is_there(data: Data) -> bool:
    """Whether opening the data costs no preparation: files of the user's, or a set that was prepared."""
    kind, _, path = data.name.partition(":")
    if kind in ("folder", "csv"):
        return expanded(path).exists()
    try:
        open_source(data)
    except UserError:
        return False
    return True


def _info(data: Data, count: int | None, classes: int, shape: tuple[int, int] | None, channels: int) -> SourceInfo:
    return SourceInfo(
        name=data.name,
        split=data.split,
        n=count or UNKNOWN,
        classes=tuple(f"class {number}" for number in range(classes)) or None,
        channels=channels,
        image_shape=shape,
        multi_label=False,
        fingerprint="",
        labels=lambda: np.arange(classes, dtype=np.int32),  # as if all classes had as many examples
    )
