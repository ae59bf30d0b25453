"""Tokenizers of the `tokenizers` library: BPE, Unigram and WordPiece, trained here or published as tokenizer.json."""

import contextlib
import copy
import functools
import itertools
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import tokenizers

from vitzoo.data.text.lines import check_whole
from vitzoo.data.text.tokenizers.base import (
    Ids,
    Specials,
    TextTokenizer,
    as_ids,
    as_json,
    sentinel_name,
    sentinel_names,
)
from vitzoo.data.text.tokenizers.definition import AddedToken, Definition, check_added, check_growth
from vitzoo.data.text.tokenizers.panics import quiet_errors
from vitzoo.errors import UserError
from vitzoo.strict_json import JSON

SPACE = "\u2581"  # stands for a space in Unigram's pieces
_SENTINEL = re.compile(rf"{SPACE}?<extra_id_(\d+)>")
LETTER = "a"
TRIAL = "A cafe\u0301, 1\u00a02 \ufb01 \uff21\u0301 \u4e2d\u6587 \U0001f600\u200d\t\r\n."
"""A text of many kinds of characters, on which a tokenizer that can't be used breaks."""
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
# names that roles have in published vocabularies, best first
ROLE_NAMES = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|endoftext|>"),
    "end": ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[SEP]"),
    "unknown": ("<unk>", "[UNK]"),
    "start": ("<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>", "[CLS]"),
    "mask": ("<mask>", "[MASK]"),
    "classify": ("[CLS]", "<cls>", "<s>"),
    "separate": ("[SEP]", "<sep>", "</s>"),
}


