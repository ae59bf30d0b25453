"""All tokens of a source as one array on disk: made once, kept in the cache, mapped into memory."""

import dataclasses
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from vitzoo.checksums import fits_list, write_list
from vitzoo.data.examples import Draw
from vitzoo.data.folders import cache_folder
from vitzoo.data.progress import progress
from vitzoo.data.rows import Batch, Row
from vitzoo.data.sources.base import Source
from vitzoo.data.text.tokenizers.base import Ids, TextTokenizer
from vitzoo.errors import RunError
from vitzoo.staging import remove_leftovers, staged, temporary_folder

FORMAT = 2  # raised when the files' meaning changes
CHUNK = 2**20  # characters tokenized at a time


class TokenArray:
    """`tokens` [n] holds the documents one after another; document i is `tokens[starts[i] : starts[i + 1]]`. `unknown`
    of them stand for text that the tokenizer doesn't know.

    Both are mapped when first used, so that worker processes share the pages.
    """

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        about = json.loads((folder / "about.json").read_text())
        self.count, self.documents, self._type = about["tokens"], about["documents"], about["dtype"]
        self.unknown = about["unknown"]
        self._mapped: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.count

    @property
    def tokens(self) -> np.ndarray:
        return self._arrays()[0]

    @property
    def starts(self) -> np.ndarray:
        """int64 [documents + 1]."""
        return self._arrays()[1]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def document(self, index: int, start: int = 0, stop: int | None = None) -> Ids:
        """Tokens `start` to `stop` of a document, int32."""
        begin, end = int(self.starts[index]), int(self.starts[index + 1])
        return self.tokens[begin + start : end if stop is None else min(begin + stop, end)].astype(np.int32)

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        if self._mapped is None:
            file, kind = self.folder / "tokens.bin", np.dtype(self._type)
            tokens = np.memmap(file, kind, "r", shape=(self.count,)) if self.count else np.zeros(0, kind)
            self._mapped = tokens, np.load(self.folder / "starts.npy", mmap_mode="r")
        return self._mapped

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_mapped": None}


def token_array(
    source: Source, tokenizer: TextTokenizer, *, field: str = "text", prefix: str = "", ends: bool | None = None
) -> TokenArray:
    """The tokens of one field of every example, from the cache if neither tokenizer nor text changed.

    Args:
        source: the text.
        tokenizer: its end token marks where documents end, where it has one.
        field: which of the source's fields.
        prefix: put before every text.
        ends: an end token after every document; none: where there are several (one text, cut into windows, goes on).
    """
    ends = len(source) > 1 if ends is None else ends
    end = [] if tokenizer.end_id is None or not ends else [tokenizer.end_id]

    def documents() -> Iterator[Ids]:
        texts = (prefix + source[index][field] for index in range(len(source)))
        for ids in encode_all(tokenizer, texts):
            yield np.concatenate([ids, np.array(end, np.int32)])

    what = ("tokens", tokenizer.sha256, source.info.fingerprint, field, prefix, bool(end))
    return kept_tokens(what, documents, tokenizer.vocabulary_size, len(source), tokenizer.unknown_id)


def notes_of(*arrays: TokenArray) -> tuple[str, ...]:
    """What is to be said of them: text that the tokenizer doesn't know."""
    return unknown_note(sum(array.unknown for array in arrays), sum(len(array) for array in arrays))


def unknown_note(unknown: int, count: int, of: str = "") -> tuple[str, ...]:
    """What is to be said where `unknown` of `count` tokens, `of` a text, stand for what a tokenizer doesn't know."""
    verb = "stands" if unknown == 1 else "stand"
    return (f"{unknown:,} of {count:,} tokens{of} {verb} for text that the tokenizer doesn't know",) if unknown else ()


