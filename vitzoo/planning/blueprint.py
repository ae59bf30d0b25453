"""From a config to what its training step is made of, by shapes alone: no data are read and no device is asked for."""

import dataclasses
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax

from vitzoo.config.experiment import ModelChoice
from vitzoo.config.frozen import frozen_models
from vitzoo.config.inputs import inputs_of
from vitzoo.data.inputs import Inputs
from vitzoo.data.mixing import Prepare
from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.text.rows import EXAMPLES
from vitzoo.data.text.settings import SIZED
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import UserError
from vitzoo.models.base import embeddings_of
from vitzoo.models.text import usual_vocabulary
from vitzoo.nn import state as modules
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.objectives.base import Frozen, WithEmbeddings
from vitzoo.optim import build as optim
from vitzoo.parallel.sharding import Rules, rules_of
from vitzoo.planning import training_data
from vitzoo.planning.layout import StateLayout
from vitzoo.planning.training_data import total_steps
from vitzoo.registry import find
from vitzoo.schema import checkpoints_of, to_json
from vitzoo.steps import state as states
from vitzoo.steps.train import Step, make_train_step, row_keys

CHARACTERS = 256
TEXT_CLASSES = 2


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """A training, not laid out yet.

    Attributes:
        experiment: the config.
        choice: the model's name and variant.
        config: every setting of the model.
        objective: bound to what is known of the data.
        frozen: the models that it learns from, by setting.
        row: shapes of a row of a batch.
        prepare: what happens to a batch on the device before the model sees it.
        examples: rows of an epoch; None where no one knows.
        steps: length of the training; None likewise.
        platform: `cpu`, `tpu` or `gpu`, for which steps are made.
        notes: what was assumed.
    """

    experiment: Any
    choice: ModelChoice
    config: Any
    objective: Any
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
        return rules_of(find("model", self.choice.name))

    @functools.cached_property
    def chain(self) -> optim.Chain:
        """The optimizer."""
        graph, shapes = self.model("none")
        statistics, steps = modules.statistics_of(graph, shapes), self.steps or training_data.UNKNOWN
        embeddings = embeddings_of(find("model", self.choice.name))
        return optim.build(self.experiment.optimizer, self._schedule, shapes, statistics, steps, embeddings)

    @functools.cached_property
    def _schedule(self) -> Callable:
        experiment, examples = self.experiment, self.examples or training_data.UNKNOWN
        peak = experiment.optimizer.learning_rate
        return experiment.schedule.make(self.steps or training_data.UNKNOWN, experiment.data.batch_size, examples, peak)

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

    def model(self, remat: str) -> tuple[Any, modules.Params]:
        """The model's structure and shapes under a remat policy."""
        if remat not in self._models:
            self._models[remat] = self._model(remat)
        return self._models[remat]

    @functools.cached_property
    def _models(self) -> dict[str, tuple[Any, modules.Params]]:
        return {}

    def _model(self, remat: str) -> tuple[Any, modules.Params]:
        execution = Execution.on(self.platform, self.experiment.precision, self.experiment.scan, remat)
        model: Any = find("model", self.choice.name)
        return modules.abstract(lambda rngs: model(self.config, rngs=rngs, execution=execution))

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
    experiment: Any,
    platform: str,
    choice: ModelChoice | None = None,
    examples: int | None = None,
    frozen: Mapping[str, Mapping[str, Any]] = types.MappingProxyType({}),
) -> Blueprint:
    """What a config's training step is made of.

    Args:
        experiment: from `vitzoo.config.resolve`.
        platform: `cpu`, `tpu` or `gpu`.
        choice: the model, where a checkpoint says it.
        examples: rows of an epoch, where the user states them.
        frozen: the content of `model.json` of the checkpoints that the objective names, by setting; in the place of one
            that isn't known, a model like the one that is trained is assumed.

    Raises:
        UserError: no model is named, or settings don't fit each other.
    """
    choice = choice or experiment.model
    if not choice.name:
        raise UserError(
            "model.name", None, "must be given: a checkpoint in init_from, or --config.model.name and .variant"
        )
    inputs = inputs_of(experiment)
    if inputs.row_kind != EXAMPLES:
        config, info, row, notes = _of_text(experiment, inputs.text, choice, examples)
        count = examples
    else:
        config, info, row, count, notes = _of_examples(experiment, inputs, choice, examples)
    models, assumed = _frozen(experiment, inputs, platform, choice, config, frozen)
    objective = experiment.objective.bind(info, config, **models)
    return Blueprint(
        experiment=experiment,
        choice=choice,
        config=config,
        objective=objective,
        frozen=models,
        row=row,
        prepare=inputs.prepare(config, info, train=True),
        examples=count,
        steps=total_steps(experiment, count),
        platform=platform,
        notes=(*notes, *assumed, *_of_contrast(objective)),
    )


