"""From settings to a model, whoever asks: a training, a plan, a checkpoint that is loaded, a model to learn from.

Nothing is allocated or computed. The frozen models that an objective's settings name are laid out from what their
checkpoints say of themselves.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
from flax import nnx

from vitzoo import spelling
from vitzoo.config.contracts import ObjectiveSettings
from vitzoo.config.model import ModelChoice
from vitzoo.data.described import ModelDescription
from vitzoo.data.inputs import Inputs, input_of
from vitzoo.data.mixing import denormalise, normalise
from vitzoo.data.processors.image import ImageProcessor, for_channels, preprocessing_of
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig, embeddings_of
from vitzoo.models.geometry import ImageConfig, image_shape
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.state import Shapes, abstract
from vitzoo.objectives.base import Frozen
from vitzoo.parallel.sharding import Rules, rules_of
from vitzoo.registry import find


@dataclasses.dataclass(frozen=True, eq=False)
class Assembly:
    """A model with every setting, to be made: called with random keys, it gives the module.

    Attributes:
        name: as a config names it.
        config: its settings, sizes filled in.
        execution: how it is computed.
    """

    name: str
    config: ModelConfig
    execution: Execution = DEFAULT

    def __call__(self, rngs: nnx.Rngs) -> nnx.Module:
        return self.model(self.config, rngs=rngs, execution=self.execution)

    @property
    def model(self) -> Callable[..., nnx.Module]:
        """Its class."""
        return find("model", self.name)

    @functools.cached_property
    def abstract(self) -> tuple[nnx.GraphDef, Shapes]:
        """Its structure and its variables' shapes; nothing is allocated or computed."""
        return abstract(self)

    @property
    def rules(self) -> Rules:
        """Where its parameters lie on a mesh."""
        return rules_of(find("model", self.name))

    @property
    def embeddings(self) -> str:
        """A regular expression of the leaves below its first block."""
        return embeddings_of(find("model", self.name))


def assemble(
    choice: ModelChoice,
    execution: Execution = DEFAULT,
    *,
    known: Mapping[str, Any] | None = None,
    complete: Callable[[ModelConfig], ModelConfig] = lambda config: config,
) -> Assembly:
    """The model that is chosen, laid out.

    Args:
        choice: its name, and what is stated of it.
        execution: how it is computed.
        known: settings that the data decide, as for `ModelChoice.config`.
        complete: fills in what is still open, and refuses what doesn't fit the data.

    Raises:
        UserError: its settings don't fit each other or the data.
    """
    return Assembly(choice.name, _with_sizes(complete(choice.config(**(known or {})))), execution)


def from_description(description: ModelDescription, execution: Execution = DEFAULT) -> Assembly:
    """The model that a checkpoint's `model.json` tells of.

    Raises:
        UserError: it holds a setting that this version doesn't know or accept.
    """
    return assemble(ModelChoice("").over(description["model"]), execution)


def _with_sizes(config: ModelConfig) -> ModelConfig:
    """A Config with the image size and channels that it has where none are set; one of other inputs as it is."""
    if not isinstance(config, ImageConfig):
        return config
    height, width, channels = image_shape(config)
    return dataclasses.replace(config, image_size=(height, width), channels=channels)


def frozen_models(
    objective: ObjectiveSettings,
    descriptions: Mapping[str, ModelDescription],
    *,
    inputs: Inputs,
    config: Any,
    classes: Sequence[str] | None,
    execution: Execution,
) -> dict[str, Frozen]:
    """What an objective's `bind` is given besides data and model, by setting.

    Args:
        objective: its settings.
        descriptions: the content of each checkpoint's `model.json`, by setting.
        inputs: the student's.
        config: the student's model.
        classes: the names of the student's classes, where they are known.
        execution: how the models are computed.

    Raises:
        UserError: one takes no images, or of another number of channels.
    """
    return {
        name: _frozen(f"objective.{name}", getattr(objective, name), description, inputs, config, classes, execution)
        for name, description in descriptions.items()
    }


def _frozen(
    field: str,
    checkpoint: str,
    description: ModelDescription,
    inputs: Inputs,
    config: Any,
    classes: Sequence[str] | None,
    execution: Execution,
) -> Frozen:
    name = description["model"]["name"]
    images_of, mine_of = input_of(description, "image"), inputs.find(ImageProcessor)
    if images_of is None or mine_of is None:
        raise UserError(field, checkpoint, f"holds {name}, and a model to learn from must take images")
    made = from_description(description, execution)
    *size, channels = image_shape(made.config)
    if channels != config.channels:
        message = f"takes images of {channels} channel(s), the student of {config.channels}"
        raise UserError(field, checkpoint, message)
    theirs, mine = for_channels(preprocessing_of(images_of), channels), mine_of.of(config)

    def images(image: jax.Array) -> jax.Array:
        if theirs != mine:
            image = normalise(denormalise(image, mine), theirs)
        shape = (len(image), *size, channels)
        return image if image.shape == shape else jax.image.resize(image, shape, "bilinear")

    known, wanted = (getattr(one, "num_classes", None) or 0 for one in (made.config, config))
    columns = partial(columns_of, field, checkpoint, description["classes"], known, classes, wanted)
    return Frozen(description, *made.abstract, made.rules, images, columns)


def columns_of(
    field: str, checkpoint: str, theirs: Sequence[str] | None, count: int, mine: Sequence[str] | None, wanted: int
) -> tuple[int, ...] | None:
    """Where each of the student's classes, `wanted` of the names `mine`, stands among the `count` of the names `theirs`
    of a checkpoint's model; None where they are the same.

    Raises:
        UserError: one is missing; where names aren't known, there are more or fewer.
    """
    if theirs is None or mine is None:
        if count != wanted:
            raise UserError(field, checkpoint, f"tells {count} classes apart, the student {wanted}")
        return None
    known = spelling.positions(theirs)
    missing = [one for one in mine if spelling.normalise(one) not in known]
    if missing:
        message = f"doesn't know {len(missing)} of the {len(mine)} classes, such as {missing[0]}"
        raise UserError(field, checkpoint, message)
    places = tuple(known[spelling.normalise(one)][0] for one in mine)
    return None if places == tuple(range(count)) else places
