"""The checkpoint that a training starts from (`init_from`): its architecture, preprocessing and weights."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from vitzoo.checkpoints.locate import Located, locate
from vitzoo.config import Resolved
from vitzoo.data.settings import Preprocessing
from vitzoo.errors import Refused
from vitzoo.schema import patch
from vitzoo.weights.load import fitted, preprocessing_of


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
    def open(cls, checkpoint: str) -> "Pretrained":
        """Find it.

        Raises:
            Refused: it is missing, damaged or no checkpoint.
        """
        try:
            return cls(checkpoint, locate(checkpoint))
        except Refused as refusal:
            raise Refused("init_from", checkpoint, refusal.message) from None

    @property
    def model(self) -> dict[str, Any]:
        """`name`, `variant` and every setting of its model."""
        return self.located.description["model"]

    def preprocessing(self, resolved: Resolved, channels: int) -> Preprocessing:
        """The checkpoint's preprocessing, with what the config itself sets."""
        own = {field.name: getattr(resolved.experiment.preprocessing, field.name) for field in _FIELDS}
        stated = {name: own[name] for name in own if resolved.sources.get(f"preprocessing.{name}") in ("file", "flag")}
        return patch(preprocessing_of(self.located.description, channels), stated, "preprocessing")

    def parameters(
        self, config: Any, classes: Sequence[str] | None, build: Callable, seed: int
    ) -> tuple[dict[str, Any], list[str]]:
        """The weights made to fit a model, as nested NumPy arrays, and lines that say what became of them."""
        params, report, which = fitted(self.located, config, classes, build, seed=seed)
        first = f"from    {self.name}, step {self.located.step}, {'averaged' if which == 'ema' else 'raw'} weights"
        return params, [first, *report.lines()]


_FIELDS = dataclasses.fields(Preprocessing)
