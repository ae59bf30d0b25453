"""Which installed fonts have the characters of a text, for the pictures that are drawn with names of the user's."""

import functools
import sys
import unicodedata
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vitzoo.version import SOFTWARE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN = "DejaVu Sans"
"""Comes with Matplotlib: Latin, Greek, Cyrillic, Arabic and symbols."""
NOT_FOR_TEXT = ("Last Resort", "cm", "STIXSize", "STIXNon")
"""First letters of the names of fonts that come with Matplotlib and show other signs than the characters'."""
SHOWN = 8  # characters that a note lists

_said: set[str] = set()


def save_figure(
    figure: "Figure", path: Path, *, dpi: float | Literal["figure"] = "figure", format: str | None = None
) -> None:
    """Write a Matplotlib figure, its texts in fonts that have their characters.

    What no installed font has is told once, in one line on stderr.

    Args:
        figure: the figure.
        path: of the file.
        dpi: pixels to an inch; by default as the figure has them.
        format: of the file; by default its name says it.
    """
    from matplotlib.text import Text

    for axes in figure.axes:  # labels of ticks are made when they are asked for
        axes.get_xticklabels()
        axes.get_yticklabels()
    texts = [text for text in figure.findobj(Text) if text.get_text()]
    more, missing = families("".join(text.get_text() for text in texts))
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), *more])
    tell_missing(missing)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        figure.savefig(path, dpi=dpi, format=format, metadata={"Software": SOFTWARE})


def families(text: str) -> tuple[list[str], str]:
    """The fonts beside the plain one that have the characters of a text, as few as may be, and those that none has."""
    missing, found = _visible(text) - _characters(_plain_file()), []
    while missing:
        name, file = max(_installed(), key=lambda font: len(missing & _characters(font[1])), default=("", ""))
        if not file or not missing & _characters(file):
            break
        found.append(name)
        missing -= _characters(file)
    return found, "".join(sorted(missing))


def font_file(text: str) -> tuple[str, str]:
    """The file of the one font that has most characters of a text, the plain one if that has as many, and the
    characters that it lacks.
    """
    wanted = _visible(text)
    files = [_plain_file(), *(file for _, file in _installed())] if wanted - _characters(_plain_file()) else []
    best = max(files, key=lambda file: len(wanted & _characters(file)), default=_plain_file())
    return best, "".join(sorted(wanted - _characters(best)))


def tell_missing(characters: Iterable[str]) -> None:
    """Say on stderr which characters are drawn as boxes, each once in a process."""
    new = [character for character in dict.fromkeys(characters) if character not in _said]
    _said.update(new)
    if new:
        listed = " ".join(new[:SHOWN]) + (f" and {len(new) - SHOWN} more" if len(new) > SHOWN else "")
        print(
            f"note: no installed font has {listed}: pictures show boxes in their place; install one that has them "
            "(for Chinese, Japanese and Korean: Noto Sans CJK)",
            file=sys.stderr,
        )


def _visible(text: str) -> set[str]:
    """The characters that a font must have; without marks, which go with a letter, and what isn't seen."""
    return {character for character in text if unicodedata.category(character)[0] not in "CMZ"}


def _plain_file() -> str:
    from matplotlib import font_manager

    return font_manager.findfont(PLAIN)


def _installed() -> list[tuple[str, str]]:
    """Name and file of every font for texts, in the order of names; the upright one of usual weight first."""
    from matplotlib import font_manager

    fonts = [font for font in font_manager.fontManager.ttflist if not font.name.startswith(NOT_FOR_TEXT)]
    fonts.sort(key=lambda font: (font.style != "normal", font.weight not in (400, "normal", "regular"), font.name))
    return [(font.name, font.fname) for font in fonts]


@functools.cache
def _characters(file: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(file).get_charmap()))
    except (OSError, RuntimeError, ValueError):  # it was removed, or is damaged
        return frozenset()
