"""Examples as rows of a batch: each field that a model is given becomes arrays of one shape, example by example."""

import dataclasses
import functools
import math
from collections.abc import Hashable
from typing import Any, Protocol

import numpy as np

from vitzoo.data.image_files import BadImage
from vitzoo.data.memory import fits, gather
from vitzoo.data.rows import Batch, Row
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source, SourceInfo, refuse_unlabelled
from vitzoo.errors import RunError

Draw = tuple[int, int]
"""A seed and a position of the training stream: what all that varies an example is a function of."""


class InputArrays(Protocol):
    """How a field of an example becomes arrays, by the names that they have in a batch."""

    @property
    def field(self) -> str:
        """Of the example."""
        ...

    @property
    def fixed(self) -> Hashable:
        """Equal for two that make the same arrays of an example as long as nothing varies it."""
        ...

    @property
    def varies_batches_only(self) -> bool:
        """Whether training varies an example by `vary` alone, so that it can be kept as it is in evaluation."""
        ...

    def padding(self) -> Row:
        """The arrays of a row that only fills up a batch, or whose example can't be read."""
        ...

    def arrays(self, value: Any, index: int, draw: Draw | None) -> Row:
        """The arrays of one example.

        Args:
            value: the field's.
            index: of the example in its source.
            draw: in training; None in evaluation.

        Raises:
            BadImage, OSError: the value can't be read.
        """
        ...

    def vary(self, batch: Batch, seed: int, positions: np.ndarray) -> Batch:
        """A batch made without draws as training has it at these positions of the stream."""
        ...


@dataclasses.dataclass(frozen=True)
class ExampleRows:
    """Examples of a source as rows: the arrays of each input; `label` int32 [], or float32 [classes] where an example
    may have several, or float32 [] where it is a number, if the data have labels; `example_weight`, `id`.

    An example that can't be read raises `BadImage` under `bad_files="stop"`; under `skip` it becomes a row of weight 0,
    which no loss or metric counts.

    Args:
        source: the examples.
        data: `bad_files`, `in_memory`.
        inputs: what a model is given.
    """

    source: Source
    data: Data
    inputs: tuple[InputArrays, ...]

    def __post_init__(self) -> None:
        if self.labelled:
            refuse_unlabelled(self.source.info)

    @property
    def info(self) -> SourceInfo:
        return self.source.info

    def __len__(self) -> int:
        return len(self.source)

    @property
    def labelled(self) -> bool:
        return "label" in self.source.fields

    @functools.cached_property
    def held(self) -> bool:
        """Whether the rows, as they are before they are varied, lie in RAM."""
        still = all(one.varies_batches_only for one in self.inputs)
        return still and fits(self.data, len(self.source) * self.bytes)

    @property
    def fixed(self) -> Hashable:
        """Equal for rows of the same source that are the same in evaluation."""
        return tuple(one.fixed for one in self.inputs), self.data.bad_files

    @property
    def bytes(self) -> int:
        """Of a row's inputs."""
        arrays = [np.asarray(array) for one in self.inputs for array in one.padding().values()]
        return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)

    def where(self, id: int) -> str:
        return self.source.where(int(np.flatnonzero(self.source.ids == id)[0]))

    def eval_row(self, index: int) -> Row:
        return self._row(index, None)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self._row(index, (seed, position))

    def eval_batch(self, indices: np.ndarray) -> Batch:
        return gather(self, indices)

    def train_batch(self, indices: np.ndarray, seed: int, positions: np.ndarray) -> Batch:
        batch = gather(self, indices)
        for one in self.inputs:
            batch = one.vary(batch, seed, positions)
        return batch

    def padding(self) -> Row:
        return self._without_arrays(-1)

    def _row(self, index: int, draw: Draw | None) -> Row:
        row: Row = {}
        try:
            example: dict[str, Any] = dict(self.source[index])
            for one in self.inputs:
                row |= one.arrays(example[one.field], index, draw)
        except (BadImage, OSError) as error:
            if self.data.bad_files == "stop":
                raise BadImage(getattr(error, "reason", str(error)), self.source.where(index)) from error
            return self._without_arrays(int(self.source.ids[index]))
        if self.labelled:
            self._check_label(example["label"], index)
        return row | self._end(example.get("label"), 1.0, int(self.source.ids[index]))

    def _without_arrays(self, id: int) -> Row:
        """A row that counts for nothing."""
        row: Row = {}
        for one in self.inputs:
            row |= one.padding()
        shape = (len(self.info.classes or ()),) if self.info.multi_label else ()
        return row | self._end(np.zeros(shape), 0.0, id)

    def _check_label(self, label: Any, index: int) -> None:
        classes = self.info.classes
        if self.info.multi_label or classes is None or 0 <= label < len(classes):
            return
        raise RunError(f"{self.source.where(index)}: label {label} lies outside the {len(classes)} classes")

    def _end(self, label: Any, weight: float, id: int) -> Row:
        numbers = self.info.multi_label or self.source.fields.get("label") == "number"
        label_type = np.float32 if numbers else np.int32
        labels = {"label": np.asarray(label, label_type)} if self.labelled else {}
        return {**labels, "example_weight": np.float32(weight), "id": np.int64(id)}
