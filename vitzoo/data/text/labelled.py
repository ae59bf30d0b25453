"""Texts with labels: classes or numbers of whole texts and of pairs, and classes of words."""

import numpy as np

from vitzoo.data.text.rows import Row, TargetSide, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.sources.base import TextSource, require
from vitzoo.data.text.token_array import kept_tokens, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import Failed


class LabelledRows:
    """[CLS] text [SEP], or [CLS] first [SEP] second [SEP], and `label`: int32 [] of `info.classes`, or float32 [] with
    `text.regression`. A tokenizer without these marks gives the text and its end token instead, which also stands
    between the parts.

    A text too long is cut at its end; of a pair, tokens are taken from the end of whichever part is longer, the second
    where equal. How many are cut is in `info.notes`. `text.prefix` goes before the (first) text.
    """

    def __init__(self, source: TextSource, tokenizer: TextTokenizer, text: Text):
        parts = ("first", "second") if "first" in source.fields else ("text",)
        require(source, *parts, "label", what="classification")
        self.source, self.length, self.fill = source, text.sequence_length, tokenizer.fill_id
        self.label_type = np.float32 if source.info.classes is None else np.int32
        self.opening = _marks(tokenizer.classify_id)
        self.closing = _marks(tokenizer.end_id if tokenizer.separate_id is None else tokenizer.separate_id)
        self.arrays = [
            token_array(source, tokenizer, field=field, prefix="" if number else text.prefix, ends=False)
            for number, field in enumerate(parts)
        ]
        self.room = self.length - len(self.opening) - len(parts) * len(self.closing)
        lengths = np.stack([array.lengths for array in self.arrays], 1)
        cut = int((lengths.sum(1) > self.room).sum())
        notes = (f"{cut:,} of {len(source):,} texts are longer than {self.length} tokens and cut",) if cut else ()
        self.info = rows_info(source.info, len(source), tokenizer, notes, "labelled", self.length, text.prefix)

    def __len__(self) -> int:
        return len(self.source)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        parts = [array.document(index) for array in self.arrays]
        kept = _longest_first([len(part) for part in parts], self.room)
        pieces = [np.concatenate([part[:k], self.closing]) for part, k in zip(parts, kept, strict=True)]
        pieces[0] = np.concatenate([self.opening, pieces[0]])
        types = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
        return self._as_row(np.concatenate(pieces), types, self._label(index), int(self.source.ids[index]), 1.0)

    def padding(self) -> Row:
        nothing = np.zeros(0, np.int32)
        return self._as_row(nothing, nothing, 0, -1, 0.0)

    def _label(self, index: int) -> float:
        label, classes = self.source[index]["label"], self.source.info.classes
        if classes is not None and not 0 <= label < len(classes):
            raise Failed(f"{self.source.where(index)}: label {label} lies outside the {len(classes)} classes")
        return label

    def _as_row(self, ids: np.ndarray, types: np.ndarray, label: float, id: int, weight: float) -> Row:
        side = TargetSide(self.length, self.fill)
        if len(ids):
            side.add(ids, ids, 0.0)
        sentence_types = np.zeros(self.length, np.int32)
        sentence_types[: len(types)] = types
        more = {"sentence_types": sentence_types, "label": np.array(label, self.label_type)}
        return side.row(id, weight, more)


class TaggedRows:
    """[CLS] words [SEP]; `targets` is a word's class at its first token, scored there alone, as in BERT.

    Words are tokenized each for itself, those after the first with a space before them. A text too long loses its last
    words; how many texts are cut is in `info.notes`.
    """

    def __init__(self, source: TextSource, tokenizer: TextTokenizer, text: Text):
        require(source, "words", "tags", what="token classification")
        self.source, self.length, self.fill = source, text.sequence_length, tokenizer.fill_id
        self.opening = _marks(tokenizer.classify_id)
        self.closing = _marks(tokenizer.end_id if tokenizer.separate_id is None else tokenizer.separate_id)
        self.room = self.length - len(self.opening) - len(self.closing)

        def documents(which: int):
            for index in range(len(source)):
                yield word_tokens(source[index]["words"], tokenizer)[which]

        what = ("words", tokenizer.sha256, source.info.fingerprint)
        self.tokens = kept_tokens((*what, 0), lambda: documents(0), tokenizer.vocabulary_size, len(source))
        self.firsts = kept_tokens((*what, 1), lambda: documents(1), 2**31, len(source))
        cut = int((self.tokens.lengths > self.room).sum())
        notes = (f"{cut:,} of {len(source):,} texts are longer than {self.length} tokens and cut",) if cut else ()
        self.info = rows_info(source.info, len(source), tokenizer, notes, "tagged", self.length)

    def __len__(self) -> int:
        return len(self.source)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self.eval_row(index)

    def eval_row(self, index: int) -> Row:
        ids, firsts = self.tokens.document(index)[: self.room], self.firsts.document(index)[: self.room]
        tags = np.zeros(len(ids), np.int32)
        places = np.flatnonzero(firsts)
        tags[places] = np.array(self.source[index]["tags"], np.int32)[firsts[places] - 1]
        before, after = np.zeros(len(self.opening), np.int32), np.zeros(len(self.closing), np.int32)
        side = TargetSide(self.length, self.fill)
        side.add(
            np.concatenate([self.opening, ids, self.closing]),
            np.concatenate([before, tags, after]),
            np.concatenate([before, firsts > 0, after]),
        )
        return side.row(int(self.source.ids[index]))

    def padding(self) -> Row:
        return TargetSide(self.length, self.fill).row(-1, 0.0)


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


def _marks(id: int | None) -> np.ndarray:
    return np.array([] if id is None else [id], np.int32)


def _longest_first(lengths: list[int], room: int) -> list[int]:
    """How many tokens of each part are kept."""
    if sum(lengths) <= room or len(lengths) == 1:
        return [min(length, room) for length in lengths]
    first, second = lengths
    # the shorter one is only cut below half of the room
    if first <= second:
        kept = min(first, room - room // 2)
        return [kept, room - kept]
    kept = min(second, room // 2)
    return [room - kept, kept]
