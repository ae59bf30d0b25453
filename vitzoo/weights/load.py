"""A checkpoint as a model ready to use: its weights, its classes, its preprocessing."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.argument_types import checked
from vitzoo.checkpoints.locate import Located
from vitzoo.config.experiment import ModelChoice
from vitzoo.data.image_files import BadImage
from vitzoo.data.images import model_pixels, resize_eval
from vitzoo.data.inputs import input_of
from vitzoo.data.mixing import normalise
from vitzoo.data.processors.image import for_channels, preprocessing_of
from vitzoo.data.processors.text import text_of
from vitzoo.data.settings import Preprocessing
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.saved import load_tokenizer
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
        description: all of `model.json`.
        report: what became of each leaf.
    """

    checkpoint: str
    step: int
    weights: str
    classes: tuple[str, ...] | None
    num_classes: int
    description: dict[str, Any] = dataclasses.field(repr=False)
    report: Report = dataclasses.field(repr=False)

    LABEL: ClassVar[str] = "inputs"
    """What `shown` speaks of."""

    def shown(self) -> str:
        """What becomes of an example, in one line."""
        return " and ".join(self.description["inputs"])

    def check_alone(self) -> None:
        """Checks that the model takes images alone, or text alone, as what predicts and writes knows how to give.

        Raises:
            UserError: it takes something else, or several inputs.
        """
        message = f"takes {self.shown()}; only models of images alone or of text alone are asked here: vitzoo.load(...)"
        raise UserError("checkpoint", self.checkpoint, f"{message} gives the model, to be called with its inputs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextInfo(Info):
    """Of a model of text.

    Attributes:
        tokenizer: text to ids and back: `info.tokenizer.encode("...")`, `info.tokenizer.decode(ids)`.
        text: what a row of its training held.
    """

    LABEL: ClassVar[str] = "tokens"

    tokenizer: TextTokenizer
    text: Text

    def check_alone(self) -> None:
        """Text alone."""

    def shown(self) -> str:
        """The tokenizer in one line."""
        return f"{self.tokenizer.kind}, {self.tokenizer.vocabulary_size:,} tokens, rows of {self.text.length}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageInfo(Info):
    """Of a model of images.

    Attributes:
        multi_label: whether an image may have several classes, each with a probability of its own.
        preprocessing: how an image becomes what the model takes.
        size: height and width of that, in pixels.
        channels: 1 or 3.
    """

    LABEL: ClassVar[str] = "pixels"

    multi_label: bool
    preprocessing: Preprocessing
    size: tuple[int, int]
    channels: int

    def check_alone(self) -> None:
        """Images alone."""

    def shown(self) -> str:
        """The preprocessing in one line."""
        p, (height, width) = self.preprocessing, self.size
        mean, std = in_short(p.mean), in_short(p.std)
        crop = f", centre crop {p.crop_fraction:g}" if p.crop_fraction != 1 else ""
        crop += " (half to even)" if p.crop_offset == "half_even" and p.crop_fraction != 1 else ""
        smooth = " with antialias" if p.antialias else ""
        smooth += {"round": "", "cut": ", fractions cut off", "none": ", not rounded"}[p.rounding]
        return (
            f"{height} × {width} × {self.channels}, {p.resize}, {p.interpolation}{smooth}{crop}, mean {mean}, std {std}"
        )

    def pixels(self, image: Any) -> np.ndarray:
        """One image of any kind (path, bytes, PIL, array) as `[height, width, channels]` of the model's size: uint8, or
        float32 where pixels aren't rounded.

        Raises:
            BadImage: it can't be read.
        """
        return model_pixels(image, self.channels, lambda pixels: resize_eval(pixels, self.size, self.preprocessing))

    def preprocess(self, images: Any) -> jax.Array:
        """One image or a sequence of images as what the model takes: float32 `[batch, height, width, channels]`.

        Raises:
            UserError: there is none, or one can't be read.
        """
        several = isinstance(images, Sequence) and not isinstance(images, str | bytes)
        several = several or getattr(images, "ndim", 0) == 4
        try:
            pixels = [self.pixels(image) for image in (images if several else [images])]
        except BadImage as error:
            raise UserError("images", error.path or None, error.reason) from error
        if not pixels:
            raise UserError("images", None, "there is none")
        return normalise(jnp.asarray(np.stack(pixels)), self.preprocessing)


def in_short(values: Sequence[float] | None) -> str:
    """A mean or deviation as one number where all channels have the same."""
    values = values or (127.5,)
    return ",".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


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
    located = open_weights(checkpoint, changes)
    choice = ModelChoice("", "", changes).over(located.description["model"])
    config = with_sizes(choice.config())
    classes = located.description["classes"]
    if getattr(config, "num_classes", None) != getattr(config_of(located.description), "num_classes", None):
        classes = None
    make = builder(choice.name, config, execution)
    params, report, which = fitted(located, config, classes, make, weights)
    graph, _ = state.abstract(make)
    model = state.merge(graph, jax.tree.map(jnp.asarray, params))
    return model, information(str(checkpoint), located, config, classes, which, report)


def information(
    checkpoint: str, located: Located, config: Any, classes: Sequence[str] | None, weights: str, report: Report
) -> Info:
    """What is known of a checkpoint whose model now has this Config."""
    description = located.description
    known: dict[str, Any] = {
        "checkpoint": checkpoint,
        "step": located.step,
        "weights": weights,
        "classes": None if classes is None else tuple(classes),
        "num_classes": getattr(config, "num_classes", None) or 0,
        "description": description,
        "report": report,
    }
    images, text = input_of(description, "image"), input_of(description, "text")
    if len(description["inputs"]) != 1 or not (images or text):
        return Info(**known)
    if text is not None:
        tokenizer = load_tokenizer(located.folder / "assets", text["tokenizer"])
        return TextInfo(**known, tokenizer=tokenizer, text=text_of(text))
    assert images is not None
    return ImageInfo(
        **known,
        multi_label=description["objective"].get("loss") == "sigmoid",
        preprocessing=for_channels(preprocessing_of(images), config.channels),
        size=image_shape(config)[:2],
        channels=config.channels,
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
