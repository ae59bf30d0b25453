"""How names are spelt: which look alike and are one, and which known one a misspelt word stands for.

A class, split, column or field may be stored composed (`é`, as most keyboards write it) or decomposed (`e` and a
combining accent, as macOS names files), and with a space at its end; it is one name however it is written.
"""

import difflib
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value")

MISSPELT = 0.79  # difflib's likeness (0..1) from which a word is taken for a slip of another
NAMED = 3  # names that a note lists


def normalise(name: str) -> str:
    """A name as it is compared and kept: in Unicode's normal form C, without spaces around it."""
    return name.strip() if name.isascii() else unicodedata.normalize("NFC", name).strip()


def are_same(ours: Iterable[str], others: Iterable[str]) -> bool:
    """Whether two lists hold the same names in the same order."""
    return list(map(normalise, ours)) == list(map(normalise, others))


def positions(names: Iterable[str]) -> dict[str, list[int]]:
    """Where each name stands, by its normalised spelling; more than one place where a list holds a name twice."""
    found: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        found.setdefault(normalise(name), []).append(index)
    return found


def is_blank(name: str) -> bool:
    """Whether a name shows nothing: it is empty, or of spaces and characters without a shape."""
    return not any(character.isprintable() and not character.isspace() for character in name)


def shared_note(names: Iterable[str], several: str) -> tuple[str, ...]:
    """A note of the names that more than one bears, with where they stand; nothing where there are none.

    Args:
        names: by number.
        several: what they name, `classes`.
    """
    shared = [(name, places) for name, places in positions(names).items() if len(places) > 1]
    if not shared:
        return ()
    shown = "; ".join(f"{name}: {_first(list(map(str, places)))}" for name, places in shared[:NAMED])
    rest = "; ..." if len(shared) > NAMED else ""
    return (f"{sum(len(places) for _, places in shared):,} {several} share a name ({shown}{rest})",)


def find(name: str, names: Iterable[str]) -> str | None:
    """The first of `names` that is `name`, as it is written there; None where none is."""
    wanted = normalise(name)
    return next((one for one in names if normalise(one) == wanted), None)


def by_name(record: Mapping[str, Value]) -> dict[str, Value]:
    """A record with its fields' names normalised.

    Raises:
        ValueError: two of them are one name.
    """
    found = {normalise(name): value for name, value in record.items()}
    if len(found) < len(record):
        twice = next(name for name, places in positions(record).items() if len(places) > 1)
        raise ValueError(f"names the field {twice!r} twice, in two spellings")
    return found


def joined_note(spellings: Iterable[str], what: str, several: str) -> tuple[str, ...]:
    """A note of the names that are written in more than one way and taken as one; nothing where there are none.

    Args:
        spellings: the names as they are written, in any order and number.
        what, several: what they name, `class` and `classes`.
    """
    written: dict[str, set[str]] = {}
    for spelling in set(spellings):
        written.setdefault(normalise(spelling), set()).add(spelling)
    joined = [(name, sorted(ways)) for name, ways in sorted(written.items()) if len(ways) > 1]
    if not joined:
        return ()
    subject = f"1 {what} is" if len(joined) == 1 else f"{len(joined):,} {several} are"
    shown = "; ".join(f"{name}: {_listed(ways)}" for name, ways in joined[:NAMED])
    return (f"{subject} written in several ways and taken as one ({shown}{'; ...' if len(joined) > NAMED else ''})",)


def _listed(ways: Sequence[str]) -> str:
    """Spellings in ASCII: they look alike otherwise."""
    return _first([ascii(way) for way in ways])


def _first(ones: Sequence[str]) -> str:
    """The first few of a list, in words."""
    return ", ".join(ones[:NAMED]) + (", ..." if len(ones) > NAMED else "")


def either(words: Sequence[str]) -> str:
    """Words of which one is meant: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def dotted(prefix: str, name: str) -> str:
    """`name` as seen from outside the section `prefix`."""
    return f"{prefix}.{name}" if prefix else name


def shell_flag(name: str, value: object) -> str:
    """A flag with its value as a shell takes it, for a command that is printed: `--checkpoint 'runs/a b'`."""
    text = str(value)
    # a value that looks like a flag is one only behind `=`
    joint = "=" if text.startswith("-") or "." in name else " "
    return f"{name}{joint}{shlex.quote(text)}"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that `word` most probably stands for; None where none is near.

    A known name may be dotted (`optimizer.learning_rate`), and is then also known by its last part. Tried in this
    order: the same in another spelling (`--Batch-Size`), initials (`lr`), a slip (`learnign_rate`), and words in common
    with the last part (`epochs` and `num-epochs` for `total_epochs`). The first of equals is taken.
    """
    names = list(known)
    return _same(word, names) or _initials(word, names) or misspelt(word, names) or _in_common(word, names)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the known word closest to `name`, or all of them."""
    words = [word for word in dict.fromkeys(known) if word]
    near = closest(name, words) or misspelt(name, words, least=0.6)
    return f"did you mean {near}?" if near else f"known: {', '.join(sorted(words)) or 'none'}"


def misspelt(word: str, known: Iterable[str], least: float = MISSPELT) -> str | None:
    """The known name that is spelt most like `word`, if any is alike by `least`."""
    text = _plain(word)
    forms = _forms if len(_words(word)) > 1 else lambda name: (_last(name),)
    likeness = {
        name: max(difflib.SequenceMatcher(None, text, _plain(form)).ratio() for form in forms(name)) for name in known
    }
    best = max(likeness, key=lambda name: likeness[name], default=None)
    return best if best is not None and likeness[best] >= least else None


def _same(word: str, names: Sequence[str]) -> str | None:
    return next((name for name in names if _plain(word) in map(_plain, _forms(name))), None)


def _initials(word: str, names: Sequence[str]) -> str | None:
    if len(word.lstrip("-")) < 2:
        return None
    found = (name for name in names if "".join(part[0] for part in _words(_last(name))) == word.lower().lstrip("-"))
    return next(found, None)


def _in_common(word: str, names: Sequence[str]) -> str | None:
    """The name with the largest share of its last part's words in `word`; then, of the words of `word` in the name."""
    asked = _words(word)
    scores = {}
    for name in names:
        own = _words(_last(name))
        # short words (dir, key) say too little by themselves
        met = [one for one in own if len(one) >= 4 and any(_alike(one, other) for other in asked)]
        if met and 2 * len(met) >= len(own):
            explained = sum(any(_alike(one, other) for one in _words(name)) for other in asked)
            scores[name] = (len(met) / len(own), explained / len(asked))
    return max(scores, key=lambda name: scores[name], default=None)


def _alike(one: str, other: str) -> bool:
    """The same word, or of the same stem: accumulate and accumulation, eval and evaluate."""
    return one == other or (len(one) >= 4 and one[:4] == other[:4])


def _forms(name: str) -> tuple[str, ...]:
    return name, _last(name)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _plain(text: str) -> str:
    return "_".join(_words(text)) or text
