"""How much text an evaluation scores, whatever its tokens: what bits per byte are counted over."""

from vitzoo.data.sources.base import Source
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import TextTokenizer

FIRST = 256  # characters among which a text's first token ends


def scored_bytes(source: Source, tokenizer: TextTokenizer, text: Text, rows: str) -> int | None:
    """UTF-8 bytes of all text that is scored: all but the first token, of everything (windows) or of each document.

    Args:
        source: the texts; a mixture's are counted by token.
        tokenizer: says how far the first token reaches.
        text: its prefix goes before every text.
        rows: a key of `data.processors.text.MAKERS`.

    Returns:
        The bytes, or None where rows score other than whole texts.
    """
    if rows not in ("windows", "documents") or "text" not in getattr(source, "fields", ()):
        return None
    total, first = 0, True
    for index in range(len(source)):
        whole = text.prefix + source[index]["text"]
        total += len(whole.encode("utf-8", "surrogatepass"))
        if whole and (first or rows == "documents"):
            total -= tokenizer.first_bytes(whole[:FIRST])
            first = False
    return total
