"""Our tokenizers as a tokenizer.json of the `tokenizers` library, which gives the same ids for the same text."""

import copy
import itertools
import json
from collections.abc import Iterable
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.characters import CHARACTER_ROLES, FIRST, ByteTokenizer, CharacterTokenizer
from vitzoo.data.text.tokenizers.library import SPACE, LibraryTokenizer
from vitzoo.data.text.tokenizers.panics import quiet_errors
from vitzoo.data.text.tokenizers.sentence_piece import SentencePieceTokenizer
from vitzoo.errors import UserError
from vitzoo.weights.sentencepiece import character_steps, escaped, normalisation

UNUSED = "<unused_{}>"


def as_definition(tokenizer: TextTokenizer) -> dict[str, Any]:
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


def with_marks(definition: dict[str, Any], tokenizer: TextTokenizer, *, opening: bool, closing: bool) -> dict[str, Any]:
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


def with_names_as_text(definition: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The definition of a tokenizer that takes the names of its special tokens in a text for text, as the setting
    `split_special_tokens` asks. To Unigram they are pieces besides, of the best score: it sees them cut in two, where
    it would cut them anyway if it can be.
    """
    model = definition["model"]
    if model.get("type") != "Unigram":
        return definition
    special = {name: None for name in names if len(name) > 1}
    known = {piece for piece, _ in model["vocab"] if piece not in special}
    pairs = {pair for piece in known for pair in itertools.pairwise(piece)}
    cuts = []
    for name in special:
        free = [place for place in range(1, len(name)) if (name[place - 1], name[place]) not in pairs]
        best = [place for place in free if not known.isdisjoint(name[place - 1 : place + 1])]
        place = next(iter(best or free), 1)
        cuts.append(f"(?<={escaped(name[:place])})(?={escaped(name[place:])})")
    if not cuts:
        return definition
    cut = {"type": "Split", "pattern": {"Regex": "|".join(cuts)}, "behavior": "Isolated", "invert": False}
    before = definition.get("pre_tokenizer")
    whole = {"type": "Sequence", "pretokenizers": [before, cut]} if before else cut
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
