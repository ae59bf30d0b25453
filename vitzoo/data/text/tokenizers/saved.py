"""From the folder where a tokenizer was saved, a checkpoint's or the cache's, to the tokenizer."""

import json
import pathlib

from vitzoo.data.described import TokenizerDescription
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer, CharacterTokenizer
from vitzoo.errors import UserError

SAVED = {"bytes": ByteTokenizer, "characters": CharacterTokenizer}


def load_tokenizer(folder: str | pathlib.Path, description: TokenizerDescription) -> TextTokenizer:
    """The tokenizer whose `save(folder)` gave `description`.

    Raises:
        UserError: a file is missing or unreadable, or its content isn't what was saved.
    """
    folder = pathlib.Path(folder)
    main = folder / description["file"]
    try:
        tokenizer = _read(folder, main, description["kind"])
    except UserError:
        raise
    except Exception as error:  # the libraries raise plain `Exception` for files that they can't read
        raise UserError(str(main), None, f"the tokenizer can't be read: {error}") from error
    if tokenizer.sha256 != description["sha256"]:
        raise UserError(str(main), None, "is not the tokenizer that was saved here (its sha256 differs)")
    return tokenizer.ending_with(description.get("ends", ()))


def _read(folder: pathlib.Path, main: pathlib.Path, kind: str) -> TextTokenizer:
    if kind in SAVED:
        settings = json.loads(main.read_text(encoding="utf-8"))
        return SAVED[settings.pop("kind")](**settings)
    settings = json.loads((folder / "tokenizer_roles.json").read_text(encoding="utf-8"))
    if kind == "sentencepiece":
        from vitzoo.data.text.tokenizers.sentence_piece import SentencePieceTokenizer

        return SentencePieceTokenizer(main.read_bytes(), **settings)
    from vitzoo.data.text.tokenizers.library import LibraryTokenizer

    return LibraryTokenizer(json.loads(main.read_text(encoding="utf-8")), **settings)
