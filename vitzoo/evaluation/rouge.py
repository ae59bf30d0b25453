"""ROUGE (Lin 2004, https://aclanthology.org/W04-1013) as the library rouge-score counts it, without stemming.

Each is the F-measure of what a prediction and its reference share, averaged over examples; of several references the
best counts. 0 to 1.

rouge-score compares runs of a-z and 0-9, lowered; so does this, wherever the reference is in Latin letters. Where it is
mainly in others, of which rouge-score sees nothing, words are runs of letters, marks and digits of any script, and in
scripts without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character is a word.
"""

import collections
import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")

_OTHER = re.compile(r"[^a-z0-9]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'’”»)\]]*\s+|(?<=[。！？।॥؟۔])[\"'’”»)\]」』]*\s*")
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF), (0x31F0, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0xF900, 0xFAFF), (0xFF66, 0xFF9F),
    (0x20000, 0x3FFFF),
)  # fmt: skip
"""First and last characters of the scripts without spaces."""
_JOINERS = "\u200c\u200d"  # stand within words of Persian and Hindi

Words = Callable[[str], list[str]]


def latin_words(text: str) -> list[str]:
    """Words as rouge-score's own tokenizer finds them."""
    return _OTHER.sub(" ", text.lower()).split()


def words(text: str) -> list[str]:
    """Words of any script."""
    found: list[str] = []
    before = ""  # the kind of what the last character was: a word that goes on, one that stands alone, or nothing
    for character in unicodedata.normalize("NFC", text.lower()):
        category = unicodedata.category(character)
        mark = category[0] == "M" or character in _JOINERS
        if mark and before:
            found[-1] += character
        elif category[0] not in "LN":
            before = ""
        else:
            kind = "alone" if any(first <= ord(character) <= last for first, last in _UNSPACED) else "word"
            if before == kind == "word":
                found[-1] += character
            else:
                found.append(character)
            before = kind
    return found


def words_for(reference: str) -> Words:
    """How words are found where `reference` is what should have been said."""
    latin = sum(character.isalpha() and _is_latin(character) for character in reference)
    others = sum(character.isalnum() and not _is_latin(character) for character in reference)
    return words if others > latin or not latin_words(reference) else latin_words


def _is_latin(character: str) -> bool:
    return character < "\u0250" or "\u1e00" <= character <= "\u1eff"


def rouge(
    kind: str, predictions: Sequence[str], references: Sequence[Sequence[str]], sentences: str = "lines"
) -> float:
    """One of `ROUGE`.

    Args:
        kind: `rouge1` or `rouge2` (shared words, shared pairs of words), `rougeL` (the longest common subsequence of
            two texts as they are), or `rougeLsum` (that of each sentence of the reference with all of the prediction's,
            which papers on CNN/DailyMail give as ROUGE-L).
        predictions: a text for each example.
        references: for each, one or more.
        sentences: of `rougeLsum`, as `sentences_of` takes it.
    """
    measure = {"rouge1": _grams(1), "rouge2": _grams(2), "rougeL": _sequence, "rougeLsum": _summary(sentences)}[kind]
    best = [
        max(f_measure(*measure(words_for(one), prediction, one)) for one in right)
        for prediction, right in zip(predictions, references, strict=True)
    ]
    return float(np.mean(best))


def f_measure(shared: int, predicted: int, wanted: int) -> float:
    """The harmonic mean of the shares of a prediction and of its reference that both have; 0 where there are none."""
    return 2 * shared / (predicted + wanted) if shared else 0.0


def sentences_of(text: str, how: str = "lines") -> list[str]:
    """The sentences of a text.

    Args:
        text: of one or more.
        how: `lines`, a sentence a line, as in rouge-score; `punctuation`, lines are cut behind . ! ? and their like
            too, for models that write no line breaks.
    """
    lines = text.split("\n")
    if how == "punctuation":
        lines = [part for line in lines for part in _SENTENCE_END.split(line)]
    return [line for line in lines if line]


Measure = Callable[[Words, str, str], tuple[int, int, int]]
"""How words are found, a prediction and its reference, to how many both have, the prediction has, the reference has."""


def _grams(size: int) -> Measure:
    def grams(text: list[str]) -> collections.Counter:
        return collections.Counter(zip(*(text[start:] for start in range(size)), strict=False))

    def shared(split: Words, prediction: str, reference: str) -> tuple[int, int, int]:
        said, wanted = grams(split(prediction)), grams(split(reference))
        return (said & wanted).total(), said.total(), wanted.total()

    return shared


def _sequence(split: Words, prediction: str, reference: str) -> tuple[int, int, int]:
    said, wanted = split(prediction), split(reference)
    return int(_table(wanted, said)[-1, -1]), len(said), len(wanted)


def _summary(how: str) -> Measure:
    """The union over a prediction's sentences of the longest common subsequences with each of the reference's (Lin
    2004, section 3.2), in which no word counts more often than both texts have it.
    """

    def shared(split: Words, prediction: str, reference: str) -> tuple[int, int, int]:
        said, wanted = ([split(one) for one in sentences_of(text, how)] for text in (prediction, reference))
        left = collections.Counter(word for one in said for word in one)
        counts, hits = left.total(), 0
        for one in wanted:
            for place in sorted(set().union(*(_subsequence(one, other) for other in said))):
                if left[one[place]]:
                    left[one[place]] -= 1
                    hits += 1
        return hits, counts, sum(map(len, wanted))

    return shared


def _table(wanted: list[str], said: list[str]) -> np.ndarray:
    """How long the longest common subsequence of the first i of `wanted` and the first j of `said` is, int [i, j]."""
    right, found = np.array(said, object), np.zeros((len(wanted) + 1, len(said) + 1), int)
    for row, word in enumerate(wanted):
        found[row + 1, 1:] = np.maximum.accumulate(np.maximum(found[row, 1:], found[row, :-1] + (right == word)))
    return found


def _subsequence(wanted: list[str], said: list[str]) -> set[int]:
    """The places in `wanted` of the longest common subsequence; of several, the one that rouge-score takes."""
    table, places = _table(wanted, said), set()
    row, column = len(wanted), len(said)
    while row and column:
        if wanted[row - 1] == said[column - 1]:
            row, column = row - 1, column - 1
            places.add(row)
        elif table[row, column - 1] > table[row - 1, column]:
            column -= 1
        else:
            row -= 1
    return places
