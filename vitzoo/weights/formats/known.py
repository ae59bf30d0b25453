"""Every published format, and which of them a file is of."""

import importlib

from vitzoo.errors import Refused
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.base import Format

FORMATS = {
    "gpt2": "vitzoo.weights.formats.gpt2:GPT2",
}
"""Name → class. The first that recognises a file is taken, so the stricter come first."""


WRITERS = ("gpt2",)
"""Those that go out too; the first of a model is the default."""


def find_format(name: str) -> Format:
    """The format of a name.

    Raises:
        Refused: there is none.
    """
    if name not in FORMATS:
        raise Refused("--format", name, f"is none of {', '.join(FORMATS)}")
    module, _, attribute = FORMATS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)()


def recognise(source: Source) -> Format:
    """The format of a file, by its names.

    Raises:
        Refused: none knows it.
    """
    for name in FORMATS:
        found = find_format(name)
        if found.recognises(source):
            return found
    names = sorted(source.tensors)
    shown = ", ".join(names[:6]) + (" ..." if len(names) > 6 else "")
    raise source.refused(f"is of no format known here ({', '.join(FORMATS)}); its names are {shown}")
