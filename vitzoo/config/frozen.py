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


def frozen_models(objective: Any, descriptions: Mapping[str, Mapping[str, Any]], **student: Any) -> dict[str, Frozen]:
    """What an objective's `bind` is given besides data and model, by setting.

    Args:
        objective: its settings.
        descriptions: the content of each checkpoint's `model.json`, by setting.
        student: as for `frozen_model`.
    """
    return {
        name: frozen_model(f"objective.{name}", getattr(objective, name), description, **student)
        for name, description in descriptions.items()
    }


def frozen_model(
    field: str,
    checkpoint: str,
    description: Mapping[str, Any],
    *,
    inputs: Inputs,
    config: Any,
    classes: Sequence[str] | None,
    execution: Execution,
) -> Frozen:
    """A checkpoint's model, without its weights.

    Args:
        field: the setting that names it.
        checkpoint: as it is named.
        description: the content of its `model.json`.
        inputs: the student's.
        config: the student's model.
        classes: the names of the student's classes, where they are known.
        execution: how it is computed.

    Raises:
        UserError: it takes no images, or of another number of channels.
    """
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
    """Where each of the student's classes stands among a model's logits; None where they are the same.

    Args:
        field: the setting that names the model.
        checkpoint: as it is named.
        theirs: the names of its classes, where they are known.
        count: how many it has.
        mine: the names of the student's classes, where they are known.
        wanted: how many the student has.

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
