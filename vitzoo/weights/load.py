"""A checkpoint as a model ready to use: its weights, its classes, its inputs."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from vitzoo.argument_types import checked
from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.metadata import Description
from vitzoo.config.assembly import Assembly, assemble, from_description
from vitzoo.config.model import ModelChoice
from vitzoo.data.inputs import Inputs, input_of
from vitzoo.data.processors.base import Processor
from vitzoo.data.processors.image import for_channels, preprocessing_of
from vitzoo.data.settings import Preprocessing
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig, Scales
from vitzoo.models.geometry import ImageConfig, image_shape
from vitzoo.nn import state
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.nn.state import HostParams
from vitzoo.registry import find
from vitzoo.strict_json import JSON
from vitzoo.weights.info import Info, only_processor
from vitzoo.weights.open import name_of, open_weights, read_weights
from vitzoo.weights.transfer import Report, match_head, scale_of, transfer


@dataclasses.dataclass(frozen=True)
class Opened:
    """A checkpoint whose weights haven't been read yet.

    Attributes:
        checkpoint: as it was asked for.
        located: where it is.
        assembly: the model, with the changes that were asked for.
        classes: their names, if the model still tells these apart.
    """

    checkpoint: str
    located: Located
    assembly: Assembly
    classes: Sequence[str] | None

    @property
    def name(self) -> str:
        """Of the model."""
        return self.assembly.name

    @property
    def config(self) -> ModelConfig:
        """The model's settings."""
        return self.assembly.config

    @functools.cached_property
    def inputs(self) -> Inputs:
        """The processors of what the model is given, by name."""
        return Inputs.of_checkpoint(self.located.description, self.located.folder)

    @property
    def processor(self) -> Processor:
        """See `Info.processor`."""
        return only_processor(self.checkpoint, self.inputs)

    def load(self, weights: str = "auto", execution: Execution = DEFAULT) -> tuple[Any, Info]:
        """The model and what is known of it, as `load`."""
        made = dataclasses.replace(self.assembly, execution=execution)
        params, report, which = fitted(self.located, made, self.classes, weights)
        graph, _ = made.abstract
        model = state.merge(graph, jax.tree.map(jnp.asarray, params))
        info = information(self.checkpoint, self.located, self.inputs, self.config, self.classes, which, report)
        return model, info


def open_model(checkpoint: "str | Path | Opened", changes: Mapping[str, JSON] | None = None) -> Opened:
    """A checkpoint found and checked, its weights not yet read; one that is open already as it is.

    Raises:
        UserError: as `load`.
    """
    if isinstance(checkpoint, Opened):
        return checkpoint
    located = open_weights(checkpoint, changes)
    choice = ModelChoice("", "", dict(changes or {})).over(located.description["model"])
    made, classes = assemble(choice), located.description["classes"]
    before = from_description(located.description).config
    if getattr(made.config, "num_classes", None) != getattr(before, "num_classes", None):
        classes = None
    return Opened(str(checkpoint), located, made, classes)


@checked()
def load(
    checkpoint: str | Path, weights: str = "auto", *, execution: Execution = DEFAULT, **changes: JSON
) -> tuple[Any, Info]:
    """A model from a checkpoint.

        model, info = vitzoo.load("runs/quickstart")
        logits = model(info.preprocess(["a.png", "b.png"]))        # [2, classes]

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`, or a part of one, `RUN:encoder`, which is
            a model that the checkpoint's keeps with its Config as `config`; or published weights, `FILE`, `FOLDER`
            or a name, `google-t5/t5-small` (`list_models(pretrained=True)`).
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        execution: how the model is computed.
        changes: settings of the model that shall differ: `num_classes=5` (a new head, zeros), `image_size=384`,
            `pooling="gap"`. What that makes of the weights is in `info.report`.

    Returns:
        The model, an `nnx.Module`, and what the checkpoint knows of itself.

    Raises:
        UserError: there is no such checkpoint, it is damaged, or a change doesn't fit it.
    """
    return open_model(checkpoint, changes).load(weights, execution)


def information(
    checkpoint: str,
    located: Located,
    inputs: Inputs,
    config: ModelConfig,
    classes: Sequence[str] | None,
    weights: str,
    report: Report,
) -> Info:
    """What is known of a checkpoint whose model now has this Config."""
    return Info(
        checkpoint=checkpoint,
        step=located.step,
        weights=weights,
        classes=None if classes is None else tuple(classes),
        num_classes=getattr(config, "num_classes", None) or 0,
        inputs=inputs,
        config=config,
        description=located.description,
        report=report,
    )


def fitted(
    located: Located,
    made: Assembly,
    classes: Sequence[str] | None,
    weights: str = "auto",
    seed: int = 0,
    preprocessing: Preprocessing | None = None,
) -> tuple[HostParams, Report, str]:
    """A checkpoint's weights made to fit a model.

    Args:
        located: from `open_weights`.
        made: the model wanted.
        classes: its classes' names, if known; they decide whether the head is kept.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        seed: of leaves that are new.
        preprocessing: of images, for that model; the checkpoint's own where none is given.

    Returns:
        Nested NumPy parameters, the report, and which weights they are (`ema`, `raw` or `published`).

    Raises:
        UserError: a leaf is missing, left over or of another shape, and no setting that differs explains it.
    """
    old, config = from_description(located.description).config, made.config
    check_family(old, config)
    params, which, notes = read_weights(located, weights)
    head = match_head(located.description["classes"], _classes(old), classes, _classes(config))
    params, report = transfer(
        params,
        old,
        config,
        made.abstract[1],
        model=find("model", located.description["model"]["name"]),
        head=head,
        fresh=lambda: state.initialise(made, seed),
        where=name_of(located),
        scales=_scales(located.description, preprocessing, old, config),
    )
    report.told = notes
    return params, report, which


def _scales(description: Description, now: Preprocessing | None, old: ModelConfig, new: ModelConfig) -> Scales | None:
    """Mean and deviation of pixels in a checkpoint and in a model of this Config; None for text."""
    images = input_of(description, "image")
    if images is None or not isinstance(new, ImageConfig) or not isinstance(old, ImageConfig):
        return None
    then, channels = preprocessing_of(images), image_shape(new)[2]
    return scale_of(then, image_shape(old)[2]), scale_of(now or for_channels(then, channels), channels)


def _classes(config: ModelConfig) -> int:
    return getattr(config, "num_classes", None) or 0


def check_family(old: ModelConfig, new: ModelConfig) -> None:
    """Raises UserError if the Configs are of different models."""
    if type(old) is not type(new):
        raise UserError("model.name", type(new).__module__, f"can't take the weights of a {type(old).__module__}")
