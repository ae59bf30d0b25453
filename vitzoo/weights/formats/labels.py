"""The names of classes that lie beside weights."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.weights.files.json_file import shown
from vitzoo.weights.files.source import Source
from vitzoo.weights.formats.settings import agrees


def labels(source: Source, outputs: int) -> tuple[str, ...] | None:
    """The names by index that `id2label` of transformers' `config.json` gives; None where it gives none, or only the
    placeholders of a model whose classes were never named.

    Raises:
        UserError: it is no table of a name for each output, or `num_labels` is another number.
    """
    if outputs:
        agrees(source, {"num_labels": outputs})
    stated = source.config.get("id2label")
    if stated is None or stated == {} or not outputs:
        return None
    if not isinstance(stated, Mapping):
        raise source.refused(f"config.json has id2label = {shown(stated)}; a table of a name for each class is right")
    if sorted(stated) != sorted(map(str, range(outputs))):
        raise source.refused(f"has an id2label of {len(stated)} names in config.json for {outputs} classes, 0 and up")
    names = checked_names(source, "id2label", [stated[str(index)] for index in range(outputs)])
    return None if list(names) == placeholders(outputs) else names


def checked_names(source: Source, field: str, names: Sequence[Any]) -> tuple[str, ...]:
    """Names of a setting, which two classes may share; UserError if one isn't text."""
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise source.refused(f"config.json has {field} {index} = {shown(name)}; text is right")
    return tuple(names)


def placeholders(outputs: int) -> list[str]:
    """The names of classes that have none."""
    return [f"LABEL_{index}" for index in range(outputs)]