class LibraryTokenizer(TextTokenizer):
    """A tokenizer that a tokenizer.json defines.

    Encoding runs on a copy without special tokens, so that no text can become one.

    Args:
        definition: tokenizer.json's content.
        roles: role to the name of its token; see `roles_of`.
        special_in_text: the names of special tokens in text mean them.

    Raises:
        ValueError: the library can't make it, or breaks on a text.
        Exception: the same, as the library has it.
    """

    def __init__(self, definition: Definition, roles: dict[str, str], *, special_in_text: bool = False):
        self.definition, self.roles, self.special_in_text = definition, dict(roles), special_in_text
        self.kind = definition["model"].get("type", "BPE").lower()
        check_growth(definition)
        with quiet_errors():
            self._reader = tokenizers.Tokenizer.from_str(json.dumps(definition))
            self._reader.no_truncation()  # published files may cut or fill up every text
            self._reader.no_padding()
            self._encoder = self._reader if special_in_text else plain(definition, roles)
            self.opening_ids = _opening_ids(self._reader)
            for text in (TRIAL, ""):
                self._encoder.encode(text, add_special_tokens=False)
        ids = self.ids
        check_added(ids, {token["content"]: token["id"] for token in definition.get("added_tokens") or ()})
        self.vocabulary_size = max(ids.values()) + 1
        names = {ids[name]: name for name in special_names(definition, roles)}
        sentinels = {int(m[1]): id for name, id in ids.items() if (m := _SENTINEL.fullmatch(name))}
        names |= {id: sentinel_name(index) for index, id in sentinels.items()}
        count = next(i for i in range(len(sentinels) + 1) if i not in sentinels)
        self.specials = Specials.of(names, self.roles, count)

    def encode(self, text: str) -> Ids:
        with self._refusals([text]):
            return as_ids(self._encoder.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        with self._refusals(texts):
            found = self._encoder.encode_batch_fast(list(texts), add_special_tokens=False)
        return [as_ids(encoding.ids) for encoding in found]

    @contextlib.contextmanager
    def _refusals(self, texts: Sequence[str]) -> Iterator[None]:
        """What the library raises for texts that aren't whole, or where the tokenizer's file makes it stop."""
        try:
            with quiet_errors():
                yield
        except TypeError:
            check_whole("text", *texts)
            raise
        except ValueError as error:
            raise UserError("tokenizer", self.kind, f"can't take a text: {error}") from None

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        known = [id for id in map(int, ids) if 0 <= id < self.vocabulary_size]
        if skip_specials:
            known = [id for id in known if id not in self._special_set]
        try:
            with quiet_errors():
                return self._reader.decode(known, skip_special_tokens=False)
        except ValueError as error:
            raise UserError("tokenizer", self.kind, f"can't write what was found: {error}") from None

    def files(self) -> dict[str, bytes]:
        roles: dict[str, JSON] = {"roles": self.roles, "special_in_text": self.special_in_text}
        return {"tokenizer.json": as_json(self.definition), "tokenizer_roles.json": as_json(roles)}

    def with_special_in_text(self) -> Self:
        return type(self)(self.definition, self.roles, special_in_text=True)

    @property
    def ids(self) -> dict[str, int]:
        """Of every token, by its name."""
        return self._reader.get_vocab(with_added_tokens=True)

    @property
    def byte_lengths(self) -> np.ndarray:
        lengths = np.zeros(self.vocabulary_size, np.int32)
        for piece, id in self.ids.items():
            if id not in self._special_set:
                lengths[id] = self._byte_length(id, piece)
        if self.specials.unknown is not None:
            lengths[self.specials.unknown] = 1
        return lengths

    def first_bytes(self, text: str) -> int:
        with self._refusals([text]):
            found = self._encoder.encode(text, add_special_tokens=False)
        if not found.ids:
            return 0
        if self._of_bytes:  # where a character may be several tokens
            return self._byte_length(found.ids[0], self._reader.id_to_token(found.ids[0]) or "")
        return len(text[: found.offsets[0][1]].encode())

    @property
    def word_edges(self) -> tuple[np.ndarray, np.ndarray]:
        left, right = np.zeros(self.vocabulary_size, bool), np.zeros(self.vocabulary_size, bool)
        mark = self.definition["model"].get("continuing_subword_prefix") or "##"
        for piece, id in self.ids.items():
            if id in self._special_set or not piece:
                continue
            if self.kind == "wordpiece":
                left[id], right[id] = piece.startswith(mark), _of_word(piece[-1])
            else:  # the byte-level alphabet shows a space as Ġ, a letter that opens a word like Unigram's mark
                left[id] = _of_word(piece[0]) and piece[0] != "Ġ"
                right[id] = _of_word(piece[-1]) and piece[-1] != "Ġ"
            if id in self._ordinary:  # as it stands in text
                left[id], right[id] = _of_word(piece[0]), _of_word(piece[-1])
        return left, right

    @functools.cached_property
    def _special_set(self) -> frozenset[int]:
        return frozenset(self.special_ids.tolist())

    @functools.cached_property
    def _of_bytes(self) -> bool:
        return "ByteLevel" in json.dumps(self.definition.get("decoder"))

    @functools.cached_property
    def _ordinary(self) -> frozenset[int]:
        """Ids of tokens that were added to the vocabulary as text."""
        special = self._special_set
        return frozenset(id for id in self._reader.get_added_tokens_decoder() if id not in special)

    def _byte_length(self, id: int, piece: str) -> int:
        if id in self._ordinary:
            return len(piece.encode())
        if self._of_bytes:
            return len(piece)  # its alphabet has one character for each byte
        if _BYTE.fullmatch(piece):
            return 1
        if self.kind == "wordpiece":
            mark = self.definition["model"].get("continuing_subword_prefix") or "##"
            return len(piece.removeprefix(mark).encode()) + (not piece.startswith(mark))  # and the space before a word
        return len(piece.replace(SPACE, " ").encode())


def _of_word(character: str) -> bool:
    return character.isalnum()


def _opening_ids(reader: tokenizers.Tokenizer) -> tuple[int, ...]:
    """What a tokenizer's own post-processor puts before a text."""
    found = reader.encode(LETTER)
    added = list(itertools.takewhile(lambda pair: pair[1], zip(found.ids, found.special_tokens_mask, strict=True)))
    return tuple(id for id, _ in added) if len(added) < len(found.ids) else ()


def plain(definition: Definition, roles: dict[str, str]) -> tokenizers.Tokenizer:
    """The same tokenizer, which finds no special token in a text: they get names that no text has. (Otherwise Unigram,
    to which those in its vocabulary are pieces of the best score, would find them.) Tokens that a user added as text
    are found as the definition says.
    """
    changed = copy.deepcopy(definition)
    changed["post_processor"] = None
    model = changed["model"]
    special = set(special_names(definition, roles))
    made = {_merged(merge) for merge in model.get("merges", ())}
    secret = secrets.token_hex(8)  # or a text could hold the name
    hidden = {name: f"\0{secret}\0{number}\0" for number, name in enumerate(sorted(special - made))}
    pieces = set(model["vocab"] if isinstance(model["vocab"], dict) else [piece for piece, _ in model["vocab"]])
    added = changed.get("added_tokens") or []
    # special ones outside the vocabulary keep their places, since the library numbers these tokens in their order
    kept = [token for token in added if token["content"] not in special or token["content"] not in pieces]
    changed["added_tokens"] = [
        _hidden(token, hidden[token["content"]]) if token["content"] in special else token for token in kept
    ]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {hidden.get(piece, piece): id for piece, id in model["vocab"].items()}
    else:
        model["vocab"] = [(hidden.get(piece, piece), score) for piece, score in model["vocab"]]
    if (unknown := model.get("unk_token")) is not None and unknown in hidden:
        model["unk_token"] = hidden[unknown]
    changed["truncation"] = changed["padding"] = None
    return tokenizers.Tokenizer.from_str(json.dumps(changed))


def _hidden(token: AddedToken, name: str) -> AddedToken:
    """A token under a name that no text has."""
    return {**token, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "content": name}


def _merged(merge: str | Sequence[str]) -> str:
    return "".join(merge.split(" ") if isinstance(merge, str) else merge)


def special_names(definition: Definition, roles: dict[str, str]) -> list[str]:
    """The names of tokens that stand for no text: those added as special, those of roles, and sentinels."""
    known = {name for names in ROLE_NAMES.values() for name in names} | set(roles.values())
    tokens = {token["content"]: token.get("special") for token in definition.get("added_tokens") or ()}
    added = [name for name, special in tokens.items() if special or name in known or _SENTINEL.fullmatch(name)]
    vocabulary = definition["model"]["vocab"]
    pieces = list(vocabulary) if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary]
    found = [piece for piece in pieces if piece in known or _SENTINEL.fullmatch(piece)]
    return list(dict.fromkeys(added + found))


