"""What a checkpoint's `model.json` says of the inputs of its model."""

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class TokenizerDescription(TypedDict):
    """What a checkpoint says of its tokenizer: which kind it is, its file below `assets/`, and what that holds."""

    kind: str
    file: str
    sha256: str
    ends: NotRequired[list[int]]


class InputDescription(TypedDict):
    """What a checkpoint says of an input: its kind, and how it is made of a field. The settings of its kind, which are
    checked when they are built, stand beside these keys.
    """

    kind: str
    tokenizer: NotRequired[TokenizerDescription]
    fields: NotRequired[Mapping[str, str]]
    length: NotRequired[int]


class ImageDescription(InputDescription):
    """What it says of images: their size, height and width, and how they are made (`data.settings.Preprocessing`)."""

    size: list[int]
    channels: int
    resize: str
    interpolation: str
    antialias: bool
    crop_fraction: float
    crop_offset: NotRequired[str]
    rounding: NotRequired[str]
    mean: list[float]
    std: list[float]


class WithInputs(TypedDict):
    """A description that has inputs, by name."""

    inputs: Mapping[str, InputDescription]


class Named(TypedDict):
    """What a checkpoint says of its model, or of what that was trained for: a name, and the settings of it."""

    name: str
    variant: NotRequired[str]
    loss: NotRequired[str]


class ModelDescription(WithInputs):
    """A description of a model: which it is, what it takes, and the names of its classes."""

    model: Named
    classes: list[str] | None
