"""Images as a model's input."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data import user_inputs
from vitzoo.data.augment import augment_image, shift_and_flip, varies_after_resize_only
from vitzoo.data.described import InputDescription
from vitzoo.data.examples import Draw, ExampleRows
from vitzoo.data.folders import path_of
from vitzoo.data.images import Picture, model_pixels, pixel_type, resize_eval
from vitzoo.data.mixing import Prepare, make_prepare, normalise
from vitzoo.data.open import open_source
from vitzoo.data.processors.base import Evaluating, Shapes, Use, departures, shapes_of
from vitzoo.data.rows import Batch, Row
from vitzoo.data.settings import Augment, Data, Preprocessing
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.text.row_kinds import EXAMPLES
from vitzoo.data.user_inputs import Input, Values
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.models.geometry import image_shape
from vitzoo.nn.capture import Outputs
from vitzoo.schema import build, patch, to_json
from vitzoo.streams import on_one_line
from vitzoo.strict_json import JSON


@dataclasses.dataclass(frozen=True)
class ImageProcessor:
    """See `vitzoo.data.processors.base.Processor`.

    Args:
        preprocessing: how any image becomes pixels of one size.
        augment: how training varies them.
        name: of the input.
        adopted: whether it is that of a checkpoint, whose model has an image size already.
        classes: whether something needs the model to tell classes apart.
    """

    kind: ClassVar[str] = "image"
    noun: ClassVar[str] = "image"
    argument: ClassVar[str] = "IMAGE ..."
    row_kind: ClassVar[str] = EXAMPLES
    row_classes: ClassVar[None] = None
    tokenizer: ClassVar[None] = None
    is_picture: ClassVar[bool] = True

    preprocessing: Preprocessing
    augment: Augment = dataclasses.field(default_factory=Augment)
    name: str = "image"
    adopted: bool = False
    classes: bool = True

    @classmethod
    def bind(cls, settings: Preprocessing, use: Use) -> Self:
        """The processor of an input with these settings."""
        return cls(settings, use.augment, use.name, classes=use.classes)

    @property
    def settings(self) -> Preprocessing:
        """What the config says of the input."""
        return self.preprocessing

    @property
    def field(self) -> str:
        return self.preprocessing.FIELD

    def of(self, config: ModelConfig) -> Preprocessing:
        """The preprocessing for a model with these settings."""
        return for_channels(self.preprocessing, image_shape(config)[2])

    def adopt(self, own: InputDescription, folder: Path, stated: Mapping[str, JSON]) -> "ImageProcessor":
        preprocessing = patch(preprocessing_of(own, self.name), stated, f"inputs.{self.name}")
        return dataclasses.replace(self, preprocessing=preprocessing, adopted=True)

    def source(self, data: Data, split: str | None = None) -> Source:
        return open_source(data, split, needs="image")

    def learned(self, source: Source) -> "ImageProcessor":
        return self

    def model_fields(self, source: Source) -> dict[str, JSON]:
        info = source.info
        classes = None if info.classes is None else len(info.classes)
        # files that happen to be of one size are no reason to give up the size that a checkpoint was trained for
        size = None if self.adopted and path_of(info.name) is not None else info.image_shape
        return {"num_classes": classes, "channels": info.channels, "image_size": size}

    def complete(self, config: ModelConfig, source: Source) -> ModelConfig:
        height, width, channels = image_shape(config)
        config = dataclasses.replace(config, image_size=(height, width), channels=channels)
        told, named = _outputs(config), len(source.info.classes or ())
        if not self.classes:
            return config
        kind = source.fields.get("label")
        if kind in (None, "number"):
            what = "has no labels" if kind is None else "has numbers as labels (data.regression)"
            raise UserError("data.name", source.info.name, f"{what}, and the objective tells classes apart")
        if told and told < named:
            message = f"the data have {named} classes; leave it out, or at least {named}"
            raise UserError("model.num_classes", told, message)
        if not told:
            raise UserError(
                "model.num_classes", getattr(config, "num_classes", None), "the data name no classes, so it must be set"
            )
        return config

    def assumed_fields(
        self, source: Source, config: ModelConfig, stated: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], tuple[str, ...]]:
        return self.model_fields(source), ()

    def assumed_row(self, source: Source, config: ModelConfig) -> tuple[ModelConfig, Shapes]:
        completed = self.complete(config, source)
        return completed, shapes_of(self.blank(completed))

    def evaluating(self, stated: Mapping[str, JSON], evaluator: Evaluating) -> "ImageProcessor":
        return dataclasses.replace(self, preprocessing=patch(self.preprocessing, stated, f"inputs.{self.name}"))

    def rows(self, source: Source, data: Data, config: ModelConfig, *, train: bool) -> ExampleRows:
        info = source.info
        if train and self.classes and info.classes is not None and len(info.classes) < 2 and not info.multi_label:
            only = f"there is only one class ({on_one_line(', '.join(info.classes))}): nothing to tell apart"
            raise UserError("data.name", data.name, only)
        return ExampleRows(source, data, (self.arrays(source, config, train=train),))

    def arrays(self, source: Source, config: ModelConfig, *, train: bool) -> "ImageArrays":
        return self._arrays(config, self.augment if train else None)

    def blank(self, config: ModelConfig) -> Row:
        return self._arrays(config).padding()

    def _arrays(self, config: ModelConfig, augment: Augment | None = None) -> "ImageArrays":
        height, width, channels = image_shape(config)
        return ImageArrays(self.of(config), (height, width), channels, augment, self.name)

    def prepare(self, config: ModelConfig, info: SourceInfo | None, *, train: bool) -> Prepare:
        augment, preprocessing = self.augment if train else None, self.of(config)
        classes, multi_label = (None, False) if info is None else (info.classes, info.multi_label)
        return make_prepare(augment, preprocessing, _outputs(config) or len(classes or ()), multi_label, self.name)

    def gather(self, inputs: Values) -> list[Input]:
        return user_inputs.gather(inputs)

    def example(self, given: Input, config: ModelConfig) -> Row:
        return self._arrays(config).arrays(given.value, 0, None)

    def unheeded(self, stated: Mapping[str, JSON]) -> list[str]:
        return []

    def departures(self, trained: Self, config: ModelConfig) -> list[str]:
        return departures(self.name, self.of(config), trained.of(config))

    def exported(
        self, model: Callable[..., Outputs], config: ModelConfig, batch: Any
    ) -> tuple[Callable, dict[str, jax.ShapeDtypeStruct]]:
        shape, preprocessing = (batch, *image_shape(config)), self.of(config)
        takes = {"images": jax.ShapeDtypeStruct(shape, jnp.uint8)}
        return lambda images: model(normalise(images, preprocessing)), takes

    def described(self, config: ModelConfig) -> dict[str, JSON]:
        height, width, channels = image_shape(config)
        return described_images(self.of(config), (height, width), channels)

    def assets(self, folder: Path) -> Path | None:
        return None

    def arguments(self, config: ModelConfig) -> tuple[jax.ShapeDtypeStruct, ...]:
        return (jax.ShapeDtypeStruct((1, *image_shape(config)), np.float32),)

    def shown(self, config: ModelConfig) -> str:
        height, width, channels = image_shape(config)
        outputs = f", {_outputs(config)} outputs" if _outputs(config) else ""
        return f"images {height} × {width} × {channels}{outputs}"

    def details(self, config: ModelConfig) -> tuple[str, str]:
        p, (height, width, channels) = self.of(config), image_shape(config)
        mean, std = in_short(p.mean), in_short(p.std)
        crop = f", centre crop {p.crop_fraction:g}" if p.crop_fraction != 1 else ""
        crop += " (half to even)" if p.crop_offset == "half_even" and p.crop_fraction != 1 else ""
        smooth = " with antialias" if p.antialias else ""
        smooth += {"round": "", "cut": ", fractions cut off", "none": ", not rounded"}[p.rounding]
        resizing = f"{p.resize}, {p.interpolation}{smooth}{crop}"
        return f"{height} × {width} × {channels}, {resizing}, mean {mean}, std {std}", "pixels"


@dataclasses.dataclass(frozen=True)
class ImageArrays:
    """Images brought to a model's size, [height, width, channels] of `pixel_type`; see `InputArrays`.

    Args:
        preprocessing: how an image becomes pixels of one size.
        size: height and width.
        channels: 1 or 3.
        augment: how training varies images; None for evaluation alone.
        name: of the input.
    """

    preprocessing: Preprocessing
    size: tuple[int, int]
    channels: int
    augment: Augment | None = None
    name: str = "image"
    field: ClassVar[str] = "image"

    @property
    def fixed(self) -> Hashable:
        return dataclasses.replace(self, augment=None)

    @property
    def varies_batches_only(self) -> bool:
        return self.augment is None or varies_after_resize_only(self.augment)

    def padding(self) -> Row:
        return {self.name: np.zeros((*self.size, self.channels), pixel_type(self.preprocessing))}

    def arrays(self, value: Picture, index: int, draw: Draw | None) -> Row:
        def finish(pixels: np.ndarray) -> np.ndarray:
            if draw is None:
                return resize_eval(pixels, self.size, self.preprocessing)
            return augment_image(pixels, self.size, self.augment or Augment(), self.preprocessing, *draw)

        return {self.name: model_pixels(value, self.channels, finish)}

    def vary(self, batch: Batch, seed: int, positions: np.ndarray) -> Batch:
        return batch | {self.name: shift_and_flip(batch[self.name], self.augment or Augment(), seed, positions)}


def preprocessing_of(own: InputDescription, name: str = "image") -> Preprocessing:
    """The preprocessing that a checkpoint's `model.json` tells of."""
    names = {field.name for field in dataclasses.fields(Preprocessing)}
    fields = {key: value for key, value in own.items() if key in names}
    return build(Preprocessing, fields, f"inputs.{name}")


def described_images(preprocessing: Preprocessing, size: tuple[int, int], channels: int) -> dict[str, JSON]:
    """What `model.json` says of it, mean and std for each channel."""
    values = to_json(preprocessing)
    for field in ("mean", "std"):
        one = values[field] or [127.5]
        values[field] = one * channels if len(one) == 1 else one
    return {"kind": "image", "size": list(size), "channels": channels, **values}


def in_short(values: Sequence[float] | None) -> str:
    """A mean or deviation as one number where all channels have the same."""
    values = values or (127.5,)
    return ",".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


def for_channels(preprocessing: Preprocessing, channels: int) -> Preprocessing:
    """The preprocessing for a model of that many channels: from three to one, mean and std are averaged."""
    if channels != 1:
        return preprocessing
    averaged: dict[str, Any] = {
        name: (float(np.mean(values)),)
        for name in ("mean", "std")
        if (values := getattr(preprocessing, name)) is not None and len(values) > 1
    }
    return dataclasses.replace(preprocessing, **averaged)


def _outputs(config: ModelConfig) -> int:
    """How many classes a model tells apart; 0 for one that has no logits."""
    return getattr(config, "num_classes", None) or 0
