"""The checkpoint that a training starts from (`init_from`): its architecture, preprocessing and weights."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vitzoo.checkpoints.locate import Located
from vitzoo.config import Resolved
from vitzoo.config.experiment import FEED_SECTIONS, feed_kind
from vitzoo.data.feed import Feed
from vitzoo.data.image_feed import preprocessing_for
from vitzoo.errors import UserError
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
    def model(self) -> dict[str, Any]:
        """`name`, `variant` and every setting of its model."""
        return self.located.description["model"]

    def feed(self, feed: Feed, resolved: Resolved) -> Feed:
        """The checkpoint's way of feeding its model, with what the config itself states.

        Raises:
            UserError: it is for another kind of data, or a flag asks for another tokenizer.
        """
        stated = _stated(resolved, ("file", "flag"))
        # a config that comes with vitzoo states a tokenizer for training from nothing: see `left_out`
        own, flags = self._own_tokenizer(), _stated(resolved, ("flag",)).get("tokenizer", {})
        stated["tokenizer"] = {name: value for name, value in flags.items() if name not in own or own[name] != value}
        return feed.adopt(self.located.description, self.located.folder, stated)

    def left_out(self, resolved: Resolved, feed: Any) -> list[str]:
        """A line for what the config's file states of a tokenizer and the checkpoint's isn't."""
        if feed_kind(resolved.experiment.objective) != "text":
            return []
        from vitzoo.data.text.tokenizers.published import differing

        stated = _stated(resolved, ("file",)).get("tokenizer", {})
        other = differing(resolved.experiment.tokenizer, stated, feed.tokenizer)
        if not other:
            return []
        listed = ", ".join(f"tokenizer.{name} = {stated[name]}" for name in other)
        return [f"tokenizer: the checkpoint's {feed.tokenizer.kind}; {listed} of the config has no effect"]

    def _own_tokenizer(self) -> dict[str, Any]:
        """What the checkpoint's run states of its tokenizer; nothing where that came from elsewhere itself."""
        config = None if self.located.run is None else read_config(self.located.run)
        return {} if config is None or config.get("init_from") else config.get("tokenizer", {})

    def parameters(
        self, config: Any, classes: Sequence[str] | None, build: Callable, seed: int, feed: Feed
    ) -> tuple[dict[str, Any], list[str]]:
        """The weights made to fit a model that this feeds, as nested NumPy arrays, and lines on what became of them."""
        params, report, which = fitted(
            self.located, config, classes, build, seed=seed, preprocessing=preprocessing_for(feed, config)
        )
        first = f"from    {self.name}, step {self.located.step}, {WEIGHTS[which]}"
        return params, [first, *report.lines()]


def _stated(resolved: Resolved, layers: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The settings of what feeds a model that these layers of a config state, by section."""
    stated: dict[str, dict[str, Any]] = {}
    sections = {section for several in FEED_SECTIONS.values() for section in several}
    for name, source in resolved.sources.items():
        section, _, field = name.partition(".")
        if source in layers and section in sections:
            field = field.partition(".")[0]  # of a field that holds several by name, all
            stated.setdefault(section, {})[field] = resolved.values[section][field]
    return stated
