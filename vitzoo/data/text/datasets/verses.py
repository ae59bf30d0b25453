"""The Bible's verses in English and Spanish, aligned: from two modules in the SWORD format."""

import functools
import html
import pathlib
import re
import struct
import zlib
from collections.abc import Iterator

import numpy as np

from vitzoo.data.settings import Data
from vitzoo.data.text.datasets.table import find_folder, table
from vitzoo.data.text.sources.base import TextTable
from vitzoo.errors import UserError

MODULES = {"source": "engWEB2015eb", "target": "spaRV1909eb"}
SYSTEM = "/usr/share/sword/modules/texts/ztext"
REMEDY = "Debian and Ubuntu: apt install sword-text-web sword-text-sparv"
CHAPTER = re.compile(r'<chapter [^>]*osisID="([^"]+)"[^>]*sID=')
ASIDE = re.compile(r"<(?:note|title)\b[^>]*/>|<(note|title)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")

Place = tuple[str, int]  # book and chapter, and the verse


def open_verses(data: Data) -> TextTable:
    """`verses`: 31,077 pairs, English (World English Bible) and Spanish (Reina-Valera 1909), both in the public domain;
    split by chapter. Of validation and test, pairs of which a side stands in an earlier split word for word are left
    out.

    Raises:
        UserError: the files aren't there, or are damaged.
    """
    found = {}
    for side, module in MODULES.items():
        places = (f"modules/texts/ztext/{module}", f"sword/modules/texts/ztext/{module}", module)
        folder = find_folder(data, places, "nt.bzz", REMEDY, [f"{SYSTEM}/{module}"])
        found[side] = read_module(folder)
    both = [place for place in found["source"] if place in found["target"]]
    columns = {side: [verses[place] for place in both] for side, verses in found.items()}
    aligned = table("verses", columns, [place[0] for place in both], [f"{name}:{verse}" for name, verse in both])
    return without_repeats(aligned, columns)


def without_repeats(aligned: TextTable, columns: dict[str, list[str]]) -> TextTable:
    """Leaves out of validation and test what repeats an earlier split's source or target."""
    seen: set[str] = set()
    splits, left = {}, 0
    for name in ("train", "validation", "test"):
        rows = aligned.splits[name]
        new = [not any(column[row] in seen for column in columns.values()) for row in rows]
        kept = rows if name == "train" else rows[np.array(new, bool)]
        left += len(rows) - len(kept)
        seen |= {column[row] for row in rows for column in columns.values()}
        splits[name] = kept
    note = f"{left:,} pairs of validation and test repeat a verse of an earlier split and are left out"
    return TextTable(
        aligned.name, aligned.fields, splits, aligned.checksums, aligned.read, aligned.where, notes=(note,)
    )


@functools.lru_cache(len(MODULES))  # training and each evaluator open both
def read_module(folder: pathlib.Path) -> dict[Place, str]:
    """Every verse of a module as plain text, in order.

    Raises:
        UserError: a file is damaged.
    """
    verses: dict[Place, str] = {}
    try:
        for testament in ("ot", "nt"):
            chapter, number = None, 0
            for entry in entries(folder, testament):
                if start := CHAPTER.search(entry):
                    chapter, number = start[1], 0
                elif chapter is not None:
                    number += 1
                    if text := plain_text(entry):
                        verses[chapter, number] = text
    except (OSError, zlib.error, struct.error, IndexError, UnicodeDecodeError) as error:
        raise UserError("data.name", str(folder), f"can't be read: {error}") from error
    return verses


def entries(folder: pathlib.Path, testament: str) -> Iterator[str]:
    """The entries of a testament as marked-up text: headings of books and chapters and, after each chapter's, its
    verses in order. `bzv` says for each its block, where in it and how long; `bzs` where each packed block of `bzz`
    lies.
    """
    blocks, places, packed = ((folder / f"{testament}.{kind}").read_bytes() for kind in ("bzs", "bzv", "bzz"))
    unpacked: dict[int, bytes] = {}
    for number, start, size in struct.iter_unpack("<IIH", places):
        if size and number not in unpacked:
            offset, length, _ = struct.unpack_from("<III", blocks, 12 * number)
            unpacked[number] = zlib.decompress(packed[offset : offset + length])
        yield unpacked[number][start : start + size].decode() if size else ""


def plain_text(entry: str) -> str:
    """An entry without its notes, titles and marks."""
    return " ".join(html.unescape(TAG.sub("", ASIDE.sub("", entry))).split())
