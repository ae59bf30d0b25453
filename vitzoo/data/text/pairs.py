"""Sequence to sequence (Vaswani et al. 2017), with a task prefix where asked for (Raffel et al. 2020)."""

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import as_pairs
from vitzoo.data.text.packing import alone, pack
from vitzoo.data.text.rows import Row, SourceSide, TargetSide, given_before, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import TokenArray, notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer


class Pairs:
    """`prefix` + source + end token to the encoder; target + end token from the decoder, all of it scored.

    What is longer than `source_length` or `length` is cut at its end, before the end token; how many
    is in `info.notes`. With `packing` pairs share rows where both sides fit; a pair's two sides have one segment.
    """

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text, *, seed: int = 0):
        source = as_pairs(source)
        self.limits = (text.source_length, text.length)
        self.fill, self.start, self.end = tokenizer.fill_id, tokenizer.decoder_start_id, tokenizer.end_id
        self.arrays = (
            token_array(source, tokenizer, field="source", prefix=text.prefix, ends=True),
            token_array(source, tokenizer, field="target", ends=True),
        )
        lengths = np.stack([array.lengths for array in self.arrays], 1)
        kept = np.minimum(lengths, self.limits)
        self.plan = pack(kept, self.limits, seed) if text.packing else alone(len(source))
        notes = tuple(
            f"{count:,} of {len(source):,} {side}s are longer than {limit} tokens and cut at the end"
            for side, limit, count in zip(("source", "target"), self.limits, (lengths > kept).sum(0), strict=True)
            if count
        )
        made = ("pairs", self.limits, text.prefix, text.packing, seed if text.packing else 0)
        self.info = rows_info(source.info, len(self.plan), tokenizer, (*notes, *notes_of(*self.arrays)), *made)

    def __len__(self) -> int:
        return len(self.plan)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        encoder, decoder = SourceSide(self.limits[0], self.fill), TargetSide(self.limits[1], self.fill)
        for item in self.plan.row(index).tolist():
            targets = self._cut(self.arrays[1], item, self.limits[1])
            encoder.add(self._cut(self.arrays[0], item, self.limits[0]))
            decoder.add(given_before(targets, self.start), targets)
        return decoder.row(index, 1.0, encoder.arrays())

    def padding(self) -> Row:
        encoder, decoder = SourceSide(self.limits[0], self.fill), TargetSide(self.limits[1], self.fill)
        return decoder.row(-1, 0.0, encoder.arrays())

    def _cut(self, array: TokenArray, item: int, limit: int) -> np.ndarray:
        ids = array.document(item)
        if len(ids) > limit:
            ids = ids[:limit]
            if self.end is not None:
                ids[-1] = self.end
        return ids
