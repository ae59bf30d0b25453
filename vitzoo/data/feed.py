"""What stands between examples and a model, whether they are images or text: one contract for all of the program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import jax

from vitzoo.data.mixing import Prepare
from vitzoo.data.rows import Rows
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import SourceInfo


class Feed(Protocol):
    """Turns examples into what a model is given, in training, evaluation and use alike.

    A `config` here is the settings of the model; a `source` is what the feed's own `source` gives.
    """

    def adopt(self, description: Mapping[str, Any], folder: Path, stated: Mapping[str, Mapping[str, Any]]) -> "Feed":
        """This feed as a checkpoint's model knows it.

        Args:
            description: the checkpoint's `model.json`.
            folder: of the checkpoint, for its `assets/`.
            stated: by section, the settings that the user states; they win, but for those of a tokenizer, whose ids
                the model has learned.

        Raises:
            UserError: the checkpoint's model takes something else, or its tokenizer isn't the one that is stated.
        """
        ...

    def source(self, data: Data, split: str | None = None) -> Any:
        """The examples of a split, by default `data.split`."""
        ...

    def learned(self, source: Any) -> "Feed":
        """This feed with what it learns from the training examples: a tokenizer."""
        ...

    def model_fields(self, source: Any) -> dict[str, Any]:
        """Settings of the model that the data decide; None where they don't."""
        ...

    def complete(self, config: Any, source: Any) -> Any:
        """A model's settings with what is still open filled in.

        Raises:
            UserError: they don't fit the data.
        """
        ...

    def evaluating(self, evaluator: Any) -> "Feed":
        """This feed with what an evaluator's settings change of it."""
        ...

    def rows(self, source: Any, data: Data, config: Any, *, train: bool) -> Rows:
        """The examples as rows of batches."""
        ...

    def prepare(self, config: Any, info: SourceInfo, *, train: bool) -> Prepare:
        """What happens to a batch on the device before the model sees it."""
        ...

    def described(self, config: Any) -> dict[str, Any]:
        """Its parts of `model.json`: `preprocessing` or `tokenizer`."""
        ...

    def assets(self, folder: Path) -> Path | None:
        """Writes the files that belong to a checkpoint into `folder`, and gives it back; None where there are none."""
        ...

    def arguments(self, config: Any) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes of what the model is called with for one example."""
        ...

    def shown(self, config: Any) -> str:
        """What the model is given, in a few words."""
        ...
