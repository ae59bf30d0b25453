"""Vocabularies from long lines and long words: nothing is left out, and the time is linear."""

import random
import time

import pytest

from vitzoo.data.text.settings import Tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.tokenizers.train import LONGEST_LINE, LONGEST_WORD, short_lines, with_short_words
from vitzoo.errors import UserError

CHINESE = [chr(0x4E00 + number) for number in range(60)]
LONG_LINES = {
    "letters of three bytes": "".join(CHINESE * 400),  # 72,000 bytes in a line
    "words": " ".join(["q" + a + b for a in "abcdefgh" for b in "klmnop"] * 600),
    "emoji": "\U0001f600\U0001f601\U0001f602" * 6000,
    "one letter": "z" * 70_000,
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VITZOO_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", ["characters", "bpe", "wordpiece", "unigram"])
@pytest.mark.parametrize("line", LONG_LINES)
def test_every_character_of_a_long_line_is_known(kind, line):
    text = LONG_LINES[line]
    beside = "" if line == "words" else "a short line\n"
    tokenizer = open_tokenizer(Tokenizer(kind=kind, vocabulary_size=600), [beside + text])
    # of WordPiece a word of more than 100 letters is unknown as a whole, in BERT too
    for part in text[:40].split():
        assert tokenizer.unknown_id is None or tokenizer.unknown_id not in tokenizer.encode(part).tolist()


def test_a_line_with_what_sentencepiece_keeps_for_itself_is_not_lost():
    tokenizer = open_tokenizer(Tokenizer(kind="unigram", vocabulary_size=60), ["abc abd\nxyz \u2585 qrs\n\t\u3000\n"])
    for text in ("xyz", "qrs", "a\tb", "a\u3000b"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("text", [" ", " " * 100_000, "\n \n"])
def test_nothing_but_spaces_is_refused_in_plain_words(text):
    with pytest.raises(UserError, match="which holds nothing but spaces"):
        open_tokenizer(Tokenizer(kind="unigram"), [text])


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
@pytest.mark.parametrize("letters", ["abcdefghijklmnopqrstuvwxyz", "\u0301", " ", "\x1ca"])
def test_time_is_linear_in_the_length_of_a_word(kind, letters):
    # uncut, 100,000 accents take 10 s
    random.seed(0)
    text = "a" + "".join(random.choices(letters, k=100_000))
    begun = time.process_time()
    open_tokenizer(Tokenizer(kind=kind, vocabulary_size=400), [text])
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "text", ["", "a b", "x" * 1000 + " " + "y" * 1000, "x" * 1001, "a " * 3000, " " * 2500 + "b" * 2500]
)
def test_texts_are_cut_within_long_words_alone(text):
    parts = list(with_short_words([text]))
    assert "".join(parts) == text
    assert max((len(word) for part in parts for word in part.split()), default=0) <= LONGEST_WORD
    long = any(len(word) > LONGEST_WORD for word in text.split()) or " " * (LONGEST_WORD + 1) in text
    assert (len(parts) > 1) == long


def test_a_long_line_is_cut_at_spaces_and_else_between_characters():
    words = " ".join(f"{number:07}" for number in range(5000))
    lines = list(short_lines([words, "x" * 40_000]))
    assert max(map(len, lines)) <= LONGEST_LINE
    cut = [line for line in lines if "x" not in line]
    assert len(cut) == 3
    assert " ".join(cut) == words
    assert "".join(line for line in lines if "x" in line) == "x" * 40_000
