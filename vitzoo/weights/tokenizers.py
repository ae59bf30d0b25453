"""The tokenizer that lies beside published weights, and the files by which it goes out again."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.data.text.tokenizers.definition import check_added
from vitzoo.data.text.tokenizers.library import LibraryTokenizer, token_names
from vitzoo.data.text.tokenizers.published import FILES, read_published
from vitzoo.errors import UserError
from vitzoo.schema import to_json
from vitzoo.strict_json import JSON
from vitzoo.weights.files.weights import Weights, read_json, shown
from vitzoo.weights.tokenizer_json import as_definition, with_marks, with_names_as_text

GENERATION = "generation_config.json"
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
FOUND = ("single_word", "lstrip", "rstrip", "normalized")
"""How an added token is found in text."""
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
        UserError: it can't be read, or has more ids than the model.
    """
    if not any((folder / name).is_file() for name in FILES):
        return None
    config = tokenizer_config(folder)
    settings = Tokenizer(
        kind="file",
        file=str(folder),
        lowercase=_flag(folder, config, "do_lower_case"),
        sentinels=sentinels,
    )
    tokenizer = read_published(settings)
    if isinstance(tokenizer, LibraryTokenizer):
        tokenizer = _as_stated(tokenizer, folder, config)
    if tokenizer.vocabulary_size > vocabulary_size:
        text = f"has {tokenizer.vocabulary_size:,} ids, the model {vocabulary_size:,}; it belongs to another model"
        raise UserError("tokenizer", str(folder), text)
    return tokenizer


def t5_tokenizer(folder: Path, vocabulary_size: int) -> TextTokenizer | None:
    """The tokenizer of a T5's folder; of a ByT5, whose bytes need no file, its own: its sentinels are those that the
    published ByT5s were trained with, 258 and down, while transformers calls the ids from 259 on so, untrained ones.

    Raises:
        UserError: see `tokenizer_beside`; or it has no number of sentinels that the model has room for.
    """
    config = tokenizer_config(folder)
    stated = config.get("extra_ids")
    if stated is not None and (type(stated) is not int or not 0 <= stated <= vocabulary_size):
        right = f"a part of the model's {vocabulary_size:,} ids is right"
        raise UserError(str(folder / CONFIG), None, f"has extra_ids = {shown(stated)}; {right}")
    whole = (folder / "tokenizer.json").is_file()  # which has its sentinels; spiece.model lacks them
    found = tokenizer_beside(
        folder, vocabulary_size, sentinels=0 if whole else T5_SENTINELS if stated is None else stated
    )
    of_bytes = config.get("tokenizer_class", "ByT5Tokenizer") == "ByT5Tokenizer" and vocabulary_size == BYTES
    return ByteTokenizer.of_byt5() if found is None and of_bytes else found


def tokenizer_config(folder: Path) -> Mapping[str, JSON]:
    """The content of `tokenizer_config.json`; empty where there is none."""
    return content_of(folder / CONFIG)


def special_ids(tokenizer: TextTokenizer | None, *names: str) -> dict[str, JSON]:
    """Ids of special tokens as `config.json` has them: `bos` as `bos_token_id`; None where there is none; of ends that
    are stated several, a list.
    """
    if tokenizer is None:
        return {}
    ids: dict[str, JSON] = {f"{name}_token_id": getattr(tokenizer.specials, NAMES[f"{name}_token"]) for name in names}
    if "eos" in names and tokenizer.ends:
        ids["eos_token_id"] = list(tokenizer.ends) if len(tokenizer.ends) > 1 else tokenizer.ends[0]
    return ids


