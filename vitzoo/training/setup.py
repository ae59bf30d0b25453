"""From a config to everything a run computes with: mesh, data, model, objective, optimizer, compiled step, evaluators.

Nothing here draws a parameter or writes a file, so a dry run shows what a real one would do.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from vitzoo.checkpoints import metadata
from vitzoo.config import Resolved
from vitzoo.config.assembly import Assembly, assemble
from vitzoo.config.contracts import needs_classes
from vitzoo.config.experiment import CHOICES, Experiment, inputs_of
from vitzoo.config.fields import meaning_of
from vitzoo.config.model import ModelChoice
from vitzoo.data.inputs import Inputs
from vitzoo.data.pipeline import TrainStream
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.evaluation.run import Evaluation
from vitzoo.models.base import ModelConfig
from vitzoo.nn import state as modules
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten
from vitzoo.objectives.base import Objective
from vitzoo.objectives.binding import bound
from vitzoo.optim import build as optim
from vitzoo.optim.schedules import rate_of
from vitzoo.parallel import mesh as meshes
from vitzoo.parallel.sharding import rows_of_this_process
from vitzoo.planning.training_data import total_steps
from vitzoo.registry import PARTS
from vitzoo.schema import to_json
from vitzoo.steps import state as states
from vitzoo.steps.compile import batch_shapes, compile_train_step
from vitzoo.steps.train import make_train_step
from vitzoo.training.fits import (
    check_best,
    check_contrast,
    check_fits,
    check_outputs,
    check_statistics,
    named_evaluation,
)
from vitzoo.training.pretrained import Pretrained
from vitzoo.version import version
from vitzoo.weights.frozen import FrozenCheckpoints


@dataclasses.dataclass(frozen=True)
class Task:
    """A training, ready to start.

    Attributes:
        resolved: the config.
        mesh: the devices.
        info: of the training split.
        source: the training's examples.
        choice: the model's name and variant.
        assembly: the model, every setting of it filled in.
        inputs: how examples become what the model is given; the checkpoint's where the config sets nothing.
        chain: the optimizer, which also knows what each leaf gets.
        state: the state's shapes, types and shardings.
        shardings: the state's shardings alone.
        step: `step(state, batch, seed)`, not yet compiled.
        train_step: (state, batch) to (state, metrics), compiled at the first call; the state is donated.
        stream: the training batches.
        evaluations: by name; each called with parameters gives `n` and its metrics.
        total_steps: the length of the training.
        pretrained: what it starts from, or None.
        objective: bound to the data and the model.
        frozen_models: the checkpoints that its objective learns from.
    """

    resolved: Resolved
    mesh: Mesh
    info: SourceInfo
    source: Source
    choice: ModelChoice
    assembly: Assembly
    inputs: Inputs
    chain: optim.Chain
    state: dict
    shardings: dict
    step: Callable
    train_step: Callable
    stream: TrainStream
    evaluations: dict[str, Evaluation]
    total_steps: int
    pretrained: Pretrained | None
    objective: Objective
    frozen_models: FrozenCheckpoints

    @property
    def model_config(self) -> ModelConfig:
        """Every setting of the model."""
        return self.assembly.config

    @property
    def parameters(self) -> int:
        """How many numbers the model has to learn."""
        return sum(int(np.prod(leaf.shape)) for leaf in self._parameters.values())

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The names of the model's classes: the data's, unless the model was given another number of them."""
        return _class_names(self.info, self.model_config)

    @property
    def frozen(self) -> int:
        """How many of the parameters don't train."""
        rules, leaves = self.chain.rules, self._parameters
        # where some layers of a stack are frozen, it is that fraction of it
        return sum(round(np.prod(leaf.shape) * rules[path].frozen.mean()) for path, leaf in leaves.items())

    @property
    def _parameters(self) -> dict[str, Any]:
        """Shapes by path of what the optimizer is for."""
        leaves = flatten(self.state["params"])
        return {path: leaf for path, leaf in leaves.items() if path not in self.chain.statistics}

    def progress(self, step: int) -> dict[str, Any]:
        """Where a step lies in the training: what every line of the metrics starts with."""
        examples = step * self.resolved.experiment.data.batch_size
        return {"step": step, "examples": examples, "epoch": round(examples / self.info.n, 6)}

    def describe(self, step: int) -> metadata.Description:
        """The content of `model.json` for a checkpoint of this step."""
        values, config = self.resolved.values, self.model_config
        return metadata.describe(
            version=version(),
            model={"name": self.choice.name, "variant": self.choice.variant, **to_json(config)},
            objective=values["objective"],
            inputs=self.inputs.described(config),
            classes=to_json(self.class_names),
            data={"name": values["data"]["name"], "split": self.info.split, "fingerprint": self.info.fingerprint},
            step=step,
            examples=step * values["data"]["batch_size"],
            statistics=self.chain.statistics,
            frozen=self.frozen_models.marks,
            config=meaning_of(values),
        )


