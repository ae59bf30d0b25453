"""Torch's files (`.pth`, `.pt`, `.bin`) read without torch: tensors are mapped from the archive, nothing is run."""

import mmap
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from vitzoo.errors import Refused
from vitzoo.weights.files import torch_pickle
from vitzoo.weights.files.torch_pickle import Tensor, Unreadable

MOST_PICKLE = 2**28  # bytes of the description; that of a model of 10,000 tensors has about a million
AGAIN = "torch.save(torch.load(FILE, map_location='cpu', weights_only=True), 'new.pth')"
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"  # the number that files before torch 1.6 begin with
DEEPEST, MOST_NODES = 50, 2**17  # of nested content
READING = (
    *(zipfile.BadZipFile, OSError, EOFError, struct.error, NotImplementedError, RuntimeError),
    *(UnicodeDecodeError, OverflowError),
)
"""What reading a damaged archive may raise."""
LOCAL_HEADER = 30  # bytes, before the entry's name


class TorchFile:
    """A torch archive: `content` is what was saved, with a read-only array for each tensor, mapped when looked at.

    Args:
        path: of the file.

    Raises:
        Refused: it is no such archive, of an old kind, damaged, or asks for anything but tensors and plain containers.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                entries = {entry.filename: entry for entry in archive.infolist()}
                self.prefix = _prefix(entries)
                self._check(entries)
                self._places = {name: self._place(entry) for name, entry in entries.items() if "/data/" in name}
                order = f"{self.prefix}byteorder"
                if order in entries and archive.read(order) != b"little":
                    raise Unreadable("holds numbers with their largest byte first; save it on a common machine")
                described = torch_pickle.read(archive.read(f"{self.prefix}data.pkl"))
        except Unreadable as error:
            raise self._refused(str(error)) from None
        except READING as error:
            raise self._not_an_archive(error) from None
        self._map: np.ndarray | None = None
        self._described = described

    def content(self) -> Any:
        """What was saved: nested dicts and lists, with read-only arrays."""
        self._seen = 0
        return self._filled(self._described, 0)

    def _filled(self, node: Any, depth: int) -> Any:
        self._seen += 1
        if depth > DEEPEST or self._seen > MOST_NODES:  # within itself, or over and over: no weights are like that
            raise self._refused("nests its content without end")
        if isinstance(node, Tensor):
            return self._array(node)
        if isinstance(node, dict):
            return {key: self._filled(value, depth + 1) for key, value in node.items()}
        if isinstance(node, list | tuple):
            return type(node)(self._filled(value, depth + 1) for value in node)
        return node

    def _array(self, tensor: Tensor) -> np.ndarray:
        storage, size = tensor.storage, tensor.storage.dtype.itemsize
        numbers_in = int(np.prod(tensor.shape, dtype=object))  # of unbounded integers: a shape may lie
        place = self._places.get(f"{self.prefix}data/{storage.key}")
        if place is None:
            raise self._refused(f"lacks the numbers of a tensor (data/{storage.key})")
        start, length = place
        last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
        if storage.count * size != length or (numbers_in and last >= storage.count):
            raise self._refused(f"describes a tensor larger than its numbers (data/{storage.key})")
        if not numbers_in:
            return np.zeros(tensor.shape, storage.dtype)
        numbers = self._bytes()[start : start + length].view(storage.dtype)[tensor.offset :]
        strides = [step * size for step in tensor.strides]
        return np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, writeable=False)

    def _bytes(self) -> np.ndarray:
        if self._map is None:
            with open(self.path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._map = np.frombuffer(mapped, np.uint8)
        return self._map

    def _check(self, entries: dict[str, zipfile.ZipInfo]) -> None:
        if f"{self.prefix}constants.pkl" in entries or any(f"{self.prefix}code/" in name for name in entries):
            raise Unreadable(f"is a TorchScript program, not weights; save its state_dict(): {AGAIN}")
        if entries[f"{self.prefix}data.pkl"].file_size > MOST_PICKLE:
            raise Unreadable("has a description too large for weights")
        for name, entry in entries.items():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise Unreadable(f"holds a compressed entry ({name}), which torch doesn't write")

    def _place(self, entry: zipfile.ZipInfo) -> tuple[int, int]:
        """First byte and length of an entry, checked to lie within the file."""
        with open(self.path, "rb") as file:
            file.seek(entry.header_offset)
            header = file.read(LOCAL_HEADER)
            name_length, extra_length = struct.unpack("<HH", header[26:30])
            total = file.seek(0, 2)
        start = entry.header_offset + LOCAL_HEADER + name_length + extra_length
        if header[:4] != b"PK\x03\x04" or start + entry.file_size > total:
            raise Unreadable(f"is cut off within {entry.filename}")
        return start, entry.file_size

    def _refused(self, message: str) -> Refused:
        return Refused("checkpoint", str(self.path), message)

    def _not_an_archive(self, error: Exception) -> Refused:
        try:
            with open(self.path, "rb") as file:
                first = file.read(len(LEGACY))
        except OSError as trouble:
            return self._refused(f"can't be read: {trouble.strerror}")
        if first == LEGACY:
            return self._refused(f"is of torch's old kind, from before 1.6; load and save it again with torch: {AGAIN}")
        return self._refused(f"is no file of torch, or cut off ({error})")


def _prefix(entries: dict[str, zipfile.ZipInfo]) -> str:
    """The archive's one folder, with its slash.

    Raises:
        Unreadable: it isn't torch's.
    """
    found = [name for name in entries if name.endswith("data.pkl") and name.count("/") == 1]
    if len(found) != 1:
        raise Unreadable("is a zip file, but not torch's: it holds no data.pkl")
    return found[0].removesuffix("data.pkl")
