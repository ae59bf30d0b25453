"""What a model is given: for each of its inputs, by name, the processor that makes it from a field of the data."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import jax

from vitzoo.data.described import ImageDescription, InputDescription, TokenizerDescription, WithInputs
from vitzoo.data.examples import ExampleRows
from vitzoo.data.mixing import Prepare
from vitzoo.data.open import open_with
from vitzoo.data.processors.array import ArrayProcessor
from vitzoo.data.processors.base import Evaluating, Processor, Use
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.rows import Rows
from vitzoo.data.settings import Data, InputSettings
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.text.row_kinds import EXAMPLES
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.registry import PARTS, find
from vitzoo.schema import build
from vitzoo.strict_json import JSON

P = TypeVar("P")

PROCESSORS: Mapping[str, type[Any]] = {one.kind: one for one in (ImageProcessor, TextProcessor)}
"""By kind of input; a kind that isn't listed is a user's own, of an array."""


def kind_of_input(kind: str) -> type[Any]:
    """The class of processors that make inputs of a kind."""
    return PROCESSORS.get(kind, ArrayProcessor)


def processor(settings: InputSettings, use: Use) -> Processor:
    """What makes an input with these settings."""
    return kind_of_input(use.kind).bind(settings, use)


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The processors of all of a model's inputs. A `config` below is the settings of the model.

    A single input's processor also opens the data and makes the rows, as packed text needs it. Of several inputs, each
    is made from a field of the same example.
    """

    processors: Mapping[str, Processor]

    @classmethod
    def of_checkpoint(cls, description: WithInputs, folder: Path) -> "Inputs":
        """Those of a checkpoint's model.

        Args:
            description: the checkpoint's `model.json`.
            folder: of the checkpoint, for its `assets/`.

        Raises:
            UserError: a kind of input, or a setting of one, isn't known.
        """
        found = {}
        for name, own in description["inputs"].items():
            kind = own["kind"]
            stated = {} if kind in PARTS["input"] else {key: value for key, value in own.items() if key != "kind"}
            settings: Any = build(find("input", kind, f"inputs.{name}"), stated, f"inputs.{name}")
            found[name] = processor(settings, Use(name, kind, fields=own.get("fields", {}))).adopt(own, folder, {})
        return cls(found)

    @property
    def only(self) -> Processor | None:
        """The processor of the one input; None where there are several."""
        return next(iter(self.processors.values())) if len(self.processors) == 1 else None

    @property
    def are_pictures(self) -> bool:
        """Whether an example is one picture, as which a report draws it."""
        return self.only is not None and self.only.is_picture

    @property
    def row_kind(self) -> str:
        """What a row of a batch is made of: a kind of `data.text.row_kinds`, or `examples`."""
        return EXAMPLES if self.only is None else self.only.row_kind

    def find(self, kind: type[P]) -> P | None:
        """The first processor of a kind; None where there is none."""
        return next((one for one in self.processors.values() if isinstance(one, kind)), None)

    @property
    def images(self) -> ImageProcessor:
        """The processor of images.

        Raises:
            UserError: the model takes none.
        """
        return self._needed(ImageProcessor, "images")

    @property
    def text(self) -> TextProcessor:
        """The processor of text.

        Raises:
            UserError: the model takes none.
        """
        return self._needed(TextProcessor, "text")

    def _needed(self, kind: type[P], what: str) -> P:
        found = self.find(kind)
        if found is None:
            raise UserError("model.name", ", ".join(self.processors), f"are its inputs, and {what} is needed")
        return found

    def replace(self, old: Processor, new: Processor) -> "Inputs":
        """These with another processor in the place of one."""
        return Inputs({name: new if one is old else one for name, one in self.processors.items()})

    def adopt(self, description: WithInputs, folder: Path, stated: Mapping[str, Mapping[str, JSON]]) -> "Inputs":
        """These as a checkpoint's model knows them.

        Args:
            description: the checkpoint's `model.json`.
            folder: of the checkpoint, for its `assets/`.
            stated: by input, the settings that the user states; they win, but for those of a tokenizer, whose ids the
                model has learned.

        Raises:
            UserError: the checkpoint's model takes something else, or its tokenizer isn't the one that is stated.
        """
        theirs = description["inputs"]
        kinds = {name: own["kind"] for name, own in theirs.items()}
        mine = {name: one.kind for name, one in self.processors.items()}
        if kinds != mine:
            message = f"holds a model of {_listed(kinds)}; what is asked for takes {_listed(mine)}"
            raise UserError("checkpoint", str(folder), message)
        return self._each(lambda name, one: one.adopt(theirs[name], folder, stated.get(name, {})))

    def source(self, data: Data, split: str | None = None) -> Source:
        """The examples of a split, by default `data.split`.

        Raises:
            UserError: as `open_with`.
        """
        if self.only is not None:
            return self.only.source(data, split)
        return open_with(data, split, {name: one.field for name, one in self.processors.items()})

    def learned(self, source: Source) -> "Inputs":
        """These with what they learn from the training examples: a tokenizer."""
        return self._each(lambda _, one: one.learned(source))

    def model_fields(self, source: Source) -> dict[str, JSON]:
        """Settings of the model that the data decide; None where they don't."""
        fields: dict[str, JSON] = {}
        for one in self.processors.values():
            fields |= {key: value for key, value in one.model_fields(source).items() if fields.get(key) is None}
        return fields

    def complete(self, config: ModelConfig, source: Source) -> ModelConfig:
        """A model's settings with what is still open filled in.

        Raises:
            UserError: they don't fit the data.
        """
        for one in self.processors.values():
            config = one.complete(config, source)
        return config

    def evaluating(self, evaluator: Evaluating) -> "Inputs":
        """These with what an evaluator's settings change of them."""
        stated = evaluator.inputs
        if unknown := [name for name in stated if name not in self.processors]:
            message = f"is no input of this model, which takes {_listed(self.processors)}"
            raise UserError(f"inputs.{unknown[0]}", None, message)
        return self._each(lambda name, one: one.evaluating(stated.get(name, {}), evaluator))

    def rows(self, source: Source, data: Data, config: ModelConfig, *, train: bool) -> Rows:
        """The examples as rows of batches."""
        if self.only is not None:
            return self.only.rows(source, data, config, train=train)
        made = tuple(one.arrays(source, config, train=train) for one in self.processors.values())
        return ExampleRows(source, data, made)

    def prepare(self, config: ModelConfig, info: SourceInfo | None, *, train: bool) -> Prepare:
        """What happens to a batch on the device before the model sees it."""
        steps = [one.prepare(config, info, train=train) for one in self.processors.values()]

        def prepare(batch: Mapping[str, jax.Array], key: jax.Array | None) -> dict[str, jax.Array]:
            for number, step in enumerate(steps):
                # the first keeps the key, so that what a model of one input draws doesn't hang on this
                batch = step(batch, key if key is None or not number else jax.random.fold_in(key, number))
            return dict(batch)

        return prepare

    def described(self, config: ModelConfig) -> dict[str, dict[str, JSON]]:
        """What `model.json` says of each, by name."""
        return {name: one.described(config) for name, one in self.processors.items()}

    def departures(self, trained: "Inputs", config: ModelConfig) -> list[str]:
        """A line for each setting that makes other arrays than those which a checkpoint's model was trained on."""
        return [
            line for name, one in self.processors.items() for line in one.departures(trained.processors[name], config)
        ]

    def assets(self, folder: Path) -> Path | None:
        """Writes the files that belong to a checkpoint into `folder`, and gives it back; None where there are none."""
        written = [one.assets(folder) for one in self.processors.values()]
        return next((path for path in written if path is not None), None)

    def arguments(self, config: ModelConfig) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes of what the model is called with for one example."""
        return tuple(shape for one in self.processors.values() for shape in one.arguments(config))

    def shown(self, config: ModelConfig) -> str:
        """What the model is given, in a few words."""
        return "; ".join(one.shown(config) for one in self.processors.values())

    def _each(self, change: Callable[[str, Processor], Processor]) -> "Inputs":
        return Inputs({name: change(name, one) for name, one in self.processors.items()})


def _listed(inputs: Mapping[str, Any]) -> str:
    return " and ".join(inputs) or "nothing"


@overload
def input_of(description: WithInputs, kind: Literal["image"]) -> ImageDescription | None: ...


@overload
def input_of(description: WithInputs, kind: Literal["text"]) -> InputDescription | None: ...


def input_of(description: WithInputs, kind: str) -> InputDescription | None:
    """What a description says of the first input of a kind, `image` or `text`; None where there is none."""
    return next((own for own in description["inputs"].values() if own["kind"] == kind), None)


def tokenizer_of(description: WithInputs) -> TokenizerDescription | None:
    """The tokenizer of a model of text; None where there is none."""
    own = input_of(description, "text")
    return None if own is None else own["tokenizer"]
