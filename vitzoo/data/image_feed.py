"""Images as a model's input."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vitzoo.data.folders import path_of
from vitzoo.data.image_rows import ImageRows, training_images
from vitzoo.data.mixing import Prepare, make_prepare
from vitzoo.data.open import open_source
from vitzoo.data.settings import Augment, Data, Preprocessing
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.errors import UserError
from vitzoo.schema import build, patch, to_json


@dataclasses.dataclass(frozen=True)
class ImageFeed:
    """See `vitzoo.data.feed.Feed`.

    Args:
        preprocessing: how any image becomes pixels of one size.
        augment: how training varies them.
        adopted: whether it is that of a checkpoint, whose model has an image size already.
        classes: whether something needs the model to tell classes apart.
    """

    preprocessing: Preprocessing
    augment: Augment = dataclasses.field(default_factory=Augment)
    adopted: bool = False
    classes: bool = True

    def adopt(
        self, description: Mapping[str, Any], folder: Path, stated: Mapping[str, Mapping[str, Any]]
    ) -> "ImageFeed":
        own = preprocessing_of(description)
        preprocessing = patch(own, stated.get("preprocessing", {}), "preprocessing")
        return dataclasses.replace(self, preprocessing=preprocessing, adopted=True)

    def source(self, data: Data, split: str | None = None) -> Source:
        return open_source(data, split, needs="image")

    def learned(self, source: Source) -> "ImageFeed":
        return self

    def model_fields(self, source: Source) -> dict[str, Any]:
        info = source.info
        classes = None if info.classes is None else len(info.classes)
        # files that happen to be of one size are no reason to give up the size that a checkpoint was trained for
        size = None if self.adopted and path_of(info.name) is not None else info.image_shape
        return {"num_classes": classes, "channels": info.channels, "image_size": size}

    def complete(self, config: Any, source: Source) -> Any:
        size, named = config.image_size, len(source.info.classes or ())
        config = dataclasses.replace(
            config,
            image_size=_pair(224 if size is None else size),
            channels=3 if config.channels is None else config.channels,
        )
        if not self.classes:
            return config
        kind = source.fields.get("label")
        if kind in (None, "number"):
            what = "has no labels" if kind is None else "has numbers as labels (data.regression)"
            raise UserError("data.name", source.info.name, f"{what}, and the objective tells classes apart")
        if config.num_classes and config.num_classes < named:
            message = f"the data have {named} classes; leave it out, or at least {named}"
            raise UserError("model.num_classes", config.num_classes, message)
        if not config.num_classes:
            raise UserError("model.num_classes", config.num_classes, "the data name no classes, so it must be set")
        return config

    def evaluating(self, evaluator: Any) -> "ImageFeed":
        return self

    def rows(self, source: Source, data: Data, config: Any, *, train: bool) -> ImageRows:
        preprocessing, size = for_channels(self.preprocessing, config.channels), _pair(config.image_size)
        if not train:
            return ImageRows(source, data, preprocessing, size, config.channels)
        return training_images(source, data, preprocessing, self.augment, size=size, channels=config.channels)

    def prepare(self, config: Any, info: SourceInfo, *, train: bool) -> Prepare:
        augment, preprocessing = self.augment if train else None, for_channels(self.preprocessing, config.channels)
        return make_prepare(augment, preprocessing, _outputs(config) or len(info.classes or ()), info.multi_label)

    def described(self, config: Any) -> dict[str, Any]:
        own = for_channels(self.preprocessing, config.channels)
        return {"preprocessing": described_preprocessing(own, _pair(config.image_size), config.channels)}

    def assets(self, folder: Path) -> Path | None:
        return None

    def arguments(self, config: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        return (jax.ShapeDtypeStruct((1, *_pair(config.image_size), config.channels), np.float32),)

    def shown(self, config: Any) -> str:
        height, width = _pair(config.image_size)
        outputs = f", {_outputs(config)} outputs" if _outputs(config) else ""
        return f"images {height} × {width} × {config.channels}{outputs}"


def preprocessing_of(description: Mapping[str, Any]) -> Preprocessing:
    """A checkpoint's preprocessing."""
    values = description["preprocessing"]
    fields = {f.name: values[f.name] for f in dataclasses.fields(Preprocessing) if f.name in values}
    return build(Preprocessing, fields, "preprocessing")


def described_preprocessing(preprocessing: Preprocessing, size: tuple[int, int], channels: int) -> dict[str, Any]:
    """What `model.json` says of it, mean and std for each channel."""
    values = to_json(preprocessing)
    for field in ("mean", "std"):
        one = values[field] or [127.5]
        values[field] = one * channels if len(one) == 1 else one
    return {"size": list(size), "channels": channels, **values}


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


def preprocessing_for(feed: Any, config: Any) -> Preprocessing | None:
    """What makes a model's images of a feed's; None where it feeds something else."""
    return for_channels(feed.preprocessing, config.channels) if isinstance(feed, ImageFeed) else None


def _outputs(config: Any) -> int:
    """How many classes a model tells apart; 0 for one that has no logits."""
    return getattr(config, "num_classes", None) or 0


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
