"""The table of `vitzoo models`: what each published variant holds and costs.

The numbers are kept in `variants.json`, since tracing all models takes half a minute; `scripts/make_model_table.py`
makes it, and a test compares the two.
"""

import abc
import dataclasses
import fnmatch
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from vitzoo.errors import UserError

KEPT = Path(__file__).with_name("variants.json")
"""A list of rows, by model, family and size."""
LONGEST_PATTERN = 200


@dataclasses.dataclass(frozen=True)
class VariantRow(abc.ABC):
    """One variant.

    Args:
        parameters: of the whole model.
        gflops: matrix products of a forward pass, in 1e9; multiply and add are two.
    """

    HEADER: ClassVar[Sequence[str]]
    """Of a table of such rows; all but the first two columns are numbers."""
    NOTE: ClassVar[str]
    """What the numbers are, below the table."""

    name: str
    variant: str
    parameters: int
    gflops: float

    @property
    def bytes_float32(self) -> int:
        """Memory of the parameters."""
        return 4 * self.parameters

    @property
    @abc.abstractmethod
    def cells(self) -> list[str]:
        """What stands below each of `HEADER`."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return dataclasses.asdict(self) | {"bytes_float32": self.bytes_float32}


@dataclasses.dataclass(frozen=True)
class ImageRow(VariantRow):
    """A variant of an image model: `parameters` with class token and 1000 classes, at 224 x 224 pixels; `gflops` of the
    body for one such image.

    Args:
        body_parameters: as published tables count: no class token, no pooling head, no class head.
        gflops_384: for 384 x 384 pixels, patches that don't fit left out.
    """

    HEADER: ClassVar[Sequence[str]] = ("model", "variant", "parameters", "of the body", "GFLOPs 224²", "GFLOPs 384²")
    NOTE: ClassVar[str] = (
        "parameters: with class token and 1000 classes; of the body: without them, at 224²\n"
        "GFLOPs: matrix products of the body for one image, multiply and add counted as two"
    )

    body_parameters: int
    gflops_384: float

    @property
    def cells(self) -> list[str]:
        """What stands below each of `HEADER`."""
        numbers = f"{self.parameters:,}", f"{self.body_parameters:,}", f"{self.gflops:,.1f}", f"{self.gflops_384:,.1f}"
        return [self.name, self.variant, *numbers]


@dataclasses.dataclass(frozen=True)
class TextRow(VariantRow):
    """A variant of a text model: `parameters` without a BERT's heads, as published; `gflops` for one text.

    Args:
        tokens: of the text: the model's context length; of the target, where a source is read first.
        source_tokens: of the source; 0 where the model reads none.
    """

    HEADER: ClassVar[Sequence[str]] = ("model", "variant", "parameters", "tokens", "GFLOPs")
    NOTE: ClassVar[str] = (
        "parameters: a BERT's with pooler and without heads; where a variant leaves the vocabulary open, the paper's\n"
        "GFLOPs: matrix products of one forward pass over so many tokens (source + target), multiply and add counted "
        "as two"
    )

    tokens: int
    source_tokens: int

    @property
    def cells(self) -> list[str]:
        """What stands below each of `HEADER`."""
        tokens = f"{self.source_tokens} + {self.tokens}" if self.source_tokens else f"{self.tokens:,}"
        return [self.name, self.variant, f"{self.parameters:,}", tokens, f"{self.gflops:,.1f}"]


def kept() -> list[VariantRow]:
    """All rows, as they are kept."""
    return [TextRow(**row) if "tokens" in row else ImageRow(**row) for row in json.loads(KEPT.read_text())]


def matcher(pattern: str) -> Callable[[str], re.Match | None]:
    """Whether a name fits a pattern of shells, `B/*`.

    Raises:
        UserError: the pattern is longer than any name; to translate one takes time with the square of its length.
    """
    if len(pattern) > LONGEST_PATTERN:
        shown = f"{pattern[:40]}... ({len(pattern):,} characters)"
        raise UserError("pattern", shown, f"must be at most {LONGEST_PATTERN} characters")
    return re.compile(fnmatch.translate(pattern)).match


def table(pattern: str = "*") -> list[VariantRow]:
    """The published variants of every model whose `name` or `variant` fits the pattern (`vit`, `B/*`, `gpt2-*`).

    Raises:
        UserError: nothing fits, or as `matcher`.
    """
    every, fits = kept(), matcher(pattern)
    chosen = [row for row in every if fits(row.name) or fits(row.variant)]
    if not chosen:
        raise UserError("pattern", pattern, f"no such model; there are {', '.join(row.variant for row in every)}")
    return chosen
