"""Tokenizers as they are published: tokenizer.json, spiece.model, vocab.json with merges.txt, vocab.txt; and what a
config states of them.
"""

import json
import pathlib
from collections.abc import Iterable
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.definition import check_definition, check_ids
from vitzoo.data.text.tokenizers.library import LibraryTokenizer, roles_of, with_sentinels
from vitzoo.data.text.tokenizers.panics import quiet_errors
from vitzoo.errors import UserError
from vitzoo.paths import named_path
from vitzoo.strict_json import JSON, parsed

FILES = ("tokenizer.json", "spiece.model", "tokenizer.model", "vocab.json", "encoder.json", "vocab.txt")
MERGES = ("merges.txt", "vocab.bpe")
UTF_8 = "utf-8-sig"  # with or without the mark that some editors begin a file with
LONGEST = 300  # characters of what the library says
WORD_END = "</w>"
"""The end of the pieces that end a word, in GPT-1's vocabulary."""


def read_published(settings: Tokenizer) -> TextTokenizer:
    """The tokenizer of `settings.file`, a file or a folder that holds one.

    Raises:
        UserError: there is none, or it can't be read.
    """
    file = find_published(settings)
    try:
        if file.suffix == ".model":
            from vitzoo.data.text.tokenizers.sentence_piece import SentencePieceTokenizer

            return SentencePieceTokenizer(
                file.read_bytes(), settings.sentinels, roles=settings.special, lowercase=bool(settings.lowercase),
                special_in_text=settings.special_in_text,
            )  # fmt: skip
        with quiet_errors():
            content = _definition(file, settings)
        definition = with_sentinels(check_definition(content), settings.sentinels)
        roles = roles_of(definition, settings.special)
        return LibraryTokenizer(definition, roles, special_in_text=settings.special_in_text)
    except UserError:
        raise
    except Exception as error:  # the library raises plain `Exception` for files that it can't read
        said = " ".join(str(error).split())  # the library's may have many lines
        raise UserError(
            "inputs.tokens.tokenizer.file", settings.file, f"{file.name} can't be read: {said[:LONGEST]}"
        ) from error


def find_published(settings: Tokenizer) -> pathlib.Path:
    """The file that `settings.file` names, or that lies in the folder of this name.

    Raises:
        UserError: there is none.
    """
    path = named_path("inputs.tokens.tokenizer.file", settings.file)
    if path.is_file():
        if path.name in MERGES:
            return next((f for n in ("vocab.json", "encoder.json") if (f := path.with_name(n)).is_file()), path)
        return path
    found = next((path / name for name in FILES if (path / name).is_file()), None)
    if found is None:
        looked = f"no {', '.join(FILES)} in it" if path.is_dir() else "no such file or folder"
        raise UserError("inputs.tokens.tokenizer.file", settings.file, looked)
    return found


def _definition(file: pathlib.Path, settings: Tokenizer) -> dict[str, Any]:
    """What tokenizer.json would hold."""
    if file.suffix == ".txt":
        return _bert(file, settings)
    content = parsed(file.read_text(encoding=UTF_8), finite=True)
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")
    if ("model" in content and "added_tokens" in content) or file.name == "tokenizer.json":
        return content
    return _bpe(file, content)


def _bpe(file: pathlib.Path, vocabulary: dict[str, int]) -> dict[str, Any]:
    """BPE with its merges beside it: GPT-2's and RoBERTa's on bytes, or GPT-1's on lowered words.

    Raises:
        UserError: there are no merges.
    """
    merges_file = next((f for name in MERGES if (f := file.with_name(name)).is_file()), None)
    if merges_file is None:
        raise UserError("inputs.tokens.tokenizer.file", str(file), f"needs {MERGES[0]} beside it")
    check_ids(vocabulary)
    lines = merges_file.read_text(encoding=UTF_8).split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    for merge in merges:
        if len(merge) != 2:
            raise ValueError(f"the line {' '.join(merge)[:40]!r} of {merges_file.name} isn't two pieces")
    _check_merges(vocabulary, merges, merges_file.name, file.name)
    if any(piece.endswith(WORD_END) for piece in vocabulary):
        return _lowered_words(vocabulary, merges)
    made = tokenizers.Tokenizer(models.BPE(vocabulary, merges))  # type: ignore[arg-type]
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    made.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    special = ("<|endoftext|>", "<s>", "<pad>", "</s>", "<unk>", "<mask>")
    made.add_special_tokens([name for name in special if name in vocabulary])
    return json.loads(made.to_str())


def _check_merges(vocabulary: dict[str, int], merges: list[tuple[str, ...]], merges_name: str, name: str) -> None:
    """Checks that what each merge joins, and what it makes, are pieces of the vocabulary.

    Raises:
        ValueError: one isn't.
    """
    for merge in merges:
        for piece in (*merge, "".join(merge)):
            if piece not in vocabulary:
                wanted = f"needs the piece {piece[:40]!r}, which {name} lacks"
                raise ValueError(f"the line {' '.join(merge)[:40]!r} of {merges_name} {wanted}")


