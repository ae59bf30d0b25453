"""What every published format says of itself: how it is recognised, read and, where it goes out, written."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.weights.files.source import Source
from vitzoo.weights.rows import Flat, Ignored, Row


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a file's names, shapes and `config.json` say.

    Attributes:
        model: `name` and the fields of the model's Config that differ from its defaults.
        rows: where each of our leaves stands in the file.
        ignored: names that are left aside, each with a reason.
        objective: `name` and fields: what the head is for.
        classes: names by index.
        preprocessing: of images, the keys of `data.settings.Preprocessing` that differ from its defaults, without
            `size` and `channels`; of text, fields of `data.text.settings.Text`.
        tokenizer: of text.
        notes: lines for the report: what was taken where the file leaves a choice.
    """

    model: Mapping[str, Any]
    rows: tuple[Row, ...]
    ignored: tuple[Ignored, ...] = ()
    objective: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"name": "classification"})
    classes: tuple[str, ...] | None = None
    preprocessing: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tokenizer: TextTokenizer | None = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Writing:
    """A checkpoint in another's format.

    Attributes:
        tensors: names and arrays, one at a time.
        config: the content of `config.json`.
        files: other files beside it, by name: JSON values, text or bytes.
        notes: lines for the report: what is kept in another way than here.
    """

    tensors: Iterator[tuple[str, np.ndarray]]
    config: Mapping[str, Any]
    files: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Format(Protocol):
    """One family's layout. A class without state; `formats/known.py` lists them all.

    Attributes:
        name: as `vitzoo convert --format` takes it.
        model: the model that it holds.
    """

    name: ClassVar[str]
    model: ClassVar[str]

    def recognises(self, source: Source) -> bool:
        """Whether the file's names (and `config.json`) are this format's; shapes are looked at only in `read`."""
        ...

    def read(self, source: Source, given: Mapping[str, Any]) -> Reading:
        """What it holds.

        Args:
            source: the file.
            given: settings of the model that a user states, for what can't be known from the file.

        Raises:
            UserError: it holds something that vitzoo's model has no setting for, or a setting must be given (named).
        """
        ...


class Writer(Protocol):
    """A format that goes out too."""

    def write(self, config: Any, params: Flat, description: Mapping[str, Any], tokenizer: Any) -> Writing:
        """A checkpoint in this format.

        Args:
            config: the model's Config.
            params: its leaves by path.
            description: `model.json`.
            tokenizer: of text.

        Raises:
            UserError: the format has no place for one of the model's settings (named).
        """
        ...
