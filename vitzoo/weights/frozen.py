"""The checkpoints that an objective learns from (`setting(checkpoint=True)`): loaded beside the model, not trained, not
saved.
"""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.metadata import FROZEN, Description
from vitzoo.config.assembly import from_description, frozen_models
from vitzoo.config.contracts import ObjectiveSettings
from vitzoo.data.inputs import Inputs
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.nn.execution import Execution
from vitzoo.nn.paths import flatten, unflatten
from vitzoo.nn.state import Params
from vitzoo.objectives.base import Frozen
from vitzoo.parallel.processes import place
from vitzoo.schema import checkpoints_of
from vitzoo.steps.state import frozen_shardings
from vitzoo.weights.load import fitted
from vitzoo.weights.open import open_weights


def locate_frozen(name: str, checkpoint: str) -> Located:
    """Where the checkpoint is that `objective.NAME` names.

    Raises:
        UserError: it is missing or damaged.
    """
    try:
        return open_weights(checkpoint)
    except UserError as refusal:
        raise UserError(f"objective.{name}", checkpoint, refusal.message) from None


@dataclasses.dataclass(frozen=True)
class FrozenCheckpoints:
    """What an objective learns from, by setting; empty for most.

    Attributes:
        names: the checkpoints as the config says them.
        located: where they are.
        models: what `bind` is given.
        marks: what each is told apart by: `checkpoint`, `step`, `weights` (which they are) and `crc32` of all of them;
            known once `load` has read them.
    """

    names: Mapping[str, str]
    located: Mapping[str, Located]
    models: Mapping[str, Frozen]
    marks: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    @classmethod
    def open(
        cls,
        objective: ObjectiveSettings,
        *,
        inputs: Inputs,
        config: ModelConfig,
        classes: Sequence[str] | None,
        execution: Execution,
    ) -> "FrozenCheckpoints":
        """Find them and lay them out.

        Args:
            objective: the settings that name them.
            inputs, config, classes, execution: of the student, as for `config.assembly.frozen_models`.

        Raises:
            UserError: one is missing or damaged, or takes no such images.
        """
        names = checkpoints_of(objective)
        located = {name: locate_frozen(name, checkpoint) for name, checkpoint in names.items()}
        descriptions = {name: one.description for name, one in located.items()}
        models = frozen_models(
            objective, descriptions, inputs=inputs, config=config, classes=classes, execution=execution
        )
        return cls(names, located, models)

    def load(self, mesh: Mesh) -> dict[str, Params]:
        """Their variables on the devices, as the state holds them under `frozen`."""
        places = frozen_shardings(self.models, mesh)
        return {name: self._load(name, flatten(places[name])) for name in self.models}

    def _load(self, name: str, places: Mapping[str, jax.sharding.Sharding]) -> Params:
        located, shapes = self.located[name], flatten(self.models[name].shapes)
        made = from_description(located.description)
        fit, _, which = fitted(located, made, located.description["classes"])
        params = {path: np.asarray(leaf, shapes[path].dtype) for path, leaf in flatten(fit).items()}
        checksum = 0
        for path, leaf in params.items():
            checksum = zlib.crc32(np.ascontiguousarray(leaf).data, zlib.crc32(path.encode(), checksum))
        marks = {"checkpoint": self.names[name], "step": located.step, "weights": which, "crc32": f"{checksum:08x}"}
        self.marks[name] = marks
        return unflatten({path: place(leaf, places[path]) for path, leaf in params.items()})

    def check_same(self, description: Description, remedy: str) -> None:
        """Refuses one that is another than a run began with, under the same name.

        Args:
            description: the content of `model.json` of the run's checkpoint.
            remedy: what to do, or why it matters.
        """
        for name, now in self.marks.items():
            then = description.get(FROZEN, {}).get(name, now)
            differing = [key for key in ("step", "weights", "crc32") if then.get(key) != now[key]]
            if differing:
                marks = ", ".join(f"{key} {then.get(key)}, now {now[key]}" for key in differing)
                message = f"has changed since this run began ({marks}); {remedy}"
                raise UserError(f"objective.{name}", self.names[name], message)
