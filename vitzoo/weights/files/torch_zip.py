"""Torch's files (`.pth`, `.pt`, `.bin`) read without torch: tensors are mapped from the archive, nothing is run."""

import math
import mmap
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vitzoo.errors import UserError
from vitzoo.weights.files import torch_pickle
from vitzoo.weights.files.torch_pickle import Tensor, Unreadable
from vitzoo.weights.files.weights import Header

MOST_PICKLE = 2**25  # bytes of the description; that of a model of 10,000 tensors has about a million
AGAIN = "torch.save(torch.load(FILE, map_location='cpu', weights_only=True), 'new.pth')"
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"  # the number that files before torch 1.6 begin with
DEEPEST = 50  # levels of nested content
MOST_NODES, ALWAYS_FINE = 2, 10_000  # values of nested content for each instruction of the pickle, and in any case
READING = (
    *(zipfile.BadZipFile, OSError, EOFError, struct.error, NotImplementedError, RuntimeError),
    *(UnicodeDecodeError, OverflowError, ValueError),
)
"""What reading a damaged archive may raise."""
LARGER = "describes a tensor larger than its numbers ({})"
LOCAL_HEADER = 30  # bytes, before the entry's name
LONGEST_NAME = 500  # characters of an entry's
PIECE = 2**22  # bytes summed at once


class Place(NamedTuple):
    """Where an entry's bytes are in the file, how many, and their stored sum; 0 is none."""

    start: int
    length: int
    crc: int


class TorchFile:
    """A torch archive. Its tensors are looked at by `array`.

    Args:
        path: of the file.

    Attributes:
        described: what was saved, nested dicts and lists, with a description of each tensor.

    Raises:
        UserError: it is no such archive, of an old kind, damaged, or asks for anything but tensors and plain
            containers.
    """

    def __init__(self, path: Path):
        self.path = path
        self._summed: set[str] = set()
        try:
            with zipfile.ZipFile(path) as archive:
                entries = _entries(archive)
            self.prefix = _prefix(entries)
            self._check(entries)
            with open(path, "rb") as file:
                self._bytes = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
            self._places = {name.removeprefix(self.prefix): self._place(entry) for name, entry in entries.items()}
            if "byteorder" in self._places and self._entry("byteorder").tobytes() != b"little":
                raise Unreadable("holds numbers with their largest byte first; save it on a common machine")
            description = self._entry("data.pkl").tobytes()
            described, steps = torch_pickle.read_counted(description)
        except Unreadable as error:
            raise self._refused(str(error)) from None
        except READING as error:
            raise self._not_an_archive(error) from None
        self._left = ALWAYS_FINE + MOST_NODES * steps
        self.described = self._plain(described, 0)

    def array(self, tensor: Tensor) -> np.ndarray:
        """A tensor's numbers, read-only and mapped from the file.

        Raises:
            UserError: they aren't there, fewer than it describes, or damaged.
        """
        storage, size, name = tensor.storage, tensor.storage.dtype.itemsize, f"data/{tensor.storage.key}"
        self.header(tensor)
        try:
            numbers = self._entry(name).view(storage.dtype)[tensor.offset :]
            if not math.prod(tensor.shape):
                return numbers[:0].reshape(tensor.shape)
        except Unreadable as error:
            raise self._refused(str(error)) from None
        except ValueError:  # none of its numbers, but more of some dimension than NumPy counts
            raise self._refused(LARGER.format(name)) from None
        strides = [step * size for step in tensor.strides]
        return np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, writeable=False)

    def header(self, tensor: Tensor) -> Header:
        """A tensor's shape and type, which its numbers are as many as.

        Raises:
            UserError: they aren't there, or are fewer than it describes.
        """
        storage, name = tensor.storage, f"data/{tensor.storage.key}"
        if name not in self._places:
            raise self._refused(f"lacks the numbers of a tensor ({name})")
        numbers_in = math.prod(tensor.shape)
        last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
        beyond = numbers_in > storage.count or (numbers_in and last >= storage.count)
        if beyond or storage.count * storage.dtype.itemsize != self._places[name].length:
            raise self._refused(LARGER.format(name))
        return Header(tensor.shape, storage.dtype)

    def _plain(self, node: Any, depth: int) -> Any:
        """The content without what may lie within itself, or over and over: no weights are like that."""
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            raise self._refused("nests its content without end")
        if isinstance(node, dict):
            return {key: self._plain(value, depth + 1) for key, value in node.items()}
        if isinstance(node, list | tuple):
            return type(node)(self._plain(value, depth + 1) for value in node)
        return node

    def _entry(self, name: str) -> np.ndarray:
        """An entry's bytes, once compared with their sum; torch can leave the sum out, which is then 0."""
        start, length, crc = self._places[name]
        content = self._bytes[start : start + length]
        if crc and name not in self._summed:
            found = 0
            for at in range(0, length, PIECE):
                found = zlib.crc32(content[at : at + PIECE].data, found)
            if found != crc:
                raise Unreadable(f"is damaged within {name} (its checksum is another)")
            self._summed.add(name)
        return content

    def _check(self, entries: Mapping[str, zipfile.ZipInfo]) -> None:
        if f"{self.prefix}constants.pkl" in entries or any(f"{self.prefix}code/" in name for name in entries):
            raise Unreadable(f"is a TorchScript program, not weights; save its state_dict(): {AGAIN}")
        if entries[f"{self.prefix}data.pkl"].file_size > MOST_PICKLE:
            raise Unreadable("has a description too large for weights")
        for name, entry in entries.items():
            if len(name) > LONGEST_NAME:
                raise Unreadable(f"holds an entry with a name of {len(name):,} characters")
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise Unreadable(f"holds a compressed entry ({name}), which torch doesn't write")

    def _place(self, entry: zipfile.ZipInfo) -> Place:
        """Of an entry, checked to lie within the file."""
        header = self._bytes[entry.header_offset : entry.header_offset + LOCAL_HEADER].tobytes()
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        start = entry.header_offset + LOCAL_HEADER + name_length + extra_length
        if header[:4] != b"PK\x03\x04" or start + entry.file_size > len(self._bytes):
            raise Unreadable(f"is cut off within {entry.filename}")
        return Place(start, entry.file_size, entry.CRC)

    def _refused(self, message: str) -> UserError:
        return UserError("checkpoint", str(self.path), message)

    def _not_an_archive(self, error: Exception) -> UserError:
        try:
            with open(self.path, "rb") as file:
                first = file.read(len(LEGACY))
        except OSError as trouble:
            return self._refused(f"can't be read: {trouble.strerror}")
        if first == LEGACY:
            return self._refused(f"is of torch's old kind, from before 1.6; load and save it again with torch: {AGAIN}")
        return self._refused(f"is no file of torch, or cut off ({error})")


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """By name.

    Raises:
        Unreadable: two have one name, of which every reader could take another.
    """
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        if entry.filename in entries:
            raise Unreadable(f"holds {entry.filename} twice")
        entries[entry.filename] = entry
    return entries


def _prefix(entries: Mapping[str, zipfile.ZipInfo]) -> str:
    """The archive's one folder, with its slash.

    Raises:
        Unreadable: it isn't torch's.
    """
    found = [name for name in entries if name.endswith("data.pkl") and name.count("/") == 1]
    if len(found) != 1:
        raise Unreadable("is a zip file, but not torch's: it holds no data.pkl")
    return found[0].removesuffix("data.pkl")
