"""From `data.name` to examples."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from vitzoo import registry
from vitzoo.data.folders import check_path
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Dataset, Source
from vitzoo.errors import RunError, UserError

SOURCE = ("info", "ids", "where", "__len__", "__getitem__")
"""What is read of the examples of a split; see `data.sources.base.Source`."""

_TFDS_VERSION = re.compile(r"[\w/.\-]+:[\d.*]+")


def open_source(data: Data, split: str | None = None) -> Source:
    """The examples of `data.name`, of `split` or else `data.split`.

    Raises:
        UserError: the data isn't there (what was looked for, where, how to prepare it), the split doesn't exist or is
            empty, or files, labels or columns can't be read.
    """
    source = open_dataset(data).open(split or data.split)
    refuse_lacking(data.name, source, SOURCE)
    if hasattr(source, "fields"):
        raise UserError("data.name", data.name, "holds text, where images are needed")
    return source


def open_dataset(data: Data) -> Dataset:
    """The dataset behind `data.name`, all splits: `folder:PATH`, `csv:FILE`, ours, `module:Class`, else TFDS's."""
    check_path(data.name)
    kind, colon, rest = data.name.partition(":")
    if kind == "folder":
        from vitzoo.data.sources.folder import open_folder

        return open_folder(data, rest)
    if kind == "csv":
        from vitzoo.data.sources.csv import open_csv

        return open_csv(data, rest)
    if kind.split("/")[0] in registry.PARTS["dataset"]:
        return _from_class(registry.find("dataset", kind.split("/")[0]), data)
    if kind in ("text", "jsonl") or kind.split("/")[0] in registry.PARTS["text_dataset"]:
        raise UserError("data.name", data.name, "holds text, where images are needed")
    if colon and not _TFDS_VERSION.fullmatch(data.name):
        return _from_class(registry.find("dataset", data.name), data)
    from vitzoo.data.sources.tfds import TfdsDataset

    return TfdsDataset(data)


def _from_class(found: Callable[[Data], Any], data: Data) -> Dataset:
    """A dataset of ours or the user's, from a builder class of TFDS or what makes one from the data section."""
    if hasattr(found, "download_and_prepare"):
        from vitzoo.data.sources.tfds import TfdsDataset

        return TfdsDataset(data, found)
    return made(found, data)


def made(make: Callable[..., Any], *given: Any) -> Any:
    """The dataset that a class or function makes of the data section (and that of the text), all of whose splits open.

    Raises:
        UserError: it takes other arguments, or makes something else.
    """
    name = given[0].name
    try:
        inspect.signature(make).bind(*given)
    except (TypeError, ValueError) as error:
        raise UserError("data.name", name, f"must take one argument, the data section ({error})") from error
    try:
        dataset = make(*given)
    except (UserError, RunError):
        raise
    except Exception as error:
        if registry.user_part_fault(error) is not None or name not in registry.USER_PARTS:
            raise
        said = str(error).strip().partition("\n")[0]  # of compiled code, or of a package's other files
        raise UserError("data.name", name, f"gives no data: {type(error).__name__}: {said}") from error
    refuse_lacking(name, dataset, ("open",))
    return dataset


def refuse_lacking(name: str, made: Any, wanted: Sequence[str]) -> None:
    """Refuses what a user's own dataset gives where it lacks something that is read of it."""
    lacking = ", ".join(f"`{one}`" for one in wanted if not hasattr(made, one))
    if lacking:
        what = f"gives `{type(made).__name__}`, which lacks {lacking}"
        raise UserError(
            "data.name", name, f"{what}: return vitzoo.data.arrays.from_arrays(...), a Table or a TextTable"
        )
