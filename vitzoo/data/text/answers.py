"""Instruction following: prompt and completion (or source and target), or turns of a conversation; only answers are
learned.

The template. A prompt and its completion are put one after the other as they stand (`prefix` before the prompt),
then the end token. Turns are each `turn_prefix` with its role (`user: `), the text and `turn_suffix` (a line
end); an answer's text is followed by the end token and then the suffix. Scored are an answer's text and its end token.
Prompt and answer are tokenized apart, as they are when the model is used. Whose turns are answers, `answer_roles`
says; capitals don't matter.

To a prefix LM each answer is an example of its own, whose prefix is all that stands before it, answers before it too:
so it is read when the model is asked.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.examples import require
from vitzoo.data.text.packing import alone, pack
from vitzoo.data.text.rows import Row, TargetSide, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import kept_tokens, notes_of
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError

NAMED = 9  # roles that a message lists

Part = tuple[str, bool]  # text, and whether it is an answer


class Answers:
    """One example a row, or as many as fit with `packing`. One that is too long loses tokens of its front, up to
    the first answer, then of its end. One without an answer is left out. How many are is in `info.notes`.

    Args:
        seed: of the plan by which they are packed.
        prefix_lm: whether it is for a prefix LM.

    Raises:
        UserError: none of the examples has an answer, or they are of other fields.
    """

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text, *, seed: int = 0, prefix_lm: bool = False):
        if "turns" not in source.fields and not {"source", "target"} <= set(source.fields):
            require(source, "prompt", "completion", what="learning answers")
        self.length, self.fill, self.prefix_lm = text.length, tokenizer.fill_id, prefix_lm
        template = (text.prefix, text.turn_prefix, text.turn_suffix, text.answer_roles)
        case = "answers apart" if prefix_lm else "answers in any case"
        what = (case, tokenizer.sha256, source.info.fingerprint, template)

        def documents(which: int) -> Iterator[np.ndarray]:
            for index in range(len(source)):
                whole = answer_tokens(example_parts(source[index], text), tokenizer)
                yield from (one[which] for one in (_apart(*whole) if prefix_lm else [whole]))

        self.tokens = kept_tokens(
            (*what, 0), lambda: documents(0), tokenizer.vocabulary_size, len(source), tokenizer.unknown_id
        )
        self.scored = kept_tokens((*what, 1), lambda: documents(1), 2, len(source))
        count = self.tokens.documents
        self.spans, answered = _spans(self.tokens.starts, self.scored.tokens, self.length)
        self.items = np.flatnonzero(answered)
        if not len(self.items):
            raise _no_answers(source, text)
        lengths = (self.spans[:, 1:] - self.spans[:, :1] - 1)[self.items]
        self.plan = pack(lengths, [self.length], seed) if text.packing else alone(len(self.items))
        cut = int((lengths[:, 0] < self.tokens.lengths[self.items] - 1).sum())
        notes = (f"{cut:,} of {count:,} examples are longer than {self.length} tokens and cut",) if cut else ()
        if none := count - len(self.items):
            notes = (f"{none:,} of {count:,} examples have no answer and are left out", *notes)
        case = "answers apart" if prefix_lm else "answers"
        made = (case, self.length, template, text.packing, seed if text.packing else 0)
        self.info = rows_info(source.info, len(self.plan), tokenizer, (*notes, *notes_of(self.tokens)), *made)

    def __len__(self) -> int:
        return len(self.plan)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        side = TargetSide(self.length, self.fill, self.prefix_lm)
        for item in self.items[self.plan.row(index)].tolist():
            start, stop = self.spans[item].tolist()
            ids = self.tokens.document(item, start, stop)
            scored = self.scored.document(item, start, stop)
            side.add(ids[:-1], ids[1:], scored[1:], prefix=int(scored.argmax()))
        return side.row(index)

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill, self.prefix_lm).row(-1, 0.0)


def example_parts(example: dict[str, Any], text: Text) -> list[Part]:
    """The texts of an example, in order."""
    if "turns" not in example:
        asked, said = ("source", "target") if "source" in example else ("prompt", "completion")
        return [(text.prefix + example[asked], False), (example[said], True)]
    parts = [(text.prefix, False), *(part for turn in example["turns"] for part in _turn(turn, text))]
    # nothing is learned from what follows the last answer
    last = max((number for number, part in enumerate(parts) if part[1]), default=len(parts) - 1)
    return parts[: last + 1]


def conversation(turns: Sequence[Mapping[str, str]], text: Text, tokenizer: TextTokenizer) -> tuple[str, np.ndarray]:
    """What a model is given of a conversation, as in training, for it to say the next turn: up to where the first of
    `answer_roles` begins to speak. The text, and its ids int32 [n], in which answers before have their end tokens.

    Args:
        turns: {"role", "text"} or, as in JSON lines, {"role", "content"}.
        text: how turns are written.
        tokenizer: of the model.

    Raises:
        UserError: there is no turn, one lacks its role or text, or no role answers.
    """
    if not turns or not text.answer_roles:
        field, value = ("inputs.tokens.answer_roles", "none") if turns else ("prompt", None)
        raise UserError(field, value, "a conversation needs a turn, and a role that answers")
    parts = [(text.prefix, False), *(part for turn in turns for part in _turn(_checked(turn), text))]
    parts.append((text.turn_prefix.replace("{role}", text.answer_roles[0]), False))
    return "".join(part for part, _ in parts), answer_tokens(parts, tokenizer)[0]


def _checked(turn: Mapping[str, str]) -> dict[str, str]:
    said = turn.get("text", turn.get("content")) if isinstance(turn, Mapping) else None
    if not isinstance(said, str) or not isinstance(turn.get("role"), str):
        raise UserError("prompt", repr(turn)[:60], 'a turn is {"role": "user", "content": "..."}')
    return {"role": turn["role"], "text": said}


def _turn(turn: Mapping[str, str], text: Text) -> list[Part]:
    """The texts of a turn, in order."""
    first = (text.turn_prefix.replace("{role}", turn["role"]), False)
    if turn["role"].casefold() in {role.casefold() for role in text.answer_roles}:
        return [first, (turn["text"], True), (text.turn_suffix, False)]
    return [first, (turn["text"] + text.turn_suffix, False)]


def answer_tokens(parts: list[Part], tokenizer: TextTokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Ids int32 [n], and 1 for those of answers and of the end token after each, else 0."""
    joined: list[Part] = []
    for answer, several in itertools.groupby(parts, lambda part: part[1]):
        texts = [text for text, _ in several]
        joined += [(text, True) for text in texts] if answer else [("".join(texts), False)]  # given: as one text
    end = [] if tokenizer.end_id is None else [tokenizer.end_id]
    pieces = [
        np.concatenate([tokenizer.encode(text), np.array(end if answer else [], np.int32)]) for text, answer in joined
    ]
    flags = [np.full(len(piece), answer, np.int32) for piece, (_, answer) in zip(pieces, joined, strict=True)]
    return np.concatenate(pieces), np.concatenate(flags)


