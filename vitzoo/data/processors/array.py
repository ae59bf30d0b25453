"""Arrays of a user's own kind as a model's input."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import numpy as np

from vitzoo import own_values
from vitzoo.data import draws, user_inputs
from vitzoo.data.described import InputDescription
from vitzoo.data.examples import Draw, ExampleRows, InputArrays
from vitzoo.data.image_files import BadImage
from vitzoo.data.mixing import Prepare
from vitzoo.data.open import open_with
from vitzoo.data.processors.base import ArrayInput, Evaluating, Shapes, Use, as_it_is, departures, shapes_of
from vitzoo.data.rows import Batch, Row, Rows
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.text.row_kinds import EXAMPLES
from vitzoo.data.user_inputs import Input, Values
from vitzoo.errors import RunError, UserError
from vitzoo.models.base import ModelConfig
from vitzoo.nn.capture import Outputs
from vitzoo.paths import strange_kind
from vitzoo.schema import build, patch, to_json
from vitzoo.strict_json import JSON


@dataclasses.dataclass(frozen=True)
class ArrayProcessor:
    """The processor of a user's own kind of input."""

    row_kind: ClassVar[str] = EXAMPLES
    row_classes: ClassVar[None] = None
    argument: ClassVar[str] = "FILE.npy ..."
    tokenizer: ClassVar[None] = None
    is_picture: ClassVar[bool] = False

    settings: ArrayInput
    name: str
    kind: str

    @classmethod
    def bind(cls, settings: ArrayInput, use: Use) -> Self:
        """The processor of an input with these settings."""
        return cls(settings, use.name, use.kind)

    @property
    def field(self) -> str:
        return self.settings.FIELD or self.name

    @property
    def noun(self) -> str:
        return self.name

    def adopt(self, own: InputDescription, folder: Path, stated: Mapping[str, JSON]) -> Self:
        values = {key: value for key, value in own.items() if key != "kind"}
        settings = patch(build(type(self.settings), values, f"inputs.{self.name}"), stated, f"inputs.{self.name}")
        return dataclasses.replace(self, settings=settings)

    def described(self, config: ModelConfig) -> dict[str, JSON]:
        return {"kind": self.kind, **to_json(self.settings)}

    def source(self, data: Data, split: str | None = None) -> Source:
        return open_with(data, split, {self.name: self.field})

    def learned(self, source: Source) -> Self:
        return self

    def model_fields(self, source: Source) -> dict[str, JSON]:
        classes = source.info.classes
        return {"num_classes": None if classes is None else len(classes), **_fields_of(self.settings)}

    def complete(self, config: ModelConfig, source: Source) -> ModelConfig:
        return config

    def assumed_fields(
        self, source: Source, config: ModelConfig, stated: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], tuple[str, ...]]:
        return self.model_fields(source), ()

    def assumed_row(self, source: Source, config: ModelConfig) -> tuple[ModelConfig, Shapes]:
        return config, shapes_of(self.blank(config))

    def evaluating(self, stated: Mapping[str, JSON], evaluator: Evaluating) -> Self:
        settings = patch(self.settings, stated, f"inputs.{self.name}")
        return dataclasses.replace(self, settings=settings)

    def rows(self, source: Source, data: Data, config: ModelConfig, *, train: bool) -> Rows:
        return ExampleRows(source, data, (self.arrays(source, config, train=train),))

    def arrays(self, source: Source, config: ModelConfig, *, train: bool) -> InputArrays:
        made = OwnArrays(self.settings, self.name, self.field)
        if len(source):
            made.check(source[0][self.field])
        return made

    def blank(self, config: ModelConfig) -> Row:
        return OwnArrays(self.settings, self.name, self.field).padding()

    def prepare(self, config: ModelConfig, info: SourceInfo | None, *, train: bool) -> Prepare:
        return as_it_is

    def gather(self, inputs: Values) -> list[Input]:
        return user_inputs.gather(inputs, user_inputs.arrays(self.noun, 1 + len(shape_of(self.settings).shape)))

    def example(self, given: Input, config: ModelConfig) -> Row:
        value = _loaded(given.value) if isinstance(given.value, Path) else np.asarray(given.value)
        array, problem = OwnArrays(self.settings, self.name, self.field).made(value, None)
        if problem:
            raise BadImage(problem)
        return {self.name: array}

    def unheeded(self, stated: Mapping[str, JSON]) -> list[str]:
        return []

    def departures(self, trained: Self, config: ModelConfig) -> list[str]:
        return departures(self.name, self.settings, trained.settings)

    def exported(
        self, model: Callable[..., Outputs], config: ModelConfig, batch: Any
    ) -> tuple[Callable, dict[str, jax.ShapeDtypeStruct]]:
        shape = shape_of(self.settings)
        return lambda array: model(array), {self.name: jax.ShapeDtypeStruct((batch, *shape.shape), shape.dtype)}

    def assets(self, folder: Path) -> Path | None:
        return None

    def arguments(self, config: ModelConfig) -> tuple[jax.ShapeDtypeStruct, ...]:
        shape = shape_of(self.settings)
        return (jax.ShapeDtypeStruct((1, *shape.shape), shape.dtype),)

    def shown(self, config: ModelConfig) -> str:
        return f"{self.name} {' × '.join(map(str, shape_of(self.settings).shape))}"

    def details(self, config: ModelConfig) -> tuple[str, str]:
        return self.shown(config), "inputs"


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
        shape = shape_of(self.settings)
        return {self.name: np.zeros(shape.shape, shape.dtype)}

    def arrays(self, value: Any, index: int, draw: Draw | None) -> Row:
        random = None if draw is None else draws.generator(*draw)
        array, problem = self.made(value, random)
        if problem:
            raise RunError(f"inputs.{self.name}: example {index} {problem}")
        return {self.name: array}

    def check(self, value: Any) -> None:
        """Refuses settings that make another array of a value than they say, before anything is begun."""
        if problem := self.made(value, None)[1]:
            raise UserError(f"inputs.{self.name}", type(self.settings).__name__, problem)

    def made(self, value: Any, random: np.random.Generator | None) -> tuple[np.ndarray, str]:
        """The array of a value, and what is wrong with it where it is another than the settings say."""
        given, wanted = self.settings.array(value, random), shape_of(self.settings)
        array = given if isinstance(given, np.ndarray) else _array_of(given)
        if (array.shape, array.dtype) == (wanted.shape, wanted.dtype):
            return array, ""
        text = own_values.shown(array if own_values.is_numbers(array) else given)
        return array, f"gives {text}; its shape is {own_values.shown(wanted)}"

    def vary(self, batch: Batch, seed: int, positions: np.ndarray) -> Batch:
        return batch


