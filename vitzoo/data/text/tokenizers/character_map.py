"""The compiled table by which a SentencePiece model replaces characters: a trie of texts in UTF-8 as a double array
(Aoe 1989), and what each becomes. In spiece.model it stands as `precompiled_charsmap`, so in tokenizer.json.
"""

import numpy as np

LENGTH = 4  # bytes of the number before the trie, and of each of its units
ROOT = -1
BLOCK = 256  # a unit's children lie within one block of this many
LEAF, WIDE = 1 << 8, 1 << 9
LABEL, VALUE = 0x800000FF, 0x7FFFFFFF
"""Bits of a unit: has a value, its offset counts blocks; which byte it is for, the value of a leaf."""
DEEPEST = 64  # bytes of a text that is replaced
BYTES = [bytes([label]) for label in range(1, BLOCK)]
MOST = 2**20  # texts; the usual table has about 230,000, most of them syllables of Hangul


def check_map(table: bytes) -> None:
    """Checks a table as far as any text can lead into it.

    Raises:
        ValueError: it is no such table, or damaged.
    """
    _walked(table)


def rules(table: bytes) -> dict[str, str]:
    """The texts that a table replaces, and what by; of several that fit, the longest is meant.

    Raises:
        ValueError: it is no such table, or damaged.
    """
    edges, units, replacements = _walked(table)
    values, made = (units & VALUE).tolist(), {}
    whole = replacements.decode("latin-1")  # a character for a byte
    level = [(b"", ROOT)]
    for _ in range(DEEPEST):
        below = [(text + label, edge) for text, place in level for label, edge in edges.get(place, ())]
        for text, (place, ends) in below:
            if ends:
                start = values[place]
                made[text.decode()] = whole[start : whole.index("\0", start)].encode("latin-1").decode()
        if not below:
            return made
        if len(made) > MOST or len(below) > MOST:
            break
        level = [(text, place) for text, (place, _) in below]
    raise ValueError("its precompiled_charsmap has no end")


Edges = dict[int, list[tuple[bytes, tuple[int, bool]]]]
"""From where a unit's children begin: each byte that can follow, where its own children begin, and whether a text ends
there, whose value stands at that place."""


def _walked(table: bytes) -> tuple[Edges, np.ndarray, bytes]:
    """What follows what in a trie; its units; and the replacements, each ended by a zero. Parts of a trie may be
    shared, and are looked at once.
    """
    size = int.from_bytes(table[:LENGTH], "little")
    trie, replacements = table[LENGTH : LENGTH + size], table[LENGTH + size :]
    if len(table) < LENGTH or len(trie) != size or size % (LENGTH * BLOCK) or not size:
        raise ValueError("its precompiled_charsmap is no table of characters")
    units = np.frombuffer(trie, "<u4").astype(np.int64)
    labels, seen = np.arange(1, BLOCK), np.zeros(len(units), bool)
    level, edges = _children(units, np.zeros(1, np.int64)), Edges()
    edges[ROOT] = edges.setdefault(int(level[0]), [])
    while len(level := np.unique(level[~seen[level]])):
        seen[level] = True
        children = level[:, None] ^ labels
        parents, which = np.nonzero((units[children] & LABEL) == labels)
        places = children[parents, which]
        begins, ends = _children(units, places), (units[places] & LEAF) != 0
        _check_values(units[begins[ends]] & VALUE, replacements)
        for parent, label, begin, end in zip(
            level[parents].tolist(), which.tolist(), begins.tolist(), ends.tolist(), strict=True
        ):
            edges.setdefault(parent, []).append((BYTES[label], (begin, end)))
        level = begins
    return edges, units, replacements


def _children(units: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Where the children of units begin, whose block must lie within the trie."""
    offsets = (units[places] >> 10) << np.where(units[places] & WIDE, 8, 0)
    begins = places ^ offsets
    if len(begins) and (begins | (BLOCK - 1)).max() >= len(units):
        raise ValueError("its precompiled_charsmap leads beyond its end")
    return begins


def _check_values(starts: np.ndarray, replacements: bytes) -> None:
    """Every replacement must begin at a character (within another, where it is its end) and be ended."""
    held = np.frombuffer(replacements, np.uint8)
    ends = starts >= replacements.rfind(b"\0") + 1
    if ends.any() or ((held[starts] & 0xC0) == 0x80).any():
        raise ValueError("its precompiled_charsmap replaces a text by what isn't there")
    try:
        replacements.decode()
    except UnicodeDecodeError:
        raise ValueError("its precompiled_charsmap replaces a text by what isn't UTF-8") from None
