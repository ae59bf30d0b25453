"""A checkpoint held ready to classify images: loaded once, compiled once."""

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.image_files import BadImage
from vitzoo.data.images import pixel_type
from vitzoo.data.mixing import normalise
from vitzoo.errors import RunError, UserError
from vitzoo.inference.inputs import Input, gather
from vitzoo.nn import state
from vitzoo.parallel.mesh import devices
from vitzoo.weights.load import ImageInfo, load

TOP = 5
THREADS = 8  # images decoded at a time


@dataclasses.dataclass(frozen=True)
class Seen:
    """What the model made of one image, or why it couldn't be read.

    Attributes:
        name: the input's.
        probabilities: float32 `[classes]`; with several labels each is a probability of its own.
        features: float32 `[width]`, what the head sees; None where the model doesn't say.
        error: why there is neither.
    """

    name: str
    probabilities: np.ndarray | None = None
    features: np.ndarray | None = None
    error: str | None = None


class Predictor:
    """A checkpoint ready to be called as often as wanted.

        predictor = vitzoo.inference.Predictor("runs/photos")
        predictor("cat.jpg")[0]["top"][0]                       # {"label": "cat", "index": 3, "probability": 0.98}

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        batch_size: most images computed at a time. Batches are padded to it, and for fewer images to a power of two,
            so that one call compiles once at most and many calls a few times.
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.

    Raises:
        UserError: there is no such checkpoint, it is damaged, its model has no head, or the platform is absent.
    """

    def __init__(self, checkpoint: str | Path, *, weights: str = "auto", batch_size: int = 64, platform: str = ""):
        if batch_size < 1:
            raise UserError("batch_size", batch_size, "must be at least 1")
        self.device, self.batch_size = devices(platform)[0], batch_size
        with jax.default_device(self.device):
            model, info = load(str(checkpoint), weights)
        info.check_alone()
        if not isinstance(info, ImageInfo):
            raise UserError("checkpoint", checkpoint, "holds a model of text: give text (--text, --input), not images")
        self.info, self.has_features = info, hasattr(model, "features")
        if not self.info.num_classes:
            raise UserError(
                "checkpoint", checkpoint, "holds a model without a head, so there are no classes to predict"
            )
        self._graph, params = state.split(model)
        self._params = jax.device_put(params, self.device)
        self._step = jax.jit(self._compute)

    def __call__(self, inputs: Any, top: int | None = None) -> list[dict[str, Any]]:
        """Classify images; see `predict`."""
        return [row(seen, self.labels, self.most(top)) for seen in self.seen(gather(inputs))]

    def features(self, inputs: Any) -> np.ndarray:
        """What the head sees of each image, float32 `[n, width]`.

        Raises:
            UserError: the model doesn't say.
            RunError: an image can't be read.
        """
        self.check_features()
        found = []
        for seen in self.seen(gather(inputs)):
            if seen.features is None:
                raise RunError(f"{seen.name}: {seen.error}")
            found.append(seen.features)
        return np.stack(found)

    def check_features(self) -> None:
        """Refuses a model that doesn't say what its head sees."""
        if not self.has_features:
            message = "its model has no method `features`, so what its head sees isn't known"
            raise UserError("checkpoint", self.info.checkpoint, message)

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes' names, numbers where there are none."""
        return self.info.classes or tuple(str(index) for index in range(self.info.num_classes))

    def most(self, top: int | None) -> int:
        """How many classes a row lists: all by default where an image may have several labels, else 5."""
        if top is not None and top < 1:
            raise UserError("top", top, "must be at least 1")
        everything = self.info.num_classes
        return min(top or (everything if self.info.multi_label else TOP), everything)

    def seen(self, inputs: list[Input], done: Callable[[int], None] | None = None) -> Iterator[Seen]:
        """What the model makes of each input, in order; `done` is called with how many are finished."""
        size = min(self.batch_size, 1 << (len(inputs) - 1).bit_length())
        with ThreadPoolExecutor(THREADS) as threads:
            for start in range(0, len(inputs), size):
                batch = inputs[start : start + size]
                yield from self._batch(batch, list(threads.map(self._pixels, batch)), size)
                if done:
                    done(start + len(batch))

    def _pixels(self, one: Input) -> np.ndarray | str:
        if one.error is not None:
            return one.error
        try:
            return self.info.pixels(one.image)
        except BadImage as error:
            return error.reason

    def _batch(self, inputs: list[Input], pixels: list[np.ndarray | str], size: int) -> Iterator[Seen]:
        images: np.ndarray = np.zeros((size, *self.info.size, self.info.channels), pixel_type(self.info.preprocessing))
        for index, image in enumerate(pixels):
            if not isinstance(image, str):
                images[index] = image
        outputs = self._step(self._params, jax.device_put(images, self.device))
        probabilities, features = (
            np.asarray(outputs[0]),
            [None] * size if outputs[1] is None else np.asarray(outputs[1]),
        )
        for index, (one, image) in enumerate(zip(inputs, pixels, strict=True)):
            if isinstance(image, str):
                yield Seen(one.name, error=image)
            else:
                yield Seen(one.name, probabilities[index], features[index])

    def _compute(self, params: Any, images: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        model, pixels = state.merge(self._graph, params), normalise(images, self.info.preprocessing)
        seen = model.features(pixels) if self.has_features else {"logits": model(pixels, train=False)}
        logits = seen["logits"].astype(jnp.float32)
        probabilities = jax.nn.sigmoid(logits) if self.info.multi_label else jax.nn.softmax(logits)
        return probabilities, seen["pooled"].astype(jnp.float32) if self.has_features else None


def row(seen: Seen, labels: tuple[str, ...], most: int) -> dict[str, Any]:
    """One image's result as plain values; equal probabilities go by class number."""
    if seen.probabilities is None:
        return {"file": seen.name, "top": [], "error": seen.error}
    order = np.argsort(-seen.probabilities, kind="stable")[:most]
    top = [{"label": labels[i], "index": int(i), "probability": float(seen.probabilities[i])} for i in order]
    return {"file": seen.name, "top": top, "error": None}