def shape_of(settings: ArrayInput) -> jax.ShapeDtypeStruct:
    """An input's `shape`.

    Raises:
        UserError: it is none.
    """
    shape = settings.shape()
    if not (own_values.is_numbers(shape) and all(isinstance(size, int) and size > 0 for size in shape.shape)):
        raise own_values.refusal(settings, "shape", shape, "a shape and a type: jax.ShapeDtypeStruct((8,), np.float32)")
    return shape


def _fields_of(settings: ArrayInput) -> Mapping[str, Any]:
    fields = settings.model_fields()
    if (wrong := own_values.fault(fields, lambda _: True)) is not None:
        raise own_values.refusal(settings, "model_fields", wrong, 'a dict of settings of the model, {"length": 8}')
    return fields


def _array_of(given: Any) -> np.ndarray:
    try:
        return np.asarray(given)
    except (ValueError, TypeError):  # lists of several lengths
        return np.asarray(None)


def _loaded(path: Path) -> np.ndarray:
    """The array of a `.npy` file, of which nothing is executed.

    Raises:
        BadImage: it isn't one.
    """
    if what := strange_kind(path):
        raise BadImage(f"is {what}, not a file", str(path))
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadImage(f"is no .npy file of an array: {' '.join(str(error).split())}", str(path)) from error
