"""What every tokenizer gives, and the special tokens it may have."""

import abc
import copy
import dataclasses
import functools
import hashlib
import json
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vitzoo.data.described import TokenizerDescription
from vitzoo.errors import UserError
from vitzoo.strict_json import JSON

if TYPE_CHECKING:
    from vitzoo.data.text.tokenizers.definition import Definition

Ids = np.ndarray  # int32 [tokens]


@dataclasses.dataclass(frozen=True)
class Specials:
    """Ids of the tokens with a role, and their names. `sentinels[i]` is the id of `<extra_id_i>`."""

    pad: int | None = None
    end: int | None = None
    unknown: int | None = None
    start: int | None = None
    mask: int | None = None
    classify: int | None = None
    separate: int | None = None
    sentinels: tuple[int, ...] = ()
    names: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(cls, names: dict[int, str], roles: dict[str, str], sentinels: int) -> "Specials":
        """From names by id, roles by name, and how many sentinels are among the names."""
        ids = {name: id for id, name in names.items()}
        return cls(
            **{role: ids[name] for role, name in roles.items()},  # type: ignore[arg-type]
            sentinels=tuple(ids[sentinel_name(i)] for i in range(sentinels)),
            names=tuple(sorted(names.items())),
        )


def sentinel_name(index: int) -> str:
    return f"<extra_id_{index}>"


def sentinel_names(first_id: int, count: int) -> dict[int, str]:
    """Names of sentinels laid from `first_id` on as T5 lays them: `<extra_id_0>` has the largest id."""
    return {first_id + count - 1 - index: sentinel_name(index) for index in range(count)}


