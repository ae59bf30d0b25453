"""Texts in the pieces that vocabularies are made from: however long a line or a word is, nothing of it is left out, and
the time is linear in its length.
"""

import re
from collections.abc import Iterable, Iterator

LONGEST_WORD = 1000  # characters: to count the pairs of a word takes the square of its length
LONGEST_LINE = 2**14  # characters
LINE_BYTES = 4 * LONGEST_LINE  # of UTF-8: sentencepiece leaves out a line of more
LINE_ENDS = re.compile("[\n\u2585]")
"""And the character that sentencepiece keeps for what is unknown: it leaves out a whole line with it."""
_SPACE, _WORD = r"[^\S\x1c-\x1f]", r"[\S\x1c-\x1f]"  # those four are spaces to Python alone
_LONG_RUN = re.compile(rf"(?<!{_WORD}){_WORD}{{{LONGEST_WORD + 1},}}|(?<!{_SPACE}){_SPACE}{{{LONGEST_WORD + 1},}}")


def with_short_words(texts: Iterable[str]) -> Iterator[str]:
    """The texts, cut within words (and runs of spaces) of more than `LONGEST_WORD` characters."""
    for text in texts:
        start = 0
        for run in _LONG_RUN.finditer(text):
            for end in range(run.start() + LONGEST_WORD, run.end(), LONGEST_WORD):
                yield text[start:end]
                start = end
        yield text[start:]


def short_lines(texts: Iterable[str]) -> Iterator[str]:
    """The lines that aren't empty; those of more than `LONGEST_LINE` characters are cut, at spaces if there are any."""
    for text in texts:
        for line in LINE_ENDS.split(text):
            yield from (part for part in _parts(line) if part.strip(" "))


def _parts(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > LONGEST_LINE:
        space = line.rfind(" ", start + 1, start + LONGEST_LINE + 1)
        if space < 0:
            yield line[start : start + LONGEST_LINE]
            start += LONGEST_LINE
        else:  # a line of sentencepiece begins with a space of its own
            yield line[start:space]
            start = space + 1
    yield line[start:]
