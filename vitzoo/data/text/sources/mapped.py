"""Pieces of many files, read without opening a file for each."""

import mmap
from collections.abc import Sequence
from typing import Any


class MappedFiles:
    """Bytes of files by number; each file is mapped into memory when first read, in each process anew."""

    def __init__(self, paths: Sequence[str]):
        self.paths = paths
        self._maps: dict[int, mmap.mmap] = {}

    def read(self, file: int, start: int, stop: int) -> bytes:
        """Bytes `start` to `stop`; the file isn't empty."""
        mapped = self._maps.get(file)
        if mapped is None:
            with open(self.paths[file], "rb") as opened:
                mapped = self._maps.setdefault(file, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
        return mapped[start:stop]

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "_maps": {}}
