"""The tokenizer that lies beside published weights, and the files by which it goes out again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.bytes import ByteTokenizer
from vitzoo.data.text.tokenizers.library import LibraryTokenizer, token_names
from vitzoo.data.text.tokenizers.published import FILES, read_published
from vitzoo.errors import Refused
from vitzoo.weights.tokenizer_json import as_definition, with_marks

CONFIG, SPECIAL, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
NAMES = {
    "pad_token": "pad",
    "eos_token": "end",
    "unk_token": "unknown",
    "bos_token": "start",
    "mask_token": "mask",
    "cls_token": "classify",
    "sep_token": "separate",
}
"""transformers' name of a special token → its role here."""
NORMALISER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Settings of a BERT's tokenizer → those of its normaliser."""
T5_SENTINELS = 100
BYTES = 384
"""Rows of ByT5's table: 3 special ids, 256 bytes and 125 ids that no text has."""


def tokenizer_beside(folder: Path, vocabulary_size: int, *, sentinels: int = 0) -> TextTokenizer | None:
    """The tokenizer of a folder, if one lies there.

    Args:
        folder: of the weights.
        vocabulary_size: rows of the model's embedding.
        sentinels: to add where its files hold none.

    Raises:
        Refused: it can't be read, or has more ids than the model.
    """
    if not any((folder / name).is_file() for name in FILES):
        return None
    config = tokenizer_config(folder)
    lowercase = config.get("do_lower_case")
    settings = Tokenizer(
        kind="file",
        file=str(folder),
        lowercase=lowercase if isinstance(lowercase, bool) else None,
        sentinels=sentinels,
    )
    tokenizer = read_published(settings)
    if isinstance(tokenizer, LibraryTokenizer):
        tokenizer = _as_stated(tokenizer, folder, config)
    if tokenizer.vocabulary_size > vocabulary_size:
        text = f"has {tokenizer.vocabulary_size:,} ids, the model {vocabulary_size:,}; it belongs to another model"
        raise Refused("tokenizer", str(folder), text)
    return tokenizer


def t5_tokenizer(folder: Path, vocabulary_size: int) -> TextTokenizer | None:
    """The tokenizer of a T5's folder; of a ByT5, whose bytes need no file, its own.

    Raises:
        Refused: see `tokenizer_beside`.
    """
    config = tokenizer_config(folder)
    stated = config.get("extra_ids", T5_SENTINELS)
    whole = (folder / "tokenizer.json").is_file()  # which has its sentinels; spiece.model lacks them
    found = tokenizer_beside(folder, vocabulary_size, sentinels=stated if isinstance(stated, int) and not whole else 0)
    of_bytes = config.get("tokenizer_class", "ByT5Tokenizer") == "ByT5Tokenizer" and vocabulary_size == BYTES
    return ByteTokenizer.of_byt5() if found is None and of_bytes else found


def tokenizer_config(folder: Path) -> Mapping[str, Any]:
    """The content of `tokenizer_config.json`; empty where there is none."""
    return content_of(folder / CONFIG)


def special_ids(tokenizer: TextTokenizer | None, *names: str) -> dict[str, int | None]:
    """Ids of special tokens as `config.json` has them: `bos` as `bos_token_id`; None where there is none."""
    if tokenizer is None:
        return {}
    return {f"{name}_token_id": getattr(tokenizer.specials, NAMES[f"{name}_token"]) for name in names}


def tokenizer_files(
    tokenizer: TextTokenizer | None, *, opening: bool = False, closing: bool = False, **settings: Any
) -> dict[str, Any]:
    """Files, by name, from which transformers reads the tokenizer.

    Args:
        tokenizer: ours; None gives no files.
        opening: a text begins with the token that classifies it, where there is one,
        closing: and ends with the one that separates, else with the end token.
        settings: of `tokenizer_config.json` besides the special tokens.
    """
    if tokenizer is None:
        return {}
    names = dict(tokenizer.specials.names)
    special = {
        theirs: names[id]
        for theirs, role in NAMES.items()
        if (id := getattr(tokenizer.specials, role)) is not None and id in names
    }
    if isinstance(tokenizer, ByteTokenizer) and tokenizer.is_byt5:
        return {CONFIG: {"tokenizer_class": "ByT5Tokenizer", "extra_ids": BYTES - 259, **special, **settings}}
    definition = with_marks(as_definition(tokenizer), tokenizer, opening=opening, closing=closing)
    files = {
        "tokenizer.json": definition,
        CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast", **special, **settings},
    }
    kept = ("spiece.model",)
    return files | {name: content for name, content in tokenizer.files().items() if name in kept}


def _as_stated(tokenizer: LibraryTokenizer, folder: Path, config: Mapping[str, Any]) -> LibraryTokenizer:
    """With the roles, the added tokens and the normaliser that the files beside it state."""
    definition = json.loads(json.dumps(tokenizer.definition))
    _add_tokens(definition, tokenizer.vocabulary_size, {**content_of(folder / ADDED), **_added(config)})
    normaliser = definition.get("normalizer") or {}
    if normaliser.get("type") == "BertNormalizer":
        normaliser |= {ours: config[name] for name, ours in NORMALISER.items() if isinstance(config.get(name), bool)}
    if (splitter := definition.get("pre_tokenizer") or {}).get("type") == "ByteLevel":
        prefix = config.get("add_prefix_space")
        splitter |= {"add_prefix_space": prefix} if isinstance(prefix, bool) else {}
    names, stated = token_names(definition), {**content_of(folder / SPECIAL), **config}
    roles = {role: name for theirs, role in NAMES.items() if (name := _name(stated.get(theirs))) in names}
    if roles.get("unknown") in (roles.get("end"), roles.get("start")):
        roles.pop("unknown", None)  # GPT-2's: no text is unknown to bytes
    return LibraryTokenizer(definition, {**tokenizer.roles, **roles})  # type: ignore[dict-item]


def _added(config: Mapping[str, Any]) -> dict[str, int]:
    """Tokens with their ids out of `tokenizer_config.json`."""
    added = config.get("added_tokens_decoder")
    if not isinstance(added, Mapping):
        return {}
    return {str(_name(token)): int(id) for id, token in added.items() if str(id).isdecimal()}


def _add_tokens(definition: dict[str, Any], size: int, added: Mapping[str, int]) -> None:
    """Those that the vocabulary lacks, which must follow it without a gap, as special ones."""
    known = {token["content"] for token in definition["added_tokens"]}
    for name, id in sorted(added.items(), key=lambda item: item[1]):
        if name not in known and id == size:
            plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            definition["added_tokens"].append({"id": id, "content": name, **plain})
            size += 1


def _name(token: Any) -> str | None:
    """The text of a special token, which is written as text or with how it is found in text."""
    return token.get("content") if isinstance(token, Mapping) else token if isinstance(token, str) else None


def content_of(file: Path) -> Mapping[str, Any]:
    """A JSON file's content, empty where there is none; Refused if it can't be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Refused(str(file), None, f"can't be read: {error}") from None
    return content if isinstance(content, dict) else {}
