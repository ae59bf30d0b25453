"""From `data.name` to examples."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vitzoo import registry
from vitzoo.data.folders import PATH_KINDS, TFDS_VERSION, check_path
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Dataset, Source, holds
from vitzoo.data.sources.own import OwnSource
from vitzoo.errors import RunError, UserError

SOURCE = ("info", "ids", "fields", "where", "__len__", "__getitem__")
"""What is read of the examples of a split; see `data.sources.base.Source`."""

_OF_KIND = {"folder": "image", "text": "text"}
"""What a path of a kind can hold alone."""
_REFUSED = {"image": "where images are needed", "text": "and the objective takes text: text:, jsonl: ..."}


def open_source(data: Data, split: str | None = None, needs: str = "") -> Source:
    """The examples of `data.name`, of `split` or else `data.split`.

    Args:
        needs: a kind of field that whoever reads them can't do without: `image` or `text`.

    Raises:
        UserError: the data isn't there (what was looked for, where, how to prepare it), the split doesn't exist or is
            empty, files, labels or columns can't be read, or there is no field of the kind that is needed.
    """
    if needs:
        refuse_other_kind(data.name, needs)
    return open_split(data, open_dataset(data), data.split if split is None else split, needs)


def open_split(data: Data, dataset: Dataset, split: str, needs: str = "") -> Source:
    """The examples of a split of an open dataset; one of a user's own is checked, and so is each of its examples.

    Raises:
        UserError: as `open_source`, or a user's own gives something else than a source.
    """
    own = data.name in registry.USER_PARTS
    try:
        source = dataset.open(split)
    except UserError as refusal:
        if not own or refusal.field != "data.name":
            raise
        raise UserError("data.name", data.name, refusal.message) from refusal  # a table has another name for it
    refuse_lacking(data.name, source, SOURCE)
    if not isinstance(source.fields, Mapping):
        right = "the kind of each field: dict(image='image', label='label')"
        raise UserError(
            "data.name", data.name, f"gives a source whose `fields` are {source.fields!r}; wanted is {right}"
        )
    if needs:
        refuse_without(data.name, source.fields, needs)
    checked: Any = OwnSource(data.name, source, needs == "text") if own else source
    return checked


def open_with(data: Data, split: str | None, fields: Mapping[str, str]) -> Source:
    """The examples, from whose fields a model's inputs are made.

    Args:
        data, split: as for `open_source`.
        fields: by input the field of an example that it is made from.

    Raises:
        UserError: as `open_source`, or the data lack a field.
    """
    source = open_source(data, split)
    for name, field in fields.items():
        if field not in source.fields:
            has = ", ".join(source.fields)
            raise UserError("data.name", data.name, f"has no field {field} for the input {name}; it has {has}")
    return source


def refuse_other_kind(name: str, needs: str) -> None:
    """Refuses a name that says by itself, before all of it is read, that there is no field of a kind that is needed."""
    kind, colon, _ = name.partition(":")
    if colon and kind in _OF_KIND:
        refuse_without(name, {"": _OF_KIND[kind]}, needs)


def refuse_without(name: str, fields: Mapping[str, str], needs: str) -> None:
    """Refuses data that have no field of a kind that is needed, `image` or `text`."""
    if not holds(fields, needs):
        other = "text" if needs == "image" else "image"
        has = {"text": "text", "image": "images"}[other] if holds(fields, other) else ", ".join(fields)
        raise UserError("data.name", name, f"holds {has}, {_REFUSED[needs]}")


def is_text(data: Data) -> bool:
    """Whether a dataset holds text and no images. One that TFDS knows by name isn't looked for.

    Raises:
        UserError: what it says itself isn't there, or can't be read.
    """
    kind, colon, _ = data.name.partition(":")
    if kind in PATH_KINDS and colon and kind in _OF_KIND:
        return _OF_KIND[kind] == "text"
    known = kind.partition("/")[0] in registry.PARTS["dataset"]
    if not (known or colon) or TFDS_VERSION.fullmatch(data.name):
        return False
    if kind not in PATH_KINDS:
        found = registry.find("dataset", kind.partition("/")[0] if known else data.name)
        if hasattr(found, "download_and_prepare"):
            return False
    dataset = open_dataset(data)
    fields = getattr(dataset, "fields", None)
    if fields is None:
        fields = next((dataset.open(split).fields for split, count in dataset.counts().items() if count), {})
    return holds(fields, "text") and not holds(fields, "image")


def open_dataset(data: Data) -> Dataset:
    """The dataset behind `data.name`, all splits: `folder:PATH`, `csv:FILE`, `text:FILE|FOLDER`, `jsonl:FILE|FOLDER`,
    one of `registry.PARTS["dataset"]`, the user's `module:Class`, made from the data section, else TFDS's.
    """
    check_path(data.name)
    kind, colon, path = data.name.partition(":")
    if kind == "folder":
        from vitzoo.data.sources.folder import open_folder

        return open_folder(data, path)
    if kind == "csv":
        from vitzoo.data.sources.csv import open_csv

        return open_csv(data, path)
    if kind in ("text", "jsonl"):
        if not path:
            raise UserError("data.name", data.name, "names no file or folder")
        from vitzoo.data.sources.json_lines import open_json_lines
        from vitzoo.data.sources.text_files import open_text_files

        return open_text_files(data, path) if kind == "text" else open_json_lines(data, path)
    if (known := kind.partition("/")[0]) in registry.PARTS["dataset"]:
        return _from_class(registry.find("dataset", known), data)
    if colon and not TFDS_VERSION.fullmatch(data.name):
        return _from_class(registry.find("dataset", data.name), data)
    from vitzoo.data.sources.tfds import TfdsDataset

    return TfdsDataset(data)


def _from_class(found: Any, data: Data) -> Dataset:
    """A dataset of ours or the user's, from a builder class of TFDS or what makes one from the data section."""
    if hasattr(found, "download_and_prepare"):
        from vitzoo.data.sources.tfds import TfdsDataset

        return TfdsDataset(data, found)
    return made(found, data)


def made(make: Callable[[Data], Dataset], data: Data) -> Dataset:
    """The dataset that a class or function makes of the data section, all of whose splits open.

    Raises:
        UserError: it takes other arguments, or makes something else.
    """
    try:
        inspect.signature(make).bind(data)
    except (TypeError, ValueError) as error:
        message = f"must take one argument, the data section ({error})"
        raise UserError("data.name", data.name, message) from error
    own = data.name in registry.USER_PARTS
    try:
        dataset = make(data)
    except UserError as refusal:
        if not own or refusal.field != "data.name":
            raise
        raise UserError("data.name", data.name, refusal.message) from refusal  # `from_arrays` has another name for it
    except RunError:
        raise
    except Exception as error:
        if registry.user_part_fault(error) is not None or not own:
            raise
        said = str(error).strip().partition("\n")[0]  # of compiled code, or of a package's other files
        raise UserError("data.name", data.name, f"gives no data: {type(error).__name__}: {said}") from error
    refuse_lacking(data.name, dataset, ("open",))
    return dataset


def refuse_lacking(name: str, made: Dataset | Source, wanted: Sequence[str]) -> None:
    """Refuses what a user's own dataset gives where it lacks something that is read of it."""
    lacking = ", ".join(f"`{one}`" for one in wanted if not hasattr(made, one))
    if lacking:
        what = f"gives `{type(made).__name__}`, which lacks {lacking}"
        raise UserError("data.name", name, f"{what}: return vitzoo.data.arrays.from_arrays(...) or a Table")
