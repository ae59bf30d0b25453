"""The contract of a processor, which makes an input of a model from a field of the data, and the short way to one."""

import abc
import dataclasses
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import jax
import numpy as np

from vitzoo.data import draws
from vitzoo.data.examples import Draw, ExampleRows, InputArrays
from vitzoo.data.mixing import Prepare
from vitzoo.data.open import open_with
from vitzoo.data.rows import Batch, Row, Rows
from vitzoo.data.settings import Augment, Data
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.text.rows import EXAMPLES
from vitzoo.data.text.settings import Mixture
from vitzoo.errors import RunError, UserError
from vitzoo.schema import build, patch, to_json


@dataclasses.dataclass(frozen=True)
class Use:
    """What a processor may have to know besides its own settings.

    Attributes:
        name: of the input.
        rows: what a row of text holds, as the objective asks; empty where each example is a row.
        numbers: whether labels are numbers to predict.
        fields: what the data call the fields that the config names.
        prefix_lm: whether it wants a decoder that reads what a text begins with in both directions.
        augment: how training varies images.
        mixture: the sources behind `data.name=mixture`.
        seed: of the training.
        classes: whether something needs the model to tell classes apart.
    """

    name: str
    rows: str = ""
    numbers: bool = False
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prefix_lm: bool = False
    augment: Augment = dataclasses.field(default_factory=Augment)
    mixture: Mixture = dataclasses.field(default_factory=Mixture)
    seed: int = 0
    classes: bool = True


