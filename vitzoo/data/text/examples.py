"""What is asked of examples of text: their strings, the fields they must have; and other kinds as pairs of a source and
a target, so that one text-to-text model can do every task (Raffel et al. 2020, 2.4).
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vitzoo.data.sources.base import TEXTS, Source, SourceInfo, kinds_of
from vitzoo.data.text.packing import alone, pack
from vitzoo.data.text.rows import Row, SourceSide, TargetSide, given_before, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import TokenArray, notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError

TAKES = (
    "source + target, prompt + completion, question + answers, question + choices + answer, text + label, "
    "first + second + label"
)
WITHHELD = "no class: test splits often withhold theirs"


class Texts:
    """One field of a source as an iterable of strings that can be gone through again (to train a tokenizer)."""

    def __init__(self, source: Source, fields: Sequence[str] = ("text",)):
        self.source, self.fields = source, fields

    def __iter__(self) -> Iterator[str]:
        for index in range(len(self.source)):
            example = self.source[index]
            for field in self.fields:
                yield from strings(example[field])


def all_text(source: Source) -> Texts:
    """Every string of every example."""
    return Texts(source, [field for field, kind in source.fields.items() if kind in TEXTS])


def strings(value: str | Sequence[str | Mapping[str, str]]) -> list[str]:
    """The strings of a field: itself, a list's, or those of turns."""
    if isinstance(value, str):
        return [value]
    return [item if isinstance(item, str) else item["text"] for item in value]


def require(source: Source, *fields: str, what: str) -> None:
    """Refuses a source without these fields."""
    if not set(fields) <= set(source.fields):
        refuse_unusable(source)
        raise UserError(
            "data.name",
            source.info.name,
            f"{what} needs the fields {', '.join(fields)}; this data has {', '.join(source.fields)}",
        )


def refuse_unusable(source: Source) -> None:
    """Where labels are wanted: refuses a source that has some which name no classes, and says which."""
    if (refusal := getattr(source, "unusable", None)) is not None:
        raise refusal


@dataclasses.dataclass(frozen=True)
class Asked:
    """An example as a question: right answers, the first the usual one, and where it is one of several, these and the
    right one's place among them."""

    question: str
    references: tuple[str, ...]
    choices: tuple[str, ...] | None = None
    answer: int | None = None


def asked(example: Mapping[str, Any], classes: tuple[str, ...] | None) -> Asked | None:
    """What an example asks; None where it is of no kind that asks.

    A labelled text asks for its class's name, or its number. Two texts are put as T5 puts them.
    """
    for given, wanted in (("source", "target"), ("prompt", "completion")):
        if given in example:
            return Asked(example[given], (example[wanted],))
    if "question" in example:
        question = example["question"]
        if "passage" in example:
            question = f"question: {question} context: {example['passage']}"
        return _answered(question, example)
    if "label" not in example or not ({"text", "first"} & set(example)):
        return None
    text = example.get("text")
    if text is None:
        text = f"first: {example['first']} second: {example['second']}"
    label = example["label"]
    if classes is None:
        return Asked(text, (f"{label:g}",))
    if not 0 <= label < len(classes):
        raise UserError("data.split", None, f"holds an example with the label {label}, which is {WITHHELD}")
    return Asked(text, (classes[label],), classes, int(label))


def _answered(question: str, example: Mapping[str, Any]) -> Asked:
    if "answers" in example:
        answers = example["answers"]
        return Asked(question, (answers,) if isinstance(answers, str) else tuple(answers))
    choices, right = tuple(example["choices"]), int(example["answer"])
    return Asked(question, (choices[right],), choices, right)


def as_pairs(source: Source) -> Source:
    """The examples as pairs of a question and its usual answer.

    Raises:
        UserError: they are of no kind that makes a pair.
    """
    fields = set(source.fields)
    if {"source", "target"} <= fields:
        return source
    if len(source) and asked(source[0], source.info.classes) is not None:
        return PairSource(source)
    refuse_unusable(source)
    raise UserError("data.name", source.info.name, f"sequence to sequence takes {TAKES}; this is {', '.join(fields)}")


class PairSource:
    """See `as_pairs`."""

    def __init__(self, source: Source):
        self.source = source
        self.fields = kinds_of(("source", "target"))
        self.info: SourceInfo = source.info
        self.ids: np.ndarray = source.ids

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> dict[str, Any]:
        found = asked(self.source[index], self.info.classes)
        assert found is not None
        return {"source": found.question, "target": found.references[0]}

    def where(self, index: int) -> str:
        return self.source.where(index)


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
