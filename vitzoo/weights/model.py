"""The model that a checkpoint's description tells of."""

import dataclasses
from collections.abc import Callable
from typing import Any

from vitzoo.config.experiment import config_class_of
from vitzoo.models.geometry import image_shape
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.registry import find
from vitzoo.schema import build


def builder(name: str, config: Any, execution: Execution = DEFAULT) -> Callable[[Any], Any]:
    """What makes the model from its random keys."""
    model = find("model", name)
    return lambda rngs: model(config, rngs=rngs, execution=execution)  # type: ignore[call-arg]


def config_of(description: dict[str, Any]) -> Any:
    """The Config that a checkpoint's model has, its sizes filled in.

    Raises:
        UserError: `model.json` holds a setting that this version doesn't know or accept.
    """
    fields = {key: value for key, value in description["model"].items() if key not in ("name", "variant")}
    return with_sizes(build(config_class_of(description["model"]["name"]), fields, "model"))


def with_sizes(config: Any) -> Any:
    """A Config with the image size and channels that it has where none are set; one of text as it is."""
    if not hasattr(config, "image_size"):
        return config
    height, width, channels = image_shape(config)
    return dataclasses.replace(config, image_size=(height, width), channels=channels)
