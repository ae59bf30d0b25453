"""What it takes to measure a checkpoint's objective: bound as in its training, with its memory and frozen models."""

from typing import Any

import jax
import numpy as np

from vitzoo.checkpoints.arrays import restore_arrays
from vitzoo.checkpoints.manifest import Damaged
from vitzoo.data.sources.base import SourceInfo
from vitzoo.errors import UserError
from vitzoo.evaluation.ready import Ready
from vitzoo.evaluation.run import Evaluation
from vitzoo.objectives.base import Objective, WithMemory
from vitzoo.parallel.processes import place
from vitzoo.parallel.sharding import optimizer_shardings, replicated
from vitzoo.steps.state import memory_of, with_shardings
from vitzoo.weights.model import Part
from vitzoo.weights.open import Published


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
    return ready.experiment.objective.bind(info, ready.config, **ready.frozen_models.models)


def state_beside(ready: Ready, evaluation: Evaluation) -> dict[str, Any]:
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