def _apart(ids: np.ndarray, flags: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each answer of an example with all that stands before it, as in `answer_tokens`; without one, the example."""
    edges = np.flatnonzero(np.diff(flags, prepend=0, append=0)).reshape(-1, 2).tolist()
    return [(ids[:stop], (np.arange(stop) >= start).astype(np.int32)) for start, stop in edges] or [(ids, flags)]


def _spans(starts: np.ndarray, scored: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Which tokens of each example are kept, int64 [examples, 2]: at most length + 1; and whether any of them is
    learned, bool [examples]: the first is only given.
    """
    spans, learned = np.zeros((len(starts) - 1, 2), np.int64), np.zeros(len(starts) - 1, bool)
    for item, (start, stop) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        flags = scored[start:stop]
        first = int(flags.argmax()) if flags.any() else 0
        begin = max(0, min(stop - start - 1 - length, first - 1))
        spans[item] = begin, min(begin + length + 1, stop - start)
        learned[item] = flags[begin + 1 : begin + length + 1].any()
    return spans, learned


def _no_answers(source: Source, text: Text) -> UserError:
    """Why nothing can be learned of these examples."""
    where = f"{source.info.name} {source.info.split}"
    if "turns" not in source.fields:
        return UserError("data.name", source.info.name, f"no example of {source.info.split} has an answer to learn")
    roles = dict.fromkeys(turn["role"] for index in range(len(source)) for turn in source[index]["turns"])
    shown = ", ".join(list(roles)[:NAMED]) + (", ..." if len(roles) > NAMED else "")
    problem = f"no turn in {where} that is of these roles has an answer to learn; its roles are {shown}"
    return UserError("inputs.tokens.answer_roles", ", ".join(text.answer_roles) or "none", problem)
