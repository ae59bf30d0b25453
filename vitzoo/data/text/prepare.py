"""A tokenizer made from a user's text and kept as the files that others read, for `vitzoo data prepare`."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.text.examples import all_text
from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.open import byte_length
from vitzoo.data.text.tokenizers.train import train_tokenizer
from vitzoo.errors import UserError
from vitzoo.outputs import checked_new_folder, whole_folder
from vitzoo.overwriting import Reads
from vitzoo.schema import build
from vitzoo.spelling import shell_flag
from vitzoo.strict_json import JSON

KEPT = ("bpe", "unigram", "wordpiece")
"""Kinds that have a published form; the others need no preparing."""


@dataclasses.dataclass(frozen=True)
class PreparedTokenizer:
    """A tokenizer on disk.

    Attributes:
        folder: where its files lie.
        vocabulary_size: its ids, special tokens and sentinels included.
        tokens: of the text it was made from.
        bytes_per_token: of that text.
        command: what trains with it.
    """

    folder: pathlib.Path
    vocabulary_size: int
    tokens: int
    bytes_per_token: float
    command: str


def prepare_tokenizer(
    name: str,
    output: str | pathlib.Path,
    tokenizer: Mapping[str, JSON],
    **settings: JSON,
) -> PreparedTokenizer:
    """Trains a tokenizer on the train split (or `split`) and writes it: the one that a training with the same settings
    would make for itself.

    Args:
        name: as `data.name`.
        output: a new folder.
        tokenizer: fields of `Tokenizer`: kind, vocabulary_size ...
        settings: further fields of `Data`.

    Raises:
        UserError: no such data, a kind that isn't trained, or the folder isn't empty.
    """
    how = build(Tokenizer, tokenizer, "tokenizer")
    if how.kind not in KEPT:
        raise UserError(
            "inputs.tokens.tokenizer.kind", how.kind, f"needs no preparing; {', '.join(KEPT)} are trained on text"
        )
    folder = checked_new_folder("output", output, reads=Reads([name]))
    source = open_source(build(Data, {"name": name, **settings}, "data"), needs="text")
    texts = all_text(source)
    made = train_tokenizer(how, texts)
    with whole_folder(folder, "output") as staged:
        made.save(staged)
    sizes = np.array([(len(made.encode(one)), byte_length(one)) for one in texts], np.int64).sum(0)
    of_tokenizer = {"kind": "file", "file": folder, **_not_in_file(how)}
    flags = [
        shell_flag("--config.data.name", name),
        *(shell_flag(f"--config.inputs.tokens.tokenizer.{k}", v) for k, v in of_tokenizer.items()),
    ]
    command = f"vitzoo train --config CONFIG --workdir DIR {' '.join(flags)}"
    return PreparedTokenizer(folder, made.vocabulary_size, int(sizes[0]), float(sizes[1] / sizes[0]), command)


def _not_in_file(how: Tokenizer) -> dict[str, Any]:
    """Settings that the files don't hold and a training must be told again."""
    told: dict[str, Any] = {}
    if how.kind == "unigram":
        told |= {"sentinels": how.sentinels} if how.sentinels else {}
        told |= {"lowercase": "true"} if how.lowercase else {}
    return told | ({"special_in_text": "true"} if how.special_in_text else {})