def roles_of(definition: Definition, given: dict[str, str]) -> dict[str, str]:
    """Which token has which role: those given, else by the names usual in published vocabularies.

    Raises:
        UserError: a token given for a role isn't in the vocabulary.
    """
    names = token_names(definition)
    roles = {}
    for role, usual in ROLE_NAMES.items():
        if role in given and given[role] not in names:
            raise UserError(f"inputs.tokens.tokenizer.special.{role}", given[role], "is no token of this vocabulary")
        if found := [name for name in (given.get(role), *usual) if name in names]:
            roles[role] = found[0]
    return roles  # type: ignore[return-value]


def token_names(definition: Definition) -> set[str]:
    """Every token's name."""
    vocabulary = definition["model"]["vocab"]
    names = set(vocabulary if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary])
    return names | {token["content"] for token in definition.get("added_tokens", ())}


def with_sentinels(definition: Definition, count: int) -> Definition:
    """The definition with `count` sentinels at the vocabulary's end, unless it has sentinels of its own."""
    check_growth(definition)  # the library applies the steps to tokens as it reads them
    with quiet_errors():
        reader = tokenizers.Tokenizer.from_str(json.dumps(definition))
    ids = reader.get_vocab(with_added_tokens=True)
    if not count or any(_SENTINEL.fullmatch(name) for name in ids):
        return definition
    names = sentinel_names(max(ids.values()) + 1, count)
    reader.add_special_tokens([names[id] for id in sorted(names)])
    return json.loads(reader.to_str())
