"""A published tokenizer as a config states it: settings that the file leaves without effect are refused."""

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.published import find_published, read_published
from vitzoo.errors import UserError

LOWERED = (".txt", ".model")
"""Endings of files that don't say whether text is lowered first."""


def read_stated(settings: Tokenizer) -> TextTokenizer:
    """The tokenizer of `settings.file`.

    Raises:
        UserError: it can't be read, or a setting has no effect on it.
    """
    file = find_published(settings)
    if settings.lowercase is not None and file.suffix not in LOWERED:
        message = f"has no effect: {file.name} says itself whether text is lowered; leave it out (none)"
        raise UserError("tokenizer.lowercase", settings.lowercase, message)
    tokenizer = read_published(settings)
    own = len(tokenizer.specials.sentinels)
    if settings.sentinels not in (0, own):
        message = f"has no effect: {file.name} has {own} of its own; leave it out (0)"
        raise UserError("tokenizer.sentinels", settings.sentinels, message)
    return tokenizer
