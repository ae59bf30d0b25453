"""What a config resolves to: every setting of one experiment, checked and frozen."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from vitzoo import literals
from vitzoo.config.contracts import ObjectiveSettings, needs_classes
from vitzoo.config.model import ModelChoice, input_kinds
from vitzoo.data.settings import Augment, Data, InputSettings
from vitzoo.data.text.row_kinds import rows_of
from vitzoo.data.text.settings import Mixture
from vitzoo.errors import UserError
from vitzoo.parallel.mesh import BATCH_AXES, nearest_multiples, parse_mesh
from vitzoo.schema import patch, setting, to_json
from vitzoo.spelling import nearest

if TYPE_CHECKING:
    from vitzoo.data.inputs import Inputs

CHOICES = ("objective", "optimizer", "schedule")
"""The sections that name a part, which is built from the rest of the section. `model` and `evaluate` hold parts too."""

OF_KIND = {"augment": "image", "mixture": "text"}
"""The sections that say something of inputs of one kind."""

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


WANDB = ("{section}.wandb=true", lambda own: own.wandb)
"""What the settings of Weights & Biases need."""


@dataclasses.dataclass(frozen=True)
class Log:
    """Where a run's numbers go, besides `metrics.jsonl`."""

    every_steps: int = setting(
        50,
        "steps between two lines of metrics.jsonl; one every few seconds is printed",
        minimum=1,
        execution=True,
    )
    tensorboard: bool = setting(True, "write TensorBoard events to the run's folder", execution=True)
    wandb: bool = setting(False, "send the metrics to Weights & Biases (the extra `wandb`)", execution=True)
    wandb_project: str = setting("vitzoo", "its project", execution=True, needs=WANDB)
    wandb_name: str = setting("", "the run's name there; else the run folder's", execution=True, needs=WANDB)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Every setting of a run. *Execution* settings may differ when it is resumed; all others are its meaning."""

    seed: int = setting(0, "of the first parameters, the order of the data, every draw", minimum=0, maximum=2**32 - 1)
    total_steps: int | None = setting(None, "length of the training, in global batches", minimum=1)
    total_epochs: float | None = setting(None, "length of the training, in passes over the data", above=0)
    total_examples: int | None = setting(None, "length of the training, in examples", minimum=1)
    min_steps: int = setting(0, "train no fewer steps, however few total_epochs or total_examples come to", minimum=0)

    model: ModelChoice
    objective: ObjectiveSettings
    data: Data
    inputs: dict[str, InputSettings]
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
    early_stopping: int = setting(
        0,
        "end after so many evaluations in a row that did not improve on the best by checkpoint.keep_best; 0 is off",
        minimum=0,
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
        for name, part in self.inputs.items():
            part.check_rows(f"inputs.{name}", rows_of(self.objective, self.evaluate), self.data)
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
        if self.early_stopping and not best:
            raise UserError(
                "early_stopping", self.early_stopping, "needs checkpoint.keep_best, the metric that it watches"
            )
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


def inputs_of(experiment: Experiment) -> "Inputs":
    """The processors of an experiment's inputs."""
    from vitzoo.data.inputs import Inputs, processor
    from vitzoo.data.processors.base import Use
    from vitzoo.data.sources.fields import GIVEN

    objective = experiment.objective
    kinds = input_kinds(experiment.model.name, objective)
    use = Use(
        name="",
        rows=getattr(objective, "rows", "") if len(kinds) == 1 else "",
        # labels are numbers for such an objective, whether that is stated or not
        numbers=experiment.data.regression or getattr(objective, "HEAD", "") == "number",
        fields={name: field for name in (*GIVEN, "template") if (field := getattr(experiment.data, name))},
        prefix_lm=getattr(objective, "PREFIX_LM", False),
        augment=experiment.augment,
        mixture=experiment.mixture,
        seed=experiment.seed,
        classes=bool(needs_classes(objective, experiment.evaluate)),
    )
    made = {
        name: processor(experiment.inputs[name], dataclasses.replace(use, name=name, kind=kind))
        for name, kind in kinds.items()
    }
    return Inputs(made)
