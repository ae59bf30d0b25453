"""Tokenizers of the `tokenizers` library: BPE, Unigram and WordPiece, trained here or published as tokenizer.json."""

import copy
import functools
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers

from vitzoo.data.text.tokenizers.base import (
    Ids,
    Specials,
    TextTokenizer,
    as_ids,
    as_json,
    sentinel_name,
    sentinel_names,
)
from vitzoo.data.text.unicode import check_whole
from vitzoo.errors import Refused

SPACE = "\u2581"  # stands for a space in Unigram's pieces
_SENTINEL = re.compile(rf"{SPACE}?<extra_id_(\d+)>")
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
    """

    def __init__(self, definition: dict[str, Any], roles: dict[str, str], *, special_in_text: bool = False):
        self.definition, self.roles, self.special_in_text = definition, dict(roles), special_in_text
        self.kind = definition["model"].get("type", "BPE").lower()
        self._reader = tokenizers.Tokenizer.from_str(json.dumps(definition))
        self._reader.no_truncation()  # published files may cut or fill up every text
        self._reader.no_padding()
        self._encoder = self._reader if special_in_text else plain(definition)
        ids = self._reader.get_vocab(with_added_tokens=True)
        self.vocabulary_size = max(ids.values()) + 1
        names = {ids[name]: name for name in special_names(definition, roles)}
        sentinels = {int(m[1]): id for name, id in ids.items() if (m := _SENTINEL.fullmatch(name))}
        names |= {id: sentinel_name(index) for index, id in sentinels.items()}
        count = next(i for i in range(len(sentinels) + 1) if i not in sentinels)
        self.specials = Specials.of(names, self.roles, count)

    def encode(self, text: str) -> Ids:
        try:
            return as_ids(self._encoder.encode(text, add_special_tokens=False).ids)
        except TypeError:
            check_whole("text", text)
            raise

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        try:
            found = self._encoder.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:
            check_whole("text", *texts)
            raise
        return [as_ids(encoding.ids) for encoding in found]

    def decode(self, ids: Sequence[int] | Ids, *, skip_specials: bool = False) -> str:
        known = [id for id in map(int, ids) if 0 <= id < self.vocabulary_size]
        if skip_specials:
            known = [id for id in known if id not in self._special_set]
        return self._reader.decode(known, skip_special_tokens=False)

    def files(self) -> dict[str, bytes]:
        roles = {"roles": self.roles, "special_in_text": self.special_in_text}
        return {"tokenizer.json": as_json(self.definition), "tokenizer_roles.json": as_json(roles)}

    @property
    def byte_lengths(self) -> np.ndarray:
        lengths = np.zeros(self.vocabulary_size, np.int32)
        for piece, id in self._reader.get_vocab(with_added_tokens=True).items():
            if id not in self._special_set:
                lengths[id] = self._byte_length(piece)
        if self.specials.unknown is not None:
            lengths[self.specials.unknown] = 1
        return lengths

    def first_bytes(self, text: str) -> int:
        found = self._encoder.encode(text, add_special_tokens=False)
        if not found.ids:
            return 0
        if self._of_bytes:  # where a character may be several tokens
            return self._byte_length(self._reader.id_to_token(found.ids[0]) or "")
        return len(text[: found.offsets[0][1]].encode())

    @property
    def word_edges(self) -> tuple[np.ndarray, np.ndarray]:
        left, right = np.zeros(self.vocabulary_size, bool), np.zeros(self.vocabulary_size, bool)
        mark = self.definition["model"].get("continuing_subword_prefix") or "##"
        for piece, id in self._reader.get_vocab(with_added_tokens=True).items():
            if id in self._special_set or not piece:
                continue
            if self.kind == "wordpiece":
                left[id], right[id] = piece.startswith(mark), _of_word(piece[-1])
            else:  # the byte-level alphabet shows a space as Ġ, a letter that opens a word like Unigram's mark
                left[id] = _of_word(piece[0]) and piece[0] != "Ġ"
                right[id] = _of_word(piece[-1]) and piece[-1] != "Ġ"
        return left, right

    @functools.cached_property
    def _special_set(self) -> frozenset[int]:
        return frozenset(self.special_ids.tolist())

    @functools.cached_property
    def _of_bytes(self) -> bool:
        return "ByteLevel" in json.dumps(self.definition.get("decoder"))

    def _byte_length(self, piece: str) -> int:
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


def plain(definition: dict[str, Any]) -> tokenizers.Tokenizer:
    """The same tokenizer without special tokens: where the model's vocabulary holds them as pieces, they get names
    that no text has. Otherwise Unigram, to which they are pieces of the best score, would find them in text.
    """
    changed = copy.deepcopy(definition)
    changed["added_tokens"], changed["post_processor"] = [], None
    model = changed["model"]
    special = set(special_names(definition, {}))
    made = {_merged(merge) for merge in model.get("merges", ())}
    hidden = {name: f"\0special\0{number}\0" for number, name in enumerate(sorted(special - made))}
    if isinstance(model["vocab"], dict):
        model["vocab"] = {hidden.get(piece, piece): id for piece, id in model["vocab"].items()}
    else:
        model["vocab"] = [[hidden.get(piece, piece), score] for piece, score in model["vocab"]]
    if model.get("unk_token") in hidden:
        model["unk_token"] = hidden[model["unk_token"]]
    changed["truncation"] = changed["padding"] = None
    return tokenizers.Tokenizer.from_str(json.dumps(changed))


def _merged(merge: str | Sequence[str]) -> str:
    return "".join(merge.split(" ") if isinstance(merge, str) else merge)


def special_names(definition: dict[str, Any], roles: dict[str, str]) -> list[str]:
    """The names of tokens that stand for no text: those added as special, those of roles, and sentinels."""
    added = [token["content"] for token in definition.get("added_tokens", ()) if token.get("special")]
    known = {name for names in ROLE_NAMES.values() for name in names} | set(roles.values())
    vocabulary = definition["model"]["vocab"]
    pieces = list(vocabulary) if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary]
    found = [piece for piece in pieces if piece in known or _SENTINEL.fullmatch(piece)]
    return list(dict.fromkeys(added + found))


def roles_of(definition: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    """Which token has which role: those given, else by the names usual in published vocabularies.

    Raises:
        Refused: a token given for a role isn't in the vocabulary.
    """
    names = token_names(definition)
    roles = {}
    for role, usual in ROLE_NAMES.items():
        if role in given and given[role] not in names:
            raise Refused(f"tokenizer.special.{role}", given[role], "is no token of this vocabulary")
        if found := [name for name in (given.get(role), *usual) if name in names]:
            roles[role] = found[0]
    return roles  # type: ignore[return-value]


def token_names(definition: dict[str, Any]) -> set[str]:
    """Every token's name."""
    vocabulary = definition["model"]["vocab"]
    names = set(vocabulary if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary])
    return names | {token["content"] for token in definition.get("added_tokens", ())}


def with_sentinels(definition: dict[str, Any], count: int) -> dict[str, Any]:
    """The definition with `count` sentinels at the vocabulary's end, unless it has sentinels of its own."""
    reader = tokenizers.Tokenizer.from_str(json.dumps(definition))
    ids = reader.get_vocab(with_added_tokens=True)
    if not count or any(_SENTINEL.fullmatch(name) for name in ids):
        return definition
    names = sentinel_names(max(ids.values()) + 1, count)
    reader.add_special_tokens([names[id] for id in sorted(names)])
    return json.loads(reader.to_str())
