"""WikiText-103 (Merity et al. 2016, https://arxiv.org/abs/1609.07843), from its raw files."""

import numpy as np

from vitzoo.data.settings import Data
from vitzoo.data.text.datasets.table import Held, find_folder
from vitzoo.data.text.sources.base import TextTable, checksum

FILES = {"validation": "wiki.valid.raw", "test": "wiki.test.raw"}
FOLDERS = ("wikitext-103-raw", "wikitext103", ".")
REMEDY = "Put the files of wikitext-103-raw-v1 into the folder wikitext-103-raw of a data folder (data.dir)"


def open_wikitext(data: Data) -> TextTable:
    """`wikitext103`: the splits `validation` and `test`, each a single text.

    Raises:
        UserError: the files aren't there.
    """
    folder = find_folder(data, FOLDERS, FILES["test"], REMEDY)
    there = {split: folder / file for split, file in FILES.items() if (folder / file).is_file()}
    columns = {"text": [file.read_text(encoding="utf-8") for file in there.values()]}
    held = Held(columns, [str(file) for file in there.values()])
    return TextTable(
        name="wikitext103",
        fields=("text",),
        splits={split: np.array([row]) for row, split in enumerate(there)},
        checksums=np.array([checksum(text.encode()) for text in columns["text"]], np.uint64),
        read=held,
        where=held.where,
    )
