"""The model of an experiment: its settings in their layers, and the inputs that it takes.

Later layers win: the defaults of its Config, its variant (or a checkpoint's model), what the data say, the config's own
changes. `config.assembly` makes the model of them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vitzoo.config.contracts import ObjectiveSettings, check_call, check_filled, check_part, needs_classes
from vitzoo.config.layers import Layers
from vitzoo.data.settings import InputSettings
from vitzoo.data.text.row_kinds import check_evaluator, check_head, check_learns, check_prefix, check_rows
from vitzoo.errors import UserError
from vitzoo.literals import FlagText, literal
from vitzoo.models.base import ModelConfig
from vitzoo.objectives.inputs import made_inputs
from vitzoo.registry import PARTS, find
from vitzoo.schema import build, convert, convert_fields, default_of, to_json
from vitzoo.spelling import nearest

USUAL = {"image": "image", "text": "tokens"}
"""The name of a single input of a kind."""


@dataclasses.dataclass(frozen=True)
class ModelChoice:
    """Which model is built, and what is changed of its variant or of the checkpoint it starts from.

    `name` may be empty with `init_from`: the checkpoint says which model it is (`over`).
    """

    name: str
    variant: str = ""
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    base: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of a checkpoint's model, in place of the variant's."""

    @property
    def config_class(self) -> type[ModelConfig]:
        """The dataclass of the model's settings."""
        return config_class_of(self.name)

    @property
    def values(self) -> dict[str, Any]:
        """Every field that has a value before the data say anything."""
        return {**(self.base or variant_values(self.name, self.variant)), **self.changes}

    def over(self, pretrained: Mapping[str, Any]) -> "ModelChoice":
        """The choice on top of a checkpoint: its architecture, with this choice's changes.

        Args:
            pretrained: `model` of the checkpoint's `model.json`: `name`, `variant` and every field. Of a part of a
                checkpoint nobody knows a `variant`; one that is stated must have its sizes.

        Raises:
            UserError: the config asks for another model or variant.
        """
        for field in ("name", "variant") if "variant" in pretrained else ("name",):
            mine, theirs = getattr(self, field), pretrained.get(field, "")
            if mine and mine != theirs:
                holds = f"holds {theirs}" if theirs else f"has no {field}"
                raise UserError(f"model.{field}", mine, f"init_from {holds}; leave model.{field} out to use its model")
        base = {key: value for key, value in pretrained.items() if key not in ("name", "variant")}
        variant = pretrained.get("variant", self.variant)
        if "variant" not in pretrained:
            for field, value in variant_fields(pretrained["name"], variant).items():
                if to_json(value) != base[field]:
                    message = f"has {field} {value}, and init_from {base[field]}; leave it out to use what is there"
                    raise UserError("model.variant", variant, message)
        return dataclasses.replace(self, name=pretrained["name"], variant=variant, base=base)

    def config(self, **from_data: Any) -> ModelConfig:
        """The model's settings; later wins: the variant's or checkpoint's, what the data says, the config's changes.

        Args:
            from_data: `num_classes`, `image_size`, `vocabulary_size`, where the data knows them; `None` is not known,
                and what the model has no setting for is left out. Of these, a change to `None` leaves what is known.
        """
        base = self.base or variant_fields(self.name, self.variant)
        fields = {field.name for field in dataclasses.fields(self.config_class)}
        known = {key: value for key, value in from_data.items() if value is not None and key in fields}
        if self.base.get("vocabulary_size"):  # a checkpoint may have more ids than its tokenizer
            known.pop("vocabulary_size", None)
        filled = {key for kind in PARTS["input"] for key in settings_class(kind, kind).FILLS}
        given = {*known, *(key for key in filled if self.base.get(key) is not None)}
        changes = {key: value for key, value in self.changes.items() if value is not None or key not in given}
        return build(self.config_class, {**base, **known, **changes}, "model")

    def check_takes(self, objective: ObjectiveSettings) -> None:
        """Refuses a model that doesn't take what an objective does, images or text, or can't learn what it asks."""
        takes, rows = getattr(objective, "TAKES", ""), getattr(objective, "rows", None)
        if takes and rows is not None:
            check_rows(rows)
        if not self.name:
            return
        kinds = input_kinds(self.name, objective)
        if takes and takes not in kinds.values():
            raise UserError("model.name", self.name, f"takes no {takes}: it takes {' and '.join(kinds)}")
        if getattr(objective, "CLASSES", False) and rows is None and {*kinds.values()} == {"text"}:
            instead = "for classes of texts take objective.name=sequence_classification or token_classification"
            raise UserError("model.name", self.name, f"takes no images; {instead}")
        check_head(self.name, self.config_class, self.changes.get("head"), getattr(objective, "HEAD", ""))
        if takes and rows is not None:
            check_learns(self.name, self.config_class, rows)
            wanted = getattr(objective, "PREFIX_LM", False)
            check_prefix(self.name, self.config_class, self.changes.get("prefix_lm"), wanted)

    def check_measured(
        self, objective: ObjectiveSettings, evaluators: Mapping[str, Any], names: Mapping[str, str]
    ) -> None:
        """Refuses evaluators (by their keys; `names` of the parts likewise) of what the model doesn't read, and a model
        that lacks what these or the objective need.
        """
        rows = getattr(objective, "rows", None)
        if self.name:
            kinds, classes_for = input_kinds(self.name, objective), needs_classes(objective, evaluators)
            for name, kind in kinds.items():
                check_filled(self.name, self.config_class, kind, settings_class(name, kind).FILLS, classes_for)
            if self.name not in PARTS["model"] and (rows is not None or classes_for):
                check_call(self.name, find("model", self.name), list(kinds))
        config_class = self.config_class if self.name else None
        for key, evaluator in evaluators.items():
            check_evaluator(f"evaluate.{key}", names[key], evaluator, rows, self.name, config_class)


