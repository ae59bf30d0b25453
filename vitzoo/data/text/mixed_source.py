"""The sources of a mixture, each with its own data and text settings, as one."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from vitzoo.data.open import open_source
from vitzoo.data.settings import OF_STREAM, Data
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.text.examples import all_text
from vitzoo.data.text.settings import Mixture, Text
from vitzoo.errors import UserError
from vitzoo.schema import patch
from vitzoo.spelling import nearest
from vitzoo.strict_json import JSON

NAME = "mixture"

Made = TypeVar("Made")


@dataclasses.dataclass(frozen=True)
class MixedSource:
    """Several sources by name, and how the text of each becomes rows."""

    sources: Mapping[str, Source]
    texts: Mapping[str, Text]
    stated: Mapping[str, Mapping[str, JSON]]
    """What the config states of each."""

    @property
    def info(self) -> SourceInfo:
        """Of all of them: no classes, as many examples as they have together."""
        infos = [source.info for source in self.sources.values()]
        marks = "+".join(info.fingerprint for info in infos)
        return SourceInfo(" + ".join(self.sources), infos[0].split, sum(info.n for info in infos), marks)

    def each(self, make: Callable[[str, Source], Made]) -> dict[str, Made]:
        """What `make` gives of each name and source, whose faults are told as the source's."""
        made = {}
        for name, source in self.sources.items():
            try:
                made[name] = make(name, source)
            except UserError as refusal:
                raise of_source(name, self.stated[name], refusal) from None
        return made

    def strings(self) -> Iterator[str]:
        """Every string of every example."""
        for name, source in self.sources.items():
            if self.texts[name].prefix:
                yield self.texts[name].prefix
            yield from all_text(source)

    def __iter__(self) -> Iterator[str]:
        return self.strings()


def open_mixture(mixture: Mixture, data: Data, text: Text, split: str | None = None) -> MixedSource:
    """Opens each of `mixture.sources`, whose settings are those of `data` and `text` but for its own.

    Raises:
        UserError: it has none, or one of them can't be opened.
    """
    if not mixture.sources:
        raise UserError(
            "mixture.sources", None, "is empty; state at least one: dict(sums=dict(name='jsonl:sums.jsonl'))"
        )
    sources, texts = {}, {}
    for name, own in mixture.sources.items():
        own_data, texts[name] = settings_of(own, data, text, f"mixture.sources.{name}")
        try:
            sources[name] = open_source(own_data, split, needs="text")
        except UserError as refusal:
            raise of_source(name, own, refusal) from None
    return MixedSource(sources, texts, mixture.sources)


def settings_of(own: JSON, data: Data, text: Text, field: str) -> tuple[Data, Text]:
    """The data and text settings of one source.

    Raises:
        UserError: it names no data, or a setting that a source hasn't.
    """
    if not isinstance(own, Mapping) or not own.get("name"):
        raise UserError(f"{field}.name", None, "must be set: which data")
    of_data, of_text = ({one.name for one in dataclasses.fields(section)} for section in (data, text))
    of_text -= {*Text.OF_MODEL}
    known = sorted((of_data | of_text) - {*OF_STREAM})
    for key, value in own.items():
        if key in OF_STREAM:
            raise UserError(f"{field}.{key}", value, f"is of the whole mixture: data.{key}")
        if key in Text.OF_MODEL:
            raise UserError(f"{field}.{key}", value, f"is of the whole mixture: inputs.tokens.{key}")
        if key not in known:
            raise UserError(f"{field}.{key}", value, f"no such setting; {nearest(key, known)}")
    changed = {key: value for key, value in own.items() if key in of_data}
    return patch(data, changed, field), patch(text, {k: v for k, v in own.items() if k in of_text}, field)


def of_source(name: str, stated: Mapping[str, JSON], refusal: UserError) -> UserError:
    """A refusal of one source's data or text, by the source's setting where it states that one."""
    section, _, field = refusal.field.rpartition(".")
    if section not in ("data", "inputs.tokens") or field not in {"name", *stated}:
        return refusal
    return UserError(f"mixture.sources.{name}.{field}", refusal.value, refusal.message)
