"""Which settings say something of which kinds of data: others, stated by the user, would do nothing in silence."""

from collections.abc import Collection, Mapping, Sequence

from vitzoo import registry
from vitzoo.data.folders import PATH_KINDS, TFDS_VERSION, path_of
from vitzoo.spelling import either

KINDS = {
    "folder": "a folder of images",
    "csv": "a CSV file",
    "text file": "a text file",
    "text folder": "a folder of texts",
    "jsonl": "JSON lines",
    "stdlib": "the standard library",
    "named images": "images known by name",
    "named texts": "texts known by name",
    "tfds images": "images of TFDS",
    "tfds texts": "texts of TFDS",
}
"""Kinds of data in words. A user's own are of none of them: what they make of a setting isn't known."""
_IMAGES = ("folder", "csv", "jsonl", "named images", "tfds images")
_FILES = ("folder", "csv", "text file", "text folder", "jsonl")
_RECORDS = ("csv", "jsonl", "tfds texts")
RECORDS_OF_TURNS = ("jsonl", "tfds texts")
_STAND = ("text file", "text folder", "stdlib")
_FIELDS = ("source_field", "target_field", "first_field", "second_field", "template")

ACTS: Mapping[str, tuple[str, ...]] = {
    "dir": ("named images", "named texts", "tfds images", "tfds texts"),
    "bad_files": (*_FILES, "named images", "tfds images"),
    "validation_fraction": (*_FILES, "stdlib"),
    "in_memory": _IMAGES,
    "image_field": ("csv", "jsonl", "named images", "tfds images"),
    "label_field": (*_RECORDS, "named images", "tfds images"),
    "text_field": (*_RECORDS, "tfds images"),
    "regression": (*_RECORDS, "tfds images"),
    "document": _STAND,
    "files": ("text folder",),
    **dict.fromkeys(_FIELDS, _RECORDS),
}
"""The kinds of data on which a setting of the data acts; settings that aren't listed act on all."""


def kind_of(name: str, *, text: bool) -> str | None:
    """The kind of data behind a `data.name`; None of a user's own, and of mixtures.

    Args:
        name: as in the config.
        text: whether it is read as text, where the name doesn't say.
    """
    first = name.partition(":")[0]
    if first in PATH_KINDS and ":" in name:
        path = path_of(name) if first == "text" else None
        if first == "text":
            return "text file" if path is not None and path.is_file() else "text folder"
        return first
    base = name.partition("/")[0]
    if base in registry.PARTS["dataset"]:
        return "stdlib" if base == "stdlib" else "named texts" if text else "named images"
    if base == "mixture" or (":" in name and not TFDS_VERSION.fullmatch(name)):
        return None
    return "tfds texts" if text else "tfds images"


def without_effect(acts: Sequence[str] | None, kinds: Collection[str | None]) -> str:
    """Why a setting does nothing for data of these kinds; empty where it acts on one of them.

    Args:
        acts: the kinds of data on which it acts; None for all.
        kinds: of all data that it is stated for.
    """
    if acts is None or not kinds or None in kinds or set(acts) & set(kinds):
        return ""
    these = ", ".join(dict.fromkeys(KINDS[kind] for kind in kinds if kind))
    return f"has no effect on {these}; it is for {either([KINDS[kind] for kind in acts])}"


def first_without_effect(stated: Collection[str], kinds: Collection[str | None]) -> tuple[str, str]:
    """The first of the stated settings of the data that does nothing for data of these kinds, and why; empty for
    none.
    """
    found = ((field, without_effect(ACTS.get(field), kinds)) for field in stated)
    return next(((field, why) for field, why in found if why), ("", ""))
