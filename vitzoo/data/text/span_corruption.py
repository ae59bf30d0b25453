"""T5's pre-training task (Raffel et al. 2020, 3.1.4): spans are cut out, each leaves a sentinel, and the target is the
spans, each after its sentinel. The lengths are those of the reference implementation.
"""

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import require
from vitzoo.data.text.rows import (
    SPANS,
    DrawnPairs,
    Row,
    given_before,
    rows_info,
)
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError


class SpanCorruption(DrawnPairs):
    """Row i corrupts tokens i·L to i·L + L - 1 of all text joined (documents run on, as in T5); L is the number of
    tokens that, corrupted, fill the source to `source_length`. The last row is shorter.

    Source and target end with the end token. Every target token is scored, sentinels and end included.
    """

    TAG = SPANS

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text):
        require(source, "text", what="span corruption")
        self.text, self.start = text, tokenizer.decoder_start_id
        self.sentinels = np.array(tokenizer.specials.sentinels, np.int32)
        self.fill, self.end = tokenizer.fill_id, _needed_end(tokenizer)
        self.window, targets = span_lengths(text.source_length, text.noise_density, text.mean_span)
        if text.length < targets:
            problem = f"a source of {text.source_length} tokens needs targets of {targets}"
            raise UserError("inputs.tokens.length", text.length, problem)
        tokenizer.sentinel(span_count(self.window, text.noise_density, text.mean_span) - 1 + int(text.roll_spans))
        # a rolled mask may begin with a masked span and end within one: a sentinel more in both
        more = int(text.roll_spans)
        self.lengths = (text.source_length + more, text.length + more)
        self.array = token_array(source, tokenizer, prefix=text.prefix, ends=False)
        if len(self.array) < 2:
            raise UserError("data.name", source.info.name, "holds no two tokens")
        # a rest of one token can't be corrupted
        self.count = -(-(len(self.array) - 1) // self.window)
        made = ("spans", self.window, text.length, text.noise_density, text.mean_span, text.roll_spans)
        self.info = rows_info(source.info, self.count, tokenizer, notes_of(self.array), *made)

    def _row(self, index: int, random: np.random.Generator) -> Row:
        start = index * self.window
        ids = self.array.tokens[start : start + self.window].astype(np.int32)
        noise = noise_mask(len(ids), self.text.noise_density, self.text.mean_span, random, roll=self.text.roll_spans)
        encoder, decoder = self._sides()
        encoder.add(np.append(with_sentinels(ids, noise, self.sentinels), self.end))
        targets = np.append(with_sentinels(ids, ~noise, self.sentinels), self.end).astype(np.int32)
        decoder.add(given_before(targets, self.start), targets)
        return decoder.row(index, 1.0, encoder.arrays())


def span_lengths(source_length: int, density: float, mean_span: float) -> tuple[int, int]:
    """How many tokens, corrupted, give a source of at most `source_length`, and how long the target is then; sentinels
    and end tokens included. T5: 512 → 568, 114.

    Raises:
        UserError: the source is too short to corrupt anything.
    """
    tokens = 1
    while _corrupted(tokens + 1, density, mean_span)[0] <= source_length:
        tokens += 1
    source, target = _corrupted(tokens, density, mean_span)
    # the reference's exception for densities of a half, where lengths are to come out round
    if density == 0.5 and target > source:
        tokens, target = tokens - 1, target - 1
    if tokens < 2:
        raise UserError("inputs.tokens.source_length", source_length, "is too short to mask a span and keep a token")
    return tokens, target


def span_count(tokens: int, density: float, mean_span: float) -> int:
    """The masked spans of a text of so many tokens."""
    noise = _noise_count(tokens, density)
    return max(1, min(round(noise / mean_span), max(tokens - noise, 1)))


def noise_mask(
    length: int, density: float, mean_span: float, random: np.random.Generator, *, roll: bool = False
) -> np.ndarray:
    """Which tokens are masked, bool [length]: round(length · density) tokens in round(of them / mean_span) spans.

    Kept and masked spans alternate, beginning with a kept one, so that the last token is always masked; their lengths
    are a random partition each. `roll` rotates the mask by a draw.
    """
    total = max(length, 2)
    noise = _noise_count(total, density)
    spans = span_count(total, density, mean_span)
    lengths = np.stack([_partition(total - noise, spans, random), _partition(noise, spans, random)], 1).reshape(-1)
    mask = np.repeat(np.arange(2 * spans) % 2 == 1, lengths)
    if roll:
        mask = np.roll(mask, int(random.integers(total)))
    return mask[:length]


def with_sentinels(ids: np.ndarray, hidden: np.ndarray, sentinels: np.ndarray) -> np.ndarray:
    """The ids, each run of hidden ones replaced by a sentinel, <extra_id_0> (`sentinels[0]`) first."""
    opens = hidden & ~np.concatenate([[False], hidden[:-1]])
    replaced = ids.copy()
    replaced[opens] = sentinels[: np.count_nonzero(opens)]
    return replaced[opens | ~hidden]


def _corrupted(tokens: int, density: float, mean_span: float) -> tuple[int, int]:
    """Lengths of source and target that `tokens` tokens give. The reference lets short texts have no span here, though
    it masks one; with one counted they fit, and from some 20 tokens on both say the same.
    """
    noise = _noise_count(tokens, density)
    spans = span_count(tokens, density, mean_span)
    return tokens - noise + spans + 1, noise + spans + 1


def _noise_count(tokens: int, density: float) -> int:
    return min(max(round(tokens * density), 1), max(tokens - 1, 1))


def _partition(items: int, parts: int, random: np.random.Generator) -> np.ndarray:
    """Lengths of `parts` runs of at least one that add up to `items`, every such partition as likely as another."""
    cuts = np.sort(random.permutation(items - 1)[: parts - 1]) + 1 if parts > 1 else np.zeros(0, np.int64)
    return np.diff(np.concatenate([[0], cuts, [items]])).astype(np.int64)


def _needed_end(tokenizer: TextTokenizer) -> int:
    if tokenizer.end_id is None:
        raise UserError("inputs.tokens.tokenizer.special.end", None, "sources and targets need an end token")
    return tokenizer.end_id
