"""From the tokenizer section of a config to a tokenizer."""

from collections.abc import Iterable

from vitzoo.data.text.settings import TRAINED, Tokenizer
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.characters import ByteTokenizer
from vitzoo.errors import UserError


def open_tokenizer(settings: Tokenizer, texts: Iterable[str] | None = None) -> TextTokenizer:
    """The tokenizer of a config.

    Args:
        settings: which.
        texts: the training text, iterated twice, for kinds whose vocabulary is made from it.
    Raises:
        UserError: a published file can't be read, or leaves a setting without effect; or there is no text to train on.
    """
    if settings.kind == "bytes":
        return ByteTokenizer(
            settings.sentinels, masking=settings.masking, lowercase=bool(settings.lowercase),
            special_in_text=settings.special_in_text,
        )  # fmt: skip
    if settings.kind in TRAINED:
        from vitzoo.data.text.tokenizers.train import train_tokenizer

        if texts is None:
            raise UserError(
                "inputs.tokens.tokenizer.kind", settings.kind, "is trained on the training text; none is given here"
            )
        return train_tokenizer(settings, texts)
    from vitzoo.data.text.tokenizers.published import read_stated

    return read_stated(settings)


def byte_length(text: str) -> int:
    """UTF-8 bytes of a text: what bits per byte are counted over."""
    return len(text.encode("utf-8", "surrogatepass"))
