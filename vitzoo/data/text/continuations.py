"""Texts of which only the end is scored, given what stands before: choices, and the last word of each text (LAMBADA,
Paperno et al. 2016, https://arxiv.org/abs/1606.06031).
"""

import dataclasses

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import require
from vitzoo.data.text.prompts import fitting_notes, question_ids, reader_of
from vitzoo.data.text.questions import AskedSource
from vitzoo.data.text.rows import Row, SourceSide, TargetSide, given_before, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import Ids, TextTokenizer
from vitzoo.errors import UserError

Pair = tuple[Ids, Ids]
"""The ids given, at least one, and those to be said."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """How long a row's arrays are.

    Args:
        length: T, of tokens and targets.
        source_length: S, of an encoder-decoder's source; None for a decoder.
        prefix_lm: whether a decoder reads what is given in both directions.
    """

    length: int
    source_length: int | None = None
    prefix_lm: bool = False

    @classmethod
    def of(cls, pairs: list[Pair], encodes: bool, prefix_lm: bool = False) -> "Shape":
        """The smallest that holds all pairs."""
        if encodes:
            return cls(max(len(said) for _, said in pairs), max(len(given) for given, _ in pairs))
        return cls(max(len(given) + len(said) - 1 for given, said in pairs), None, prefix_lm)


def cut_pair(given: Ids, said: Ids, limit: int) -> Pair:
    """A pair with at most `limit` tokens read: what is given loses its front, then what is said its own."""
    given = given[max(len(given) + len(said) - 1 - limit, 0) :] if len(said) <= limit else given[-1:]
    return given, said[-limit:]


def row_of(pair: Pair | None, shape: Shape, tokenizer: TextTokenizer) -> Row:
    """`tokens`, `targets`, `target_weights` (1 where something is to be said), `tokens_segments` and `tokens_positions`
    [T], and for an encoder-decoder `source`, `source_segments` and `source_positions` [S], for a prefix LM
    `tokens_prefix` [T]. None gives a row of nothing.
    """
    side = TargetSide(shape.length, tokenizer.fill_id, shape.prefix_lm)
    encoder = None if shape.source_length is None else SourceSide(shape.source_length, tokenizer.fill_id)
    if pair is not None:
        given, said = pair
        if encoder is None:
            ids = np.concatenate([given, said])
            side.add(ids[:-1], ids[1:], np.arange(len(ids) - 1) >= len(given) - 1, prefix=len(given))
        else:
            encoder.add(given)
            side.add(given_before(said, tokenizer.decoder_start_id), said)
    row = side.row(0, more=None if encoder is None else encoder.arrays())
    return {name: value for name, value in row.items() if name not in ("example_weight", "id")}


class Choices:
    """A question a row: the arrays of `continuations.row_of` for each of C choices, [C, T] and [C, S]; `choices`
    float32 [C], 1 for those there are; `answer` int32 [], the right one. C is the most that a question has.

    Question and choice are tokenized apart; no end token is scored. What is too long loses shots, then tokens of the
    question: see `prompts`.
    """

    def __init__(
        self,
        source: AskedSource,
        tokenizer: TextTokenizer,
        text: Text,
        *,
        encodes: bool,
        context: int | None,
        prefix_lm: bool = False,
    ):
        if "choices" not in source.fields:
            problem = "has no choices: question, choices and answer, or a text and its class"
            raise UserError("data.name", source.info.name, problem)
        self.tokenizer, self.answers = tokenizer, [int(source[index]["answer"]) for index in range(len(source))]
        reader = reader_of(encodes, context, text, 0)
        self.pairs: list[list[Pair]] = []
        left_out = cut = 0
        for index in range(len(source)):
            said = [tokenizer.encode(source.how.answer(choice)) for choice in source[index]["choices"]]
            if empty := [choice for choice, ids in enumerate(said) if not len(ids)]:
                raise UserError("data.name", source.where(index), f"choice {empty[0]} is empty")
            room = (
                reader if encodes else dataclasses.replace(reader, limit=max(1, reader.limit + 1 - max(map(len, said))))
            )
            given, fewer, short = question_ids(source, index, room, tokenizer)
            self.pairs.append([(given, ids) if encodes else cut_pair(given, ids, reader.limit) for ids in said])
            left_out, cut = left_out + bool(fewer), cut + short
        self.count = max(map(len, self.pairs))
        self.shape = Shape.of([pair for pairs in self.pairs for pair in pairs], encodes, prefix_lm)
        notes = fitting_notes(len(source), reader.limit, left_out, cut)
        self.info = rows_info(source.info, len(source), tokenizer, notes, "choices", dataclasses.astuple(reader))

    def __len__(self) -> int:
        return len(self.pairs)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        return self._row(self.pairs[index], self.answers[index], index, 1.0)

    def padding(self) -> Row:
        return self._row([], 0, -1, 0.0)

    def _row(self, pairs: list[Pair], answer: int, id: int, weight: float) -> Row:
        filled = [*pairs, *[None] * (self.count - len(pairs))]
        each = [row_of(pair, self.shape, self.tokenizer) for pair in filled]
        row = {name: np.stack([one[name] for one in each]) for name in each[0]}
        row["choices"] = (np.arange(self.count) < len(pairs)).astype(np.float32)
        told = {"answer": np.array(answer, np.int32), "example_weight": np.array(weight, np.float32)}
        return row | told | {"id": np.array(id, np.int64)}


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
        told: Row = {"example_weight": np.array(weight, np.float32), "id": np.array(id, np.int64)}
        return row_of(pair, self.shape, self.tokenizer) | told