def _lowered_words(vocabulary: dict[str, int], merges: list[tuple[str, ...]]) -> dict[str, Any]:
    """GPT-1's: words are found as BERT finds them, and end with a mark."""
    unknown = "<unk>" if "<unk>" in vocabulary else None
    model = models.BPE(vocabulary, merges, unk_token=unknown, end_of_word_suffix=WORD_END)  # type: ignore[arg-type]
    made = tokenizers.Tokenizer(model)
    made.normalizer = normalizers.BertNormalizer(lowercase=True)  # type: ignore[assignment]
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    made.decoder = decoders.BPEDecoder(suffix=WORD_END)  # type: ignore[assignment]
    made.add_special_tokens([name for name in ("<unk>",) if name in vocabulary])
    return json.loads(made.to_str())


def _bert(file: pathlib.Path, settings: Tokenizer) -> dict[str, Any]:
    """BERT's: one piece a line. A vocabulary without capitals belongs to a model of lowered text without accents."""
    pieces = [line.rstrip("\r\n") for line in file.read_text(encoding=UTF_8).split("\n")]
    vocabulary: dict[str, int] = {}
    for id, piece in enumerate(pieces):
        if piece in vocabulary:
            raise ValueError(f"its lines {vocabulary[piece] + 1} and {id + 1} are both {piece!r}")
        vocabulary |= {piece: id} if piece else {}
    words = [piece for piece in vocabulary if not (piece.startswith("[") and piece.endswith("]"))]
    lowercase = settings.lowercase
    if lowercase is None:
        lowercase = not any(piece != piece.lower() for piece in words)
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)  # type: ignore[assignment]
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # type: ignore[assignment]
    made.decoder = decoders.WordPiece(cleanup=False)  # type: ignore[assignment]
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    made.add_special_tokens([name for name in special if name in vocabulary])
    return json.loads(made.to_str())


LOWERED = (".txt", ".model")
"""Endings of files that don't say whether text is lowered first."""


def read_stated(settings: Tokenizer) -> TextTokenizer:
    """The tokenizer of `settings.file`.

    Raises:
        UserError: it can't be read, or a setting has no effect on it.
    """
    file = find_published(settings)
    if settings.lowercase is not None and file.suffix not in LOWERED:
        message = f"has no effect: {file.name} says itself whether text is lowered; leave it out (none)"
        raise UserError("inputs.tokens.tokenizer.lowercase", settings.lowercase, message)
    tokenizer = read_published(settings)
    own = len(tokenizer.specials.sentinels)
    if settings.sentinels not in (0, own):
        message = f"has no effect: {file.name} has {own} of its own; leave it out (0)"
        raise UserError("inputs.tokens.tokenizer.sentinels", settings.sentinels, message)
    return tokenizer


KINDS = {"sentencepiece": "unigram"}
"""Kinds of tokenizers that settings call otherwise."""


def differing(settings: Tokenizer, stated: Iterable[str], tokenizer: TextTokenizer) -> dict[str, JSON]:
    """Of the settings that are stated, by name, those that a tokenizer doesn't have, with what it has in their place.

    Published files are those of the tokenizer where they make the same one.
    """
    asked = set(stated)
    if settings.kind == "file" and asked & {"kind", "file"} and _is_published(settings, tokenizer):
        return {}
    had = _settings_of(tokenizer)
    found = {name: had[name] for name in sorted(asked & set(had)) if getattr(settings, name) not in (had[name], None)}
    return found | {name: "its own" for name in ("file", "special") if name in asked and getattr(settings, name)}


def _is_published(settings: Tokenizer, tokenizer: TextTokenizer) -> bool:
    try:
        return read_stated(settings).sha256 == tokenizer.sha256
    except UserError:
        return False


def _settings_of(tokenizer: TextTokenizer) -> dict[str, JSON]:
    """The settings that would make such a tokenizer, as far as it tells."""
    return {
        "kind": KINDS.get(tokenizer.kind, tokenizer.kind),
        "vocabulary_size": tokenizer.vocabulary_size,
        "lowercase": _lowers(tokenizer),
        "sentinels": len(tokenizer.specials.sentinels),
        "masking": tokenizer.mask_id is not None,
        "special_in_text": getattr(tokenizer, "special_in_text", False),
    }


def _lowers(tokenizer: TextTokenizer) -> bool:
    """Whether a capital is read as its small letter."""
    for letter in "eaionstr":
        small = tokenizer.encode(letter).tolist()
        if small and tokenizer.unknown_id not in small:
            return tokenizer.encode(letter.upper()).tolist() == small
    return False
