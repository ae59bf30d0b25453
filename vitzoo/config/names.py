"""Where each setting lies, so that a name which is none can be answered with the one that was meant."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from vitzoo.config.experiment import Experiment, config_class_of
from vitzoo.config.inputs import USUAL, settings_class
from vitzoo.registry import PARTS, find
from vitzoo.schema import annotations
from vitzoo.spelling import closest

KINDS = {"objective": "objective", "optimizer": "optimizer", "schedule": "schedule", "evaluate": "evaluator"}
"""Which kind of part each section names."""

Parts = Mapping[str, Iterable[type]]
"""By section (`model`, `optimizer`, ..., `evaluate`), the dataclasses of the settings that it may hold."""


def nearest_setting(name: str, parts: Parts) -> str | None:
    """The dotted name of the setting that is most probably meant by `name` (`epochs`, `--lr`), or None."""
    known = list(settings(parts))
    sections = [section for section, _, field in (one.partition(".") for one in known) if field == "name"]
    found = closest(name, [*sections, *known])  # `--model vit` stands for `model.name`
    return f"{found}.name" if found in sections else found


def settings(parts: Parts) -> Iterator[str]:
    """The dotted name of every setting: first those outside of sections, last an evaluator's, `evaluate.EVALUATOR.`"""
    hints = annotations(Experiment)
    plain = {name: [hint] for name, hint in hints.items() if isinstance(hint, type)}
    sections = {**{name: part for name, part in plain.items() if dataclasses.is_dataclass(part[0])}, **parts}
    for input, kind in {name: kind for kind, name in USUAL.items()}.items():
        sections |= dict(_nested(f"inputs.{input}", settings_class(input, kind)))
    yield from (name for name in hints if name not in sections and name != "inputs")
    for section in sorted(sections, key=lambda name: name == "evaluate"):
        place = "evaluate.EVALUATOR" if section == "evaluate" else section
        fields = dict.fromkeys(field for part in sections[section] for field in annotations(part))
        yield from (f"{place}.{field}" for field in (*["name"] * (section in parts), *fields))


def _nested(section: str, cls: type) -> Iterator[tuple[str, list[type]]]:
    """A section's settings, and those of the sections within it."""
    yield section, [cls]
    for name, hint in annotations(cls).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _nested(f"{section}.{name}", hint)


def every_part() -> dict[str, list[type]]:
    """All that vitzoo has for each section."""
    found = {section: [find(kind, name) for name in PARTS[kind]] for section, kind in KINDS.items()}
    return {"model": [config_class_of(name) for name in PARTS["model"]], **found}
