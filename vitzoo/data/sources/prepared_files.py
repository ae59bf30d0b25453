"""Whether the files of prepared data are what was written: found when the data are opened, in one line."""

import bisect
import contextlib
import errno
import itertools
import os
import pathlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vitzoo import checksums, strict_json
from vitzoo.errors import UserError

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder
    from tensorflow_datasets.core.features import FeatureConnector

CONTENTS = "image_keys.npz"
LARGE = 4 << 20  # bytes: longer files are read through by `vitzoo data check` alone
SOME_SHARDS = 64  # shards without a checksum whose examples are counted when a split is opened
SOUND = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ESTALE)  # for these no file is to blame
DESCRIPTIONS = ("dataset_info.json", "features.json")
_reading_all: list[bool] = []


@contextlib.contextmanager
def read_through() -> Iterator[None]:
    """Within the block every byte of prepared data that are opened is compared with its checksum."""
    _reading_all.append(True)
    try:
        yield
    finally:
        _reading_all.pop()


def write_contents(folder: pathlib.Path, contents: Mapping[str, Sequence[int]]) -> None:
    """Keeps beside prepared data the keys by which equal images are known.

    Args:
        folder: that of the data.
        contents: of each split a key of every example (`duplicates.content_key`).
    """
    arrays: dict[str, Any] = {split: np.array(keys, np.uint64) for split, keys in contents.items()}
    np.savez(folder / CONTENTS, **arrays)


def read_contents(folder: pathlib.Path, counts: Mapping[str, int]) -> np.ndarray | None:
    """The keys of all splits laid end to end, uint64; None of data without them, as TFDS itself writes them.

    Args:
        folder: that of the data.
        counts: the examples of each split.
    """
    try:
        with np.load(folder / CONTENTS) as kept:
            parts = [kept[split] for split in counts]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    return np.concatenate(parts) if list(map(len, parts)) == list(counts.values()) else None


def damaged(name: str, file: str | os.PathLike, fault: str, folder: str | os.PathLike) -> UserError:
    """The refusal of prepared data that aren't what was written.

    Args:
        name: of the data.
        file: the one at fault.
        fault: what is wrong with it.
        folder: that of the data.
    """
    if any(os.strerror(number) in fault for number in SOUND):
        return UserError("data.name", name, f"{os.fspath(file)} {fault}")
    remedy = f"remove the folder {os.fspath(folder)} and write it anew with `vitzoo data prepare`"
    return UserError("data.name", name, f"{os.fspath(file)} {fault}; {remedy}")


def check_listed(name: str, folder: pathlib.Path) -> None:
    """Compares prepared data with the list that `vitzoo data prepare` wrote; TFDS itself writes none.

    Raises:
        UserError: a file is missing, or isn't the one that was written.
    """
    if not os.path.lexists(folder / checksums.LIST):
        return
    if found := checksums.damage(folder, None if _reading_all else LARGE):
        raise damaged(name, *found, folder)


def builder_of_folder(name: str, folder: pathlib.Path) -> "DatasetBuilder":
    """TFDS's builder of prepared data.

    Raises:
        UserError: they are damaged.
    """
    import tensorflow_datasets as tfds

    check_listed(name, folder)
    described: dict[str, dict] = {}
    for file in (folder / part for part in DESCRIPTIONS):
        try:
            described[file.name] = strict_json.read(file)
            if not isinstance(described[file.name], dict):
                raise ValueError("is not an object with fields")
        except FileNotFoundError:
            raise damaged(name, file, "is missing", folder) from None
        except (OSError, ValueError) as error:
            raise damaged(name, file, f"is damaged: it {getattr(error, 'strerror', None) or error}", folder) from error
    try:
        builder = tfds.builder_from_directory(os.fspath(folder))
        features = _class_labels("", builder.info.features)
        for part in builder.info.splits.values():
            list(zip(part.filepaths, part.shard_lengths, strict=True))
    except Exception as error:  # TFDS's and protobuf's, of JSON that says something else than it should
        said = " ".join(str(error).split())[:200]
        # only names of classes lie elsewhere
        files = sorted(folder.glob("*.labels.txt")) if "ClassLabel" in said or "codec" in said else []
        file = files[0] if len(files) == 1 else folder / DESCRIPTIONS[0]
        raise damaged(name, file, f"is damaged: {type(error).__name__}: {said}", folder) from error
    for path, feature in features.items():
        _check_names(name, folder, path, feature, str(described[DESCRIPTIONS[0]].get("moduleName")))
    return builder


