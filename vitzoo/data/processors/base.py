"""The contract of a processor, which makes an input of a model from a field of the data, and the short way to one."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import jax
import numpy as np

from vitzoo.data.described import InputDescription
from vitzoo.data.examples import InputArrays
from vitzoo.data.mixing import Prepare
from vitzoo.data.rows import Row, Rows
from vitzoo.data.settings import Augment, Data, InputSettings
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.text.settings import Mixture
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.user_inputs import Input, Values
from vitzoo.models.base import ModelConfig
from vitzoo.nn.capture import Outputs
from vitzoo.schema import Settings
from vitzoo.strict_json import JSON

Shapes = dict[str, jax.ShapeDtypeStruct]


def shapes_of(row: Row) -> Shapes:
    """Shape and type of each array."""
    return {key: jax.ShapeDtypeStruct(array.shape, array.dtype) for key, array in row.items()}


@dataclasses.dataclass(frozen=True)
class Use:
    """What a processor may have to know besides its own settings.

    Attributes:
        name: of the input.
        kind: of the input, as a model's `INPUTS` name it.
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
    kind: str = ""
    rows: str = ""
    numbers: bool = False
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prefix_lm: bool = False
    augment: Augment = dataclasses.field(default_factory=Augment)
    mixture: Mixture = dataclasses.field(default_factory=Mixture)
    seed: int = 0
    classes: bool = True


class Evaluating(Protocol):
    """What an evaluator's settings say of the inputs that it measures with. One of text may say more: `rows`, `stride`,
    `questions`.
    """

    @property
    def inputs(self) -> Mapping[str, Mapping[str, JSON]]:
        """What differs from `config.inputs`, by input."""
        ...

    @property
    def data(self) -> Mapping[str, JSON]:
        """What differs from `config.data`."""
        ...


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

    @property
    def name(self) -> str:
        """Of the input."""
        ...

    @property
    def settings(self) -> InputSettings:
        """What the config says of the input."""
        ...

    @property
    def noun(self) -> str:
        """What one value of it is called: `image`, `text`."""
        ...

    @property
    def argument(self) -> str:
        """How values of it stand on a command line, for messages."""
        ...

    @property
    def tokenizer(self) -> TextTokenizer | None:
        """What makes ids of a text; None where the input is none."""
        ...

    @property
    def is_picture(self) -> bool:
        """Whether an example can be drawn in a report."""
        ...

    @property
    def row_classes(self) -> tuple[str, ...] | None:
        """The classes of rows that have them by how they are made, such as whether a second part follows."""
        ...

    def adopt(self, own: InputDescription, folder: Path, stated: Mapping[str, JSON]) -> Self:
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

    def model_fields(self, source: Source) -> dict[str, JSON]:
        """See `Inputs.model_fields`."""
        ...

    def complete(self, config: ModelConfig, source: Source) -> ModelConfig:
        """See `Inputs.complete`."""
        ...

    def assumed_fields(
        self, source: Source, config: ModelConfig, stated: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], tuple[str, ...]]:
        """What `model_fields` will give, as far as it is known before the data are read, and what was assumed.

        Args:
            source: what is known of the data, its `info` and `fields`.
            config: the model's settings without what the data say.
            stated: those that the config states.
        """
        ...

    def assumed_row(self, source: Source, config: ModelConfig) -> tuple[ModelConfig, Shapes]:
        """A model's settings completed, and what a row of a batch holds of this input, both known without the data."""
        ...

    def evaluating(self, stated: Mapping[str, JSON], evaluator: Evaluating) -> Self:
        """This processor for an evaluator, whose settings state these of the input."""
        ...

    def rows(self, source: Source, data: Data, config: ModelConfig, *, train: bool) -> Rows:
        """The examples as rows of batches, where this is the only input."""
        ...

    def arrays(self, source: Source, config: ModelConfig, *, train: bool) -> InputArrays:
        """How each example becomes this input, beside others."""
        ...

    def blank(self, config: ModelConfig) -> Row:
        """The arrays of an example that holds nothing, as `arrays` would make them."""
        ...

    def prepare(self, config: ModelConfig, info: SourceInfo | None, *, train: bool) -> Prepare:
        """See `Inputs.prepare`."""
        ...

    def gather(self, inputs: Values) -> Sequence[Input]:
        """What a user gives to be predicted, outside of any dataset.

        Args:
            inputs: one or several: files, folders, values in memory; or texts and records.

        Raises:
            UserError: there is none, or it is of another kind.
        """
        ...

    def example(self, given: Input, config: ModelConfig) -> Row:
        """The arrays of one such value, as evaluation makes them; where this is the only input, by the names under
        which the model takes them.

        Raises:
            BadImage, OSError: it can't be read.
        """
        ...

    def unheeded(self, stated: Mapping[str, JSON]) -> list[str]:
        """A line for what a config's file states of this input and a checkpoint's model has otherwise for good."""
        ...

    def departures(self, trained: Self, config: ModelConfig) -> list[str]:
        """A line for each setting that makes other arrays than training did.

        Args:
            trained: the processor that the checkpoint tells of.
            config: of the model.
        """
        ...

    def exported(
        self, model: Callable[..., Outputs], config: ModelConfig, batch: Any
    ) -> tuple[Callable, dict[str, jax.ShapeDtypeStruct]]:
        """A model of this input alone as a function of arrays.

        Args:
            model: it.
            config: its settings.
            batch: the size of a batch, which may be symbolic.

        Returns:
            The function, and what it takes, in order.
        """
        ...

    def described(self, config: ModelConfig) -> dict[str, JSON]:
        """What `model.json` says of this input: its `kind`, and all that is needed to make it."""
        ...

    def assets(self, folder: Path) -> Path | None:
        """See `Inputs.assets`."""
        ...

    def arguments(self, config: ModelConfig) -> tuple[jax.ShapeDtypeStruct, ...]:
        """See `Inputs.arguments`."""
        ...

    def shown(self, config: ModelConfig) -> str:
        """See `Inputs.shown`."""
        ...

    def details(self, config: ModelConfig) -> tuple[str, str]:
        """What becomes of a value, in one line, and what that speaks of: `tokens`, `pixels`."""
        ...


class ArrayInput(InputSettings, abc.ABC):
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

    def model_fields(self) -> dict[str, JSON]:
        """Settings of the model that these decide, for instance `{"volume_size": self.size}`."""
        return {}


def as_it_is(batch: Mapping[str, jax.Array], key: jax.Array | None) -> dict[str, jax.Array]:
    """Nothing is done on the device."""
    return dict(batch)


def departures(name: str, now: Settings, trained: Settings) -> list[str]:
    """A warning for each setting of an input, a dataclass, in which it departs from the training."""
    pairs = ((f.name, getattr(now, f.name), getattr(trained, f.name)) for f in dataclasses.fields(trained))
    return [
        f"warning: inputs.{name}.{field} = {value}, but the weights were trained with {then}"
        for field, value, then in pairs
        if value != then
    ]
