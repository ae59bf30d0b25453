"""The checkpoint that a training starts from (`init_from`): its architecture, preprocessing and weights."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from vitzoo.checkpoints.locate import Located
from vitzoo.checkpoints.metadata import Named
from vitzoo.config import Resolved
from vitzoo.config.assembly import Assembly
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.errors import UserError
from vitzoo.nn.state import HostParams
from vitzoo.training.run_folder import read_config
from vitzoo.weights.load import fitted
from vitzoo.weights.open import open_weights

WEIGHTS = {"ema": "averaged weights", "raw": "raw weights", "published": "published weights"}


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A checkpoint that was found and verified; its weights are read when the parameters are made.

    Attributes:
        name: as the config says it.
        located: where it is.
    """

    name: str
    located: Located

    @classmethod
    def open(cls, checkpoint: str, given: Mapping[str, Any]) -> "Pretrained":
        """Find it.

        Args:
            checkpoint: as the config says it.
            given: the config's settings of the model, for what can't be known from published files.

        Raises:
            UserError: it is missing, damaged or no checkpoint.
        """
        try:
            return cls(checkpoint, open_weights(checkpoint, given))
        except UserError as refusal:
            if refusal.field != "checkpoint":  # a setting of the model
                raise
            raise UserError("init_from", refusal.value, refusal.message) from None

    @property
    def model(self) -> Named:
        """`name`, `variant` and every setting of its model."""
        return self.located.description["model"]

    def inputs(self, inputs: Inputs, resolved: Resolved) -> Inputs:
        """The checkpoint's way of feeding its model, with what the config itself states.

        Raises:
            UserError: it is for another kind of data, or a flag asks for another tokenizer.
        """
        stated = _stated(resolved, ("file", "flag"))
        # a config that comes with vitzoo states a tokenizer for training from nothing: see `left_out`
        own, flags = self._own_inputs(), _stated(resolved, ("flag",))
        for name in stated:
            before, given = own.get(name, {}).get("tokenizer", {}), flags.get(name, {}).get("tokenizer", {})
            stated[name].pop("tokenizer", None)
            differ = {key: value for key, value in given.items() if key not in before or before[key] != value}
            stated[name] |= {"tokenizer": differ} if differ else {}
        return inputs.adopt(self.located.description, self.located.folder, stated)

    def left_out(self, resolved: Resolved, inputs: Inputs) -> list[str]:
        """A line for what the config's file states of a tokenizer and the checkpoint's isn't."""
        stated = _stated(resolved, ("file",))
        return [line for name, one in inputs.processors.items() for line in one.unheeded(stated.get(name, {}))]

    def _own_inputs(self) -> dict[str, Any]:
        """What the checkpoint's run states of its inputs; nothing where these came from elsewhere themselves."""
        config = None if self.located.run is None else read_config(self.located.run)
        return {} if config is None or config.get("init_from") else config.get("inputs", {})

    def parameters(
        self, made: Assembly, classes: Sequence[str] | None, seed: int, inputs: Inputs
    ) -> tuple[HostParams, list[str]]:
        """The weights made to fit a model that this feeds, as nested NumPy arrays, and lines on what became of them."""
        images = inputs.find(ImageProcessor)
        params, report, which = fitted(
            self.located, made, classes, seed=seed, preprocessing=None if images is None else images.of(made.config)
        )
        first = f"from    {self.name}, step {self.located.step}, {WEIGHTS[which]}"
        return params, [first, *report.lines()]


def _stated(resolved: Resolved, layers: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The settings of each input that these layers of a config state."""
    stated: dict[str, dict[str, Any]] = {}
    for name, source in resolved.sources.items():
        section, *path = name.split(".")
        if source not in layers or section != "inputs":
            continue
        input, field, *within = path
        values = resolved.values["inputs"][input][field]
        found = stated.setdefault(input, {})
        if field == "tokenizer":
            found.setdefault(field, {})[within[0]] = values[within[0]]
        else:
            found[field] = values  # of a field that holds several by name, all
    return stated
