"""Writing datasets as ArrayRecord in TFDS's layout."""

import contextlib
import importlib.util
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import tensorflow_datasets as tfds
from etils import epath
from tensorflow_datasets.core import DatasetBuilder

from vitzoo.checksums import write_list
from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.prepared_files import check_listed, check_names, write_contents
from vitzoo.data.sources.tfds_folders import (
    NAME,
    class_config,
    find_prepared,
    import_catalogue,
    is_prepared,
    missing,
    no_name,
)
from vitzoo.errors import RunError, UserError, install_extra
from vitzoo.staging import remove_leftovers, staged


def prepare(builder: DatasetBuilder, shards: int = 0, keep_downloads: bool = False, name: str = "") -> pathlib.Path:
    """Writes the dataset as ArrayRecord, in a temporary folder that is renamed when complete.

    Two processes may do so at once: the first to finish wins, the other uses what it wrote.

    Args:
        builder: TFDS's, with the data folder it writes to.
        shards: number of files for each split, which is at most that of its examples; 0 leaves it to TFDS.
        keep_downloads: what is downloaded stays in the data folder; TFDS shows on a terminal how far it is.
        name: of the data in refusals; the builder's by default.

    Raises:
        UserError: the folder can't be written, or names of classes can't be.
    """
    check_names(name or builder.name, builder.info.features)
    final, root = pathlib.Path(builder.data_dir), pathlib.Path(builder.data_dir_root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        remove_leftovers(root)
        scratch = contextlib.ExitStack()
        scratch_folder = os.fspath(scratch.enter_context(staged(root)) / "folder")
    except OSError as error:
        raise UserError("data.dir", root, f"can't be written ({error.strerror}); name another folder") from error
    if not (keep_downloads and sys.stderr.isatty()):
        tfds.disable_progress_bar()
    # TFDS prints what it does, and names the temporary folder in it
    with scratch, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        inner = _same_builder(builder, scratch_folder)
        inner.download_and_prepare(
            file_format="array_record",
            download_dir=os.path.join(root if keep_downloads else scratch_folder, "downloads"),
            download_config=_DownloadConfig(try_download_gcs=False, num_shards=shards or None),
        )
        if contents := getattr(inner, "contents", None):
            write_contents(pathlib.Path(inner.data_dir), contents)
        write_list(pathlib.Path(inner.data_dir))
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(inner.data_dir, final)
        except OSError:
            if not is_prepared(final):
                raise
    return final


class _ShardConfig(tfds.core.utils.shard_utils.ShardConfig):
    """TFDS's refuses a split of fewer examples than shards, after all of it has been read."""

    def get_number_shards(self, total_size: int, num_examples: int, uses_precise_sharding: bool = True) -> int:
        wanted = super().get_number_shards(total_size, num_examples, uses_precise_sharding)
        return min(wanted, max(num_examples, 1))


class _DownloadConfig(tfds.download.DownloadConfig):
    """TFDS's, which makes a `_ShardConfig`."""

    def get_shard_config(self) -> _ShardConfig:
        return _ShardConfig(self.num_shards, self.min_shard_size, self.max_shard_size)


def _same_builder(builder: DatasetBuilder, folder: str) -> Any:
    config = builder.builder_config
    return type(builder)(data_dir=folder, **({"config": config.name} if config else {}))


def prepare_class(
    data: Data, builder_class: type[DatasetBuilder], folders: Sequence[pathlib.Path], shards: int = 0
) -> pathlib.Path:
    """Prepares a dataset of ours or of the user's in the first of the folders, unless one of them holds it."""
    match = NAME.fullmatch(data.name)
    config = class_config(builder_class, match["config"] if match else None)
    for folder in folders:
        if found := find_prepared(folder, builder_class.name, config):
            check_listed(data.name, found)
            return found
    if builder_class.pkg_dir_path is None:  # where TFDS looks for a description
        builder_class.pkg_dir_path = epath.Path(sys.modules[builder_class.__module__].__file__ or "").parent
    try:
        builder = builder_class(data_dir=os.fspath(folders[0]), **({"config": config} if config else {}))
        return prepare(builder, shards, name=data.name)
    except UserError:
        raise
    except Exception as error:  # whatever the user's builder raises; TFDS adds the whole example to what it says
        raise UserError("data.name", data.name, _fault(error)) from error


def _fault(error: BaseException) -> str:
    """What went wrong in a builder, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ImportError) and "tensorflow" in str(error):
        needs = "TFDS writes such examples with TensorFlow, which is needed this once: " + install_extra("prepare")
        return f"{needs}; not where images are given as PIL images, files or bytes"
    return f"its builder failed: {_what(error)}"


def prepare_catalogue(data: Data, shards: int) -> pathlib.Path:
    """Downloads and prepares a dataset of TFDS's catalogue. TensorFlow must be installed.

    Raises:
        UserError: TFDS has none of this name, TensorFlow is missing, or files that have to be fetched by hand are.
        RunError: the download or the builder did.
    """
    if not NAME.fullmatch(data.name):
        raise no_name(data)
    if not is_in_catalogue(data.name):
        raise missing(data, known=False)
    if importlib.util.find_spec("tensorflow") is None:
        message = f"TensorFlow prepares the datasets of TFDS's catalogue, once; {install_extra('prepare')}"
        raise UserError("data.name", data.name, message)
    folder = data_folders(data)[0]
    builder = tfds.builder(data.name, data_dir=os.fspath(folder))
    if is_prepared(pathlib.Path(builder.data_dir)):
        check_listed(data.name, pathlib.Path(builder.data_dir))
        return pathlib.Path(builder.data_dir)
    print(f"downloading and preparing {data.name} in {folder}", file=sys.stderr, flush=True)
    try:
        return prepare(builder, shards, keep_downloads=True)
    except UserError:
        raise
    except Exception as error:  # a builder's, of the catalogue's 1,300, or the network's
        raise _not_prepared(data.name, builder, folder, error) from error


def _not_prepared(name: str, builder: DatasetBuilder, folder: pathlib.Path, error: Exception) -> UserError | RunError:
    """Why a dataset of the catalogue could not be prepared, and what the user has to bring."""
    if builder.MANUAL_DOWNLOAD_INSTRUCTIONS:
        manual, files = folder / "downloads" / "manual", _one_line(builder.MANUAL_DOWNLOAD_INSTRUCTIONS)
        fault = "" if isinstance(error, AssertionError) else f" ({_what(error)})"
        return UserError("data.name", name, f"its files are fetched by hand and put into {manual}{fault}: {files}")
    return RunError(f"{name} was not prepared: {_what(error)}; what was downloaded stays in {folder / 'downloads'}")


def _what(error: BaseException) -> str:
    return f"{type(error).__name__}: {_one_line(str(error))[:200]}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def is_in_catalogue(name: str, own: type[DatasetBuilder] | None = None) -> bool:
    """Whether TFDS knows a dataset of this name (NAME, NAME/CONFIG or NAME:VERSION) that isn't `own`, a class of the
    user's, which TFDS knows by its name once it is imported.
    """
    match = NAME.fullmatch(name)
    if not match:
        return False
    import_catalogue()
    try:
        return tfds.builder_cls(match["name"]) is not own
    except tfds.core.DatasetNotFoundError:
        return False
    except Exception:  # it is there, and needs a library that isn't
        return True


def fewer_shards(folder: pathlib.Path, shards: int) -> list[str]:
    """Notes of the splits that have fewer files than were asked for, since they have no more examples."""
    found = tfds.builder_from_directory(os.fspath(folder)).info.splits if shards else {}
    return [
        f"split {name} has {part.num_examples:,} examples, and as many shards"
        for name, part in found.items()
        if part.num_examples == part.num_shards < shards
    ]
