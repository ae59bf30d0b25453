"""Questions with several answers to choose from: each is scored as what follows the question (HellaSwag, PIQA, ...)."""

import dataclasses

import numpy as np

from vitzoo.data.text.continuations import Pair, Shape, cut_pair, row_of
from vitzoo.data.text.prompts import fitting_notes, question_ids, reader_of
from vitzoo.data.text.questions import AskedSource
from vitzoo.data.text.rows import Row, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError


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
        told = {"answer": np.array(answer, np.int32), "weight": np.array(weight, np.float32)}
        return row | told | {"id": np.array(id, np.int64)}
