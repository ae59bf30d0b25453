"""The sources of a mixture, each with its own data and text settings, as one."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from vitzoo.data.settings import Data
from vitzoo.data.sources.base import SourceInfo
from vitzoo.data.text.settings import Mixture, Text
from vitzoo.data.text.sources.base import TextSource, all_text, text_info
from vitzoo.data.text.sources.open import open_text
from vitzoo.errors import Refused
from vitzoo.schema import nearest, patch

NAME = "mixture"


@dataclasses.dataclass(frozen=True)
class MixedSource:
    """Several sources by name, and how the text of each becomes rows."""

    sources: Mapping[str, TextSource]
    texts: Mapping[str, Text]

    @property
    def info(self) -> SourceInfo:
        """Of all of them: no classes, as many examples as they have together."""
        infos = [source.info for source in self.sources.values()]
        marks = "+".join(info.fingerprint for info in infos)
        return text_info(" + ".join(self.sources), infos[0].split, sum(info.n for info in infos), marks)

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
        Refused: it has none, or one of them can't be opened.
    """
    if not mixture.sources:
        raise Refused("mixture.sources", None, "is empty; state at least one: dict(sums=dict(name='jsonl:sums.jsonl'))")
    sources, texts = {}, {}
    for name, own in mixture.sources.items():
        field = f"mixture.sources.{name}"
        own_data, texts[name] = settings_of(own, data, text, field)
        try:
            sources[name] = open_text(own_data, split, texts[name])
        except Refused as refusal:
            raise refusal.under(field) from None
    return MixedSource(sources, texts)


def settings_of(own: Any, data: Data, text: Text, field: str) -> tuple[Data, Text]:
    """The data and text settings of one source.

    Raises:
        Refused: it names no data, or a setting that neither has.
    """
    if not isinstance(own, Mapping) or not own.get("name"):
        raise Refused(f"{field}.name", None, "must be set: which data")
    of_data, of_text = ({one.name for one in dataclasses.fields(part)} for part in (data, text))
    for key, value in own.items():
        if key not in of_data | of_text:
            raise Refused(f"{field}.{key}", value, f"no such setting; {nearest(key, sorted(of_data | of_text))}")
    changed = {key: value for key, value in own.items() if key in of_data}
    return patch(data, changed, field), patch(text, {k: v for k, v in own.items() if k in of_text}, field)