def stated_ends(source: Weights, vocabulary_size: int) -> tuple[int, ...]:
    """The ids that end what a model writes, as files of transformers state them: `generation_config.json` decides
    before `config.json`; empty where neither does, and the tokenizer's end token ends a text.

    Raises:
        UserError: one of them states what is no id of the model.
    """
    found: list[tuple[int, ...]] = []
    for name, content in ((GENERATION, content_of(source.folder / GENERATION)), (source.config_name, source.config)):
        stated = content.get("eos_token_id")
        ids = stated if isinstance(stated, list) else [] if stated is None else [stated]
        known = [id for id in ids if type(id) is int and 0 <= id < vocabulary_size]
        if stated == [] or len(known) < len(ids):
            right = f"an integer from 0 to {vocabulary_size - 1:,}, or a list of such, is right"
            raise source.refused(f"{name} has eos_token_id = {shown(stated)}; {right}")
        found += [tuple(dict.fromkeys(known))] if known else []
    return found[0] if found else ()


def tokenizer_files(
    tokenizer: TextTokenizer | None,
    *,
    opening: bool = False,
    closing: bool = False,
    masking: bool = False,
    **settings: JSON,
) -> dict[str, JSON | bytes]:
    """Files, by name, from which transformers reads the tokenizer.

    Args:
        tokenizer: ours; None gives no files.
        opening: a text begins with the token that classifies it, where there is one,
        closing: and ends with the one that separates, else with the end token.
        masking: the model is asked for masked tokens: the mask's name in a text must mean it, and transformers finds
            the names of all special tokens or of none.
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
    if not masking and not tokenizer.special_in_text:
        settings["split_special_tokens"] = True
    if isinstance(tokenizer, ByteTokenizer) and tokenizer.is_byt5:
        return {CONFIG: {"tokenizer_class": "ByT5Tokenizer", "extra_ids": BYTES - 259, **special, **settings}}
    definition = with_marks(as_definition(tokenizer), tokenizer, opening=opening, closing=closing)
    if "split_special_tokens" in settings:
        definition = with_names_as_text(definition, names.values())
    files: dict[str, JSON | bytes] = {
        "tokenizer.json": to_json(definition),
        CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast", **special, **settings},
    }
    kept = ("spiece.model",)
    return files | {name: content for name, content in tokenizer.files().items() if name in kept}


def _as_stated(tokenizer: LibraryTokenizer, folder: Path, config: Mapping[str, Any]) -> LibraryTokenizer:
    """With the roles, the added tokens and the normaliser that the files beside it state."""
    definition = json.loads(json.dumps(tokenizer.definition))
    stated = {**content_of(folder / SPECIAL), **config}
    special = {name for value in stated.values() for name in _names(value)}
    listed, added = _ids(folder / ADDED, content_of(folder / ADDED), special), _added(folder / CONFIG, config)
    _check_stated(folder / ADDED, tokenizer, listed)
    _check_stated(folder / CONFIG, tokenizer, added)
    _add_tokens(definition, tokenizer.vocabulary_size, listed | added)
    normaliser = definition.get("normalizer") or {}
    if normaliser.get("type") == "BertNormalizer":
        stated_of = {ours: _flag(folder, config, name) for name, ours in NORMALISER.items()}
        normaliser |= {ours: value for ours, value in stated_of.items() if value is not None}
    if (splitter := definition.get("pre_tokenizer") or {}).get("type") == "ByteLevel":
        prefix = _flag(folder, config, "add_prefix_space")
        splitter |= {} if prefix is None else {"add_prefix_space": prefix}
    names = token_names(definition)
    roles = {role: name for theirs, role in NAMES.items() if (name := _name(stated.get(theirs))) in names}
    if roles.get("unknown") in (roles.get("end"), roles.get("start")):
        roles.pop("unknown", None)  # GPT-2's: no text is unknown to bytes
    all_roles: dict[str, str] = {**tokenizer.roles, **roles}  # type: ignore[dict-item]
    whole = (folder / "tokenizer.json").is_file()  # which says itself what stands before a text
    if not whole and _flag(folder, config, "add_bos_token") and "start" in all_roles:
        definition["post_processor"] = _opening(tokenizer, all_roles["start"])
    try:
        return LibraryTokenizer(definition, all_roles)
    except Exception as error:  # the library raises plain `Exception` for tokens that it can't add
        raise UserError("tokenizer", str(folder), f"can't be made as {CONFIG} says: {error}") from None


def _opening(tokenizer: LibraryTokenizer, start: str) -> dict[str, Any]:
    """What tokenizer.json has for a start token before a text."""
    id = {name: id for id, name in tokenizer.specials.names}[start]
    mark = {"SpecialToken": {"id": start, "type_id": 0}}
    first, second = ({"Sequence": {"id": letter, "type_id": number}} for number, letter in enumerate("AB"))
    marks = {start: {"id": start, "ids": [id], "tokens": [start]}}
    pair = [mark, first, mark, second]
    return {"type": "TemplateProcessing", "single": [mark, first], "pair": pair, "special_tokens": marks}


def _flag(folder: Path, config: Mapping[str, Any], name: str) -> bool | None:
    """A setting of `tokenizer_config.json` that is true, false or not stated."""
    stated = config.get(name)
    if not isinstance(stated, bool | None):
        raise UserError(str(folder / CONFIG), None, f"has {name} = {shown(stated)}; true or false is right")
    return stated


Added = dict[str, dict[str, Any]]
"""Tokens by name, as tokenizer.json has them: with id, and how they are found in text."""


def _added(file: Path, config: Mapping[str, Any]) -> Added:
    """The added tokens of `tokenizer_config.json`."""
    added = config.get("added_tokens_decoder") or {}
    named = {id: _name(token) for id, token in added.items()} if isinstance(added, Mapping) else {"": None}
    if not all(id.isdecimal() and len(id) < 10 and name is not None for id, name in named.items()):
        raise UserError(str(file), None, f"has added_tokens_decoder = {shown(added)}; a token for each id is right")
    found: Added = {}
    for id, token in added.items():
        told = token if isinstance(token, Mapping) else {}
        for name in (*FOUND, "special"):
            if not isinstance(told.get(name), bool | None):
                right = "true or false is right"
                raise UserError(str(file), None, f"has added_tokens_decoder.{id}.{name} = {shown(told[name])}; {right}")
        found[str(named[id])] = _token(int(id), str(named[id]), bool(told.get("special")), told)
    return found


def _ids(file: Path, added: Mapping[str, Any], special: Collection[str]) -> Added:
    """The tokens of `added_tokens.json`, which says no more than their ids."""
    for name, id in added.items():
        if type(id) is not int:
            raise UserError(str(file), None, f"has {shown(name)} = {shown(id)}; an id is right")
    return {name: _token(id, name, name in special, {}) for name, id in added.items()}


def _token(id: int, name: str, special: bool, told: Mapping[str, Any]) -> dict[str, Any]:
    """An added token; an ordinary one is looked for in normalised text unless it says otherwise."""
    usual = dict.fromkeys(FOUND, False) | {"normalized": not special}
    return {"id": id, "content": name, "special": special, **{field: told.get(field, usual[field]) for field in usual}}


def _check_stated(file: Path, tokenizer: LibraryTokenizer, added: Added) -> None:
    """Refuses a file that gives tokens of the vocabulary other ids."""
    try:
        check_added(tokenizer.ids, {name: token["id"] for name, token in added.items()})
    except ValueError as error:
        raise UserError(str(file), None, f"contradicts the vocabulary: {error}") from None


def _add_tokens(definition: dict[str, Any], size: int, added: Added) -> None:
    """Those that the vocabulary lacks, which must follow it without a gap."""
    known = {token["content"] for token in definition["added_tokens"]}
    for name, token in sorted(added.items(), key=lambda item: item[1]["id"]):
        if name not in known and token["id"] == size:
            definition["added_tokens"].append(token)
            size += 1


def _names(value: Any) -> list[str]:
    """The names of special tokens that a setting holds: one, or a list of them."""
    names = [_name(token) for token in (value if isinstance(value, list) else [value])]
    return [name for name in names if name is not None]


def _name(token: Any) -> str | None:
    """The text of a special token, which is written as text or with how it is found in text."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else None


def content_of(file: Path) -> Mapping[str, JSON]:
    """A JSON file's settings, empty where there is none.

    Raises:
        UserError: it can't be read, or holds anything else.
    """
    return read_json(file) if file.is_file() else {}
