"""A file or folder of published weights: its arrays by name, looked at one by one, and what lies beside it."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import Refused


class Tensors(Mapping[str, np.ndarray]):
    """Arrays by name, read or mapped when looked at and not kept.

    Args:
        readers: a function for each name.
    """

    def __init__(self, readers: Mapping[str, Callable[[], np.ndarray]]):
        self._readers = dict(readers)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def without(self, prefix: str) -> "Tensors":
        """Those below a prefix, named without it."""
        cut = {name: read for name, read in self._readers.items() if name.startswith(prefix)}
        return Tensors({name.removeprefix(prefix): read for name, read in cut.items()})


@dataclasses.dataclass(frozen=True)
class Source:
    """Published weights as they lie on disk.

    Attributes:
        name: as they were asked for.
        kind: `safetensors`, `torch`, `npz` or `tensorstore`.
        tensors: the arrays by name.
        folder: where the file lies, and its companions.
        config: the content of `config.json`; empty where there is none.
        besides: what else the file holds, plain values (hyper-parameters of a training).
        notes: what was taken where the file leaves a choice.
    """

    name: str
    kind: str
    tensors: Tensors
    folder: Path
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    besides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an array.

        Raises:
            Refused: there is none of this name.
        """
        if name not in self.tensors:
            raise self.refused(f"lacks {name}")
        return self.tensors[name].shape

    def depth(self, prefix: str, suffix: str = ".") -> int:
        """How many layers there are: one more than the largest N of names `prefix` N `suffix` ...; 0 without any."""
        numbers = [name.removeprefix(prefix).partition(suffix)[0] for name in self.tensors if name.startswith(prefix)]
        return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)

    def companion(self, name: str) -> Path | None:
        """A file beside it, if it is there."""
        path = self.folder / name
        return path if path.is_file() else None

    def refused(self, message: str) -> Refused:
        """What to raise: it can't be used, and why."""
        return Refused("checkpoint", self.name, message)
