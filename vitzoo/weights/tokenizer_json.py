"""Our tokenizers as a tokenizer.json of the `tokenizers` library, which gives the same ids for the same text.

How a SentencePiece model normalises text, the library `sentencepiece` doesn't tell: its file is a protocol buffer, of
which a few fields are looked at. It replaces at each place the longest text that its table has. The step of
`tokenizers` for such a table looks at whole characters with their accents instead, and takes of these the shortest
beginning, so that what follows it is lost or stays apart. Here marks are put between characters first: between those
that the table joins, and around all others. So the library's step sees each alone; then those that belong together are
joined by Unicode's normal form C, which the other marks keep from reaching further.
"""

import copy
import dataclasses
import functools
import itertools
import json
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.characters import CHARACTER_ROLES, FIRST, ByteTokenizer, CharacterTokenizer
from vitzoo.data.text.tokenizers.definition import Definition, rules
from vitzoo.data.text.tokenizers.library import SPACE, LibraryTokenizer
from vitzoo.data.text.tokenizers.panics import quiet_errors
from vitzoo.data.text.tokenizers.sentence_piece import SentencePieceTokenizer
from vitzoo.errors import UserError
from vitzoo.strict_json import JSON

UNUSED = "<unused_{}>"


def as_definition(tokenizer: TextTokenizer) -> Definition:
    """The content of tokenizer.json, without what stands around a text.

    Raises:
        UserError: a tokenizer of a kind that the library doesn't have, or damaged where only it looks.
    """
    if isinstance(tokenizer, LibraryTokenizer):
        return copy.deepcopy(tokenizer.definition)
    try:
        with quiet_errors():
            made = _made(tokenizer)
    except UserError:
        raise
    except Exception as error:  # the library raises plain `Exception`
        said = " ".join(str(error).split())[:200]
        raise UserError("tokenizer", tokenizer.kind, f"can't be written in transformers' form: {said}") from None
    special = [name for _, name in sorted(tokenizer.specials.names)]
    made.add_special_tokens(special)
    return json.loads(made.to_str())


def _made(tokenizer: TextTokenizer) -> tokenizers.Tokenizer:
    if isinstance(tokenizer, ByteTokenizer):
        return _of_bytes(tokenizer)
    if isinstance(tokenizer, CharacterTokenizer):
        return _of_characters(tokenizer)
    if isinstance(tokenizer, SentencePieceTokenizer):
        return _of_pieces(tokenizer)
    raise UserError("tokenizer", tokenizer.kind, "can't be written in transformers' form")


def with_marks(definition: Definition, tokenizer: TextTokenizer, *, opening: bool, closing: bool) -> Definition:
    """The definition with what stands around a text: [CLS] text [SEP], or text </s>, and of a pair [CLS] first [SEP]
    second [SEP]."""
    roles = tokenizer.specials
    first = roles.classify if opening else None
    last = (roles.end if roles.separate is None or not opening else roles.separate) if closing else None
    names = dict(roles.names)
    if first is None and last is None:
        return definition
    before = [f"{names[first]}:0"] if first is not None else []
    after = ["", ""] if last is None else [f" {names[last]}:0", f" {names[last]}:1"]
    single = f"{' '.join([*before, '$A:0'])}{after[0]}"
    marks = [(names[id], id) for id in dict.fromkeys((first, last)) if id is not None]
    template = processors.TemplateProcessing(single=single, pair=f"{single} $B:1{after[1]}", special_tokens=marks)
    made = tokenizers.Tokenizer.from_str(json.dumps({**definition, "truncation": None, "padding": None}))
    made.post_processor = template  # type: ignore[assignment]
    return json.loads(made.to_str())


def with_names_as_text(definition: Definition, names: Iterable[str]) -> Definition:
    """The definition of a tokenizer that takes the names of its special tokens in a text for text, as the setting
    `split_special_tokens` asks. To Unigram they are pieces besides, of the best score: it sees them cut in two, where
    it would cut them anyway if it can be.
    """
    model = definition["model"]
    vocabulary = model["vocab"]
    if model.get("type") != "Unigram" or isinstance(vocabulary, dict):
        return definition
    special = {name: None for name in names if len(name) > 1}
    known = {piece for piece, _ in vocabulary if piece not in special}
    pairs = {pair for piece in known for pair in itertools.pairwise(piece)}
    cuts = []
    for name in special:
        free = [place for place in range(1, len(name)) if (name[place - 1], name[place]) not in pairs]
        best = [place for place in free if not known.isdisjoint(name[place - 1 : place + 1])]
        place = next(iter(best or free), 1)
        cuts.append(f"(?<={escaped(name[:place])})(?={escaped(name[place:])})")
    if not cuts:
        return definition
    cut: JSON = {"type": "Split", "pattern": {"Regex": "|".join(cuts)}, "behavior": "Isolated", "invert": False}
    before = definition.get("pre_tokenizer")
    whole: JSON = {"type": "Sequence", "pretokenizers": [before, cut]} if before else cut
    return {**definition, "pre_tokenizer": whole}


