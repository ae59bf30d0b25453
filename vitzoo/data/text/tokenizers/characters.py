"""Text as its characters, numbered in sorted order, as in nanoGPT and minGPT."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from vitzoo.data.text.tokenizers.base import Ids, Specials, TextTokenizer, as_ids, as_json, sentinel_names
from vitzoo.data.text.tokenizers.base import split_at_specials as _split
from vitzoo.data.text.tokenizers.bytes import MASKING

ROLES = {"unknown": "<unk>", "end": "</s>", "pad": "<pad>"}


class CharacterTokenizer(TextTokenizer):
    """The characters have the ids 0, 1, ... (nanoGPT's); <unk>, </s>, <pad>, tokens for masked training and sentinels
    follow.

    Args:
        characters: each known character once, in the order of ids.
    """

    kind = "characters"

    def __init__(
        self,
        characters: str,
        sentinels: int = 0,
        *,
        masking: bool = False,
        lowercase: bool = False,
        special_in_text: bool = False,
    ):
        self.settings: dict[str, Any] = dict(
            characters=characters, sentinels=sentinels, masking=masking, lowercase=lowercase,
            special_in_text=special_in_text,
        )  # fmt: skip
        self.characters, self.lowercase, self.special_in_text = characters, lowercase, special_in_text
        roles = ROLES | (MASKING if masking else {})
        names = dict(enumerate(roles.values(), len(characters)))
        first_sentinel = len(characters) + len(roles)
        self.vocabulary_size = first_sentinel + sentinels
        self.specials = Specials.of(names | sentinel_names(first_sentinel, sentinels), roles, sentinels)
        self._code_points = np.array([ord(character) for character in characters], np.uint32)

    @classmethod
    def trained(cls, texts: Iterable[str], *, lowercase: bool = False, **options) -> "CharacterTokenizer":
        """With the characters of these texts."""
        found: set[str] = set()
        for text in texts:
            found |= set(text.lower() if lowercase else text)
        return cls("".join(sorted(found)), lowercase=lowercase, **options)

    def encode(self, text: str) -> Ids:
        if not self.special_in_text:
            return self._plain(text)
        parts = [as_ids([part]) if isinstance(part, int) else self._plain(part) for part in _split(text, self.specials)]
        return np.concatenate([as_ids([]), *parts])

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        names = {} if skip_specials else dict(self.specials.names)
        known = len(self.characters)
        return "".join(self.characters[id] if 0 <= id < known else names.get(id, "") for id in map(int, ids))

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": as_json({"kind": self.kind, **self.settings})}

    def with_special_in_text(self) -> Self:
        return type(self)(**{**self.settings, "special_in_text": True})

    @property
    def byte_lengths(self) -> np.ndarray:
        lengths = np.zeros(self.vocabulary_size, np.int32)
        lengths[: len(self.characters)] = [len(c.encode("utf-8", "surrogatepass")) for c in self.characters]
        lengths[self.specials.unknown] = 1
        return lengths

    def first_bytes(self, text: str) -> int:
        return len(text[:1].encode("utf-8", "surrogatepass"))

    @property
    def word_edges(self) -> tuple[np.ndarray, np.ndarray]:
        inside = np.zeros(self.vocabulary_size, bool)
        inside[: len(self.characters)] = [character.isalnum() for character in self.characters]
        return inside, inside

    def _plain(self, text: str) -> Ids:
        text = text.lower() if self.lowercase else text
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        if not len(self._code_points):
            return np.full(len(codes), self.specials.unknown, np.int32)
        # the characters are sorted, so that their code points are
        places = np.searchsorted(self._code_points, codes).clip(max=len(self._code_points) - 1)
        return np.where(self._code_points[places] == codes, places, len(self.characters)).astype(np.int32)
