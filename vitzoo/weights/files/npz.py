"""NumPy archives (`.npz`), read array by array and without pickle."""

import functools
import zipfile
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.files.source import Tensors

LARGEST_RATIO, ALWAYS_FINE = 1000, 2**30  # of numbers to bytes on disk; bytes of numbers


def read_npz(path: Path, name: str) -> Tensors:
    """The arrays of an archive.

    Args:
        path: of the file.
        name: as it was asked for.

    Raises:
        Refused: it is damaged, holds objects, or would grow without measure.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        size, packed = sum(entry.file_size for entry in entries), path.stat().st_size
        if size > max(ALWAYS_FINE, LARGEST_RATIO * packed):
            raise Refused("checkpoint", name, f"would grow from {packed:,} to {size:,} bytes: no weights do")
        file = np.load(path, allow_pickle=False)
    except (zipfile.BadZipFile, OSError, ValueError, EOFError) as error:
        raise Refused("checkpoint", name, f"is no archive of NumPy, or cut off ({error})") from None
    return Tensors({key: functools.partial(_array, file, key, name) for key in file.files})


def _array(file: np.lib.npyio.NpzFile, key: str, name: str) -> np.ndarray:
    try:
        array = file[key]
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise Refused("checkpoint", name, f"is damaged within {key} ({error})") from None
    except ValueError as error:
        if "allow_pickle" in str(error):
            message = f"holds objects ({key}), which could run code; only numbers are read"
        else:
            message = f"is damaged within {key} ({error})"
        raise Refused("checkpoint", name, message) from None
    # NumPy has no bfloat16 of its own and saves it as two bytes without meaning
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array
