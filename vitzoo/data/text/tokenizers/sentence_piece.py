"""Published SentencePiece models (spiece.model: T5, mT5, ALBERT, ...), read by the `sentencepiece` library."""

import functools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from vitzoo.data.text.lines import check_whole
from vitzoo.data.text.tokenizers.base import (
    Ids,
    Specials,
    TextTokenizer,
    as_ids,
    as_json,
    sentinel_names,
    split_at_specials,
)
from vitzoo.data.text.tokenizers.library import ROLE_NAMES, SPACE
from vitzoo.errors import UserError, install_extra


class SentencePieceTokenizer(TextTokenizer):
    """A SentencePiece model, and sentinels after its pieces (T5: 32,000 pieces, <extra_id_0> = 32099).

    Args:
        model: the content of the file.
        sentinels: how many <extra_id_i> to add, where the model has none of its own.
        roles: role to the name of its piece, where not the usual one.
    """

    kind = "sentencepiece"

    def __init__(
        self,
        model: bytes,
        sentinels: int = 0,
        *,
        roles: dict[str, str] | None = None,
        lowercase: bool = False,
        special_in_text: bool = False,
    ):
        self.model, self.lowercase, self.special_in_text = model, lowercase, special_in_text
        self.settings: dict[str, Any] = dict(
            sentinels=sentinels, roles=dict(roles or {}), lowercase=lowercase, special_in_text=special_in_text
        )  # fmt: skip
        pieces = self._processor.get_piece_size()
        by_name = {self._processor.id_to_piece(id): id for id in range(pieces)}
        names = {id: name for name, id in by_name.items() if self._is_special(id)}
        own = [self._own_sentinel(by_name, index) for index in range(pieces)]
        own = own[: own.index(None)]
        names |= {id: f"<extra_id_{index}>" for index, id in enumerate(own) if id is not None}
        if not own:
            names |= sentinel_names(pieces, sentinels)
        self.vocabulary_size = pieces + (0 if own else sentinels)
        chosen = _roles(names, roles or {})
        self.specials = Specials.of(names, chosen, len(own) or sentinels)

    def encode(self, text: str) -> Ids:
        if not self.special_in_text:
            return self._plain(text)
        parts = split_at_specials(text, self.specials)
        ids = [as_ids([part]) if isinstance(part, int) else self._plain(part) for part in parts]
        return np.concatenate([as_ids([]), *ids])

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        names = dict(self.specials.names)
        parts: list[str] = []
        run: list[int] = []
        for id in [*map(int, ids), -1]:
            if id >= 0 and id not in names and id < self._processor.get_piece_size():
                run.append(id)
                continue
            if run:  # the text after a special token keeps its space
                opens = bool(parts) and self._processor.id_to_piece(run[0]).startswith(SPACE)
                parts.append(" " * opens + self._processor.decode(run))
                run = []
            if id in names and not skip_specials:
                parts.append(names[id])
        return "".join(parts)

    def files(self) -> dict[str, bytes]:
        return {"spiece.model": self.model, "tokenizer_roles.json": as_json(self.settings)}

    def with_special_in_text(self) -> Self:
        return type(self)(self.model, **{**self.settings, "special_in_text": True})

    @property
    def byte_lengths(self) -> np.ndarray:
        special, lengths = dict(self.specials.names), np.zeros(self.vocabulary_size, np.int32)
        for id in range(self._processor.get_piece_size()):
            if id not in special:
                piece = self._processor.id_to_piece(id).replace(SPACE, " ")
                lengths[id] = 1 if self._processor.is_byte(id) else len(piece.encode())
        lengths[self._processor.unk_id()] = 1
        return lengths

    def first_bytes(self, text: str) -> int:
        ids = self._plain(text)[:1].tolist()
        if not ids or self._processor.is_unknown(ids[0]):
            return len(text[:1].encode())
        return len(self._processor.decode(ids).encode())

    @property
    def word_edges(self) -> tuple[np.ndarray, np.ndarray]:
        special = dict(self.specials.names)
        left, right = np.zeros(self.vocabulary_size, bool), np.zeros(self.vocabulary_size, bool)
        for id in range(self._processor.get_piece_size()):
            if id not in special and (piece := self._processor.id_to_piece(id)):
                left[id], right[id] = piece[0].isalnum(), piece[-1].isalnum()
        return left, right

    def pieces(self) -> list[tuple[str, float]]:
        """Each piece of the model with its score, by id."""
        ids = range(self._processor.get_piece_size())
        return [(self._processor.id_to_piece(id), self._processor.get_score(id)) for id in ids]

    def _plain(self, text: str) -> Ids:
        try:
            return as_ids(self._processor.encode(text.lower() if self.lowercase else text))
        except RuntimeError:
            check_whole("text", text)
            raise

    @functools.cached_property
    def _processor(self) -> Any:
        try:
            import sentencepiece
        except ImportError:
            raise UserError(
                "inputs.tokens.tokenizer.file",
                None,
                f"spiece.model is read by sentencepiece; {install_extra('sentencepiece')}",
            ) from None
        if not self.model:  # the library takes it, and complains in the middle of its work
            raise ValueError("it is empty")
        try:
            return sentencepiece.SentencePieceProcessor(model_proto=self.model)
        except (RuntimeError, TypeError):  # which says where in the library's own code
            raise ValueError("it is no SentencePiece model") from None

    def _is_special(self, id: int) -> bool:
        return self._processor.is_control(id) or self._processor.is_unknown(id)

    @staticmethod
    def _own_sentinel(by_name: dict[str, int], index: int) -> int | None:
        return by_name.get(f"<extra_id_{index}>", by_name.get(f"{SPACE}<extra_id_{index}>"))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_processor"}


def _roles(names: dict[int, str], given: dict[str, str]) -> dict[str, str]:
    known = set(names.values())
    roles = {}
    for role, usual in ROLE_NAMES.items():
        if role in given and given[role] not in known:
            raise UserError(f"inputs.tokens.tokenizer.special.{role}", given[role], "is no control token of this model")
        if found := [name for name in (given.get(role), *usual) if name in known]:
            roles[role] = found[0]
    return roles  # type: ignore[return-value]
