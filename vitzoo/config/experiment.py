"""What a config resolves to: every setting of one experiment, checked and frozen."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from vitzoo import literals
from vitzoo.config.contracts import check_call, check_filled, check_model
from vitzoo.config.fits import (
    check_acts,
    check_evaluator,
    check_head,
    check_learns,
    check_prefix,
    check_rows,
    needs_classes,
    rows_of,
)
from vitzoo.config.inputs import input_kinds, settings_class
from vitzoo.data.settings import Augment, Data
from vitzoo.data.text.settings import Mixture, Text
from vitzoo.errors import UserError
from vitzoo.parallel.mesh import BATCH_AXES, nearest_multiples, parse_mesh
from vitzoo.registry import PARTS, find
from vitzoo.schema import build, convert_fields, default_of, patch, setting, to_json
from vitzoo.spelling import nearest

CHOICES = ("objective", "optimizer", "schedule")
"""The sections that name a part, which is built from the rest of the section. `model` and `evaluate` hold parts too."""

OF_KIND = {"augment": "image", "mixture": "text"}
"""The sections that say something of inputs of one kind."""

Settings = TypeVar("Settings")

DURATIONS = ("total_steps", "total_epochs", "total_examples")


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """When a run is saved, and what is kept. The newest always is, and the last step is always saved."""

    every_steps: int | None = setting(None, "save after this many steps", minimum=1, execution=True)
    every_epochs: float | None = setting(None, "save after this many epochs", above=0, execution=True)
    keep: int = setting(2, "newest checkpoints to keep", minimum=1, execution=True)
    keep_best: str = setting("", "EVALUATOR/METRIC whose best checkpoint is kept besides: val/accuracy", execution=True)

    def check(self) -> None:
        if self.every_steps is not None and self.every_epochs is not None:
            raise UserError("every_epochs", self.every_epochs, "can't be set with every_steps; set one of them")


@dataclasses.dataclass(frozen=True)
class Log:
    """Where a run's numbers go, besides `metrics.jsonl`."""

    every_steps: int = setting(50, "steps between two lines of training metrics", minimum=1, execution=True)
    tensorboard: bool = setting(True, "write TensorBoard events to the run's folder", execution=True)
    wandb: bool = setting(False, "send the metrics to Weights & Biases (the extra `wandb`)", execution=True)
    wandb_project: str = setting("vitzoo", "its project", execution=True)
    wandb_name: str = setting("", "the run's name there; else the run folder's", execution=True)


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
    def config_class(self) -> type:
        """The dataclass of the model's settings."""
        return config_class_of(self.name)

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

    def check_takes(self, objective: Any) -> None:
        """Refuses a model that doesn't take what an objective does, images or text, or can't learn what it asks."""
        kind = getattr(objective, "TAKES", "")
        if kind == "text":
            check_rows(objective.rows)
        if self.name:
            if kind and kind not in (kinds := input_kinds(self.name, objective)).values():
                takes = " and ".join(kinds)
                raise UserError("model.name", self.name, f"takes no {kind}: it takes {takes}")
            classes_of_images = getattr(objective, "CLASSES", False) and not hasattr(objective, "rows")
            if classes_of_images and {*input_kinds(self.name, objective).values()} == {"text"}:
                instead = "for classes of texts take objective.name=sequence_classification or token_classification"
                raise UserError("model.name", self.name, f"takes no images; {instead}")
            check_head(self.name, self.config_class, self.changes.get("head"), getattr(objective, "HEAD", ""))
            if kind == "text":
                check_learns(self.name, self.config_class, objective.rows)
                wanted = getattr(objective, "PREFIX_LM", False)
                check_prefix(self.name, self.config_class, self.changes.get("prefix_lm"), wanted)

    def check_measured(self, objective: Any, evaluators: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Refuses evaluators (by their keys; `names` of the parts likewise) of what the model doesn't read, and a model
        that lacks what these or the objective need.
        """
        if self.name:
            kinds, classes_for = input_kinds(self.name, objective), needs_classes(objective, evaluators)
            for name, kind in kinds.items():
                check_filled(self.name, self.config_class, kind, settings_class(name, kind).FILLS, classes_for)
            if self.name not in PARTS["model"] and (hasattr(objective, "rows") or classes_for):
                check_call(self.name, find("model", self.name), list(kinds))
        rows = getattr(objective, "rows", None)
        config_class = self.config_class if self.name else None
        for key, evaluator in evaluators.items():
            check_evaluator(f"evaluate.{key}", names[key], evaluator, rows, self.name, config_class)

    def config(self, **from_data: Any) -> Any:
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


def config_class_of(name: str) -> type:
    """The settings of the model called `name`.

    Raises:
        UserError: there is no such model, or it can't be used.
    """
    model = find("model", name)
    if name not in PARTS["model"]:
        check_model(name, model)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Every setting of a run. *Execution* settings may differ when it is resumed; all others are its meaning."""

    seed: int = setting(0, "of the first parameters, the order of the data, every draw", minimum=0, maximum=2**32 - 1)
    total_steps: int | None = setting(None, "length of the training, in global batches", minimum=1)
    total_epochs: float | None = setting(None, "length of the training, in passes over the data", above=0)
    total_examples: int | None = setting(None, "length of the training, in examples", minimum=1)
    min_steps: int = setting(0, "train no fewer steps, however few total_epochs or total_examples come to", minimum=0)

    model: ModelChoice
    objective: Any
    data: Data
    inputs: dict[str, Any]
    augment: Augment
    mixture: Mixture
    optimizer: Any
    schedule: Any

    ema: float = setting(0.0, "decay of the parameters' moving average, 0.9999; 0 is off", minimum=0.0, below=1.0)
    ema_warm_start: bool = setting(
        False,
        "the average's decay is at most (1 + n) / (10 + n) after n steps, so that that of a short training forgets the "
        "parameters it began with",
    )
    non_finite: str = setting(
        "skip", "a step with NaN or infinity is left out, or ends the run", choices=("skip", "stop")
    )
    precision: str = setting(
        "auto",
        "of computation; auto: bfloat16 on accelerators, float32 on CPU",
        choices=("auto", "float32", "bfloat16"),
    )
    init_from: str = setting(
        "", "checkpoint to start from: a run folder, RUN@best, a part of one, RUN:encoder, a file of published weights"
    )
    init_from_state: bool = setting(False, "take over its optimizer state and step too: a longer training")

    evaluate: dict[str, Any] = setting(factory=dict, help="evaluators by name; `none` turns one off", execution=True)
    checkpoint: Checkpoint = setting(factory=Checkpoint, help="when to save", execution=True)
    log: Log = setting(factory=Log, help="where the numbers go", execution=True)

    mesh: str = setting("auto", "devices by axis, data:2,fsdp:4; auto: fsdp over all of them", execution=True)
    platform: str = setting(
        "",
        "refused where it is absent; empty: the best there is",
        choices=("", "cpu", "gpu", "cuda", "rocm", "tpu"),
        execution=True,
    )
    remat: str = setting(
        "none", "recompute activations to save memory", choices=("none", "full", "dots"), execution=True
    )
    scan: bool | None = setting(None, "one compiled block run `depth` times; none: the model's default", execution=True)
    accumulate: int = setting(1, "parts in which a batch passes through the model", minimum=1, execution=True)
    profile: str = setting("", "START:STOP, the steps of which a trace is written", execution=True)

    def check(self) -> None:
        """Raises:
        UserError: settings that don't fit each other.
        """
        self._check_length()
        if (text := self.input(Text)) is not None:
            check_acts(text, rows_of(self.objective, self.evaluate), self.data)
        if self.mixture.sources and self.data.name != "mixture":
            raise UserError("data.name", self.data.name, "must be `mixture`, since mixture.sources are stated")
        self._check_best()
        self._check_balance()
        self._check_profile()
        sizes, size, parts = parse_mesh(self.mesh), self.data.batch_size, self.accumulate
        if size % parts:
            near = nearest_multiples(size, parts * math.prod(sizes.get(axis, 1) for axis in BATCH_AXES))
            near += "" if sizes else "; on several devices, a multiple of their number too"
            raise UserError("data.batch_size", size, f"does not divide by accumulate = {parts} (nearest: {near})")
        if self.init_from_state and not self.init_from:
            raise UserError("init_from_state", True, "needs init_from, the checkpoint whose state to take over")

    def _check_length(self) -> None:
        given = [name for name in DURATIONS if getattr(self, name) is not None]
        if not given:
            raise UserError("total_steps", None, f"no length of training; set exactly one of {', '.join(DURATIONS)}")
        if len(given) > 1:
            raise UserError(given[1], getattr(self, given[1]), f"can't be set with {given[0]}; set one of them")

    def _check_best(self) -> None:
        best = self.checkpoint.keep_best
        if not best:
            return
        name, slash, metric = best.partition("/")
        if not slash or name not in self.evaluate:
            hint = nearest(name, self.evaluate)
            raise UserError(
                "checkpoint.keep_best", best, f"is EVALUATOR/METRIC, of an evaluator in config.evaluate; {hint}"
            )
        metrics = getattr(self.evaluate[name], "BETTER", {metric: max})
        if metric not in metrics:
            raise UserError(
                "checkpoint.keep_best", best, f"{name} has no metric {metric!r}; {nearest(metric, metrics)}"
            )

    def _check_balance(self) -> None:
        if self.data.balance == "classes" and getattr(self.objective, "class_weights", "") == "balanced":
            message = "corrects for the classes' sizes a second time, after data.balance = classes; keep one of them"
            raise UserError("objective.class_weights", "balanced", message)

    def _check_profile(self) -> None:
        start, stop = (literals.counted(text) for text in self.profile.partition(":")[::2])
        if self.profile and (start is None or stop is None or start >= stop):
            raise UserError("profile", self.profile, "must be START:STOP, two steps: 10:20")

    def input(self, settings: type[Settings]) -> Settings | None:
        """The settings of the first input that has such; None without one."""
        return next((one for one in self.inputs.values() if isinstance(one, settings)), None)

    def evaluation_data(self, name: str) -> Data:
        """The data section that the evaluator `name` reads: `config.data` with its own patch, split and batch size."""
        return evaluation_data(self.data, self.evaluate[name], f"evaluate.{name}")


def evaluation_data(data: Data, evaluator: Any, prefix: str = "") -> Data:
    """`data` as an evaluator reads it: with the evaluator's `data` patch, `split` and `batch_size`."""
    changes = dict(getattr(evaluator, "data", None) or {})
    own = {key: getattr(evaluator, key, None) for key in ("split", "batch_size")}
    changes |= {key: value for key, value in own.items() if value is not None}
    return patch(data, changes, f"{prefix}.data" if prefix else "data")


def unused_sections(kinds: Collection[str]) -> set[str]:
    """Sections of the config that describe inputs of other kinds than these."""
    return {section for section, kind in OF_KIND.items() if kind not in kinds}


def values_of(experiment: Experiment, names: Mapping[str, Any]) -> dict[str, Any]:
    """The experiment as plain values, as `config.json` holds them.

    Args:
        experiment: what was resolved.
        names: the part named in each of `CHOICES`, and under `evaluate` by evaluator.
    """
    values = {}
    unused = unused_sections(input_kinds(experiment.model.name, experiment.objective).values())
    for field in dataclasses.fields(experiment):
        if field.name in unused:
            continue
        value = getattr(experiment, field.name)
        if field.name == "model":
            values["model"] = _model_values(value, bool(experiment.init_from))
        elif field.name in CHOICES:
            values[field.name] = {"name": names[field.name], **to_json(value)}
        elif field.name == "inputs":
            values["inputs"] = {name: to_json(part) for name, part in value.items()}
        elif field.name == "evaluate":
            values["evaluate"] = {key: {"name": names["evaluate"][key], **to_json(part)} for key, part in value.items()}
        else:
            values[field.name] = to_json(value)
    return values


def _model_values(model: ModelChoice, from_checkpoint: bool) -> dict[str, Any]:
    # with `init_from` the architecture is the checkpoint's, so only the changes are the config's to state
    fields = model.changes if from_checkpoint else to_json(model.config())
    return {"name": model.name, "variant": model.variant, **to_json(fields)}
