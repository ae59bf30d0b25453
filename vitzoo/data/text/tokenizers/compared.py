"""What a config states of a tokenizer, against the one that a checkpoint brings."""

from collections.abc import Iterable
from typing import Any

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.stated import read_stated
from vitzoo.errors import UserError

KINDS = {"sentencepiece": "unigram"}
"""Kinds of tokenizers that settings call otherwise."""


def differing(settings: Tokenizer, stated: Iterable[str], tokenizer: TextTokenizer) -> dict[str, Any]:
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


def _settings_of(tokenizer: TextTokenizer) -> dict[str, Any]:
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
