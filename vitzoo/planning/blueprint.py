"""From a config to what its training step is made of, by shapes alone: no data are read and no device is asked for."""

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
from flax import nnx

from vitzoo.config.assembly import Assembly, assemble, frozen_models
from vitzoo.config.experiment import Experiment, inputs_of
from vitzoo.config.model import ModelChoice
from vitzoo.data.described import ModelDescription
from vitzoo.data.inputs import Inputs
from vitzoo.data.mixing import Prepare
from vitzoo.data.processors.base import Shapes
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import SourceInfo
from vitzoo.data.text.row_kinds import EXAMPLES
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.nn import state as modules
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.objectives.base import Frozen, Objective, WithEmbeddings
from vitzoo.objectives.binding import bound
from vitzoo.optim import build as optim
from vitzoo.optim.schedules import rate_of
from vitzoo.parallel.sharding import Rules
from vitzoo.planning import training_data
from vitzoo.planning.layout import StateLayout
from vitzoo.planning.training_data import total_steps
from vitzoo.schema import checkpoints_of, to_json
from vitzoo.steps import state as states
from vitzoo.steps.train import Step, make_train_step, row_keys


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """A training, not laid out yet.

    Attributes:
        experiment: the config.
        choice: the model's name and variant.
        assembly: the model, every setting filled in.
        objective: bound to what is known of the data.
        frozen: the models that it learns from, by setting.
        row: shapes of a row of a batch.
        prepare: what happens to a batch on the device before the model sees it.
        examples: rows of an epoch; None where no one knows.
        steps: length of the training; None likewise.
        platform: `cpu`, `tpu` or `gpu`, for which steps are made.
        notes: what was assumed.
    """

    experiment: Experiment
    choice: ModelChoice
    assembly: Assembly
    objective: Objective
    frozen: Mapping[str, Frozen]
    row: Mapping[str, jax.ShapeDtypeStruct]
    prepare: Prepare
    examples: int | None
    steps: int | None
    platform: str
    notes: tuple[str, ...]

    @property
    def dtype(self) -> str:
        """The type of the matrix products."""
        return Execution.on(self.platform, self.experiment.precision).dtype

    @property
    def rules(self) -> Rules:
        """Where the model's parameters lie."""
        return self.assembly.rules

    @functools.cached_property
    def chain(self) -> optim.Chain:
        """The optimizer."""
        graph, shapes = self.model("none")
        statistics, steps = modules.statistics_of(graph, shapes), self.steps or training_data.UNKNOWN
        return optim.build(
            self.experiment.optimizer, self._schedule, shapes, statistics, steps, self.assembly.embeddings
        )

    @functools.cached_property
    def _schedule(self) -> Callable:
        experiment, examples = self.experiment, self.examples or training_data.UNKNOWN
        peak = experiment.optimizer.learning_rate
        steps = self.steps or training_data.UNKNOWN
        return rate_of(experiment.schedule, steps, experiment.data.batch_size, examples, peak)

    @functools.cached_property
    def state(self) -> states.State:
        """Shapes of the whole train state."""
        shapes = self.model("none")[1]
        return states.abstract(shapes, self.chain, self.experiment.ema, self.objective, self.frozen)

    def layout(self, sizes: Mapping[str, int]) -> StateLayout:
        """The state on a mesh; of its axes those that are missing are 1."""
        return StateLayout(self.state, self.rules, sizes, self.frozen)

    @property
    def parameters(self) -> int:
        """How many numbers the model has."""
        leaves = flatten(self.state["params"]).items()
        return sum(leaf.size for path, leaf in leaves if path not in self.chain.statistics)

    def batch(self, size: int) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes of a batch of `size` rows, as it is loaded."""
        return training_data.batch_of(dict(self.row), size)

    def prepared(self, size: int) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes of such a batch as the model is given it."""
        key = jax.random.key(0)
        return jax.eval_shape(lambda batch: {**self.prepare(batch, key), **row_keys(batch, key)}, self.batch(size))

    def model(self, remat: str) -> tuple[nnx.GraphDef, modules.Shapes]:
        """The model's structure and shapes under a remat policy."""
        if remat not in self._remat:
            execution = dataclasses.replace(self.assembly.execution, remat=remat)
            self._remat[remat] = dataclasses.replace(self.assembly, execution=execution)
        return self._remat[remat].abstract

    @functools.cached_property
    def _remat(self) -> dict[str, Assembly]:
        return {}

    def step(self, remat: str, accumulate: int) -> Step:
        """The training step, to trace or to compile."""
        return make_train_step(
            self.model(remat)[0],
            self.objective,
            self.chain,
            self._schedule,
            prepare=self.prepare,
            accumulate=accumulate,
            ema=self.experiment.ema,
            ema_warm_start=self.experiment.ema_warm_start,
        )