class TextTokenizer(abc.ABC):
    """Text to token ids and back.

    `encode` adds no special token, and text that reads like one (`</s>`) is text, unless the tokenizer was made with
    `special_in_text`. `decode` writes special tokens by name unless told to skip them.
    """

    kind: str
    vocabulary_size: int
    specials: Specials
    special_in_text: bool = False
    opening_ids: tuple[int, ...] = ()
    """What the published tokenizer puts before a text by itself, a start token: given to a decoder with a prompt."""
    ends: tuple[int, ...] = ()
    """Ids that end what the model writes, where they are stated and not the end token: see `ending_with`."""

    @abc.abstractmethod
    def encode(self, text: str) -> Ids:
        """The ids of a text, int32 [tokens]."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        """The text that ids stand for; ids outside the vocabulary (of a padded head) stand for nothing."""

    @abc.abstractmethod
    def files(self) -> dict[str, bytes]:
        """The files, by name, that hold all of this tokenizer; the first is the main one."""

    @abc.abstractmethod
    def with_special_in_text(self) -> Self:
        """The same tokenizer, to which the name of a special token in a text means this token."""

    @property
    @abc.abstractmethod
    def byte_lengths(self) -> np.ndarray:
        """UTF-8 bytes of text that each token stands for, int32 [vocabulary]; 0 for special tokens.

        Exact for bytes, characters and byte-level BPE, where the sum over a text's ids is the text's length in bytes
        (an unknown token counts 1); elsewhere as near as pieces tell.
        """

    def first_bytes(self, text: str) -> int:
        """UTF-8 bytes of a text that its first token stands for; 0 for an empty text."""
        ids = self.encode(text)
        return int(self.byte_lengths[ids[0]]) if len(ids) else 0

    @property
    @abc.abstractmethod
    def word_edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Which tokens can go on with the word of the token before, and which leave theirs open: two bool
        [vocabulary]. Token i belongs to the word of token i-1 where the first holds for i and the second for i-1.
        """

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text."""
        return [self.encode(text) for text in texts]

    def sentinel(self, index: int) -> int:
        """The id of `<extra_id_index>`, which marks the index-th masked span.

        Raises:
            UserError: the tokenizer has fewer sentinels.
        """
        if index >= len(self.specials.sentinels):
            count = len(self.specials.sentinels)
            raise UserError(
                "inputs.tokens.tokenizer.sentinels", count, f"span {index} needs a sentinel of its own; T5 has 100"
            )
        return self.specials.sentinels[index]

    @functools.cached_property
    def sha256(self) -> str:
        """64 hexadecimal digits that depend on all that decides how text becomes ids."""
        digest = hashlib.sha256(self.kind.encode())
        for name, content in sorted(self.files().items()):
            digest.update(f"\0{name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    def save(self, folder: str | pathlib.Path) -> TokenizerDescription:
        """Writes the tokenizer's files; gives `{"kind", "file", "sha256"}`, and `ends` if stated, from which
        `load_tokenizer` reads it.
        """
        folder, files = pathlib.Path(folder), self.files()
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        description: TokenizerDescription = {"kind": self.kind, "file": next(iter(files)), "sha256": self.sha256}
        if self.ends:
            description["ends"] = list(self.ends)
        return description

    @property
    def pad_id(self) -> int | None:
        return self.specials.pad

    @property
    def start_id(self) -> int | None:
        return self.specials.start

    @property
    def end_id(self) -> int | None:
        return self.specials.end

    def ending_with(self, ends: Sequence[int]) -> Self:
        """The same tokenizer, for a model whose answers end with any of these ids."""
        if tuple(ends) == self.ends:
            return self
        other = copy.copy(self)
        other.ends = tuple(ends)
        return other

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The ids that end what a model writes: those stated beside its weights, else the end token."""
        return self.ends or (() if self.end_id is None else (self.end_id,))

    @property
    def unknown_id(self) -> int | None:
        return self.specials.unknown

    @property
    def mask_id(self) -> int | None:
        return self.specials.mask

    @property
    def classify_id(self) -> int | None:
        return self.specials.classify

    @property
    def separate_id(self) -> int | None:
        return self.specials.separate

    @property
    def fill_id(self) -> int:
        """What stands where there is no text: padding, else the end token, else id 0. Masked by length, never by id."""
        known = [id for id in (self.specials.pad, self.specials.end, 0) if id is not None]
        return known[0]

    @property
    def decoder_start_id(self) -> int:
        """What an encoder-decoder's target is given before its first token: the start token, else padding (as T5)."""
        return self.fill_id if self.specials.start is None else self.specials.start

    def opening(self, where: str) -> Ids:
        """What a decoder is given where there is no text: the start token, else the end token, int32 [1].

        Raises:
            UserError: it has neither; `where` names what is empty.
        """
        first = self.specials.end if self.specials.start is None else self.specials.start
        if first is None:
            raise UserError(where, "''", "is empty, and the tokenizer has no token that a text begins with")
        return as_ids([first])

    def opened(self, ids: Ids) -> Ids:
        """A prompt's ids behind what the published tokenizer puts before a text, int32 [tokens]."""
        return as_ids([*self.opening_ids, *ids]) if self.opening_ids else ids

    @functools.cached_property
    def special_ids(self) -> np.ndarray:
        """Every id that stands for no text, sorted int32 [n]."""
        return np.array(sorted(id for id, _ in self.specials.names), np.int32)

    def writable(self, count: int) -> np.ndarray:
        """Which of a model's `count` ids it may write, bool [count]: those of this vocabulary, without padding (but
        where that is the end token too), and those that end a text.
        """
        ids = np.arange(count)
        padding = (ids == self.pad_id) & (ids != self.end_id)
        return ((ids < self.vocabulary_size) & ~padding) | np.isin(ids, self.end_ids)

    def __getstate__(self) -> dict[str, Any]:
        # what is derived is made anew in a worker process
        return {key: value for key, value in self.__dict__.items() if key not in ("sha256", "special_ids", "_tables")}


def split_at_specials(text: str, specials: Specials) -> list[str | int]:
    """Pieces of text, and ids where a special token's name stands."""
    ids = {name: id for id, name in specials.names}
    if not ids:
        return [text]
    pattern = "|".join(re.escape(name) for name in sorted(ids, key=len, reverse=True))
    return [ids.get(part, part) for part in re.split(f"({pattern})", text) if part]


def as_ids(ids: Sequence[int]) -> Ids:
    return np.asarray(ids, np.int32)


def as_json(value: "JSON | Definition") -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1).encode()
