"""What every kind of text data gives: examples of named fields by position, and a description of them."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from vitzoo.data.duplicates import hold_out, numbered
from vitzoo.data.sources.base import Source, SourceInfo, no_labels
from vitzoo.errors import UserError

SPLIT_SEED = 0
NOT_TEXT = ("label", "tags", "answer")
"""Fields that are no text themselves, but what is to be said of it."""


class Texts:
    """One field of a source as an iterable of strings that can be gone through again (to train a tokenizer)."""

    def __init__(self, source: Source, fields: Sequence[str] = ("text",)):
        self.source, self.fields = source, fields

    def __iter__(self) -> Iterator[str]:
        for index in range(len(self.source)):
            example = self.source[index]
            for field in self.fields:
                yield from strings(example[field])


def all_text(source: Source) -> Texts:
    """Every string of every example."""
    return Texts(source, [field for field in source.fields if field not in NOT_TEXT])


def strings(value: Any) -> list[str]:
    """The strings of a field: itself, a list's, or those of turns."""
    if isinstance(value, str):
        return [value]
    return [item if isinstance(item, str) else item["text"] for item in value]


def require(source: Source, *fields: str, what: str) -> None:
    """Refuses a source without these fields."""
    if not set(fields) <= set(source.fields):
        refuse_unusable(source)
        raise UserError(
            "data.name",
            source.info.name,
            f"{what} needs the fields {', '.join(fields)}; this data has {', '.join(source.fields)}",
        )


def refuse_unusable(source: Source) -> None:
    """Where labels are wanted: refuses a source that has some which name no classes, and says which."""
    if (refusal := getattr(source, "unusable", None)) is not None:
        raise refusal


def text_info(
    name: str,
    split: str,
    count: int,
    mark: str,
    classes: tuple[str, ...] | None = None,
    notes: Sequence[str] = (),
    labels: Callable[[], np.ndarray] | None = None,
    unlabelled: bool = False,
) -> SourceInfo:
    """A description of text: of the fields that speak of images, `channels` is 0."""
    return SourceInfo(
        name=name, split=split, n=count, classes=classes, channels=0, image_shape=None, multi_label=False,
        fingerprint=mark, notes=tuple(notes), labels=labels or no_labels, unlabelled=unlabelled,
    )  # fmt: skip


def carved(keys: np.ndarray, fraction: float) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Train and validation of data that states no splits: a fixed permutation, each part in the data's order; and a
    note that says so. At least one example is validation, and one train; equal examples are in one part.

    Args:
        keys: of every example, the same for equal ones (of their inputs, labels aside).
        fraction: of the examples, to be validation.
    """
    count = len(keys)
    if fraction == 0 or count < 2:
        return {"train": np.arange(count)}, ()
    ranked = np.random.RandomState(SPLIT_SEED).permutation(count)
    chosen = hold_out(ranked, numbered(keys), min(max(1, round(count * fraction)), count - 1))
    if not len(chosen):
        return {"train": np.arange(count)}, ("there is no validation: all examples are the same",)
    held = np.zeros(count, bool)
    held[chosen] = True
    note = f"validation is {len(chosen):,} of {count:,} examples, by a fixed permutation (data.validation_fraction)"
    return {"train": np.flatnonzero(~held), "validation": np.flatnonzero(held)}, (note,)


def checksum(content: bytes) -> int:
    """64 bits of a content: two cyclic sums, of it and of its length with its ends swapped."""
    half = len(content) // 2
    return zlib.crc32(content) << 32 | zlib.crc32(content[half:] + content[:half], len(content) & 0xFFFFFFFF)
