"""How the tasks of VTAB make a class of a record."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

Record = Mapping[str, Any]


class Label(Protocol):
    """What makes a class of a record."""

    def __call__(self, record: Record) -> int:
        """The class of a record."""
        ...

    def names(self, features: Mapping[str, Any]) -> tuple[str, ...]:
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

    def names(self, features: Mapping[str, Any]) -> tuple[str, ...]:
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

    def names(self, features: Mapping[str, Any]) -> tuple[str, ...]:
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

    def names(self, features: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(f"{low:g} to {high:g}" for low, high in zip(self.bounds, (*self.bounds[1:], np.inf), strict=True))
