"""SpamAssassin's public mail corpus, spam or not."""

import email
import email.policy
import functools
import pathlib

from vitzoo.data.settings import Data
from vitzoo.data.text.datasets.speeches import npm_folder
from vitzoo.data.text.datasets.table import table
from vitzoo.data.text.sources.base import TextTable

CLASSES = ("ham", "spam")


def open_spam(data: Data) -> TextTable:
    """`spam`: 6,046 mails, each its subject and what it says. Of the other header lines none are kept, since
    servers and dates alone tell these classes apart. Mails that say the same share a split.

    Raises:
        UserError: the files aren't there.
    """
    return _read(npm_folder(data, "spam-assassin/data", "*-*/*.txt"))


@functools.lru_cache(1)  # training and each evaluator open it
def _read(root: pathlib.Path) -> TextTable:
    files = sorted(root.glob("*-*/*.txt"), key=lambda file: file.relative_to(root).parts)
    texts = [said(file) for file in files]
    labels = [CLASSES.index("spam" if file.parent.name.startswith("spam") else "ham") for file in files]
    groups = [text.partition("\n")[2] or text for text in texts]
    return table("spam", {"text": texts, "label": labels}, groups, [str(file) for file in files], CLASSES)


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
