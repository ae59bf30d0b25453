"""Which of the known words was meant: names of settings, flags, choices."""

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence

MISSPELT = 0.79  # difflib's likeness (0..1) from which a word is taken for a slip of another


def install_extra(name: str) -> str:
    """How to get what one of vitzoo's optional dependencies brings."""
    return f"install the extra `{name}`: pip install -e '.[{name}]'"


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
