"""A checkpoint as a model ready to use: its weights, its classes, its inputs."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.argument_types import checked
from vitzoo.checkpoints.locate import Located
from vitzoo.config.experiment import ModelChoice
from vitzoo.data.image_files import BadImage
from vitzoo.data.inputs import Inputs, input_of
from vitzoo.data.processors.base import Processor
from vitzoo.data.processors.image import for_channels, preprocessing_of
from vitzoo.data.settings import Preprocessing
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import Scales
from vitzoo.models.geometry import image_shape
from vitzoo.nn import state
from vitzoo.nn.execution import DEFAULT, Execution
from vitzoo.registry import find
from vitzoo.weights.model import builder, config_of, with_sizes
from vitzoo.weights.open import name_of, open_weights, read_weights
from vitzoo.weights.transfer import Report, match_head, scale_of, transfer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Info:
    """What a checkpoint knows of itself.

    Attributes:
        checkpoint: as it was asked for.
        step: batches it had been trained on.
        weights: which they are, `ema`, `raw` or `published`.
        classes: the names by index; `None` where there are none.
        num_classes: how many classes the model tells apart; 0 where that is not what it does.
        inputs: the processors of what the model is given, by name.
        config: the model's settings.
        description: all of `model.json`.
        report: what became of each leaf.
    """

    checkpoint: str
    step: int
    weights: str
    classes: tuple[str, ...] | None
    num_classes: int
    inputs: Inputs = dataclasses.field(repr=False)
    config: Any = dataclasses.field(repr=False)
    description: dict[str, Any] = dataclasses.field(repr=False)
    report: Report = dataclasses.field(repr=False)

    def preprocess(self, values: Any) -> Any:
        """What the model takes, of one value or several: float32 `[batch, height, width, channels]` of images, of text
        a dict of int32 `[batch, tokens]` (`model(**info.preprocess("a text"))`), of other inputs their arrays.

        Args:
            values: as for `predict`: files, folders, values in memory; texts or records.

        Raises:
            UserError: there is none, one can't be read, or the model takes several inputs.
        """
        processor, rows = self.processor, []
        for one in processor.gather(values):
            try:
                if one.error is not None:
                    raise BadImage(one.error)
                rows.append(processor.example(one, self.config))
            except (BadImage, OSError) as error:
                raise UserError("inputs", one.name, getattr(error, "reason", str(error))) from error
        batch = {name: jnp.asarray(np.stack([row[name] for row in rows])) for name in rows[0]}
        made = processor.prepare(self.config, None, train=False)(batch, None)
        return made if len(made) > 1 else made[processor.name]

    @property
    def processor(self) -> Processor:
        """What makes the model's only input.

        Raises:
            UserError: it takes several.
        """
        return only_processor(self.checkpoint, self.inputs)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes' names, numbers where there are none."""
        return self.classes or tuple(str(index) for index in range(self.num_classes))

    @property
    def multi_label(self) -> bool:
        """Whether an example may have several classes, each with a probability of its own."""
        return self.description["objective"].get("loss") == "sigmoid"

    @property
    def tokenizer(self) -> TextTokenizer:
        """Text to ids and back: `info.tokenizer.encode("...")`, `info.tokenizer.decode(ids)`.

        Raises:
            UserError: the model takes no text.
        """
        return self._of("text").tokenizer

    def with_tokenizer(self, tokenizer: TextTokenizer) -> "Info":
        """This with another tokenizer of the same ids; UserError as `tokenizer`."""
        text = self._of("text")
        return dataclasses.replace(self, inputs=self.inputs.replace(text, dataclasses.replace(text, known=tokenizer)))

    @property
    def text(self) -> Text:
        """What a row of text held in training; UserError as `tokenizer`."""
        return self._of("text").text

    @property
    def preprocessing(self) -> Preprocessing:
        """How an image becomes what the model takes.

        Raises:
            UserError: the model takes no images.
        """
        return self._of("image").of(self.config)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image, in pixels; UserError as `preprocessing`."""
        return self._image_shape[:2]

    @property
    def channels(self) -> int:
        """Of an image, 1 or 3; UserError as `preprocessing`."""
        return self._image_shape[2]

    @property
    def _image_shape(self) -> tuple[int, int, int]:
        self._of("image")
        return image_shape(self.config)

    def _of(self, kind: str) -> Any:
        """The first processor of a kind."""
        found = [one for one in self.inputs.processors.values() if one.kind == kind]
        if not found:
            raise UserError("checkpoint", self.checkpoint, f"takes {' and '.join(self.inputs.processors)}, not {kind}")
        return found[0]

    def shown(self) -> str:
        """What becomes of an example, in one line."""
        return "; ".join(one.details(self.config)[0] for one in self.inputs.processors.values())

    def lines(self) -> list[str]:
        """That with what it speaks of, a line for each input."""
        details = (one.details(self.config) for one in self.inputs.processors.values())
        return [f"{what:<9}{shown}" for shown, what in details]


def only_processor(checkpoint: str, inputs: Inputs) -> Processor:
    """What makes the only input of a checkpoint's model.

    Raises:
        UserError: it takes several, which what predicts and writes doesn't know how to give.
    """
    if inputs.only is None:
        message = f"takes {' and '.join(inputs.processors)}; only models of one input are asked here: vitzoo.load(...)"
        raise UserError("checkpoint", checkpoint, f"{message} gives the model, to be called with its inputs")
    return inputs.only


@dataclasses.dataclass(frozen=True)
class Opened:
    """A checkpoint whose weights haven't been read yet.

    Attributes:
        checkpoint: as it was asked for.
        located: where it is.
        name: of the model.
        config: its settings, with the changes that were asked for.
        classes: their names, if the model still tells these apart.
    """

    checkpoint: str
    located: Located
    name: str
    config: Any
    classes: Sequence[str] | None

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
        make = builder(self.name, self.config, execution)
        params, report, which = fitted(self.located, self.config, self.classes, make, weights)
        graph, _ = state.abstract(make)
        model = state.merge(graph, jax.tree.map(jnp.asarray, params))
        info = information(self.checkpoint, self.located, self.inputs, self.config, self.classes, which, report)
        return model, info


def open_model(checkpoint: "str | Path | Opened", changes: Mapping[str, Any] | None = None) -> Opened:
    """A checkpoint found and checked, its weights not yet read; one that is open already as it is.

    Raises:
        UserError: as `load`.
    """
    if isinstance(checkpoint, Opened):
        return checkpoint
    located = open_weights(checkpoint, changes)
    choice = ModelChoice("", "", dict(changes or {})).over(located.description["model"])
    config = with_sizes(choice.config())
    classes = located.description["classes"]
    if getattr(config, "num_classes", None) != getattr(config_of(located.description), "num_classes", None):
        classes = None
    return Opened(str(checkpoint), located, choice.name, config, classes)


@checked()
def load(
    checkpoint: str | Path, weights: str = "auto", *, execution: Execution = DEFAULT, **changes: Any
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
    config: Any,
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
    config: Any,
    classes: Sequence[str] | None,
    make: Callable[[Any], Any],
    weights: str = "auto",
    seed: int = 0,
    preprocessing: Preprocessing | None = None,
) -> tuple[dict[str, Any], Report, str]:
    """A checkpoint's weights made to fit a model.

    Args:
        located: from `open_weights`.
        config: the Config of the model wanted.
        classes: its classes' names, if known; they decide whether the head is kept.
        make: makes the model from its random keys.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        seed: of leaves that are new.
        preprocessing: of images, for that model; the checkpoint's own where none is given.

    Returns:
        Nested NumPy parameters, the report, and which weights they are (`ema`, `raw` or `published`).

    Raises:
        UserError: a leaf is missing, left over or of another shape, and no setting that differs explains it.
    """
    old = config_of(located.description)
    check_family(old, config)
    params, which, notes = read_weights(located, weights)
    _, shapes = state.abstract(make)
    head = match_head(located.description["classes"], _classes(old), classes, _classes(config))
    params, report = transfer(
        params,
        old,
        with_sizes(config),
        shapes,
        model=find("model", located.description["model"]["name"]),
        head=head,
        fresh=lambda: state.initialise(make, seed),
        where=name_of(located),
        scales=_scales(located.description, preprocessing, old, config),
    )
    report.told = notes
    return params, report, which


def _scales(description: dict[str, Any], now: Preprocessing | None, old: Any, new: Any) -> Scales | None:
    """Mean and deviation of pixels in a checkpoint and in a model of this Config; None for text."""
    images = input_of(description, "image")
    if images is None or not hasattr(new, "channels"):
        return None
    then, channels = preprocessing_of(images), image_shape(new)[2]
    return scale_of(then, image_shape(old)[2]), scale_of(now or for_channels(then, channels), channels)


def _classes(config: Any) -> int:
    return getattr(config, "num_classes", None) or 0


def check_family(old: Any, new: Any) -> None:
    """Raises UserError if the Configs are of different models."""
    if type(old) is not type(new):
        raise UserError("model.name", type(new).__module__, f"can't take the weights of a {type(old).__module__}")