def blueprint(
    experiment: Experiment,
    platform: str,
    choice: ModelChoice | None = None,
    examples: int | None = None,
    frozen: Mapping[str, ModelDescription] = types.MappingProxyType({}),
    inputs: Inputs | None = None,
) -> Blueprint:
    """What a config's training step is made of.

    Args:
        experiment: from `vitzoo.config.resolve`.
        platform: `cpu`, `tpu` or `gpu`.
        choice: the model, where a checkpoint says it.
        examples: rows of an epoch, where the user states them.
        frozen: the content of `model.json` of the checkpoints that the objective names, by setting; in the place of one
            that isn't known, a model like the one that is trained is assumed.
        inputs: how examples are read, where a checkpoint says it; by default as the config does.

    Raises:
        UserError: no model is named, or settings don't fit each other.
    """
    choice = choice or experiment.model
    if not choice.name:
        raise UserError(
            "model.name", None, "must be given: a checkpoint in init_from, or --config.model.name and .variant"
        )
    inputs = inputs_of(experiment) if inputs is None else inputs
    info, count, notes = _info(experiment.data, inputs, choice, examples)
    made, row, assumptions = _model(inputs, info, choice, Execution.on(platform, experiment.precision, experiment.scan))
    config = made.config
    models, assumed = _frozen(experiment, inputs, made, frozen)
    objective = bound(experiment.objective, info, config, models)
    return Blueprint(
        experiment=experiment,
        choice=choice,
        assembly=made,
        objective=objective,
        frozen=models,
        row=row,
        prepare=inputs.prepare(config, info, train=True),
        examples=count,
        steps=total_steps(experiment, count),
        platform=platform,
        notes=(*notes, *assumptions, *assumed, *_of_contrast(objective)),
    )


def _frozen(
    experiment: Experiment, inputs: Inputs, made: Assembly, known: Mapping[str, ModelDescription]
) -> tuple[dict[str, Frozen], tuple[str, ...]]:
    """The models that the objective learns from, by setting, and what was assumed of them."""
    unknown = [name for name in checkpoints_of(experiment.objective) if name not in known]
    config = made.config
    if unknown:
        alike: Any = {
            "model": {"name": made.name, **to_json(config)},
            "classes": None,
            "inputs": inputs.described(config),
        }
        known = {**known, **dict.fromkeys(unknown, alike)}
    models = frozen_models(
        experiment.objective, known, inputs=inputs, config=config, classes=None, execution=made.execution
    )
    # which of its classes the student's are, only the data say
    columns = tuple(range(getattr(config, "num_classes", None) or 0))
    models = {name: dataclasses.replace(one, columns=lambda: columns) for name, one in models.items()}
    flags = " ".join(f"--config.objective.{name}=CKPT" for name in unknown)
    notes = (f"to learn from, a model like this one assumed ({flags} states it)",) if unknown else ()
    return models, notes


def _info(
    data: Data, inputs: Inputs, choice: ModelChoice, examples: int | None
) -> tuple[SourceInfo, int | None, tuple[str, ...]]:
    """What is known of the data: their description, how many rows an epoch has, and what was assumed."""
    if inputs.only is not None and inputs.row_kind != EXAMPLES:
        return training_data.rows(data, examples, inputs.only.row_classes), examples, ()
    stated = choice.changes.get("num_classes") or choice.base.get("num_classes")
    return training_data.examples(data, examples, stated)


def _model(
    inputs: Inputs, info: SourceInfo, choice: ModelChoice, execution: Execution
) -> tuple[Assembly, Shapes, tuple[str, ...]]:
    """The model, the shapes of a row of a batch, and what was assumed."""
    # all that is asked of a source
    source: Any = types.SimpleNamespace(info=info, fields={"image": "image", "label": "label"})
    own, processors = choice.config(), inputs.processors.values()
    told = [one.assumed_fields(source, own, choice.changes) for one in processors]
    known: dict[str, Any] = {}
    for fields, _ in told:
        known |= {key: value for key, value in fields.items() if known.get(key) is None}
    row: Shapes = {}

    def complete(config: ModelConfig) -> ModelConfig:
        for one in processors:
            config, more = one.assumed_row(source, config)
            row.update(more)
        return config

    made = assemble(choice, execution, known=known, complete=complete)
    if inputs.row_kind == EXAMPLES:
        row |= training_data.end_of_row(getattr(made.config, "num_classes", None), info.multi_label)
    return made, row, tuple(note for _, notes in told for note in notes)


def _of_contrast(objective: Objective) -> tuple[str, ...]:
    """What isn't counted of an objective whose rows see each other."""
    if not isinstance(objective, WithEmbeddings):
        return ()
    return ("with accumulate above 1 the embeddings of all rows are made once more than is counted",)
