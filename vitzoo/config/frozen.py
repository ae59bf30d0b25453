"""The frozen models that an objective's settings name, laid out from what their checkpoints say of themselves."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax

from vitzoo import spelling
from vitzoo.config.experiment import ModelChoice
from vitzoo.data.inputs import Inputs, input_of
from vitzoo.data.mixing import denormalise, normalise
from vitzoo.data.processors.image import ImageProcessor, for_channels, preprocessing_of
from vitzoo.errors import UserError
from vitzoo.models.geometry import image_shape
from vitzoo.nn.execution import Execution
from vitzoo.nn.state import abstract
from vitzoo.objectives.base import Frozen
from vitzoo.parallel.sharding import rules_of
from vitzoo.registry import find


def frozen_models(
    objective: Any,
    descriptions: Mapping[str, Mapping[str, Any]],
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
    description: Mapping[str, Any],
    inputs: Inputs,
    config: Any,
    classes: Sequence[str] | None,
    execution: Execution,
) -> Frozen:
    name = description["model"]["name"]
    images_of, mine_of = input_of(description, "image"), inputs.find(ImageProcessor)
    if images_of is None or mine_of is None:
        raise UserError(field, checkpoint, f"holds {name}, and a model to learn from must take images")
    own, model = ModelChoice("").over(description["model"]).config(), find("model", name)
    *size, channels = image_shape(own)
    if channels != config.channels:
        message = f"takes images of {channels} channel(s), the student of {config.channels}"
        raise UserError(field, checkpoint, message)
    graph, shapes = abstract(lambda rngs: model(own, rngs=rngs, execution=execution))  # type: ignore[call-arg]
    theirs, mine = for_channels(preprocessing_of(images_of), channels), mine_of.of(config)

    def images(image: jax.Array) -> jax.Array:
        if theirs != mine:
            image = normalise(denormalise(image, mine), theirs)
        shape = (len(image), *size, channels)
        return image if image.shape == shape else jax.image.resize(image, shape, "bilinear")

    known, wanted = (getattr(one, "num_classes", None) or 0 for one in (own, config))
    columns = partial(columns_of, field, checkpoint, description["classes"], known, classes, wanted)
    return Frozen(description, graph, shapes, rules_of(model), images, columns)


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
