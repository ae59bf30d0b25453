"""A checkpoint made ready for evaluation: its config with overrides, its model, its weights on the devices.

Its objective is measured as it was bound in training, with its memory and its frozen models.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from vitzoo.checkpoints.arrays import restore_arrays
from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.manifest import Damaged
from vitzoo.config import resolve
from vitzoo.config.assembly import assemble
from vitzoo.config.experiment import Experiment, inputs_of
from vitzoo.config.fields import check_same
from vitzoo.config.files import read_kept
from vitzoo.config.layers import Overrides, nested
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.sources.base import SourceInfo
from vitzoo.errors import UserError
from vitzoo.evaluation.run import Evaluation
from vitzoo.evaluation.settings import Evaluator
from vitzoo.models.base import ModelConfig
from vitzoo.nn.execution import Execution
from vitzoo.nn.state import Params
from vitzoo.objectives.base import Objective, WithMemory
from vitzoo.objectives.binding import bound
from vitzoo.parallel.mesh import devices, make_mesh
from vitzoo.parallel.processes import place, place_all
from vitzoo.parallel.sharding import optimizer_shardings, param_shardings, replicated
from vitzoo.registry import find
from vitzoo.schema import patch
from vitzoo.steps.state import memory_of, with_shardings
from vitzoo.strict_json import JSON
from vitzoo.weights.frozen import FrozenCheckpoints
from vitzoo.weights.info import Info
from vitzoo.weights.load import fitted, information
from vitzoo.weights.model import Part
from vitzoo.weights.open import Published, open_weights

HERE = {"mesh": "auto", "platform": "", "init_from": "", "init_from_state": False, "profile": ""}
"""Settings of a run that don't concern where it is evaluated."""

EVALUATORS = {"text": "perplexity"}
"""Which evaluator measures other data than the run's own, where the objective doesn't say, by what it is for."""

ANY_DATA = ("batch_size", "dir", "workers", "prefetch", "bad_files", "in_memory")
"""Settings of a run's data section that make sense for other data too."""


@dataclasses.dataclass(frozen=True)
class Ready:
    """A checkpoint whose weights lie on the devices.

    Attributes:
        located: where it is.
        experiment: its run's config with the overrides.
        evaluators: by name, those of the run, or one for the data that were asked for.
        own: whether they are those of the run.
        info: what it knows of itself; its inputs have the overrides.
        notes: what an override left out of the run's config, and where one departs from what the weights were trained
            with.
        inputs: how examples become what the model is given.
        config: the model's settings.
        graph: the model's static structure.
        params: its parameters.
        mesh: the devices.
    """

    located: Located
    experiment: Experiment
    evaluators: dict[str, Evaluator]
    own: bool
    info: Info
    notes: list[str]
    inputs: Inputs
    config: ModelConfig
    graph: nnx.GraphDef
    params: Params
    mesh: Mesh

    @functools.cached_property
    def frozen_models(self) -> FrozenCheckpoints:
        """The checkpoints that its objective learns from, laid out.

        Raises:
            UserError: one isn't there any more.
        """
        execution = execution_of(self.experiment, self.mesh)
        return FrozenCheckpoints.open(
            self.experiment.objective,
            inputs=self.inputs,
            config=self.config,
            classes=self.info.classes,
            execution=execution,
        )


def make_ready(
    checkpoint: str,
    overrides: Overrides,
    weights: str,
    all_classes: bool = False,
    shots: int | None = None,
    instead: str = "",
    check: Callable[[Mapping[str, JSON], Collection[str]], None] | None = None,
) -> Ready:
    """Find, check and read a checkpoint; see `evaluation.evaluate`.

    Args:
        checkpoint, overrides, weights, all_classes, shots: as there.
        instead: a dataset that it is measured on, by evaluators that come later; empty: by those that `evaluators` has.
        check: called with the config's values and the evaluators' names before the weights are read.
    """
    flags = nested(overrides)
    located = open_weights(checkpoint, flags.get("model"))
    resolved = resolve(config_of_run(located, flags, instead), overrides=overrides)
    step = located.folder.name if located.run else ""
    check_same(
        resolved.values, {"--checkpoint": step, "--weights": weights, "--all-classes": all_classes, "--shots": shots}
    )
    experiment = resolved.experiment
    with_classes = located.description["classes"] is not None or getattr(experiment.objective, "CLASSES", False)
    evaluators = {} if instead else evaluators_of(experiment, flags, with_classes)
    if shots is not None:
        evaluators = with_shots(evaluators, shots)
    if all_classes:
        evaluators = {name: over_all(evaluator) for name, evaluator in evaluators.items()}
    if check is not None:
        check(resolved.values, evaluators)
    choice = experiment.model.over(located.description["model"])
    made = assemble(choice)
    config, classes = made.config, located.description["classes"]
    inputs = inputs_of(experiment).adopt(located.description, located.folder, flags.get("inputs", {}))
    mesh = make_mesh(experiment.mesh, devices(experiment.platform))
    made = dataclasses.replace(made, execution=execution_of(experiment, mesh))
    images = inputs.find(ImageProcessor)
    preprocessing = None if images is None else images.of(config)
    host, report, which = fitted(located, made, classes, weights, preprocessing=preprocessing)
    graph, shapes = made.abstract
    params = place_all(host, param_shardings(shapes, made.rules, mesh))
    info = information(checkpoint, located, inputs, config, classes, which, report)
    # where benchmarks lie is stated by data.dir too, which the run's own data may have no use for
    notes = [f"config   {note}" for note in resolved.notes if not note.startswith("data.dir ")]
    trained = Inputs.of_checkpoint(located.description, located.folder)
    notes += inputs.departures(trained, config)
    own = "split" not in flags.get("data", {})
    return Ready(located, experiment, evaluators, own, info, notes, inputs, config, graph, params, mesh)


