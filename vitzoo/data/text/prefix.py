"""Prefix language modelling for encoder-decoders (Raffel et al. 2020, 3.2.1): the source is a text's beginning, the
target its rest.
"""

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import require
from vitzoo.data.text.rows import (
    PREFIX,
    DrawnPairs,
    Row,
    given_before,
    rows_info,
)
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError


class PrefixRows(DrawnPairs):
    """Row i splits tokens i·L to i·L + L - 1 of all text joined, L = min(S, T) - 1, at a place drawn evenly from the
    L - 1 between two tokens; both sides get the end token, where there is one, and the target is scored.
    """

    TAG = PREFIX

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text):
        require(source, "text", what="prefix language modelling")
        if text.packing:
            raise UserError(
                "inputs.tokens.packing", True, "has no effect on an encoder-decoder's rows of prefix: they are full"
            )
        self.lengths = (text.source_length, text.length)
        self.fill, self.start = tokenizer.fill_id, tokenizer.decoder_start_id
        self.end = np.array([] if tokenizer.end_id is None else [tokenizer.end_id], np.int32)
        self.window = min(self.lengths) - 1
        if self.window < 2:
            raise UserError("inputs.tokens.length", min(self.lengths), "leaves no two tokens to split; at least 3")
        self.array = token_array(source, tokenizer, prefix=text.prefix, ends=False)
        if len(self.array) < 2:
            raise UserError("data.name", source.info.name, "holds no two tokens")
        self.count = -(-(len(self.array) - 1) // self.window)
        self.info = rows_info(source.info, self.count, tokenizer, notes_of(self.array), "prefix", self.lengths)

    def _row(self, index: int, random: np.random.Generator) -> Row:
        start = index * self.window
        ids = self.array.tokens[start : start + self.window].astype(np.int32)
        split = int(random.integers(1, len(ids)))
        encoder, decoder = self._sides()
        encoder.add(np.concatenate([ids[:split], self.end]))
        targets = np.concatenate([ids[split:], self.end])
        decoder.add(given_before(targets, self.start), targets)
        return decoder.row(index, 1.0, encoder.arrays())