def _of_bytes(tokenizer: ByteTokenizer) -> tokenizers.Tokenizer:
    """Byte-level BPE without a merge."""
    names = dict(tokenizer.specials.names)
    vocabulary = {names.get(id, UNUSED.format(id)): id for id in range(tokenizer.vocabulary_size)}
    for value, shown in enumerate(byte_alphabet()):
        vocabulary.pop(UNUSED.format(FIRST + value), None)
        vocabulary[shown] = FIRST + value
    made = tokenizers.Tokenizer(models.BPE(vocabulary, []))
    made.normalizer = normalizers.Lowercase() if tokenizer.lowercase else None  # type: ignore[assignment]
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)  # type: ignore[assignment]
    made.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return made


def byte_alphabet() -> list[str]:
    """The character by which byte-level BPE shows each byte: itself where it can be seen, else one from 256 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [value for value in range(256) if value not in seen]
    return [chr(value if value in seen else 256 + hidden.index(value)) for value in range(256)]


def _of_characters(tokenizer: CharacterTokenizer) -> tokenizers.Tokenizer:
    """Every character a word."""
    names = dict(tokenizer.specials.names)
    vocabulary = {character: id for id, character in enumerate(tokenizer.characters)}
    vocabulary |= {name: id for id, name in names.items()}
    made = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=CHARACTER_ROLES["unknown"]))
    made.normalizer = normalizers.Lowercase() if tokenizer.lowercase else None  # type: ignore[assignment]
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")  # type: ignore[assignment]
    made.decoder = decoders.Fuse()  # type: ignore[assignment]
    return made


def _of_pieces(tokenizer: SentencePieceTokenizer) -> tokenizers.Tokenizer:
    """A SentencePiece model of kind unigram.

    Raises:
        UserError: it is of another kind.
    """
    pieces = tokenizer.pieces()
    how = normalisation(tokenizer.model)
    if how.model_type != "unigram":
        raise UserError(
            "tokenizer", how.model_type, "of SentencePiece can't be written in transformers' form (unigram can)"
        )
    names = dict(tokenizer.specials.names)
    scored = [(names.get(id, piece), score) for id, (piece, score) in enumerate(pieces)]
    scored += [(names.get(id, UNUSED.format(id)), 0.0) for id in range(len(pieces), tokenizer.vocabulary_size)]
    made = tokenizers.Tokenizer(models.Unigram(scored, tokenizer.specials.unknown, how.byte_fallback))
    steps: list[Any] = [normalizers.Lowercase()] if tokenizer.lowercase else []
    steps += character_steps(how.characters) if how.characters else []
    if how.one_space:
        ends = rf"\A +|[ {SPACE}]+\z"  # of the text, not of its lines, where ^ and $ are
        steps += [normalizers.Replace(Regex(ends), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    steps += [normalizers.Prepend(SPACE)] if how.space_first else []
    made.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])  # type: ignore[assignment]
    scheme = "always" if how.space_first else "never"
    made.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)  # type: ignore[assignment]
    return made


TRAINER, NORMALISER = 2, 3
"""Fields of the model."""
MODEL_TYPE, BYTE_FALLBACK = 3, 35
"""Fields of the trainer's settings."""
CHARACTERS, SPACE_FIRST, ONE_SPACE = 2, 3, 4
"""Fields of the normaliser's settings: a compiled table; the last two are true unless stated."""
MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


@dataclasses.dataclass(frozen=True)
class Normalisation:
    """How a model treats text before it is cut.

    Attributes:
        model_type: `unigram`, `bpe`, `word` or `char`.
        byte_fallback: unknown characters become their bytes.
        characters: the compiled table by which characters are replaced.
        space_first: a space is put before a text.
        one_space: several spaces become one, those at both ends none.
    """

    model_type: str
    byte_fallback: bool
    characters: bytes
    space_first: bool
    one_space: bool


