"""CMUdict: English words and their phonemes."""

import re

from vitzoo.data.settings import Data
from vitzoo.data.text.datasets.speeches import npm_folder
from vitzoo.data.text.datasets.table import table
from vitzoo.data.text.sources.base import TextTable

LINE = re.compile(r"(?P<word>\S+?)(?P<other>\(\d+\))?  (?P<phonemes>.+)")


def open_pronunciations(data: Data) -> TextTable:
    """`cmudict`: from a word in lower case to its phonemes, `AE1 D IH0 S`; of each word the first pronunciation,
    split by word.

    Raises:
        UserError: the file isn't there.
    """
    file = npm_folder(data, "cmudict/data", "dict.txt") / "dict.txt"
    words, phonemes, where, others = [], [], [], 0
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        found = LINE.fullmatch(line.strip())
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
