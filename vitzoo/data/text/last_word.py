"""The last word of each text, given all before it (LAMBADA, Paperno et al. 2016, https://arxiv.org/abs/1606.06031)."""

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.continuations import Pair, Shape, cut_pair, row_of
from vitzoo.data.text.examples import require
from vitzoo.data.text.prompts import reader_of
from vitzoo.data.text.rows import Row, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError


def split_last(text: str) -> tuple[str, str]:
    """A text without spaces at its end, as what stands before its last word, and that word with the space before it."""
    text = text.rstrip()
    word = next(iter(text.rsplit(maxsplit=1)[-1:]), "")
    before = text.removesuffix(word).rstrip() if word else text
    return before, text[len(before) :]


class LastWords:
    """A text a row: the arrays of `continuations.row_of`, where the last word is to be said. `prefix` goes before
    each text; one that is too long loses its front. The space before the word is said with it, except to an
    encoder-decoder, whose target it opens.
    """

    def __init__(
        self,
        source: Source,
        tokenizer: TextTokenizer,
        text: Text,
        *,
        encodes: bool,
        context: int | None,
        prefix_lm: bool = False,
    ):
        require(source, "text", what="saying the last word")
        self.tokenizer, reader = tokenizer, reader_of(encodes, context, text, 0)
        self.pairs: list[Pair] = []
        cut = 0
        for index in range(len(source)):
            before, word = split_last(source[index]["text"])
            said = tokenizer.encode(word.lstrip() if encodes else word)
            if not len(said):
                raise UserError("data.name", source.where(index), "holds no word")
            given = reader(text.prefix + before, tokenizer)
            room = reader.limit if encodes else reader.limit + 1 - len(said)
            cut += len(given) > room
            self.pairs.append((reader.cut(given), said) if encodes else cut_pair(given, said, reader.limit))
        self.shape = Shape.of(self.pairs, encodes, prefix_lm)
        notes = (f"{cut:,} of {len(source):,} texts are longer than {reader.limit} tokens and cut",) if cut else ()
        self.info = rows_info(
            source.info, len(source), tokenizer, notes, "last_word", encodes, reader.limit, text.prefix
        )

    def __len__(self) -> int:
        return len(self.pairs)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        return self._row(self.pairs[index], index, 1.0)

    def padding(self) -> Row:
        return self._row(None, -1, 0.0)

    def _row(self, pair: Pair | None, id: int, weight: float) -> Row:
        told = {"weight": np.array(weight, np.float32), "id": np.array(id, np.int64)}
        return row_of(pair, self.shape, self.tokenizer) | told