def normalisation(model: bytes) -> Normalisation:
    """Of a SentencePiece model, which the library has read already."""
    parts = {number: value for number, value in _fields(model) if isinstance(value, bytes)}
    trainer, normaliser = dict(_fields(parts.get(TRAINER, b""))), dict(_fields(parts.get(NORMALISER, b"")))
    characters = normaliser.get(CHARACTERS, b"")
    return Normalisation(
        model_type=MODEL_TYPES.get(int(trainer.get(MODEL_TYPE, 1)), "another"),
        byte_fallback=bool(trainer.get(BYTE_FALLBACK, 0)),
        characters=characters if isinstance(characters, bytes) else b"",
        space_first=bool(normaliser.get(SPACE_FIRST, 1)),
        one_space=bool(normaliser.get(ONE_SPACE, 1)),
    )


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers of fields with their values: numbers as they are, everything with a length as bytes."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        kind = tag & 7
        if kind == 0:
            value: int | bytes
            value, place = _number(message, place)
        else:
            length, place = _number(message, place) if kind == 2 else ({1: 8, 5: 4}[kind], place)
            value, place = message[place : place + length], place + length
        yield tag >> 3, value


def _number(message: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place


JOINED, APART = "\ufdd0", "\ufdd1"
"""Between characters that become one, and others. Unicode keeps these two from ever being characters."""
OTHERS = r"(?=[^\x00-\x7F\x{FDD0}])(?<=[^\x{FDD0}])|(?<=\r)(?=\n)"
"""Between a character and the next, which may be one to the library. (At a text's beginning it can't take a mark.)"""
MOST_ALONE = 200  # steps that replace texts by what normal form C doesn't make of them


def character_steps(table: bytes) -> list[normalizers.Normalizer]:
    """Normalisers that replace as the table does.

    Args:
        table: `precompiled_charsmap`.

    Raises:
        ValueError: it is damaged.
        UserError: it joins many characters otherwise than normal form C does.
    """
    inside, alone = _plan(table)
    return [
        *(normalizers.Replace(Regex(texts), replacement) for texts, replacement in alone),
        *([normalizers.Replace(Regex(inside), JOINED)] if inside else []),
        normalizers.Replace(Regex(OTHERS), APART),
        normalizers.Precompiled(table),
        normalizers.Replace(JOINED, ""),
        normalizers.NFC(),
        normalizers.Replace(APART, ""),
    ]


@functools.lru_cache(4)
def _plan(table: bytes) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Where characters are joined, as a regular expression of no width, and what is replaced by steps of its own."""
    found = rules(table)
    single = {text: replacement for text, replacement in found.items() if len(text) == 1}
    before: dict[str, set[str]] = {}
    alone: dict[tuple[int, str], list[str]] = {}
    for text, replacement in found.items():
        if len(text) == 1:
            continue
        parts = "".join([single.get(character, character) for character in text])
        if unicodedata.normalize("NFC", parts) != replacement:
            alone.setdefault((len(text), replacement), []).append(text)
            continue
        for place in range(1, len(text)):
            before.setdefault(text[place], set()).add(text[:place])
    if len(alone) > MOST_ALONE:
        problem = f"joins characters to {len(alone):,} others in ways that transformers' form has no step for"
        raise UserError("tokenizer", "sentencepiece", problem)
    places = [f"(?=[{_class(after)}])(?<={_any(prefixes)})" for prefixes, after in _alike(before)]
    inside = f"(?=[{_class(before)}])(?:{'|'.join(places)})" if places else ""  # most characters are none of these
    longest_first = sorted(alone, key=lambda pair: -pair[0])
    return inside, tuple(("|".join(map(escaped, alone[pair])), pair[1]) for pair in longest_first)


def _alike(sets: dict[str, set[str]]) -> list[tuple[frozenset[str], list[str]]]:
    """Of sets by name, each once with all its names."""
    found: dict[frozenset[str], list[str]] = {}
    for name, one in sets.items():
        found.setdefault(frozenset(one), []).append(name)
    return list(found.items())


def _any(texts: Collection[str]) -> str:
    """A regular expression of any of some texts: of each length, sets of characters that may follow one another."""
    parts = [f"[{_class(text for text in texts if len(text) == 1)}]"] if any(len(text) == 1 for text in texts) else []
    longer: dict[str, set[str]] = {}
    for text in texts:
        if len(text) > 1:
            longer.setdefault(text[-1], set()).add(text[:-1])
    return "|".join([*parts, *(f"{one}[{_class(last)}]" for first, last in _alike(longer) for one in _split(first))])


def _split(texts: Collection[str]) -> list[str]:
    """As `_any`, in a list of alternatives: what a look behind must have at its top."""
    return _any(texts).split("|")


def escaped(text: str) -> str:
    """A text in a regular expression of the library."""
    return "".join(rf"\x{{{ord(character):X}}}" for character in text)


def _class(characters: Iterable[str]) -> str:
    """The inside of a regular expression's set of characters."""
    codes = sorted(map(ord, characters))
    runs = [list(run) for _, run in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    ends = [(run[0][1], run[-1][1]) for run in runs]
    return "".join(rf"\x{{{first:X}}}" + (rf"-\x{{{last:X}}}" if last > first else "") for first, last in ends)
