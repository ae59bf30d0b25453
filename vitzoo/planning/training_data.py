"""What a training reads, told without reading it: how many examples and steps, which images, what a row has besides."""

import dataclasses
from fractions import Fraction
from typing import overload

import jax
import numpy as np

from vitzoo.config.experiment import Experiment
from vitzoo.data import splits
from vitzoo.data.folders import PATH_KINDS
from vitzoo.data.open import open_source
from vitzoo.data.processors.base import Shapes
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


def examples(data: Data, stated: int | None, classes: int | None) -> tuple[SourceInfo, int | None, tuple[str, ...]]:
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


def rows(data: Data, stated: int | None, classes: tuple[str, ...] | None) -> SourceInfo:
    """A description of rows that are made of text: what an objective is bound to. Text isn't read, so only `stated`
    counts.
    """
    return dataclasses.replace(_info(data, stated, 0, None, 0), classes=classes)


def _is_there(data: Data) -> bool:
    """Whether opening the data costs no preparation: files of the user's, or a set that was prepared."""
    kind, _, path = data.name.partition(":")
    if kind in PATH_KINDS:
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


MOST = 2**31 - 1  # steps, which devices count in int32


@overload
def total_steps(experiment: Experiment, examples: int) -> int: ...


@overload
def total_steps(experiment: Experiment, examples: int | None) -> int | None: ...


def total_steps(experiment: Experiment, examples: int | None) -> int | None:
    """The length of a training in steps: every example of the last epoch is seen, so a part of a step counts as one.

    Args:
        examples: rows of an epoch; None where they aren't known, and then the length is only known of a config that
            doesn't count epochs.

    Raises:
        UserError: so many epochs are more steps than can be counted.
    """
    if experiment.total_steps is not None:
        return experiment.total_steps
    if experiment.total_examples is not None:
        seen: Fraction | int = experiment.total_examples
    elif examples is None:
        return None
    else:
        assert experiment.total_epochs is not None  # one of the three is set
        seen = exact(experiment.total_epochs) * examples
    steps = max(1, experiment.min_steps, -(-seen // experiment.data.batch_size))
    if steps > MOST:
        message = f"of {examples:,} examples come to {float(steps):.3g} steps; there can be {MOST:,}"
        raise UserError("total_epochs", experiment.total_epochs, message)
    return steps


def exact(number: float) -> Fraction:
    """The number as it is written: 0.1 means a tenth, not its nearest binary fraction."""
    return Fraction(str(number))


def end_of_row(classes: int | None, multi_label: bool) -> Shapes:
    """What rows of examples have besides the model's inputs."""
    label = _array(np.float32, classes or 0) if multi_label else _array(np.int32)
    return {"label": label, "example_weight": _array(np.float32)}


def batch_of(row: Shapes, size: int) -> Shapes:
    """A batch of `size` such rows."""
    return {name: jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype) for name, leaf in row.items()}


def _array(dtype: type, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)
