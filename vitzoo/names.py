"""Names of classes, splits, columns and fields: what looks alike is one name, however it is written.

The same word may be stored composed (`é`, as most keyboards write it) or decomposed (`e` and a combining accent, as
macOS names files), and with a space at its end.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAMED = 3  # names that a note lists


def normalise(name: str) -> str:
    """A name as it is compared and kept: in Unicode's normal form C, without spaces around it."""
    return name.strip() if name.isascii() else unicodedata.normalize("NFC", name).strip()


def is_same(one: str, other: str) -> bool:
    """Whether two spellings are one name."""
    return normalise(one) == normalise(other)


def are_same(ours: Iterable[str], others: Iterable[str]) -> bool:
    """Whether two lists hold the same names in the same order."""
    return list(map(normalise, ours)) == list(map(normalise, others))


def positions(names: Iterable[str]) -> dict[str, list[int]]:
    """Where each name stands, by its normalised spelling; more than one place where a list holds a name twice."""
    found: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        found.setdefault(normalise(name), []).append(index)
    return found


def find(name: str, names: Iterable[str]) -> str | None:
    """The first of `names` that is `name`, as it is written there; None where none is."""
    wanted = normalise(name)
    return next((one for one in names if normalise(one) == wanted), None)


def by_name(record: Mapping[str, Any]) -> dict[str, Any]:
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
    return ", ".join(ascii(way) for way in ways[:NAMED]) + (", ..." if len(ways) > NAMED else "")
