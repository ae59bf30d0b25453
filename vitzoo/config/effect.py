"""Settings that are stated and do nothing for the data of an experiment: refused from a flag, said of a file."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from vitzoo.config.experiment import variant_fields
from vitzoo.config.fits import kind_of as kind_of_model
from vitzoo.data.effect import kind_of, without_effect
from vitzoo.data.settings import Preprocessing
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.limits import limits_of
from vitzoo.schema import default_of

Built = Mapping[str, Any]
"""The sections of an experiment, by name."""


def _model_setting(built: Built, field: str) -> Any:
    """What the model has before its data are known."""
    choice = built["model"]
    stated = {**variant_fields(choice.name, choice.variant), **choice.changes}
    return stated.get(field, default_of(choice.config_class.__dataclass_fields__[field]))


def _randaugment(built: Built) -> Any:
    return built["augment"].randaugment_layers


def _has_margin(built: Built) -> bool:
    """Whether an image is resized to more than the size in one of its sides."""
    return any(one.resize != "squash" or one.crop_fraction != 1 for one in _images(built))


def _images(built: Built) -> list[Preprocessing]:
    return [one for one in built["inputs"].values() if isinstance(one, Preprocessing)]


def _warms_up(built: Built) -> Any:
    names = ("warmup_steps", "warmup_epochs", "warmup_examples", "warmup_fraction")
    return not hasattr(built["schedule"], names[0]) or any(getattr(built["schedule"], name) for name in names)


NEEDS: Mapping[str, tuple[str, Callable[[Built], Any]]] = {
    "augment.crop_area": ("augment.crop=inception", lambda built: built["augment"].crop == "inception"),
    "augment.crop_scale": ("augment.crop=resize_random", lambda built: built["augment"].crop == "resize_random"),
    "augment.randaugment_magnitude": ("augment.randaugment_layers", _randaugment),
    "augment.randaugment_increasing": ("augment.randaugment_layers", _randaugment),
    "augment.randaugment_std": ("augment.randaugment_layers", _randaugment),
    "augment.mix_probability": (
        "augment.mixup or augment.cutmix",
        lambda built: built["augment"].mixup or built["augment"].cutmix,
    ),
    "augment.random_erasing_fill": ("augment.random_erasing", lambda built: built["augment"].random_erasing),
    "schedule.initial_fraction": ("a warm-up (schedule.warmup_steps)", _warms_up),
    "inputs.image.crop_offset": ("a margin (inputs.image.resize=short_side_crop or crop_fraction)", _has_margin),
    "inputs.image.antialias": (
        "an interpolation other than nearest",
        lambda built: any(one.interpolation != "nearest" for one in _images(built)),
    ),
    "model.rotary_base": ("model.positions=rotary", lambda built: _model_setting(built, "positions") == "rotary"),
    "model.qk_norm_bias": ("model.qk_norm=true", lambda built: _model_setting(built, "qk_norm")),
    "log.wandb_project": ("log.wandb=true", lambda built: built["log"].wandb),
    "log.wandb_name": ("log.wandb=true", lambda built: built["log"].wandb),
}
"""Settings that say how another one acts, what that is, and whether it is on."""
OF_CHECKPOINTS = ("model", "inputs.image")
"""Sections that a checkpoint to start from fills."""


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
        UserError: a flag states a setting that acts on none of the data which the experiment reads.
    """
    texts = {f"inputs.{name}": one for name, one in built["inputs"].items() if isinstance(one, Text)}
    kinds = [kind_of(name, text=bool(texts)) for name in _names(built)]
    for section, part in {"data": built["data"], **texts}.items():
        for layer, is_flag in ((file, False), (flags, True)):
            for field in _changed(_stated(layer, section), part):
                name, value = f"{section}.{field}", getattr(part, field)
                why = without_effect(f"inputs.tokens.{field}" if section in texts else name, kinds)
                if why and is_flag and not limits_of(part.__dataclass_fields__[field]).execution:
                    raise UserError(name, value, why)
                if why:
                    notes.append(f"{name} = {value} {why}")
    model = built["model"]
    kind = kind_of_model(model.config_class) if model.name else None
    for section, part in texts.items():
        if kind in ("decoder", "encoder") and "source_length" in _changed(_stated(flags, section), part):
            message = f"has no effect on {model.name}, which is no encoder-decoder; {section}.length is its length"
            raise UserError(f"{section}.source_length", part.source_length, message)
    _note_needs(file, flags, notes, built)
    if built["data"].name != "mixture":
        for field in _changed(flags.get("mixture"), built["mixture"]):
            if field != "sources":
                message = "has no effect on a single dataset; it is for data.name=mixture"
                raise UserError(f"mixture.{field}", getattr(built["mixture"], field), message)


def _note_needs(file: Mapping[str, Any], flags: Mapping[str, Any], notes: list[str], built: Built) -> None:
    """Tells of each flag that acts only with another setting, which is off."""
    model = built["model"]
    filled = OF_CHECKPOINTS if flags.get("init_from") or file.get("init_from") else ()
    sections = {name: built[name] for name in ("augment", "schedule", "log")}
    sections |= {f"inputs.{name}": one for name, one in built["inputs"].items()}
    if model.name:
        fields = model.config_class.__dataclass_fields__
        defaults = {name: default_of(field) for name, field in fields.items()}
        sections["model"] = SimpleNamespace(**{**defaults, **model.changes}, __dataclass_fields__=fields)
    for section, values in sections.items():
        for field in _changed(_stated(flags, section), values) if section not in filled else ():
            other, is_on = NEEDS.get(f"{section}.{field}", ("", bool))
            if other and not is_on(built):
                notes.append(f"{section}.{field} = {getattr(values, field)} has no effect without {other}")


def _stated(layer: Mapping[str, Any], section: str) -> Any:
    """What a layer states in a section, `inputs.tokens`."""
    found: Any = layer
    for name in section.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _names(built: Mapping[str, Any]) -> list[str]:
    """The names of all data that are read: in training, by evaluators, in a mixture."""
    patches = [getattr(evaluator, "data", None) for evaluator in built["evaluate"].values()]
    patches += list(built["mixture"].sources.values()) if built["data"].name == "mixture" else []
    others = [patch.get("name") for patch in patches if isinstance(patch, Mapping)]
    return list(dict.fromkeys([built["data"].name, *(str(name) for name in others if name)]))


def _changed(stated: Any, section: Any) -> list[str]:
    """The settings of a section that a layer states, and states otherwise than they are by default."""
    if not isinstance(stated, Mapping):
        return []
    fields = section.__dataclass_fields__
    return [field for field in stated if field in fields and getattr(section, field) != default_of(fields[field])]
