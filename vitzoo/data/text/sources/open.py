"""From `data.name` to texts."""

import inspect
import re
from collections.abc import Callable

from vitzoo import registry
from vitzoo.data.folders import PATH_KINDS, check_path
from vitzoo.data.open import SOURCE, made, refuse_lacking
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table
from vitzoo.data.text.settings import Text
from vitzoo.data.text.sources.base import TextDataset, TextSource
from vitzoo.errors import UserError

IMAGES = ("folder", "csv")
"""Kinds of data that hold images."""

_TFDS_VERSION = re.compile(r"[\w/.\-]+:[\d.*]+")


def open_text(data: Data, split: str | None = None, text: Text | None = None) -> TextSource:
    """The examples of `data.name`, of `split` or else `data.split`.

    Raises:
        UserError: the data isn't there, the split doesn't exist or is empty, or files or fields can't be read.
    """
    source = open_text_dataset(data, text or Text()).open(split or data.split)
    refuse_lacking(data.name, source, (*SOURCE, "fields"))
    return source


def open_text_dataset(data: Data, text: Text) -> TextDataset:
    """The dataset behind `data.name`, all splits: `text:FILE|FOLDER`, `jsonl:FILE|FOLDER`, one of
    `registry.PARTS["text_dataset"]`, the user's `module:Class` (made from `data`, or from `data` and `text`), else
    TFDS's.
    """
    check_path(data.name)
    kind, colon, rest = data.name.partition(":")
    if kind == "text" and rest:
        from vitzoo.data.text.sources.files import open_text_files

        return open_text_files(data, rest, text)
    if kind == "jsonl" and rest:
        from vitzoo.data.text.sources.json_lines import open_json_lines

        return open_json_lines(data, rest, text)
    if (known := data.name.partition("/")[0]) in registry.PARTS["text_dataset"]:
        return _made(registry.find("text_dataset", known), data, text)
    if known in registry.PARTS["dataset"] or kind in IMAGES:
        raise UserError("data.name", data.name, "holds images, and the objective takes text: text:, jsonl: ...")
    if kind in ("text", "jsonl"):
        raise UserError("data.name", data.name, "names no file or folder")
    found = None
    if colon and not _TFDS_VERSION.fullmatch(data.name):
        found = registry.find("text_dataset", data.name)
        if not hasattr(found, "download_and_prepare"):
            return _made(found, data, text)
    from vitzoo.data.text.sources.tfds import TfdsTexts

    return TfdsTexts(data, text, found)


def makes_text(name: str) -> bool:
    """Whether `name` is a user's own dataset, `module:Class`, and what it makes holds text.

    Raises:
        UserError: it can't be imported.
    """
    kind, _, rest = name.partition(":")
    known = kind in PATH_KINDS or kind.split("/")[0] in registry.PARTS["dataset"]
    if not rest or known or _TFDS_VERSION.fullmatch(name):
        return False
    found = registry.find("dataset", name)
    if hasattr(found, "download_and_prepare"):
        return False
    try:
        dataset = _made(found, Data(name=name), Text())
        if isinstance(dataset, Table) or hasattr(dataset, "fields"):
            return not isinstance(dataset, Table)
        return any(hasattr(dataset.open(split), "fields") for split in list(dataset.counts())[:1])
    except UserError:
        return False  # and refused again where it is read


def _made(make: Callable, data: Data, text: Text) -> TextDataset:
    try:
        several = callable(make) and len(inspect.signature(make).parameters) > 1
    except ValueError:  # of compiled code
        several = False
    return made(make, data, text) if several else made(make, data)
