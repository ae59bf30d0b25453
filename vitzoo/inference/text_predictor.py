"""A checkpoint held ready to say something of texts: loaded once, compiled once for each shape."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vitzoo.data.text.token_array import unknown_note
from vitzoo.errors import UserError
from vitzoo.inference.inputs import TextInput, gather_texts
from vitzoo.inference.text_tasks import Asked, Task, Unusable, task_of
from vitzoo.nn import state
from vitzoo.parallel.mesh import devices
from vitzoo.weights.load import TextInfo, load

TOP = 5
SHORTEST = 16  # tokens that a row is filled up to at least

Compute = Callable[[Any, dict[str, np.ndarray]], dict[str, jax.Array]]


class TextPredictor:
    """A checkpoint ready to be called as often as wanted.

        predictor = vitzoo.inference.TextPredictor("runs/spam")
        predictor("win money")[0]["top"][0]                    # {"label": "spam", "index": 1, "probability": 0.98}
        predictor.similarity(["a cat", "a dog"])               # float32 [2, 2]

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        batch_size: most texts computed at a time.
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.

    Raises:
        UserError: there is no such checkpoint, it is damaged or of images, or the platform is absent.
    """

    def __init__(self, checkpoint: str | Path, *, weights: str = "auto", batch_size: int = 64, platform: str = ""):
        if batch_size < 1:
            raise UserError("batch_size", batch_size, "must be at least 1")
        self.device, self.batch_size = devices(platform)[0], batch_size
        with jax.default_device(self.device):
            model, info = load(str(checkpoint), weights)
        info.check_alone()
        if not isinstance(info, TextInfo):
            raise UserError(
                "checkpoint", checkpoint, "holds a model of images, which takes files and folders, not text"
            )
        self.info, self.task = info, task_of(model, info)
        self.embeds = hasattr(model, "sentence_embedding")
        self._graph, params = state.split(model)
        self._params = jax.device_put(params, self.device)
        self._say = jax.jit(self._said, static_argnames="top")
        self._embed = jax.jit(self._embedded)

    def __call__(self, inputs: Any, top: int | None = None) -> list[dict[str, Any]]:
        """What the model says of texts; see `predict_texts`."""
        return list(self.rows(self.task.checked(gather_texts(inputs, self.info.text)), top))

    def embeddings(self, inputs: Any) -> np.ndarray:
        """Each text's embedding, float32 [n, width]: the mean of its encoded tokens, or as the model's config says.

        Raises:
            UserError: the model encodes no texts.
        """
        self.check_embeds()
        texts = gather_texts(inputs, self.info.text)
        return np.stack([one["embedding"] for one in self.embedded(texts)])

    def similarity(self, inputs: Any) -> np.ndarray:
        """The cosine of the angle between each two texts' embeddings, float32 [n, n].

        Raises:
            UserError: the model encodes no texts.
        """
        vectors = self.embeddings(inputs)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return np.clip(unit @ unit.T, -1, 1)

    def check_embeds(self) -> None:
        """Refuses a model that gives no sentence embeddings."""
        if not self.embeds:
            raise UserError(
                "checkpoint", self.info.checkpoint, "holds no encoder (bert), which gives a text's embedding"
            )

    def most(self, top: int | None) -> int:
        """How many answers a row lists: 5 by default, and no more than there are."""
        if top is not None and top < 1:
            raise UserError("top", top, "must be at least 1")
        return min(top or TOP, self.task.answers)

    def rows(
        self,
        texts: Sequence[TextInput],
        top: int | None = None,
        done: Callable[[int], None] | None = None,
        *,
        must_answer: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """A row for each text, in order; `done` is called with how many are finished. Unless it `must_answer`, a text
        that asks nothing, one without a mask, is no error: its embedding is what is wanted.
        """
        most, asked = self.most(top), [_asked(self.task, one) for one in texts]
        good = [one for one in asked if isinstance(one, Asked)]
        computed = self._computed(good, partial(self._say, top=most))
        for number, (one, what) in enumerate(zip(texts, asked, strict=True), 1):
            if isinstance(what, Asked):
                yield {**one.fields, **self.task.row(one, what, next(computed), most), "error": None}
            else:
                yield {**self.task.nothing(), **one.fields, "error": what if must_answer or one.error else None}
            if done:
                done(number)

    def cut(self, texts: Sequence[TextInput]) -> int:
        """How many of the texts are too long, so that only their beginning is read."""
        asked = [_asked(self.task, one) for one in texts]
        return sum(isinstance(one, Asked) and one.cut > 0 for one in asked)

    def unknown(self, texts: Sequence[TextInput]) -> tuple[str, ...]:
        """A note where tokens of texts stand for text that the tokenizer doesn't know."""
        asked = [one.ids for one in (_asked(self.task, one) for one in texts) if isinstance(one, Asked)]
        unknown = sum(int(np.count_nonzero(ids == self.info.tokenizer.unknown_id)) for ids in asked)
        return unknown_note(unknown, sum(map(len, asked)), " of the text" if len(texts) == 1 else " of the texts")

    def embedded(self, texts: Sequence[TextInput]) -> Iterator[dict[str, np.ndarray]]:
        """`embedding` float32 [width] of each text, in order."""
        return self._computed([Task.asked(self.task, one) for one in texts], self._embed)

    def _computed(self, asked: Sequence[Asked], compute: Compute) -> Iterator[dict[str, np.ndarray]]:
        """What `compute` gives for each, a batch at a time. All batches of a call have one shape."""
        if not asked:
            return
        size = min(self.batch_size, _power(len(asked)))
        length = min(self.task.longest, _power(max(SHORTEST, *(len(one.ids) for one in asked))))
        places = _power(max(1, *(len(one.places) for one in asked)))
        for start in range(0, len(asked), size):
            part = asked[start : start + size]
            batch = _batch(part, size, length, places, self.info.tokenizer.fill_id)
            outputs = compute(self._params, jax.device_put(batch, self.device))
            arrays = {name: np.asarray(values) for name, values in outputs.items()}
            for index in range(len(part)):
                yield {name: values[index] for name, values in arrays.items()}

    def _said(self, params: Any, batch: dict[str, jax.Array], top: int) -> dict[str, jax.Array]:
        return self.task.outputs(state.merge(self._graph, params), batch, top)

    def _embedded(self, params: Any, batch: dict[str, jax.Array]) -> dict[str, jax.Array]:
        model = state.merge(self._graph, params)
        x = model.encode(batch["tokens"], sentence_types=batch["sentence_types"], segments=batch["segments"])
        return {"embedding": model.sentence_embedding(x, batch["segments"])}


def _asked(task: Task, one: TextInput) -> Asked | str:
    """A text as the model takes it, or why it can't."""
    if one.error is not None:
        return one.error
    try:
        return task.asked(one)
    except Unusable as reason:
        return str(reason)


def _batch(asked: Sequence[Asked], size: int, length: int, places: int, fill: int) -> dict[str, np.ndarray]:
    """Texts as one batch, filled up with rows that hold nothing."""
    batch = {name: np.zeros((size, length), np.int32) for name in ("tokens", "segments", "sentence_types")}
    batch["tokens"][:] = fill
    batch["places"] = np.full((size, places), -1, np.int32)
    for row, one in enumerate(asked):
        used = slice(0, len(one.ids))
        batch["tokens"][row, used], batch["segments"][row, used] = one.ids, 1
        batch["sentence_types"][row, used] = one.types
        batch["places"][row, : len(one.places)] = one.places
    return batch


def _power(count: int) -> int:
    """The power of two that is at least that."""
    return 1 << (count - 1).bit_length()
