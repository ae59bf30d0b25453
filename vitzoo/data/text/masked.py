"""BERT's pre-training (Devlin et al. 2018): some tokens are hidden and to be named; optionally, whether a second part
follows the first.
"""

import dataclasses

import numpy as np

from vitzoo.data.sources.base import Source
from vitzoo.data.text.documents import cut_documents
from vitzoo.data.text.examples import require
from vitzoo.data.text.rows import EVALUATION, MASKS, Row, TargetSide, draws, rows_info
from vitzoo.data.text.settings import Text
from vitzoo.data.text.token_array import notes_of, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.errors import UserError

FOLLOWS, RANDOM = 0, 1  # the next-sentence labels, as in BERT
SHOWN_MASK, SHOWN_RANDOM = 0.8, 0.1  # else the token itself


class Masking:
    """Which tokens are chosen, and what is shown in their place.

    Of a row's n tokens that aren't special, max(1, round(n · rate)) are chosen; with `whole_words` words are, in random
    order, as long as they fit into that number (so a few tokens less, but at least one word). Each chosen token is
    shown as [MASK] (80 %), as a random token that isn't special (10 %), or as it is, drawn independently.

    Args:
        tokenizer: says which token masks, and which are special.
        rate: fraction of the tokens chosen.
        whole_words: all tokens of a word are chosen together.
        most: of a row with more chosen tokens than that (its one word is longer) only the first ones are.
    """

    def __init__(self, tokenizer: TextTokenizer, rate: float, whole_words: bool, most: int = 2**31):
        self.rate, self.mask, self.most = rate, _mark(tokenizer.kind, tokenizer.mask_id, "mask"), most
        self.special = np.zeros(tokenizer.vocabulary_size, bool)
        self.special[tokenizer.special_ids] = True
        self.ordinary = np.flatnonzero(~self.special).astype(np.int32)
        self.edges = tokenizer.word_edges if whole_words else None

    def __call__(self, ids: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """What is shown, int32 [n], and which tokens are chosen, bool [n]."""
        candidates = np.flatnonzero(~self.special[ids])
        chosen = np.zeros(len(ids), bool)
        if len(candidates):
            count = chosen_of(len(candidates), self.rate)
            chosen[self._pick(ids, candidates, count, random)] = True
        places = np.flatnonzero(chosen)
        how, other = random.random(len(places)), random.choice(self.ordinary, len(places))
        shown = ids.copy()
        shown[places] = np.where(
            how < SHOWN_MASK, self.mask, np.where(how < SHOWN_MASK + SHOWN_RANDOM, other, ids[places])
        )
        return shown, chosen

    def _pick(self, ids: np.ndarray, candidates: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
        if self.edges is None:
            return random.permutation(candidates)[:count]
        left, right = self.edges
        previous = candidates - 1
        joined = (previous >= 0) & left[ids[candidates]] & right[ids[previous]] & ~self.special[ids[previous]]
        words = np.split(candidates, np.flatnonzero(~joined)[1:] if not joined[0] else np.flatnonzero(~joined))
        picked: list[int] = []
        for number in random.permutation(len(words)).tolist():
            if not picked or len(picked) + len(words[number]) <= count:
                picked += words[number].tolist()
        return np.array(picked[: self.most])


def chosen_of(tokens: int, rate: float) -> int:
    """How many of a row's tokens are chosen."""
    return max(1, round(tokens * rate))


class MaskedRows:
    """[CLS] text [SEP], chosen tokens hidden: `tokens` is what is shown, `targets` the text, `target_weights` 1 where
    chosen. `chosen` int32 [K] are these places, filled up with place 0; K is as many as the longest text can have.

    A row is a piece of one document of at most T - 2 tokens; with `packing` it is T - 2 tokens of all text
    joined, documents told apart by their end token (RoBERTa's full sentences; Liu et al. 2019). In training the choice
    is drawn anew each time.

    With `next_sentence` a row is [CLS] first [SEP] second [SEP], and `label` tells whether the second part follows
    (0) or comes from another document (1), half of the time each; `tokens_types` is 0 up to the first [SEP], then 1.
    """

    def __init__(self, source: Source, tokenizer: TextTokenizer, text: Text):
        require(source, "text", what="masked language modelling")
        self.length, self.fill, self.next_sentence = text.length, tokenizer.fill_id, text.next_sentence
        self.room = self.length - 2 - int(text.next_sentence)
        if self.room < 1 + int(text.next_sentence):
            raise UserError("inputs.tokens.length", self.length, "leaves no room beside [CLS] and [SEP]")
        self.most = chosen_of(self.room, text.mask_rate)
        self.masking = Masking(tokenizer, text.mask_rate, text.whole_words, self.most)
        self.first = _mark(tokenizer.kind, tokenizer.classify_id, "classify")
        self.last = _mark(tokenizer.kind, tokenizer.separate_id, "separate")
        joined = text.packing and not text.next_sentence
        self.array = token_array(source, tokenizer, prefix=text.prefix, ends=joined)
        lengths = np.array([len(self.array)]) if joined else self.array.lengths
        self.pieces = cut_documents(lengths, self.room)
        if text.next_sentence:
            self.pieces = self.pieces[self.pieces[:, 2] > 1]  # two parts need two tokens
            if len(np.unique(self.pieces[:, 0])) < 2:
                problem = f"{source.info.name} is one document; data.document=line or paragraph may tell several apart"
                raise UserError("inputs.tokens.next_sentence", True, problem)
        if not len(self.pieces):
            raise UserError("data.name", source.info.name, "holds no text")
        # where a piece starts in the joined array
        begin = self.array.starts[self.pieces[:, 0]] if not joined else np.zeros(len(self.pieces), np.int64)
        self.begins = begin + self.pieces[:, 1]
        made = ("masked", self.length, joined, text.mask_rate, text.whole_words, text.next_sentence)
        info = rows_info(source.info, len(self.pieces), tokenizer, notes_of(self.array), *made)
        # labels that the data may have are no part of these rows
        self.info = dataclasses.replace(info, classes=("follows", "random") if text.next_sentence else None)

    def __len__(self) -> int:
        return len(self.pieces)

    def train_row(self, index: int, seed: int, position: int) -> Row:
        return self._row(index, draws(seed, MASKS, position))

    def eval_row(self, index: int) -> Row:
        return self._row(index, draws(0, MASKS + EVALUATION, index))

    def padding(self) -> Row:
        return self._finish(TargetSide(self.length, self.fill), np.zeros(self.length, np.int32), FOLLOWS, -1, 0.0)

    def _row(self, index: int, random: np.random.Generator) -> Row:
        ids, label = self._piece(index), FOLLOWS
        if self.next_sentence:
            split = int(random.integers(1, len(ids)))
            second = ids[split:]
            if random.random() < 0.5:
                label, second = RANDOM, self._elsewhere(index, self.room - split, random)
            parts = [ids[:split], np.array([self.last], np.int32), second]
        else:
            split, parts = len(ids), [ids]
        whole = np.concatenate([[self.first], *parts, [self.last]]).astype(np.int32)
        shown, chosen = self.masking(whole, random)
        side = TargetSide(self.length, self.fill)
        side.add(shown, whole, chosen)
        types = np.zeros(self.length, np.int32)
        types[split + 2 : len(whole)] = 1
        return self._finish(side, types, label, index, 1.0)

    def _piece(self, index: int) -> np.ndarray:
        start = int(self.begins[index])
        return self.array.tokens[start : start + int(self.pieces[index, 2])].astype(np.int32)

    def _elsewhere(self, index: int, room: int, random: np.random.Generator) -> np.ndarray:
        """Up to `room` tokens of a piece of another document."""
        # pieces are in the order of documents: a document's are neighbours, and the draw leaves them out
        first, stop = np.searchsorted(self.pieces[:, 0], [self.pieces[index, 0], self.pieces[index, 0] + 1])
        drawn = int(random.integers(len(self.pieces) - (stop - first)))
        other = self._piece(drawn if drawn < first else drawn + int(stop - first))
        return other[int(random.integers(len(other))) :][:room]

    def _finish(self, side: TargetSide, types: np.ndarray, label: int, id: int, weight: float) -> Row:
        places = np.flatnonzero(side.weights)
        chosen = np.zeros(self.most, np.int32)
        chosen[: len(places)] = places
        more = {"tokens_types": types, "chosen": chosen}
        if self.next_sentence:
            more["label"] = np.array(label, np.int32)
        return side.row(id, weight, more)


def _mark(kind: str, id: int | None, role: str) -> int:
    if id is None:
        message = (
            f"has no token to {role}: inputs.tokens.tokenizer.masking=true adds one to a tokenizer that is made here, "
            f"and inputs.tokens.tokenizer.special={role}:TOKEN names one of a published file"
        )
        raise UserError("tokenizer", kind, message)
    return id
