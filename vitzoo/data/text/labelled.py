"""Texts with labels: classes or numbers of whole texts and of pairs, and classes of words."""

import numpy as np

from vitzoo.data.sources.base import Source, refuse_unlabelled
from vitzoo.data.sources.labels import LARGEST
from vitzoo.data.text.examples import require
from vitzoo.data.text.packing import Layout
from vitzoo.data.text.rows import Row, TargetSide, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import kept_tokens, notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import RunError, UserError


class LabelledRows:
    """A text or a pair as `Layout` has it, and `label`: int32 [] of `info.classes`, or float32 [] with
    `data.regression`. How many are too long and cut is in `info.notes`. `prefix` goes before the (first) text.
    """

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text):
        parts = ("first", "second") if "first" in source.fields else ("text",)
        require(source, *parts, "label", what="classification")
        refuse_unlabelled(source.info)
        if len(source) and np.ndim(source[0]["label"]):
            raise UserError("data.name", source.info.name, "has several labels for a text, and one is learnt")
        if text.paired not in (None, len(parts) == 2):
            trained, there = ("pairs", "single texts") if text.paired else ("single texts", "pairs")
            raise UserError("data.name", source.info.name, f"holds {there}, and the model was trained on {trained}")
        self.source, self.length, self.fill = source, text.length, tokenizer.fill_id
        self.label_type = np.float32 if source.info.classes is None else np.int32
        self.layout = Layout(tokenizer, self.length)
        self.layout.check(len(parts))
        self.arrays = [
            token_array(source, tokenizer, field=field, prefix="" if number else text.prefix, ends=False)
            for number, field in enumerate(parts)
        ]
        lengths = np.stack([array.lengths for array in self.arrays], 1)
        notes = cut_note(int((lengths.sum(1) > self.layout.room(len(parts))).sum()), len(source), self.length)
        self.info = rows_info(
            source.info, len(source), tokenizer, (*notes, *notes_of(*self.arrays)), "labelled", self.length, text.prefix
        )

    def __len__(self) -> int:
        return len(self.source)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        ids, types = self.layout([array.document(index) for array in self.arrays])
        return self._as_row(ids, types, self._label(index), int(self.source.ids[index]), 1.0)

    def padding(self) -> Row:
        nothing = np.zeros(0, np.int32)
        return self._as_row(nothing, nothing, 0, -1, 0.0)

    def _label(self, index: int) -> float:
        label, classes = self.source[index]["label"], self.source.info.classes
        if classes is not None and not 0 <= label < len(classes):
            raise RunError(f"{self.source.where(index)}: label {label} lies outside the {len(classes)} classes")
        if classes is None and not abs(label) <= LARGEST:
            raise RunError(f"{self.source.where(index)}: label {label} is no finite number")
        return label

    def _as_row(self, ids: np.ndarray, types: np.ndarray, label: float, id: int, weight: float) -> Row:
        side = TargetSide(self.length, self.fill)
        if len(ids):
            side.add(ids, ids, 0.0)
        sentence_types = np.zeros(self.length, np.int32)
        sentence_types[: len(types)] = types
        more = {"tokens_types": sentence_types, "label": np.array(label, self.label_type)}
        return side.row(id, weight, more)


class TaggedRows:
    """[CLS] words [SEP]; `targets` is a word's class at its first token, scored there alone, as in BERT. `words` int32
    [T] is the word's number there, from 1, and 0 elsewhere.

    Words are tokenized each for itself, those after the first with a space before them. A text too long loses its last
    words; how many texts are cut is in `info.notes`.
    """

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text):
        require(source, "words", "tags", what="token classification")
        refuse_unlabelled(source.info)
        self.source, self.length, self.fill = source, text.length, tokenizer.fill_id
        self.layout = Layout(tokenizer, self.length)
        self.layout.check(1)
        self.room = self.layout.room(1)

        def documents(which: int):
            for index in range(len(source)):
                yield word_tokens(source[index]["words"], tokenizer)[which]

        what = ("words", tokenizer.sha256, source.info.fingerprint)
        size, unknown = tokenizer.vocabulary_size, tokenizer.unknown_id
        self.tokens = kept_tokens((*what, 0), lambda: documents(0), size, len(source), unknown)
        self.firsts = kept_tokens((*what, 1), lambda: documents(1), 2**31, len(source))
        notes = cut_note(int((self.tokens.lengths > self.room).sum()), len(source), self.length)
        self.info = rows_info(
            source.info, len(source), tokenizer, (*notes, *notes_of(self.tokens)), "tagged", self.length
        )

    def __len__(self) -> int:
        return len(self.source)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        ids, firsts = self.tokens.document(index)[: self.room], self.firsts.document(index)[: self.room]
        tags = np.zeros(len(ids), np.int32)
        places = np.flatnonzero(firsts)
        given, classes = np.array(self.source[index]["tags"], np.int32), self.source.info.classes or ()
        if (outside := given[(given < 0) | (given >= len(classes))]).size:
            raise RunError(f"{self.source.where(index)}: tag {outside[0]} lies outside the {len(classes)} classes")
        tags[places] = given[firsts[places] - 1]
        before, after = np.zeros_like(self.layout.opening), np.zeros_like(self.layout.closing)
        side = TargetSide(self.length, self.fill)
        side.add(
            self.layout([ids])[0],
            np.concatenate([before, tags, after]),
            np.concatenate([before, firsts > 0, after]),
        )
        words = np.zeros(self.length, np.int32)
        words[len(before) : len(before) + len(firsts)] = firsts
        return side.row(int(self.source.ids[index]), 1.0, {"words": words})

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill).row(-1, 0.0, {"words": np.zeros(self.length, np.int32)})


def cut_note(cut: int, count: int, length: int) -> tuple[str, ...]:
    """How many texts are too long for a row, in a line; nothing where none is."""
    share = f"{cut:,} of {count:,} texts ({100 * cut / max(count, 1):.1f} %)"
    return (f"{share} are longer than inputs.tokens.length = {length} tokens and cut",) if cut else ()


def word_tokens(words: list[str], tokenizer: TextTokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Ids int32 [n], and at each word's first token the word's number from 1 on, else 0. A word that has no tokens (of
    control characters, say) has no place.
    """
    pieces = tokenizer.encode_batch([word if number == 0 else f" {word}" for number, word in enumerate(words)])
    firsts = [np.zeros(len(piece), np.int32) for piece in pieces]
    for number, first in enumerate(firsts, 1):
        first[:1] = number
    nothing = np.zeros(0, np.int32)
    return np.concatenate([nothing, *pieces]), np.concatenate([nothing, *firsts])