def encode_all(tokenizer: TextTokenizer, texts: Iterable[str]) -> Iterator[Ids]:
    """The ids of each text, tokenized some at a time."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= CHUNK:
            yield from tokenizer.encode_batch(waiting)
            waiting, size = [], 0
    yield from tokenizer.encode_batch(waiting)


def kept_tokens(
    what: tuple[Hashable, ...],
    documents: Callable[[], Iterable[np.ndarray]],
    values: int,
    count: int,
    unknown_id: int | None = None,
) -> TokenArray:
    """The array of `documents()`, made unless the cache has it.

    Args:
        what: all that decides its content.
        documents: gives each document's numbers.
        values: all numbers are below this: 16 bits hold them up to 65,536.
        count: documents, for the progress shown.
        unknown_id: the number that stands for unknown text, to be counted.
    """
    kind = np.dtype("<u2" if values <= 2**16 else "<i4")
    key = hashlib.sha256(repr((FORMAT, *what)).encode()).hexdigest()[:32]

    def make(folder: pathlib.Path) -> None:
        lengths, unknown = [], 0
        with open(folder / "tokens.bin", "wb") as file:
            for ids in progress(documents(), count, "tokenizing"):
                file.write(ids.astype(kind).tobytes())
                lengths.append(len(ids))
                unknown += 0 if unknown_id is None else int(np.count_nonzero(ids == unknown_id))
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
        np.save(folder / "starts.npy", starts)
        about = {"tokens": int(starts[-1]), "documents": len(lengths), "dtype": kind.str, "unknown": unknown}
        (folder / "about.json").write_text(json.dumps(about))

    return TokenArray(kept_folder(cache_folder() / "tokens" / key, make))


def kept_folder(folder: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """A folder filled by `make`, from the cache where it is there and undamaged: every file has its checksum.

    Where the cache can't be written, a temporary folder takes its place, and a warning says so.

    Args:
        folder: its place in the cache.
        make: fills a new folder.

    Returns:
        `folder`, or what takes its place.

    Raises:
        RunError: neither can be written.
    """
    if fits_list(folder):
        return folder
    try:
        return _made(folder, make)
    except OSError as error:
        why = error.strerror
    print(f"warning: the cache {folder} can't be written: {why} ($VITZOO_CACHE moves it)", file=sys.stderr, flush=True)
    try:
        return _made(temporary_folder() / folder.name, make)
    except OSError as error:
        message = f"neither the cache {folder} nor a temporary folder can be written: {error.strerror}"
        raise RunError(f"{message} ($VITZOO_CACHE and $TMPDIR move them)") from error


def _made(folder: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """Written under a temporary name beside it, then renamed; what lies there damaged goes."""
    if fits_list(folder):  # of a temporary folder
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder.parent)
    with staged(folder.parent) as place:
        made = place / "folder"
        made.mkdir()
        make(made)
        write_list(made)
        if os.path.lexists(folder) and not fits_list(folder):
            os.rename(folder, place / "file")
        try:
            os.rename(made, folder)
        except OSError:
            if not fits_list(folder):  # else another process was first, with the same content
                raise
    return folder


@dataclasses.dataclass(frozen=True)
class TextArrays:
    """A text's tokens, int32 [length], and where there are any, `NAME_segments` int32 [length] of 1 and 0; see
    `vitzoo.data.examples.InputArrays`. What is too long is cut at its end, before the end token.

    Args:
        tokens: of every example.
        length: of a row.
        fill: the id where there is nothing.
        end: the id that ends a text, if there is one.
        name: of the input.
    """

    tokens: TokenArray
    length: int
    fill: int
    end: int | None
    name: str = "tokens"
    field: ClassVar[str] = "text"
    varies_batches_only: ClassVar[bool] = True

    @property
    def fixed(self) -> Hashable:
        return self.tokens.folder, self.length, self.name

    def padding(self) -> Row:
        return text_row(self.name, np.zeros(0, np.int32), self.length, self.fill)

    def arrays(self, value: Any, index: int, draw: Draw | None) -> Row:
        ids = self.tokens.document(index)
        if len(ids) > self.length:
            ids = ids[: self.length]
            if self.end is not None:
                ids[-1] = self.end
        return text_row(self.name, ids, self.length, self.fill)

    def vary(self, batch: Batch, seed: int, positions: np.ndarray) -> Batch:
        return batch


def text_row(name: str, ids: Ids, length: int, fill: int) -> Row:
    """The arrays of one text."""
    tokens, segments = np.full(length, fill, np.int32), np.zeros(length, np.int32)
    tokens[: len(ids)], segments[: len(ids)] = ids, 1
    return {name: tokens, f"{name}_segments": segments}