def config_class_of(name: str) -> type[ModelConfig]:
    """The settings of the model called `name`.

    Raises:
        UserError: there is no such model, or it can't be used.
    """
    model = find("model", name)
    check_part("model", name, model, "model.name")
    return model.Config  # type: ignore[attr-defined]


def variant_fields(name: str, variant: str) -> dict[str, Any]:
    """The fields that a variant sets."""
    if not variant:
        return {}
    model, config_class = find("model", name), config_class_of(name)
    if hasattr(config_class, "from_variant"):
        try:
            config = config_class.from_variant(variant)
        except UserError as refusal:
            raise refusal.under("model") from None
        stated = {field for sizes in getattr(model, "VARIANTS", {}).values() for field in sizes}
        fields = [(field, getattr(config, field.name)) for field in dataclasses.fields(config_class) if field.init]
        return {field.name: value for field, value in fields if field.name in stated or value != default_of(field)}
    variants = getattr(model, "VARIANTS", {})
    if variant not in variants:
        raise UserError("model.variant", variant, f"no such variant of {name}; {nearest(variant, variants)}")
    return convert_fields(config_class, variants[variant], "model")


def variant_values(name: str, variant: str) -> dict[str, Any]:
    """Every field of a model that has a value before the config says anything: its defaults, then the variant's."""
    defaults = {field.name: default_of(field) for field in dataclasses.fields(config_class_of(name)) if field.init}
    known = {key: value for key, value in defaults.items() if value is not dataclasses.MISSING}
    return {**known, **variant_fields(name, variant)}


def input_kinds(model: str, objective: ObjectiveSettings | type[ObjectiveSettings]) -> dict[str, str]:
    """The inputs of a model by name, and the kind of each.

    Args:
        model: its name; empty where only a checkpoint knows it.
        objective: what it is trained for, which says the kind where the model doesn't.

    Raises:
        UserError: the model's `INPUTS` aren't what they should be.
    """
    found = made_inputs(find("model", model)) if model else {}
    if not found:
        kind = getattr(objective, "TAKES", "") or "image"
        return {USUAL[kind]: kind}
    for name, kind in found.items():
        if not (isinstance(name, str) and name.isidentifier() and isinstance(kind, str)):
            message = (
                f'its INPUTS must be a dict of names to kinds, {{"image": "image"}}, and one is {name!r}: {kind!r}'
            )
            raise UserError("model.name", model, message)
    return found


def settings_class(name: str, kind: str) -> type[InputSettings]:
    """The dataclass of `config.inputs.NAME`.

    Args:
        name: of the input.
        kind: `image`, `text`, or a user's own, `my_file:Volume`.

    Raises:
        UserError: there is no such kind, or it can't be used.
    """
    part = find("input", kind, f"inputs.{name}")
    check_part("input", kind, part, f"inputs.{name}")
    return part


def choose(layers: Layers) -> ModelChoice:
    """The model that a config's layers state.

    Raises:
        UserError: they name none, or a setting that it hasn't.
    """
    file, flags = layers.section("model")
    name = convert(str, flags.get("name", file.get("name", "")), "model.name")
    starts = layers.flags.get("init_from", layers.file.get("init_from", ""))
    if not name and not starts:
        raise UserError(
            "model.name", None, "must be set (or --config.init_from=RUN, a checkpoint that says which model)"
        )
    if name:
        layers.drop_others("model", config_class_of(name))
        _drop_variant(layers, name)
    if layers.flags.get("init_from") and not layers.file.get("init_from") and not layers.argument:
        _drop_variant_for_checkpoint(layers)
    variant = convert(str, flags.get("variant", file.get("variant", "")), "model.variant")
    fields = {key: value for key, value in layers.merged("model").items() if key not in ("name", "variant")}
    if not name:  # typed once the checkpoint has said which model it is
        return ModelChoice(name, variant, {key: _guess(value) for key, value in fields.items()})
    config_class = config_class_of(name)
    base = variant_values(name, variant)
    changes = convert_fields(config_class, fields, "model")
    if not starts:
        changes = {key: value for key, value in changes.items() if key not in base or base[key] != value}
        build(config_class, {**base, **changes}, "model")
    return ModelChoice(name, variant, changes)


def _guess(value: Any) -> Any:
    return literal(value) if isinstance(value, FlagText) else convert(Any, value, "model")


def _drop_variant(layers: Layers, name: str) -> None:
    """With another model by flag, the file's variant goes too, unless the new model has it."""
    file, flags = layers.section("model")
    if "variant" in flags or not file.get("variant") or flags.get("name", file.get("name")) == file.get("name"):
        return
    try:
        variant_fields(name, file["variant"])
    except UserError:
        layers.notes.append(f"model.name = {name} has no variant {file.pop('variant')}: left out")


def _drop_variant_for_checkpoint(layers: Layers) -> None:
    """With a checkpoint by flag, the variant that the file states for training from nothing gives way to its model."""
    file, flags = layers.section("model")
    if "variant" not in flags and file.get("variant"):
        layers.notes.append(f"init_from brings the model's sizes: model.variant = {file.pop('variant')} left out")
