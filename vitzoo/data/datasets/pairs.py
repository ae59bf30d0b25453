"""Named datasets of pairs: sums of two numbers, words and their phonemes, the Bible's verses in two languages."""

import functools
import html
import pathlib
import re
import struct
import zlib
from collections.abc import Iterator

import numpy as np

from vitzoo.data.datasets.corpora import npm_folder
from vitzoo.data.datasets.table import find_folder, split_by_group, table
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table, kinds_of
from vitzoo.errors import UserError

DIGITS = {"sums": 2, "sums/1": 1, "sums/2": 2, "sums/3": 3}


class Sums:
    """Example a · 10^digits + b is `prompt` "85+50=" and `completion` "531": the sum of a and b with its last digit
    first, so that each digit follows from what is already there. All numbers are filled up with zeros in front.
    """

    def __init__(self, digits: int):
        self.digits = digits

    def __call__(self, index: int) -> dict[str, str]:
        first, second = divmod(index, 10**self.digits)
        total = f"{first + second:0{self.digits + 1}}"
        return {"prompt": f"{first:0{self.digits}}+{second:0{self.digits}}=", "completion": total[::-1]}

    def where(self, index: int) -> str:
        return self(index)["prompt"]


def open_sums(data: Data) -> Table:
    """`sums` (of two digits; `sums/1`, `sums/3`), as in the adder of minGPT: every pair of numbers once, split by a
    fixed permutation.

    Raises:
        UserError: other digits are asked for.
    """
    if data.name not in DIGITS:
        raise UserError("data.name", data.name, f"no such sums; there are: {', '.join(DIGITS)}")
    digits = DIGITS[data.name]
    sums, pairs = Sums(digits), np.arange(100**digits)
    return Table(
        name=data.name,
        fields=kinds_of(("prompt", "completion")),
        splits=split_by_group(pairs.tolist()),
        checksums=pairs.astype(np.uint64),
        read=sums,
        where=sums.where,
    )


CMUDICT_LINE = re.compile(r"(?P<word>\S+?)(?P<other>\(\d+\))?  (?P<phonemes>.+)")


def open_pronunciations(data: Data) -> Table:
    """`cmudict`: from a word in lower case to its phonemes, `AE1 D IH0 S`; of each word the first pronunciation,
    split by word.

    Raises:
        UserError: the file isn't there.
    """
    file = npm_folder(data, "cmudict/data", "dict.txt") / "dict.txt"
    words, phonemes, where, others = [], [], [], 0
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        found = CMUDICT_LINE.fullmatch(line.strip())
        if found is None or line.startswith(";;;"):
            continue
        if found["other"]:
            others += 1
            continue
        words.append(found["word"].lower())
        phonemes.append(found["phonemes"])
        where.append(f"{file}:{number}")
    notes = (f"{others:,} second and further pronunciations are left out",)
    return table("cmudict", {"source": words, "target": phonemes}, words, where, notes=notes)


SWORD_MODULES = {"source": "engWEB2015eb", "target": "spaRV1909eb"}
SWORD_SYSTEM = "/usr/share/sword/modules/texts/ztext"
SWORD_REMEDY = "Debian and Ubuntu: apt install sword-text-web sword-text-sparv"
CHAPTER = re.compile(r'<chapter [^>]*osisID="([^"]+)"[^>]*sID=')
ASIDE = re.compile(r"<(?:note|title)\b[^>]*/>|<(note|title)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")

Place = tuple[str, int]  # book and chapter, and the verse


def open_verses(data: Data) -> Table:
    """`verses`, from two modules in the SWORD format: 31,077 pairs, English (World English Bible) and
    Spanish (Reina-Valera 1909), both in the public domain; split by chapter. Of validation and test, pairs of which a
    side stands in an earlier split word for word are left out.

    Raises:
        UserError: the files aren't there, or are damaged.
    """
    found = {}
    for side, module in SWORD_MODULES.items():
        places = (f"modules/texts/ztext/{module}", f"sword/modules/texts/ztext/{module}", module)
        folder = find_folder(data, places, "nt.bzz", SWORD_REMEDY, [f"{SWORD_SYSTEM}/{module}"])
        found[side] = read_module(folder)
    both = [place for place in found["source"] if place in found["target"]]
    columns = {side: [verses[place] for place in both] for side, verses in found.items()}
    aligned = table("verses", columns, [place[0] for place in both], [f"{name}:{verse}" for name, verse in both])
    return without_repeats(aligned, columns)


def without_repeats(aligned: Table, columns: dict[str, list[str]]) -> Table:
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
    return Table(aligned.name, aligned.fields, splits, aligned.checksums, aligned.read, aligned.where, notes=(note,))


@functools.lru_cache(len(SWORD_MODULES))  # training and each evaluator open both
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
