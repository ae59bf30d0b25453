"""Writing datasets once as ArrayRecord, for `vitzoo data prepare`."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from vitzoo import registry
from vitzoo.data.duplicates import copies
from vitzoo.data.folders import PATH_KINDS, data_folders, path_of
from vitzoo.data.open import open_dataset, refuse_other_kind
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Dataset
from vitzoo.errors import UserError
from vitzoo.overwriting import Reads, check_stays_outside
from vitzoo.paths import expanded, home
from vitzoo.schema import build
from vitzoo.spelling import shell_flag
from vitzoo.strict_json import JSON


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A dataset that can be read by position.

    Attributes:
        name: what `data.name` now says.
        folder: where it lies.
        notes: what is to be known of its making: files that were ignored or left out.
    """

    name: str
    folder: pathlib.Path
    notes: Sequence[str] = ()


def prepare(name: str, *, shards: int = 0, **settings: JSON) -> Prepared:
    """Writes a dataset as ArrayRecord into `dir`, else $TFDS_DATA_DIR, else ~/tensorflow_datasets.

    `folder:PATH`, `csv:FILE`, `jsonl:FILE` and a class of the user's are written in TFDS's layout, images as they are,
    under the folder's, file's or class's own name, which is what `data.name` then says. A dataset of TFDS's catalogue
    is downloaded and prepared, which needs TensorFlow this once. One that is prepared there already is left as it is.

    Args:
        shards: number of files for each split; 0 leaves it to TFDS.
        settings: further fields of `Data` (dir, bad_files, label_field, validation_fraction ...).

    Raises:
        UserError: no such data, unreadable files, TensorFlow is missing, or the folder can't be written.
    """
    data = build(Data, {"name": name, **settings}, "data")
    refuse_other_kind(name, "image")
    if home() is None and not (data.dir or os.environ.get("TFDS_DATA_DIR")):
        raise UserError("dir", None, "must be given: you have no home folder, where prepared data go by default")
    base = name.partition("/")[0]
    if path_of(name) is None and base not in registry.PARTS["dataset"] and ":" not in name:
        return _from_catalogue(data, shards)
    found: Any = (
        registry.find("dataset", base if base in registry.PARTS["dataset"] else name) if path_of(name) is None else None
    )
    if hasattr(found, "download_and_prepare"):
        from vitzoo.data.sources.tfds_prepare import fewer_shards, prepare_class

        if ":" in name:
            _check_is_free(name, found.name, found)
        folder = prepare_class(data, found, data_folders(data)[:1], shards)
        return Prepared(name, folder, fewer_shards(folder, shards))
    return _copied(data, shards)


def _from_catalogue(data: Data, shards: int) -> Prepared:
    from vitzoo.data.sources.tfds_prepare import fewer_shards, prepare_catalogue

    folder = prepare_catalogue(data, shards)
    return Prepared(data.name, folder, fewer_shards(folder, shards))


def _copied(data: Data, shards: int) -> Prepared:
    """Any dataset written anew, images as they are."""
    from vitzoo.data.sources import tfds_folders, tfds_prepare
    from vitzoo.data.sources.copy_builder import builder_of
    from vitzoo.data.sources.prepared_files import check_listed

    folder, ours = data_folders(data)[0], data.name in registry.PARTS["dataset"]
    if ours and (found := tfds_folders.find_prepared(folder, data.name)):
        check_listed(data.name, found)
        return Prepared(data.name, found)
    new = data.name if ours else _new_name(data.name)
    path = path_of(data.name)
    if not ours and (path is None or path.exists()):
        _check_is_free(data.name, new)
    check_stays_outside("dir", data.dir or folder, folder, Reads([data.name]))
    try:
        dataset = open_dataset(data)
    except UserError:
        if ours and tfds_prepare.is_in_catalogue(data.name):
            return _from_catalogue(data, shards)
        raise
    builder = builder_of(dataset, data.name, new)(data_dir=str(folder))
    if pathlib.Path(builder.data_dir).exists():
        raise UserError("dir", builder.data_dir, "is there already; remove it, or give another folder")
    made = tfds_prepare.prepare(builder, shards, name=data.name)
    notes = (*getattr(dataset, "notes", ()), *tfds_prepare.fewer_shards(made, shards))
    return Prepared(builder.name, made, notes)


