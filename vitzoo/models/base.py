"""What a model's class says of itself beside computing: what a user's own model says in the same way, or leaves out."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from vitzoo.schema import Settings
from vitzoo.strict_json import JSON

Flat = dict[str, np.ndarray]
"""Leaves by path."""
Note = Callable[[str, str, str], None]
"""Called with kind (resized or adapted), path and text for each leaf that changes."""
Scale = tuple[np.ndarray, np.ndarray]
Scales = tuple[Scale, Scale]
"""Mean and standard deviation of pixels, [channels, 1] each: of a checkpoint, and of what takes its weights."""


def _unchanged(params: Flat, old: Any, new: Any, note: Note, scales: Scales | None) -> Flat:
    return params


@dataclasses.dataclass(frozen=True)
class TransferRules:
    """How weights of one Config of a model go onto another.

    Attributes:
        fixed: settings (or properties) that are the checkpoint's for good: no leaf of another could be used.
        may_change: of these, a change that is allowed nevertheless, before and after.
        leaves: a setting that differs → a regular expression of the leaves that may then be new or left out.
        head: a regular expression of the leaves of class heads, which are kept, put in order or new.
        new_head: a setting that differs → why the head is new then: the text for the report, in which `{text}` stands
            for what was decided by the classes, `{old}` and `{new}` for the setting's values.
        adapt: leaves made to fit: takes the parameters by path, both Configs, what to call for each leaf that changes,
            and the scales of pixels in both models (None: they are one for all channels).
    """

    fixed: Sequence[str] = ()
    may_change: Mapping[str, tuple[JSON, JSON]] = dataclasses.field(default_factory=dict)
    leaves: Mapping[str, str] = dataclasses.field(default_factory=dict)
    head: str = r"head/.*"
    new_head: Mapping[str, str] = dataclasses.field(default_factory=dict)
    adapt: Callable[[Flat, Any, Any, Note, Scales | None], Flat] = _unchanged


class ModelConfig(Settings, Protocol):
    """A frozen dataclass of a model's settings: a model's `Config`, or a user's own."""


EMBEDDINGS = r"(\w*embedding(_norm)?|\w*token|positions)(/.*)?"
"""Leaves below the first block, as most models have them: patches, tokens, positions, the norm of these."""


class Model(Protocol):
    """The class of a model, an `nnx.Module`; all but `Config` may be left out.

    It is made by `Model(config, rngs=rngs, execution=execution)` and called with its inputs, the first by position, the
    others by name, and `train` and `key`: `model(images, train=False, key=None)`. Of its settings, `image_size`,
    `channels`, `num_classes` and `vocabulary_size` are filled in from the data where they are None.

    Attributes:
        Config: a frozen dataclass of its settings.
        VARIANTS: settings by name of a size.
        INPUTS: what a call takes, by name → kind: `image`, `text`, one's own `my_file:Volume`, or what rows have
            besides (`vitzoo.objectives.inputs`); without it, what the objective is for.
        PUBLISHED: the variants that are listed.
        ALIASES: names by which other libraries call its variants → the variant, and settings that differ from it.
        EMBEDDINGS: a regular expression of the leaves below the first block, for layer-wise decay.
        SHARDING_RULES: a regular expression of paths → logical axes of the leaf (`vitzoo.parallel.sharding`); without
            them parameters stay whole.
        TRANSFER: how its weights go onto another Config; without it, only onto one with the same leaves but the head.
    """

    Config: ClassVar[type[ModelConfig]]
    VARIANTS: ClassVar[Mapping[str, Mapping[str, JSON]]]
    INPUTS: ClassVar[Mapping[str, str]]
    PUBLISHED: ClassVar[Sequence[str]]
    ALIASES: ClassVar[Mapping[str, tuple[str, Mapping[str, JSON]]]]
    EMBEDDINGS: ClassVar[str]
    SHARDING_RULES: ClassVar[Sequence[tuple[str, tuple[str | None, ...] | None]]]
    TRANSFER: ClassVar[TransferRules]


def embeddings_of(model: type) -> str:
    """A model's `EMBEDDINGS`."""
    return getattr(model, "EMBEDDINGS", EMBEDDINGS)


def transfer_rules(model: type) -> TransferRules:
    """A model's `TRANSFER`."""
    return getattr(model, "TRANSFER", TransferRules())
