"""Entities from tags of words, as CoNLL's script counts them (Tjong Kim Sang and De Meulder 2003): an entity is right
where its kind, its first and its last word are.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np

TAG = re.compile(r"([BIESLU])-(.+)")
OUTSIDE = "O"

Entity = tuple[int, str, int, int]
"""Text, kind, first word, and the word after the last."""


def are_entity_tags(names: Sequence[str]) -> bool:
    """Whether classes are tags of entities: O, and B-, I- (E-, L-, S-, U-) before a kind."""
    return OUTSIDE in names and len(names) > 1 and all(name == OUTSIDE or TAG.fullmatch(name) for name in names)


def entities(tags: Sequence[str], texts: Sequence[int] | np.ndarray) -> Iterator[Entity]:
    """The entities of words in a row.

    One begins at B, S or U, at another kind than before, and after O, E, L, S or U; so tags that never begin (I-PER
    after O) are entities too, as in CoNLL.

    Args:
        tags: of each word.
        texts: the number of the text that each word is of; no entity goes over its end.
    """
    start, kind, before = 0, "", OUTSIDE  # of the entity under way, where there is a kind
    for place, tag in enumerate([*tags, OUTSIDE]):
        mark, now = _parted(tag)
        other_text = place == len(tags) or (place > 0 and texts[place] != texts[place - 1])
        begins = mark in "BSU" or before in "OELSU" or now != kind or other_text
        if kind and (begins or not now):
            yield int(texts[start]), kind, start, place
        if now and begins:
            start = place
        kind, before = now, mark


def entity_scores(
    label: Sequence[str], said: Sequence[str], texts: Sequence[int] | np.ndarray
) -> tuple[float, float, float]:
    """Precision, recall and F1 of entities; a ratio over nothing is 0, as in CoNLL's script and in seqeval.

    Args:
        label: the true tag of each word.
        said: the one predicted.
        texts: the number of the text that each word is of.
    """
    true, found = set(entities(label, texts)), set(entities(said, texts))
    right = len(true & found)
    return right / max(len(found), 1), right / max(len(true), 1), 2 * right / max(len(true) + len(found), 1)


def _parted(tag: str) -> tuple[str, str]:
    match = TAG.fullmatch(tag)
    return (match[1], match[2]) if match else (OUTSIDE, "")
