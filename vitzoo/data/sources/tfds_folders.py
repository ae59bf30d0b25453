"""Where prepared TFDS datasets lie, and what to say when one doesn't."""

import contextlib
import importlib
import itertools
import os
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from vitzoo.checksums import LIST
from vitzoo.data import splits
from vitzoo.data.folders import data_folders
from vitzoo.data.image_files import IMAGE_ENDINGS
from vitzoo.data.settings import Data
from vitzoo.data.sources.prepared_files import PreparedRecords, builder_of_folder, check_shards
from vitzoo.data.sources.values import Stored
from vitzoo.errors import UserError
from vitzoo.spelling import shell_flag

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder

NAME = re.compile(r"(?P<name>\w+)(?:/(?P<config>[\w.\-]+))?(?::(?P<version>[\d.*]+))?")

LOOKED_THROUGH = 10_000  # files of a folder, for an image
_OF_ENDING = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
SMALL, SOME = 2000, 64  # examples: splits of which every label is looked at, and how many of larger ones
GROUPS = ("text", "translate", "summarization", "question_answering")  # parts that TFDS imports when asked


def find_prepared(
    folder: pathlib.Path, name: str, config: str | None = None, version: str | None = None
) -> pathlib.Path | None:
    """The folder of a prepared dataset, newest version first: `folder` itself, or NAME[/CONFIG]/VERSION in it.

    Raises:
        UserError: several configurations are there and none was named.
    """
    if _is_one(folder):
        return folder if name in folder.parts else None
    files = [path for file in ("features.json", LIST) for path in (folder / name).glob(f"**/{file}")]
    found = [path for path in sorted({file.parent for file in files}) if is_prepared(path)]
    if config:
        found = [path for path in found if path.parent.name == config]
    if version:
        pattern = re.compile(version.replace(".", r"\.").replace("*", r"\d+"))
        found = [path for path in found if pattern.fullmatch(path.name)]
    configs = sorted({path.parent.name for path in found if path.parent != folder / name})
    if len(configs) > 1:
        raise UserError(
            "data.name",
            name,
            f"several configurations are prepared; name one: {name}/{configs[0]} ({', '.join(configs)})",
        )
    return max(found, key=_version_number, default=None)


def _is_one(folder: pathlib.Path) -> bool:
    """Whether a folder holds a prepared dataset, maybe a damaged one of ours."""
    return (folder / "dataset_info.json").exists() and any((folder / file).exists() for file in ("features.json", LIST))


def is_prepared(path: pathlib.Path) -> bool:
    """Whether a folder was written to its end; that nothing is missing since is for its list to say."""
    return any((path / file).exists() for file in ("dataset_info.json", LIST)) and "incomplete" not in path.name


def _version_number(path: pathlib.Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.name))


def class_config(builder_class: "type[DatasetBuilder] | None", config: str | None) -> str | None:
    """The configuration asked for, or the class's default, for classes that have any."""
    configs = [] if builder_class is None else [entry.name for entry in builder_class.BUILDER_CONFIGS]
    if config and builder_class is not None and config not in configs:
        raise UserError(
            "data.name", f"{builder_class.name}/{config}", f"no such configuration; there are: {', '.join(configs)}"
        )
    return config or (configs[0] if configs else None)


def missing(data: Data, *, known: bool) -> UserError:
    """The refusal of a dataset that isn't prepared.

    Args:
        data: which, and where it was looked for.
        known: whether TFDS's catalogue has it.
    """
    looked, path = ", ".join(os.fspath(folder) for folder in data_folders(data)), as_path(data.name)
    if not known:
        nowhere = f"no dataset of this name: not prepared in {looked}, and neither ours nor in TFDS's catalogue"
        return UserError("data.name", data.name, path or nowhere)
    where = f" {shell_flag('--dir', data.dir)}" if data.dir else ""
    return UserError(
        "data.name",
        data.name,
        f"not prepared; {f'{path}; ' if path else ''}looked in {looked}. Put its folder there, point data.dir or "
        f"$TFDS_DATA_DIR to it, or run: vitzoo data prepare {shlex.quote(data.name)}{where}",
    )


def no_name(data: Data) -> UserError:
    """The refusal of what no dataset can be called."""
    syntax = "is not a dataset; TFDS names read NAME, NAME/CONFIG or NAME:VERSION"
    return UserError("data.name", data.name, as_path(data.name) or syntax)


def as_path(name: str) -> str:
    """What `data.name` would be if it was meant as the path that it is; empty where there is nothing of that name."""
    path = pathlib.Path(os.path.expanduser(name))
    if not path.exists():
        return ""
    if path.is_dir():
        some = itertools.islice(path.rglob("*"), LOOKED_THROUGH)
        kind = "folder" if any(one.suffix.lower() in IMAGE_ENDINGS for one in some) else "text"
        return f"to read the folder of this name, write {kind}:{name}"
    kind = _OF_ENDING.get(path.suffix.lower(), "text")
    return f"to read the file of this name, write {kind}:{name}"


