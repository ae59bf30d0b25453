"""From `data.name` to examples."""

import re

from vitzoo import parts
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Dataset, Source
from vitzoo.errors import Refused

_TFDS_VERSION = re.compile(r"[\w/.\-]+:[\d.*]+")


def open_source(data: Data, split: str | None = None) -> Source:
    """The examples of `data.name`, of `split` or else `data.split`.

    Raises:
        Refused: the data isn't there (what was looked for, where, how to prepare it), the split doesn't exist or is
            empty, or files, labels or columns can't be read.
    """
    return open_dataset(data).open(split or data.split)


def open_dataset(data: Data) -> Dataset:
    """The dataset behind `data.name`, all splits: `folder:PATH`, `csv:FILE`, ours, `module:Class`, else TFDS's."""
    kind, _, rest = data.name.partition(":")
    if kind == "folder":
        from vitzoo.data.sources.folder import open_folder

        return open_folder(data, rest)
    if kind == "csv":
        from vitzoo.data.sources.csv import open_csv

        return open_csv(data, rest)
    if kind.split("/")[0] in parts.PARTS["dataset"]:
        return _from_class(parts.find("dataset", kind.split("/")[0]), data)
    if kind in ("text", "jsonl") or kind.split("/")[0] in parts.PARTS["text_dataset"]:
        raise Refused("data.name", data.name, "holds text, and the objective takes images")
    if rest and not _TFDS_VERSION.fullmatch(data.name):
        return _from_class(parts.find("dataset", data.name), data)
    from vitzoo.data.sources.tfds import TfdsDataset

    return TfdsDataset(data)


def _from_class(found: type, data: Data) -> Dataset:
    if not hasattr(found, "download_and_prepare"):
        return found(data)
    from vitzoo.data.sources.tfds import TfdsDataset

    return TfdsDataset(data, found)