def _check_is_free(name: str, new: str, own: Any = None) -> None:
    """Refuses the name of a copy under which other data, or none, would be read.

    Args:
        name: of what is copied.
        new: that of the copy.
        own: the user's class that writes it, if one does.

    Raises:
        UserError: it is such a name.
    """
    from vitzoo.data.sources.tfds_prepare import is_in_catalogue

    if new in registry.PARTS["dataset"]:
        whose = f"`{new}` names a dataset of vitzoo's own"
    elif new in PATH_KINDS:
        whose = f"`{new}:` begins the names of files and folders"
    elif is_in_catalogue(new, own):
        whose = f"`{new}` names a dataset of TFDS's catalogue"
    else:
        return
    path = path_of(name)
    what = "class" if path is None else "folder" if path.is_dir() else "file"
    raise UserError(
        "data.name", name, f"prepared data are read by the name of their {what}, and {whose}; rename the {what}"
    )


def _new_name(name: str) -> str:
    """The name of a copy: of a path its last part, of `package.module:Class` the class, in small letters."""
    path = path_of(name)
    words = re.findall(r"[a-z0-9]+", (path.stem if path else name.rpartition(":")[2]).lower())
    return "_".join(words) or "images"


def torn_note(prepared: Prepared, dir: str = "") -> tuple[str, ...]:
    """A note of the images that the slices of `training_command` hold out though equal ones are trained on.

    Args:
        dir: as there.
    """
    try:
        dataset = open_dataset(_named(prepared, dir))
        settings = _splits(dataset)
        train, held_out = (settings.get(key, "") for key in ("data.split", "evaluate.val.split"))
        if "[" not in held_out:
            return ()
        measured = dataset.open(held_out)
        equal = copies(measured, dataset.open(train))
    except UserError:
        return ()
    if not equal:
        return ()
    what = f"{equal:,} of the {len(measured):,} images of {held_out} are equal to others in {train}"
    return (f"warning: {what}; remove the copies, or put equal images into one split, and prepare anew",)


def _named(prepared: Prepared, dir: str) -> Data:
    return Data(name=prepared.name, dir=str(expanded(dir).absolute()) if dir else "")


def training_command(prepared: Prepared, dir: str = "") -> str:
    """The command that trains on it, complete but for the checkpoint `RUN` to start from; empty where there are no
    images.

    Args:
        dir: the data folder, if it isn't one in which data are looked for anyway.
    """
    data = _named(prepared, dir)
    try:
        dataset = open_dataset(data)
        settings = {"init_from": "RUN", "data.name": data.name, "data.dir": data.dir, **_splits(dataset)}
    except UserError:
        return ""
    flags = [shell_flag(f"--config.{key}", value) for key, value in settings.items() if value]
    workdir = re.sub(r"\W+", "_", prepared.name)
    return " ".join(["vitzoo train --config vit/finetune", *flags, f"--workdir runs/{workdir}"])


def _splits(dataset: Dataset) -> dict[str, str]:
    """Settings of vit/finetune, which takes splits `train` and `validation` and one label each, for other data."""
    infos = {name: dataset.open(name).info for name in dataset.counts()}
    names = [name for name, info in infos.items() if info.classes is not None and not info.unlabelled]
    if not names:
        raise UserError("data.name", None, "has no labels")
    settings = {}
    train = "train" if "train" in names else names[0]
    others = [name for name in ("validation", "test", *names) if name in names and name != train]
    if not others:
        settings = {"data.split": f"{train}[:90%]", "evaluate.val.split": f"{train}[90%:]"}
    else:
        settings = {"data.split": train, "evaluate.val.split": others[0]}
    if dataset.open(train).info.multi_label:
        settings["objective.loss"] = "sigmoid"
    usual = {"data.split": "train", "evaluate.val.split": "validation"}
    return {key: value for key, value in settings.items() if usual.get(key) != value}
