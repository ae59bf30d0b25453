"""The checkpoint that a training starts from (`init_from`): its architecture, preprocessing and weights."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vitzoo.checkpoints.locate import Located
from vitzoo.config import Resolved
from vitzoo.config.experiment import FEED_SECTIONS
from vitzoo.data.feed import Feed
from vitzoo.errors import Refused
from vitzoo.weights.load import fitted
from vitzoo.weights.opened import open_weights

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
            Refused: it is missing, damaged or no checkpoint.
        """
        try:
            return cls(checkpoint, open_weights(checkpoint, given))
        except Refused as refusal:
            raise Refused("init_from", checkpoint, refusal.message) from None

    @property
    def model(self) -> dict[str, Any]:
        """`name`, `variant` and every setting of its model."""
        return self.located.description["model"]

    def feed(self, feed: Feed, resolved: Resolved) -> Feed:
        """The checkpoint's way of feeding its model, with what the config itself states."""
        stated: dict[str, dict[str, Any]] = {}
        sections = {section for several in FEED_SECTIONS.values() for section in several}
        for name, source in resolved.sources.items():
            section, _, field = name.partition(".")
            if source in ("file", "flag") and section in sections:
                stated.setdefault(section, {})[field] = resolved.values[section][field]
        return feed.adopt(self.located.description, self.located.folder, stated)

    def parameters(
        self, config: Any, classes: Sequence[str] | None, build: Callable, seed: int
    ) -> tuple[dict[str, Any], list[str]]:
        """The weights made to fit a model, as nested NumPy arrays, and lines that say what became of them."""
        params, report, which = fitted(self.located, config, classes, build, seed=seed)
        first = f"from    {self.name}, step {self.located.step}, {WEIGHTS[which]}"
        return params, [first, *report.lines()]