def config_of_run(located: Located, flags: dict[str, Any], instead: str = "") -> dict[str, Any]:
    """The config of the run a checkpoint belongs to, its model as the checkpoint says; without a run, the least."""
    file = located.run / "config.json" if located.run else None
    description = located.description
    if file is not None and file.is_file():
        base = read_kept(file, "config")
    else:
        base = {"total_steps": 1, "objective": description["objective"], "data": {"name": description["data"]["name"]}}
    data = base["data"]
    if instead or "name" in flags.get("data", {}):
        data = {key: value for key, value in data.items() if key in ANY_DATA}
        data |= {"name": instead} if instead else {}
    # of the training: evaluators may be changed here
    kept = {"early_stopping": 0, "checkpoint": {**base.get("checkpoint", {}), "keep_best": ""}}
    return {**base, **HERE, **kept, "model": description["model"], "data": data}


def evaluators_of(experiment: Experiment, flags: dict[str, Any], with_classes: bool) -> dict[str, Evaluator]:
    """The run's own evaluators; or, where a dataset or split is asked for, one of the objective's kind on that: of a
    model of images that has no classes, the objective itself.

    Raises:
        UserError: a dataset without a split, a split and settings of evaluators, which it takes the place of; or
            neither is asked for and the run has no evaluators.
    """
    asked = flags.get("data", {})
    if "split" in asked:
        if own := list(flags.get("evaluate", {})):
            message = "has no effect with data.split, which is measured in place of the run's evaluators; leave one out"
            raise UserError(f"evaluate.{own[0]}", None, message)
        objective = experiment.objective
        other = EVALUATORS.get(getattr(objective, "TAKES", ""), "classification" if with_classes else "objective")
        evaluator = find("evaluator", getattr(objective, "EVALUATOR", other))
        return {"eval": evaluator(split=experiment.data.split)}
    if "name" in asked:
        name = next(iter(flags.get("evaluate", {})), "NAME")
        message = "must be given with data.name: test, validation, train[:10%], all, ...; or, to measure one evaluator "
        raise UserError("data.split", None, f"{message}elsewhere, evaluate.{name}.data.name in place of data.name")
    if not experiment.evaluate:
        raise UserError("evaluate", None, "the checkpoint's run has no evaluators; set data.split (and data.name)")
    return experiment.evaluate


def over_all(evaluator: Evaluator) -> Evaluator:
    """The evaluator with predictions among all of the model's classes.

    Raises:
        UserError: it has no classes.
    """
    if not hasattr(evaluator, "all_classes"):
        raise UserError("--all-classes", None, "the evaluator predicts no classes")
    changes: dict[str, Any] = {"all_classes": True}
    return dataclasses.replace(evaluator, **changes)


def with_shots(evaluators: dict[str, Evaluator], shots: int) -> dict[str, Evaluator]:
    """The evaluators, those that ask questions with so many solved ones before each.

    Raises:
        UserError: none of them asks.
    """
    if not any(hasattr(evaluator, "shots") for evaluator in evaluators.values()):
        raise UserError("--shots", shots, "none of the evaluators asks questions, as generation and multiple_choice do")
    return {
        name: patch(evaluator, {"shots": shots}, f"evaluate.{name}") if hasattr(evaluator, "shots") else evaluator
        for name, evaluator in evaluators.items()
    }


def execution_of(experiment: Experiment, mesh: Mesh) -> Execution:
    """How the model is computed: in the precision of the run's config."""
    return Execution.on(mesh.devices.flat[0].platform, experiment.precision, experiment.scan)


def bound_objective(ready: Ready, info: SourceInfo) -> Objective:
    """The objective bound to the run's training data, which may say how many examples each class has.

    Args:
        ready: the checkpoint.
        info: of the rows that are measured, to which it is bound where they aren't the run's.

    Raises:
        UserError: the training data or what it learns from aren't there.
    """
    data = ready.experiment.data
    if ready.own:
        info = ready.inputs.rows(ready.inputs.source(data), data, ready.config, train=True).info
    return bound(ready.experiment.objective, info, ready.config, ready.frozen_models.models)


def state_beside(ready: Ready, evaluation: Evaluation) -> Params:
    """What of a checkpoint's state an evaluation needs besides the parameters.

    Raises:
        UserError: the checkpoint has none of it, or it doesn't fit the model; or what is learned from has changed.
    """
    state: dict[str, Any] = {"step": place(np.int32(ready.info.step or 0), replicated(ready.mesh))}
    if isinstance(evaluation.objective, WithMemory):
        state["objective"] = _memory(ready, evaluation.objective)
    if evaluation.objective is not None and ready.frozen_models.models:
        state["frozen"] = ready.frozen_models.load(ready.mesh)
        ready.frozen_models.check_same(ready.info.description, "the loss would be another")
    return state


def _memory(ready: Ready, objective: Any) -> Any:
    folder = ready.located.folder / "objective"
    if isinstance(ready.located, Part | Published) or not folder.is_dir():
        message = f"measures an objective that remembers, and {ready.info.checkpoint} holds weights without its memory"
        raise UserError("name", "objective", message)
    shapes = jax.eval_shape(lambda params: memory_of(objective, params), ready.params)
    places = optimizer_shardings(shapes, ready.params, jax.tree.map(lambda leaf: leaf.sharding, ready.params))
    try:
        return restore_arrays(folder, with_shardings(shapes, places))
    except Damaged as error:
        raise UserError("name", "objective", str(error)) from error
