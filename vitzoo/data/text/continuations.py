"""Texts of which only the end is scored, given what stands before: what choices and last words have in common."""

import dataclasses

import numpy as np

from vitzoo.data.text.rows import Row, SourceSide, TargetSide, given_before
from vitzoo.data.text.tokenizers.base import Ids, TextTokenizer

Pair = tuple[Ids, Ids]
"""The ids given, at least one, and those to be said."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """How long a row's arrays are.

    Args:
        length: T, of tokens and targets.
        source_length: S, of an encoder-decoder's source; None for a decoder.
        prefix_lm: whether a decoder reads what is given in both directions.
    """

    length: int
    source_length: int | None = None
    prefix_lm: bool = False

    @classmethod
    def of(cls, pairs: list[Pair], encodes: bool, prefix_lm: bool = False) -> "Shape":
        """The smallest that holds all pairs."""
        if encodes:
            return cls(max(len(said) for _, said in pairs), max(len(given) for given, _ in pairs))
        return cls(max(len(given) + len(said) - 1 for given, said in pairs), None, prefix_lm)


def cut_pair(given: Ids, said: Ids, limit: int) -> Pair:
    """A pair with at most `limit` tokens read: what is given loses its front, then what is said its own."""
    given = given[max(len(given) + len(said) - 1 - limit, 0) :] if len(said) <= limit else given[-1:]
    return given, said[-limit:]


def row_of(pair: Pair | None, shape: Shape, tokenizer: TextTokenizer) -> Row:
    """`tokens`, `targets`, `weights` (1 where something is to be said), `segments` and `positions` [T], and for an
    encoder-decoder `source_tokens`, `source_segments` and `source_positions` [S], for a prefix LM `prefix` [T]. None
    gives a row of nothing.
    """
    side = TargetSide(shape.length, tokenizer.fill_id, shape.prefix_lm)
    encoder = None if shape.source_length is None else SourceSide(shape.source_length, tokenizer.fill_id)
    if pair is not None:
        given, said = pair
        if encoder is None:
            ids = np.concatenate([given, said])
            side.add(ids[:-1], ids[1:], np.arange(len(ids) - 1) >= len(given) - 1, prefix=len(given))
        else:
            encoder.add(given)
            side.add(given_before(said, tokenizer.decoder_start_id), said)
    row = side.row(0, more=None if encoder is None else encoder.arrays())
    return {name: value for name, value in row.items() if name not in ("weight", "id")}