def _frozen(
    experiment: Any,
    inputs: Inputs,
    platform: str,
    choice: ModelChoice,
    config: Any,
    known: Mapping[str, Mapping[str, Any]],
) -> tuple[dict[str, Frozen], tuple[str, ...]]:
    """The models that the objective learns from, by setting, and what was assumed of them."""
    unknown = [name for name in checkpoints_of(experiment.objective) if name not in known]
    execution = Execution.on(platform, experiment.precision, experiment.scan)
    if unknown:
        alike = {"model": {"name": choice.name, **to_json(config)}, "classes": None, "inputs": inputs.described(config)}
        known = {**known, **dict.fromkeys(unknown, alike)}
    models = frozen_models(experiment.objective, known, inputs=inputs, config=config, classes=None, execution=execution)
    # which of its classes the student's are, only the data say
    columns = tuple(range(getattr(config, "num_classes", None) or 0))
    models = {name: dataclasses.replace(one, columns=lambda: columns) for name, one in models.items()}
    flags = " ".join(f"--config.objective.{name}=CKPT" for name in unknown)
    notes = (f"to learn from, a model like this one assumed ({flags} states it)",) if unknown else ()
    return models, notes


def _of_examples(experiment: Any, inputs: Inputs, choice: ModelChoice, examples: int | None) -> tuple:
    """Of rows that are an example each."""
    stated = choice.changes.get("num_classes") or choice.base.get("num_classes")
    info, count, notes = training_data.examples(experiment.data, examples, stated)
    # all that is asked of a source
    source: Any = types.SimpleNamespace(info=info, fields={"image": "image", "label": "label"})
    fields: dict[str, Any] = {}
    for one in inputs.processors.values():
        if isinstance(one, TextProcessor):  # whose tokenizer may have to be made of the data
            fields["vocabulary_size"], more = _vocabulary(one.text.tokenizer, choice)
            notes = (*notes, *more)
        else:
            fields |= one.model_fields(source)
    config = choice.config(**fields)
    row: dict[str, jax.ShapeDtypeStruct] = {}
    for one in inputs.processors.values():
        config = config if isinstance(one, TextProcessor) else one.complete(config, source)
        row |= {key: jax.ShapeDtypeStruct(array.shape, array.dtype) for key, array in one.blank(config).items()}
    row |= training_data.end_of_row(getattr(config, "num_classes", None), info.multi_label)
    return config, info, row, count, notes


def _of_text(experiment: Any, text: TextProcessor, choice: ModelChoice, examples: int | None) -> tuple:
    info = training_data.texts(experiment, text, examples)
    size, notes = _vocabulary(text.text.tokenizer, choice)
    fields: dict[str, Any] = {"vocabulary_size": size, "head": text.head, "prefix_lm": text.prefix_lm}
    if text.head in ("classes", "token_classes"):
        fields["num_classes"] = TEXT_CLASSES
        if not choice.changes.get("num_classes"):
            notes = (*notes, f"{TEXT_CLASSES} classes assumed (--config.model.num_classes states them)")
    config = choice.config(**fields)
    text.check_length(config, text.text)
    row = training_data.text_row(text.rows_of, text.text, config, number=text.head == "number")
    return config, info, row, notes


def _vocabulary(tokenizer: Any, choice: ModelChoice) -> tuple[int | None, tuple[str, ...]]:
    """The number of ids that the tokenizer says, None for the model's own; and what was assumed."""
    if tokenizer.kind in SIZED:
        return tokenizer.vocabulary_size, ()
    if tokenizer.kind == "bytes":
        return open_tokenizer(tokenizer).vocabulary_size, ()
    if tokenizer.kind == "file":
        try:
            return open_tokenizer(tokenizer).vocabulary_size, ()
        except UserError:  # not here: the model's own number is the published tokenizer's
            pass
    if choice.config().vocabulary_size:
        return None, ()
    size = CHARACTERS if tokenizer.kind == "characters" else usual_vocabulary(choice.config_class)
    return size, (f"a vocabulary of {size:,} assumed (--config.model.vocabulary_size states it)",)


def _of_contrast(objective: Any) -> tuple[str, ...]:
    """What isn't counted of an objective whose rows see each other."""
    if not isinstance(objective, WithEmbeddings):
        return ()
    return ("with accumulate above 1 the embeddings of all rows are made once more than is counted",)
