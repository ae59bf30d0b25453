"""What a checkpoint knows of itself: its classes, its inputs, and how a value becomes what its model takes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.checkpoints.metadata import Description
from vitzoo.data.image_files import BadImage
from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.base import Processor
from vitzoo.data.settings import Preprocessing
from vitzoo.data.text.settings import Text
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.user_inputs import Values
from vitzoo.errors import UserError
from vitzoo.models.geometry import image_shape
from vitzoo.weights.transfer import Report


@dataclasses.dataclass(frozen=True, kw_only=True)
class Info:
    """What a checkpoint knows of itself.

    Attributes:
        checkpoint: as it was asked for.
        step: batches it had been trained on.
        weights: which they are, `ema`, `raw` or `published`.
        classes: the names by index; `None` where there are none.
        num_classes: how many classes the model tells apart; 0 where that is not what it does.
        inputs: the processors of what the model is given, by name.
        config: the model's settings.
        description: all of `model.json`.
        report: what became of each leaf.
    """

    checkpoint: str
    step: int
    weights: str
    classes: tuple[str, ...] | None
    num_classes: int
    inputs: Inputs = dataclasses.field(repr=False)
    config: Any = dataclasses.field(repr=False)
    description: Description = dataclasses.field(repr=False)
    report: Report = dataclasses.field(repr=False)

    def preprocess(self, values: Values) -> jax.Array | Mapping[str, jax.Array]:
        """What the model takes, of one value or several: float32 `[batch, height, width, channels]` of images, of text
        a dict of int32 `[batch, tokens]` (`model(**info.preprocess("a text"))`), of other inputs their arrays.

        Args:
            values: as for `predict`: files, folders, values in memory; texts or records.

        Raises:
            UserError: there is none, one can't be read, or the model takes several inputs.
        """
        processor, rows = self.processor, []
        for one in processor.gather(values):
            try:
                if one.error is not None:
                    raise BadImage(one.error)
                rows.append(processor.example(one, self.config))
            except (BadImage, OSError) as error:
                raise UserError("inputs", one.name, getattr(error, "reason", str(error))) from error
        batch = {name: jnp.asarray(np.stack([row[name] for row in rows])) for name in rows[0]}
        made = processor.prepare(self.config, None, train=False)(batch, None)
        return made if len(made) > 1 else made[processor.name]

    @property
    def processor(self) -> Processor:
        """What makes the model's only input.

        Raises:
            UserError: it takes several.
        """
        return only_processor(self.checkpoint, self.inputs)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes' names, numbers where there are none."""
        return self.classes or tuple(str(index) for index in range(self.num_classes))

    @property
    def multi_label(self) -> bool:
        """Whether an example may have several classes, each with a probability of its own."""
        return self.description["objective"].get("loss") == "sigmoid"

    @property
    def tokenizer(self) -> TextTokenizer:
        """Text to ids and back: `info.tokenizer.encode("...")`, `info.tokenizer.decode(ids)`.

        Raises:
            UserError: the model takes no text.
        """
        return self._of("text").tokenizer

    def with_tokenizer(self, tokenizer: TextTokenizer) -> "Info":
        """This with another tokenizer of the same ids; UserError as `tokenizer`."""
        text = self._of("text")
        return dataclasses.replace(self, inputs=self.inputs.replace(text, dataclasses.replace(text, known=tokenizer)))

    @property
    def text(self) -> Text:
        """What a row of text held in training; UserError as `tokenizer`."""
        return self._of("text").text

    @property
    def preprocessing(self) -> Preprocessing:
        """How an image becomes what the model takes.

        Raises:
            UserError: the model takes no images.
        """
        return self._of("image").of(self.config)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image, in pixels; UserError as `preprocessing`."""
        return self._image_shape[:2]

    @property
    def channels(self) -> int:
        """Of an image, 1 or 3; UserError as `preprocessing`."""
        return self._image_shape[2]

    @property
    def _image_shape(self) -> tuple[int, int, int]:
        self._of("image")
        return image_shape(self.config)

    def _of(self, kind: str) -> Any:
        """The first processor of a kind."""
        found = [one for one in self.inputs.processors.values() if one.kind == kind]
        if not found:
            raise UserError("checkpoint", self.checkpoint, f"takes {' and '.join(self.inputs.processors)}, not {kind}")
        return found[0]

    def shown(self) -> str:
        """What becomes of an example, in one line."""
        return "; ".join(one.details(self.config)[0] for one in self.inputs.processors.values())

    def lines(self) -> list[str]:
        """That with what it speaks of, a line for each input."""
        details = (one.details(self.config) for one in self.inputs.processors.values())
        return [f"{what:<9}{shown}" for shown, what in details]


def only_processor(checkpoint: str, inputs: Inputs) -> Processor:
    """What makes the only input of a checkpoint's model.

    Raises:
        UserError: it takes several, which what predicts and writes doesn't know how to give.
    """
    if inputs.only is None:
        message = f"takes {' and '.join(inputs.processors)}; only models of one input are asked here: vitzoo.load(...)"
        raise UserError("checkpoint", checkpoint, f"{message} gives the model, to be called with its inputs")
    return inputs.only
