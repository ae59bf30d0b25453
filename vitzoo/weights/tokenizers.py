"""The tokenizer that lies beside published weights, and the files by which it goes out again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.published import FILES, read_published
from vitzoo.errors import Refused

CONFIG = "tokenizer_config.json"
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


def tokenizer_beside(folder: Path, vocabulary_size: int) -> TextTokenizer | None:
    """The tokenizer of a folder, if one lies there.

    Args:
        folder: of the weights.
        vocabulary_size: rows of the model's embedding.

    Raises:
        Refused: it can't be read, or has more ids than the model.
    """
    if not any((folder / name).is_file() for name in FILES):
        return None
    lowercase = tokenizer_config(folder).get("do_lower_case")
    settings = Tokenizer(kind="file", file=str(folder), lowercase=lowercase if isinstance(lowercase, bool) else None)
    tokenizer = read_published(settings)
    if tokenizer.vocabulary_size > vocabulary_size:
        text = f"has {tokenizer.vocabulary_size:,} ids, the model {vocabulary_size:,}; it belongs to another model"
        raise Refused("tokenizer", str(folder), text)
    return tokenizer


def tokenizer_config(folder: Path) -> Mapping[str, Any]:
    """The content of `tokenizer_config.json`; empty where there is none."""
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Refused(str(folder / CONFIG), None, f"can't be read: {error}") from None
    return content if isinstance(content, dict) else {}


def tokenizer_files(tokenizer: TextTokenizer, **settings: Any) -> dict[str, Any]:
    """Files, by name, from which transformers reads the tokenizer.

    Args:
        tokenizer: ours.
        settings: of `tokenizer_config.json` besides the special tokens, such as `tokenizer_class`.
    """
    files = {name: content for name, content in tokenizer.files().items() if name != "tokenizer_roles.json"}
    names = dict(tokenizer.specials.names)
    special = {
        theirs: names[id]
        for theirs, role in NAMES.items()
        if (id := getattr(tokenizer.specials, role)) is not None and id in names
    }
    return {**files, CONFIG: {"tokenizer_class": "PreTrainedTokenizerFast", **special, **settings}}