class Processor(Protocol):
    """Makes one input of a model from a field of the data: in training, evaluation and use alike.

    A `config` here is the settings of the model.
    """

    @property
    def field(self) -> str:
        """The field of the data."""
        ...

    @property
    def kind(self) -> str:
        """Of the input, as a model's `INPUTS` name it: `image`, `text`, or a user's own, `my_file:Volume`."""
        ...

    @property
    def row_kind(self) -> str:
        """What a row of a batch is made of: a kind of `data.text.row_kinds`, or `examples`."""
        ...

    def adopt(self, own: Mapping[str, Any], folder: Path, stated: Mapping[str, Any]) -> Self:
        """This processor as a checkpoint's model knows it.

        Args:
            own: what its `model.json` says of this input.
            folder: of the checkpoint, for its `assets/`.
            stated: the settings of this input that the user states.
        """
        ...

    def source(self, data: Data, split: str | None = None) -> Source:
        """The examples of a split, where this is the only input."""
        ...

    def learned(self, source: Source) -> Self:
        """See `Inputs.learned`."""
        ...

    def model_fields(self, source: Source) -> dict[str, Any]:
        """See `Inputs.model_fields`."""
        ...

    def complete(self, config: Any, source: Source) -> Any:
        """See `Inputs.complete`."""
        ...

    def evaluating(self, stated: Mapping[str, Any], evaluator: Any) -> Self:
        """This processor for an evaluator, whose settings state these of the input."""
        ...

    def rows(self, source: Source, data: Data, config: Any, *, train: bool) -> Rows:
        """The examples as rows of batches, where this is the only input."""
        ...

    def arrays(self, source: Source, config: Any, *, train: bool) -> InputArrays:
        """How each example becomes this input, beside others."""
        ...

    def blank(self, config: Any) -> Row:
        """The arrays of an example that holds nothing, as `arrays` would make them."""
        ...

    def prepare(self, config: Any, info: SourceInfo, *, train: bool) -> Prepare:
        """See `Inputs.prepare`."""
        ...

    def described(self, config: Any) -> dict[str, Any]:
        """What `model.json` says of this input: its `kind`, and all that is needed to make it."""
        ...

    def assets(self, folder: Path) -> Path | None:
        """See `Inputs.assets`."""
        ...

    def arguments(self, config: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        """See `Inputs.arguments`."""
        ...

    def shown(self, config: Any) -> str:
        """See `Inputs.shown`."""
        ...


class ArrayInput(abc.ABC):
    """An input of one's own: a frozen dataclass of settings, `config.inputs.NAME`, that makes an array of a value.

        @dataclasses.dataclass(frozen=True)
        class Volume(ArrayInput):
            size: int = setting(16, "voxels along each side", minimum=1)

            def shape(self):
                return jax.ShapeDtypeStruct((self.size,) * 3, np.float32)

            def array(self, value, random):
                return np.float32(value[: self.size, : self.size, : self.size])

    A model names it in `INPUTS = {"volume": "my_file:Volume"}`.
    """

    FILLS: ClassVar[Mapping[str, Any]] = {}
    """Settings that every model of such an input must have, each with a value that it may get."""
    OF_MODEL: ClassVar[tuple[str, ...]] = ()
    """Settings that an evaluator can't have otherwise, such as a size that the model's parameters have."""
    FIELD: ClassVar[str] = ""
    """The field of the data that it is made from; empty: that of the input's name."""

    @abc.abstractmethod
    def shape(self) -> jax.ShapeDtypeStruct:
        """Shape and type of the array of one example."""

    @abc.abstractmethod
    def array(self, value: Any, random: np.random.Generator | None) -> np.ndarray:
        """The array of one example.

        Args:
            value: the field's.
            random: draws that are the same whenever training comes to this place of its stream; None in evaluation.
        """

    def model_fields(self) -> dict[str, Any]:
        """Settings of the model that these decide, for instance `{"volume_size": self.size}`."""
        return {}


@dataclasses.dataclass(frozen=True)
class ArrayProcessor:
    """The processor of a user's own kind of input."""

    settings: ArrayInput
    name: str
    kind: str
    row_kind: ClassVar[str] = EXAMPLES

    @property
    def field(self) -> str:
        return self.settings.FIELD or self.name

    def adopt(self, own: Mapping[str, Any], folder: Path, stated: Mapping[str, Any]) -> Self:
        values = {key: value for key, value in own.items() if key != "kind"}
        settings = patch(build(type(self.settings), values, f"inputs.{self.name}"), stated, f"inputs.{self.name}")
        return dataclasses.replace(self, settings=settings)

    def described(self, config: Any) -> dict[str, Any]:
        return {"kind": self.kind, **to_json(self.settings)}

    def source(self, data: Data, split: str | None = None) -> Source:
        return open_with(data, split, {self.name: self.field})

    def learned(self, source: Source) -> Self:
        return self

    def model_fields(self, source: Source) -> dict[str, Any]:
        classes = source.info.classes
        return {"num_classes": None if classes is None else len(classes), **self.settings.model_fields()}

    def complete(self, config: Any, source: Source) -> Any:
        return config

    def evaluating(self, stated: Mapping[str, Any], evaluator: Any) -> Self:
        settings = patch(self.settings, stated, f"inputs.{self.name}")
        return dataclasses.replace(self, settings=settings)

    def rows(self, source: Source, data: Data, config: Any, *, train: bool) -> Rows:
        return ExampleRows(source, data, (self.arrays(source, config, train=train),))

    def arrays(self, source: Source, config: Any, *, train: bool) -> InputArrays:
        made = OwnArrays(self.settings, self.name, self.field)
        if len(source):
            made.check(source[0][self.field])
        return made

    def blank(self, config: Any) -> Row:
        return OwnArrays(self.settings, self.name, self.field).padding()

    def prepare(self, config: Any, info: SourceInfo, *, train: bool) -> Prepare:
        return as_it_is

    def assets(self, folder: Path) -> Path | None:
        return None

    def arguments(self, config: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        shape = self.settings.shape()
        return (jax.ShapeDtypeStruct((1, *shape.shape), shape.dtype),)

    def shown(self, config: Any) -> str:
        return f"{self.name} {' × '.join(map(str, self.settings.shape().shape))}"


@dataclasses.dataclass(frozen=True)
class OwnArrays:
    """The arrays of a user's own kind of input; see `InputArrays`."""

    settings: ArrayInput
    name: str
    field: str
    varies_batches_only: ClassVar[bool] = False

    @property
    def fixed(self) -> Hashable:
        return self.settings, self.name

    def padding(self) -> Row:
        shape = self.settings.shape()
        return {self.name: np.zeros(shape.shape, shape.dtype)}

    def arrays(self, value: Any, index: int, draw: Draw | None) -> Row:
        random = None if draw is None else draws.generator(*draw)
        array = np.asarray(self.settings.array(value, random))
        if problem := self._problem(array):
            raise RunError(f"inputs.{self.name}: example {index} {problem}")
        return {self.name: array}

    def check(self, value: Any) -> None:
        """Refuses settings that make another array of a value than they say, before anything is begun."""
        if problem := self._problem(np.asarray(self.settings.array(value, None))):
            raise UserError(f"inputs.{self.name}", type(self.settings).__name__, problem)

    def _problem(self, array: np.ndarray) -> str:
        wanted = self.settings.shape()
        if (array.shape, array.dtype) == (wanted.shape, wanted.dtype):
            return ""
        wants = f"{np.dtype(wanted.dtype)}{list(wanted.shape)}"
        return f"gives {array.dtype}{list(array.shape)}; its shape is {wants}"

    def vary(self, batch: Batch, seed: int, positions: np.ndarray) -> Batch:
        return batch


def as_it_is(batch: Mapping[str, jax.Array], key: jax.Array | None) -> dict[str, jax.Array]:
    """Nothing is done on the device."""
    return dict(batch)