def import_catalogue() -> None:
    """Makes all of TFDS's catalogue known: some parts of it are imported only when asked."""
    for group in GROUPS:
        with contextlib.suppress(Exception):  # some builders need libraries that aren't there
            importlib.import_module(f"tensorflow_datasets.{group}")


def prepared_builder(
    data: Data, name: str, config: str | None = None, version: str | None = None
) -> "DatasetBuilder | None":
    """TFDS's builder of a dataset that is prepared in one of the data folders; None where it is in none.

    Raises:
        UserError: several configurations are there and none was named, or its files are damaged.
    """
    for folder in data_folders(data):
        if found := find_prepared(folder, name, config, version):
            return builder_of_folder(data.name, found)
    return None


def catalogue_builder(data: Data) -> "DatasetBuilder":
    """That of a dataset of TFDS's catalogue, which isn't prepared: it reads mocked data.

    Raises:
        UserError: there is none, or a part of the catalogue needs a library that isn't there.
    """
    import tensorflow_datasets as tfds

    import_catalogue()
    try:
        return tfds.builder(data.name, data_dir=os.fspath(data_folders(data)[0]))
    except Exception as error:
        known = not isinstance(error, tfds.core.DatasetNotFoundError)
        raise missing(data, known=known) from error


def example_counts(builder: "DatasetBuilder") -> dict[str, int]:
    """The examples of each split; none where data are mocked."""
    return {name: info.num_examples for name, info in builder.info.splits.items()}


def positions(counts: Mapping[str, int], pieces: Sequence[splits.Piece], count: int) -> np.ndarray:
    """Positions int64 [count] of examples in all splits laid end to end, so that no two of a dataset share one.

    Args:
        counts: the examples of each split.
        pieces: what the examples are.
        count: how many there are; of a mocked dataset any number, which are counted from 0.
    """
    starts = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    parts = [np.arange(piece.start, piece.stop) + starts[piece.name] for piece in pieces]
    joined = np.concatenate(parts) if parts else np.arange(count)
    return (joined if len(joined) == count else np.arange(count)).astype(np.int64)


def shards_of(builder: "DatasetBuilder") -> list[tuple]:
    """What tells the prepared files of a dataset apart from others: of each split its name, lengths and bytes."""
    return sorted((name, part.shard_lengths, part.num_bytes) for name, part in builder.info.splits.items())


def looked_at(count: int) -> np.ndarray:
    """The examples of a split whose labels are looked at when it is opened: all of a small one, else some, for each is
    read from disk with all that belongs to it.
    """
    return np.arange(count) if count <= SMALL else np.unique(np.linspace(0, count - 1, SOME).astype(int))


def open_records(data: Data, builder: "DatasetBuilder", split: str) -> "Sequence[Mapping[str, Stored]]":
    """A split of a prepared dataset, by position; its images as they lie, for the pipeline to decode.

    Args:
        data: as it was asked for.
        builder: TFDS's.
        split: in TFDS's syntax.

    Raises:
        UserError: it isn't prepared, or in files that can't be read by position, or are damaged.
    """
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.file_adapters import FileFormat

    # mocked data is on no disk, and comes decoded
    on_disk = pathlib.Path(builder.data_dir).exists()
    if on_disk and builder.info.file_format not in FileFormat.with_random_access():
        raise not_array_record(data, builder)
    features = builder.info.features.items() if on_disk else ()
    images = [name for name, feature in features if isinstance(feature, tfds.features.Image)]
    decoders = {name: tfds.decode.SkipDecoding() for name in images} or None
    if on_disk:
        parts = {piece.name for piece in splits.parse(split, example_counts(builder))}
        check_shards(data.name, builder.data_dir, _shards(builder, sorted(parts)))
    try:
        records = builder.as_data_source(split=split, decoders=decoders)
    except (AssertionError, FileNotFoundError, NotImplementedError, ValueError) as error:
        raise missing(data, known=True) from error
    return PreparedRecords(data.name, builder.data_dir, records) if hasattr(records, "data_source") else records


def _shards(builder: "DatasetBuilder", parts: Sequence[str]) -> list[tuple[str, int]]:
    """The files of some splits, and how many examples each holds."""
    infos = [builder.info.splits[part] for part in parts]
    return [
        (os.fspath(file), count)
        for info in infos
        for file, count in zip(info.filepaths, info.shard_lengths, strict=False)
    ]


def not_array_record(data: Data, builder: "DatasetBuilder") -> UserError:
    return UserError(
        "data.name",
        data.name,
        f"{builder.data_dir} holds {builder.info.file_format.value} files, which can't be read by position; "
        f"prepare it as array_record: vitzoo data prepare {shlex.quote(data.name)}",
    )
