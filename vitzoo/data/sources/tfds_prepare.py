"""Writing datasets as ArrayRecord in TFDS's layout."""

import contextlib
import os
import pathlib
import sys
import tempfile
from typing import Any

import tensorflow_datasets as tfds

from vitzoo.data.folders import data_folders
from vitzoo.data.settings import Data
from vitzoo.data.sources.tfds_folders import NAME, class_config, find_prepared, is_prepared, missing
from vitzoo.errors import Refused


def prepare(builder: Any, shards: int = 0, keep_downloads: bool = False) -> pathlib.Path:
    """Writes the dataset as ArrayRecord, in a temporary folder that is renamed when complete.

    Two processes may do so at once: the first to finish wins, the other uses what it wrote.
    """
    final, root = pathlib.Path(builder.data_dir), pathlib.Path(builder.data_dir_root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix=".vitzoo-prepare-", dir=root)
    except OSError as error:
        raise Refused("data.dir", root, f"can't be written ({error.strerror}); name another folder") from error
    with (
        scratch as scratch_folder,
        contextlib.redirect_stdout(sys.stderr),
    ):  # TFDS prints; stdout belongs to the command
        inner = _same_builder(builder, scratch_folder)
        inner.download_and_prepare(
            file_format="array_record",
            download_dir=os.path.join(root if keep_downloads else scratch_folder, "downloads"),
            download_config=tfds.download.DownloadConfig(try_download_gcs=False, num_shards=shards or None),
        )
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(inner.data_dir, final)
        except OSError:
            if not is_prepared(final):
                raise
    return final


def _same_builder(builder: Any, folder: str) -> Any:
    config = builder.builder_config
    return type(builder)(data_dir=folder, **({"config": config.name} if config else {}))


def prepare_class(data: Data, builder_class: Any) -> pathlib.Path:
    """Prepares a dataset of ours or of the user's, unless it is prepared."""
    match = NAME.fullmatch(data.name)
    config = class_config(builder_class, match["config"] if match else None)
    for folder in data_folders(data):
        if found := find_prepared(folder, builder_class.name, config):
            return found
    first = os.fspath(data_folders(data)[0])
    return prepare(builder_class(data_dir=first, **({"config": config} if config else {})))


def prepare_catalogue(data: Data, shards: int) -> pathlib.Path:
    """Downloads and prepares a dataset of TFDS's catalogue. TensorFlow must be installed."""
    try:
        builder = tfds.builder(data.name, data_dir=os.fspath(data_folders(data)[0]))
    except tfds.core.DatasetNotFoundError as error:
        raise missing(data, known=False) from error
    if is_prepared(pathlib.Path(builder.data_dir)):
        return pathlib.Path(builder.data_dir)
    return prepare(builder, shards, keep_downloads=True)
