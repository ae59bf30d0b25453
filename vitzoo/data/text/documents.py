"""Causal language modelling on documents, each for itself, several to a row (packing without crossing)."""

from typing import ClassVar

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import require
from vitzoo.data.text.packing import alone, pack
from vitzoo.data.text.rows import Row, TargetSide, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError


class Documents:
    """Each document is a segment: a document of n tokens takes n places and scores its tokens from the second on and
    its end token, n targets. A longer one than T is cut into pieces, which score each token once as well.

    With `packing` rows hold as many as fit, by a plan of (seed, T); else each piece has its own row.
    """

    MADE: ClassVar[str] = "documents"

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text, *, seed: int = 0):
        require(source, "text", what="language modelling")
        self.length, self.fill = text.length, tokenizer.fill_id
        self.array = token_array(source, tokenizer, prefix=text.prefix, ends=True)
        self.pieces = cut_documents(self.array.lengths - 1, self.length)
        if not len(self.pieces):
            raise UserError("data.name", source.info.name, "no document has two tokens, one to go by and one to say")
        lengths = self.pieces[:, 2:]
        self.plan = pack(lengths, [self.length], seed) if text.packing else alone(len(self.pieces))
        made = (self.MADE, self.length, text.packing, seed if text.packing else 0)
        notes = (*_notes(self.pieces, self.array.lengths), *notes_of(self.array))
        self.info = rows_info(source.info, len(self.plan), tokenizer, notes, *made)

    def __len__(self) -> int:
        return len(self.plan)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        return self._laid(index, TargetSide(self.length, self.fill)).row(index)

    def _laid(self, index: int, side: TargetSide) -> TargetSide:
        """An empty row with its pieces in it."""
        document, offset, lengths = self.pieces[self.plan.row(index)].T
        # all pieces are gathered at once: where each begins in the array, less where it begins in the row
        shift = self.array.starts[document] + offset - (np.cumsum(lengths) - lengths)
        places = np.repeat(shift, lengths) + np.arange(lengths.sum())
        side.add_all(self.array.tokens[places], self.array.tokens[places + 1], lengths)
        return side

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill).row(-1, 0.0)


def cut_documents(lengths: np.ndarray, limit: int) -> np.ndarray:
    """Pieces of at most `limit` places: int64 [pieces, 3]: document, offset, length. Of length 0: none."""
    lengths = np.maximum(lengths, 0)
    counts = -(-lengths // limit)
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    offset = number * limit
    return np.stack([document, offset, np.minimum(lengths[document] - offset, limit)], 1).astype(np.int64)


def _notes(pieces: np.ndarray, lengths: np.ndarray) -> tuple[str, ...]:
    cut = len(np.unique(pieces[pieces[:, 1] > 0, 0]))
    return (f"{cut:,} of {len(lengths):,} documents are longer than a row and cut into pieces",) if cut else ()
