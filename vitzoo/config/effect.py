"""Settings that are stated and do nothing for the data of an experiment: refused from a flag, said of a file."""

from collections.abc import Callable, Mapping
from typing import Any

from vitzoo.config.experiment import feed_kind
from vitzoo.config.fits import kind_of as kind_of_model
from vitzoo.data.effect import kind_of, without_effect
from vitzoo.data.settings import Augment, Data
from vitzoo.data.text.settings import Mixture, Text
from vitzoo.errors import Refused
from vitzoo.schema import default_of, limits_of

NEEDS: Mapping[str, tuple[str, Callable[[Augment], Any]]] = {
    "crop_area": ("augment.crop=inception", lambda augment: augment.crop == "inception"),
    "crop_scale": ("augment.crop=resize_random", lambda augment: augment.crop == "resize_random"),
    "randaugment_magnitude": ("augment.randaugment_layers", lambda augment: augment.randaugment_layers),
    "randaugment_operations": ("augment.randaugment_layers", lambda augment: augment.randaugment_layers),
    "randaugment_deviation": ("augment.randaugment_layers", lambda augment: augment.randaugment_layers),
    "mix_probability": ("augment.mixup or augment.cutmix", lambda augment: augment.mixup or augment.cutmix),
    "random_erasing_fill": ("augment.random_erasing", lambda augment: augment.random_erasing),
}
"""Settings of the augmentation that say how another one acts, and whether that is on."""


def say_without_effect(
    file: Mapping[str, Any], flags: Mapping[str, Any], notes: list[str], built: Mapping[str, Any]
) -> None:
    """Looks at the sections that say how data are read.

    Args:
        file: what the config file states, by section.
        flags: what flags state.
        notes: gets a line for each setting of the file that does nothing, for each of how a run is executed, and for
            each of an augmentation that is off.
        built: the sections as they were built.

    Raises:
        Refused: a flag states a setting that acts on none of the data which the experiment reads.
    """
    text = feed_kind(built["objective"]) == "text"
    kinds = [kind_of(name, text=text) for name in _names(built)]
    for section, settings in (("data", Data), ("text", Text)):
        for layer, is_flag in ((file, False), (flags, True)):
            for field in _changed(layer.get(section), built[section], settings):
                name, value = f"{section}.{field}", getattr(built[section], field)
                why = without_effect(name, kinds)
                if why and is_flag and not limits_of(settings.__dataclass_fields__[field]).execution:
                    raise Refused(name, value, why)
                if why:
                    notes.append(f"{name} = {value} {why}")
    model = built["model"]
    kind = kind_of_model(model.config_class) if model.name else None
    if text and kind in ("decoder", "encoder") and "source_length" in _changed(flags.get("text"), built["text"], Text):
        message = f"has no effect on {model.name}, which is no encoder-decoder; text.sequence_length is its length"
        raise Refused("text.source_length", built["text"].source_length, message)
    for field in _changed(flags.get("augment"), built["augment"], Augment):
        other, is_on = NEEDS.get(field, ("", bool))
        if other and not is_on(built["augment"]):
            notes.append(f"augment.{field} = {getattr(built['augment'], field)} has no effect without {other}")
    if built["data"].name != "mixture":
        for field in _changed(flags.get("mixture"), built["mixture"], Mixture):
            if field != "sources":
                message = "has no effect on a single dataset; it is for data.name=mixture"
                raise Refused(f"mixture.{field}", getattr(built["mixture"], field), message)


def _names(built: Mapping[str, Any]) -> list[str]:
    """The names of all data that are read: in training, by evaluators, in a mixture."""
    patches = [getattr(evaluator, "data", None) for evaluator in built["evaluate"].values()]
    patches += list(built["mixture"].sources.values()) if built["data"].name == "mixture" else []
    others = [patch.get("name") for patch in patches if isinstance(patch, Mapping)]
    return list(dict.fromkeys([built["data"].name, *(str(name) for name in others if name)]))


def _changed(stated: Any, section: Any, settings: Any) -> list[str]:
    """The settings of a section that a layer states, and states otherwise than they are by default."""
    if not isinstance(stated, Mapping):
        return []
    fields = settings.__dataclass_fields__
    return [field for field in stated if field in fields and getattr(section, field) != default_of(fields[field])]
