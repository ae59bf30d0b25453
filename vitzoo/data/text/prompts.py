"""Questions to be answered in a model's own words: for evaluation by generation."""

import dataclasses

import numpy as np

from vitzoo.data.text.questions import AskedSource
from vitzoo.data.text.rows import Row, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import Ids, TextTokenizer
from vitzoo.errors import UserError


@dataclasses.dataclass(frozen=True)
class Reader:
    """What reads questions.

    Args:
        encodes: whether it is an encoder-decoder, to which a question is a source with its end token.
        limit: most tokens of a question.
    """

    encodes: bool
    limit: int

    def __call__(self, text: str, tokenizer: TextTokenizer) -> Ids:
        """The ids of a question, uncut, at least one."""
        ids = tokenizer.encode(text)
        if self.encodes and tokenizer.end_id is not None:
            return np.append(ids, tokenizer.end_id).astype(np.int32)
        ids = ids if self.encodes else tokenizer.opened(ids)
        return ids if len(ids) else tokenizer.opening(where="question")

    def cut(self, ids: Ids) -> Ids:
        """At most `limit` ids: a source loses its end, before the end token, as in training; a prompt its front."""
        if len(ids) <= self.limit:
            return ids
        return np.append(ids[: self.limit - 1], ids[-1]) if self.encodes else ids[-self.limit :]


def reader_of(encodes: bool, context: int | None, text: Text, new_tokens: int) -> Reader:
    """What reads questions, given the most tokens that a decoder takes, and how many it shall add.

    Raises:
        UserError: no token is left for the question.
    """
    limit = text.source_length if encodes else (2**30 if context is None else context) - new_tokens
    if limit < 1:
        raise UserError(
            "max_new_tokens", new_tokens, f"leaves no room for a question: the model takes {context} tokens"
        )
    return Reader(encodes, limit)


def question_ids(source: AskedSource, index: int, reader: Reader, tokenizer: TextTokenizer) -> tuple[Ids, int, bool]:
    """The ids of a question, how many of its shots are left out to make it fit, and whether it is cut besides."""
    for left_out, prompt in enumerate(source.prompts(index)):
        ids = reader(prompt, tokenizer)
        if len(ids) <= reader.limit:
            return ids, left_out, False
    return reader.cut(ids), left_out, True


def fitting_notes(count: int, limit: int, left_out: int, cut: int) -> tuple[str, ...]:
    """What had to be done so that questions fit."""
    fewer = f"{left_out:,} of {count:,} questions have fewer shots, since all would exceed {limit} tokens"
    short = f"{cut:,} of {count:,} questions are longer than {limit} tokens and cut"
    return (*((fewer,) if left_out else ()), *((short,) if cut else ()))


class Prompts:
    """A question a row: `tokens` int32 [P], filled up at the end, and `length` int32 [], how many there are. P is the
    longest question's.

    A question that is too long loses shots, the first ones first; then tokens: see `Reader.cut`.
    """

    def __init__(
        self, source: AskedSource, tokenizer: TextTokenizer, text: Text, *, encodes: bool, context: int | None
    ):
        reader = reader_of(encodes, context, text, source.how.new_tokens)
        found = [question_ids(source, index, reader, tokenizer) for index in range(len(source))]
        self.ids, self.fill = [ids for ids, _, _ in found], tokenizer.fill_id
        self.length = max(len(ids) for ids in self.ids)
        left_out, cut = (sum(bool(one[which]) for one in found) for which in (1, 2))
        notes = fitting_notes(len(source), reader.limit, left_out, cut)
        self.info = rows_info(source.info, len(source), tokenizer, notes, "prompts", dataclasses.astuple(reader))

    def __len__(self) -> int:
        return len(self.ids)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        return self._row(self.ids[index], index, 1.0)

    def padding(self) -> Row:
        return self._row(np.array([self.fill]), -1, 0.0)

    def _row(self, ids: Ids, id: int, weight: float) -> Row:
        tokens = np.full(self.length, self.fill, np.int32)
        tokens[: len(ids)] = ids
        length = np.array(len(ids), np.int32)
        return {
            "tokens": tokens,
            "length": length,
            "example_weight": np.array(weight, np.float32),
            "id": np.array(id, np.int64),
        }