def _class_labels(path: str, feature: Any) -> dict[str, Any]:
    """The features that are classes, by the path that TFDS names their files by."""
    import tensorflow_datasets as tfds

    if isinstance(feature, tfds.features.ClassLabel):
        return {path: feature}
    if isinstance(feature, tfds.features.Sequence):
        return _class_labels(path, feature.feature)
    if not isinstance(feature, tfds.features.FeaturesDict):
        return {}
    names = {key: key.replace("/", ".") for key in feature}
    inner = [_class_labels(f"{path}-{names[key]}" if path else names[key], part) for key, part in feature.items()]
    return {key: label for part in inner for key, label in part.items()}


def _check_names(name: str, folder: pathlib.Path, path: str, feature: Any, module: str) -> None:
    """Names of classes that are fewer or more than the classes, or missing where `module`, which wrote the data, wrote
    some.
    """
    file = folder / f"{path}.labels.txt"
    if file.exists():
        count = sum(bool(line.strip()) for line in file.read_text("utf-8", "replace").split("\n"))
        if count != feature.num_classes:
            raise damaged(name, file, f"names {count:,} classes, and there are {feature.num_classes:,}", folder)
    elif feature._int2str is None and _has_names(name, path, module):
        raise damaged(name, file, f"is missing, which names the {feature.num_classes:,} classes", folder)


def _has_names(name: str, path: str, module: str) -> bool:
    """Whether what wrote the data names their classes: a copy of ours does, of TFDS's catalogue some do."""
    import tensorflow_datasets as tfds

    if not module.startswith("tensorflow_datasets."):
        return module == "vitzoo.data.sources.copy_builder"
    with contextlib.suppress(Exception):  # there is none of this name, or it needs a library that isn't there
        feature = _class_labels("", tfds.builder(name, data_dir=os.devnull).info.features).get(path)
        return bool(feature is not None and feature._int2str)
    return False


def check_names(name: str, features: "FeatureConnector") -> None:
    """Refuses names of classes that TFDS's files, one name a line, would give back otherwise.

    Args:
        name: of the data.
        features: TFDS's, to be written.

    Raises:
        UserError: a name is empty, or holds a line break or what no file can hold.
    """
    for feature in _class_labels("", features).values():
        refuse_unwritable(name, feature.names if feature.num_classes else ())


def refuse_unwritable(name: str, classes: Sequence[str]) -> None:
    """`check_names`, of names alone."""
    for number, one in enumerate(classes):
        fault = _unwritable(one)
        if fault:
            right = "prepared data list one name a line: rename the class"
            raise UserError("data.name", name, f"the name {one!a} of class {number} {fault}; {right}")


def _unwritable(one: str) -> str:
    if "\n" in one or "\r" in one:
        return "holds a line break"
    if not one.strip():
        return "is empty"
    try:
        one.encode()
    except UnicodeEncodeError:
        return "is no valid Unicode"
    return ""


class PreparedRecords(Sequence):
    """The examples of a split by position. What the reader of the files says of a damaged one is a refusal.

    Args:
        name: of the data.
        folder: that of the data.
        records: TFDS's.

    Raises:
        UserError: a shard is missing or holds another number of examples than it should.
    """

    def __init__(self, name: str, folder: str | os.PathLike, records: Any):
        self.name, self.folder, self.records = name, os.fspath(folder), records
        instructions = list(records.data_source._read_instructions)
        self.files = [instruction.filename for instruction in instructions]
        self.ends = list(itertools.accumulate(instruction.num_records for instruction in instructions))

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):  # which ends an iteration
            raise IndexError(index)
        try:
            return self.records[int(index)]
        except Exception as error:  # of ArrayRecord's reader, or of protobuf
            file = self.files[bisect.bisect_right(self.ends, index)]
            raise damaged(self.name, file, _said(error), self.folder) from error


def check_shards(name: str, folder: str | os.PathLike, parts: Sequence[tuple[str, int]]) -> None:
    """Looks for the files of a split, and counts the examples of those that have no checksum.

    Args:
        name: of the data.
        folder: that of the data.
        parts: each file, and how many examples it should hold.

    Raises:
        UserError: one is missing, can't be read, or holds another number of them.
    """
    from array_record.python.array_record_module import ArrayRecordReader

    for file, _ in parts:
        if not os.path.exists(file):
            raise damaged(name, file, "is missing", folder)
    if os.path.exists(pathlib.Path(folder) / checksums.LIST):
        return
    step = 1 if _reading_all else max(1, -(-len(parts) // SOME_SHARDS))
    for file, wanted in parts[::step]:
        try:
            reader = ArrayRecordReader(file)
            count = reader.num_records()
            reader.close()
        except Exception as error:  # whatever the reader raises
            raise damaged(name, file, _said(error), folder) from error
        if count != wanted:
            raise damaged(name, file, f"holds {count:,} examples, and {wanted:,} were written", folder)


def _said(error: Exception) -> str:
    return f"can't be read: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