def mesh_of(experiment: Experiment) -> Mesh:
    """The mesh a config asks for, after the checks that need nothing but the list of devices.

    Raises:
        UserError: the platform is absent, the mesh does not fit the devices, or the batch does not divide over it.
    """
    mesh = meshes.make_mesh(experiment.mesh, meshes.devices(experiment.platform))
    meshes.validate_batch(experiment.data.batch_size, experiment.accumulate, mesh)
    return mesh


def prepare(resolved: Resolved, mesh: Mesh) -> Task:
    """Open the data and lay out model, objective, optimizer and step.

    Raises:
        UserError: the data is missing, or a setting does not fit the data, the model or the checkpoint to start from.
    """
    experiment = resolved.experiment
    pretrained = Pretrained.open(experiment.init_from, experiment.model.changes) if experiment.init_from else None
    choice = experiment.model.over(pretrained.model) if pretrained else experiment.model
    if pretrained:
        check_fits(choice, resolved)
    inputs = inputs_of(experiment) if pretrained is None else pretrained.inputs(inputs_of(experiment), resolved)
    source = inputs.source(experiment.data)
    inputs = inputs.learned(source)
    platform = mesh.devices.flat[0].platform
    execution = Execution.on(platform, experiment.precision, experiment.scan, experiment.remat)
    complete = functools.partial(inputs.complete, source=source)
    made = assemble(choice, execution, known=inputs.model_fields(source), complete=complete)
    config = made.config
    rows = inputs.rows(source, experiment.data, config, train=True)
    part = rows_of_this_process(experiment.data.batch_size, mesh)
    stream = TrainStream(rows, experiment.data, seed=experiment.seed, part=part)
    steps, (graph, shapes) = total_steps(experiment, rows.info.n), made.abstract
    if choice.name not in PARTS["model"] and needs_classes(experiment.objective, experiment.evaluate):
        check_outputs(made, inputs)
    names = _class_names(rows.info, config)
    frozen = FrozenCheckpoints.open(
        experiment.objective, inputs=inputs, config=config, classes=names, execution=execution
    )
    objective = bound(experiment.objective, rows.info, config, frozen.models)
    peak = experiment.optimizer.learning_rate
    schedule = rate_of(experiment.schedule, steps, experiment.data.batch_size, rows.info.n, peak)
    statistics = modules.statistics_of(graph, shapes)
    check_statistics(choice.name, statistics)
    check_contrast(resolved.values["objective"]["name"], objective, statistics)
    chain = optim.build(experiment.optimizer, schedule, shapes, statistics, steps, made.embeddings)
    state = states.abstract(shapes, chain, experiment.ema, objective, frozen.models)
    shardings = states.shardings(state, made.rules, mesh, frozen.models)
    step = make_train_step(
        graph,
        objective,
        chain,
        schedule,
        prepare=inputs.prepare(config, rows.info, train=True),
        accumulate=experiment.accumulate,
        ema=experiment.ema,
        ema_warm_start=experiment.ema_warm_start,
    )
    evaluate = functools.partial(
        Evaluation,
        graph=graph,
        inputs=inputs,
        config=config,
        data=experiment.data,
        classes=names,
        mesh=mesh,
        objective=experiment.objective,
        bound_objective=lambda _: objective,
    )
    evaluations = {name: named_evaluation(name, evaluate, part) for name, part in experiment.evaluate.items()}
    check_best(experiment, evaluations, getattr(config, "num_classes", None))
    task = Task(
        resolved=resolved,
        mesh=mesh,
        info=rows.info,
        source=source,
        choice=choice,
        assembly=made,
        inputs=inputs,
        chain=chain,
        state=states.with_shardings(state, shardings),
        shardings=shardings,
        step=step,
        train_step=compile_train_step(step, mesh, shardings, experiment.seed),
        stream=stream,
        evaluations=evaluations,
        total_steps=steps,
        pretrained=pretrained,
        objective=objective,
        frozen_models=frozen,
    )
    _trace_own(task)
    return task


def _trace_own(task: Task) -> None:
    """Traces what a user's own parts compute, so that what is wrong with them is told before anything is written."""
    values, size = task.resolved.values, task.resolved.experiment.data.batch_size
    model, own_objective = ":" in task.choice.name, ":" in values["objective"]["name"]
    if model or any(":" in values[section]["name"] for section in CHOICES):
        jax.eval_shape(task.step, task.state, batch_shapes(task.stream.rows.padding(), size), 0)
    for name, evaluation in task.evaluations.items():
        if model or ":" in values["evaluate"][name]["name"] or (evaluation.objective is not None and own_objective):
            evaluation.trace(task.state["params"], task.state)


def _class_names(info: SourceInfo, config: ModelConfig) -> tuple[str, ...] | None:
    known = info.classes is not None and len(info.classes) == getattr(config, "num_classes", None)
    return info.classes if known else None
