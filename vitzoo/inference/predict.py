"""Predicting with a checkpoint, whatever its model is given: classes, numbers, tokens; how alike two texts are."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO, cast

import jax
import numpy as np
from flax import nnx

from vitzoo.argument_types import checked
from vitzoo.data.text.user_texts import refuse_files
from vitzoo.data.user_inputs import Input, Values, several
from vitzoo.errors import RunError, UserError
from vitzoo.inference.tasks import ArrayClasses, Prediction, Task, Unusable
from vitzoo.inference.text_tasks import TASKS, Next
from vitzoo.inference.writers import say_first, write_features, write_rows
from vitzoo.nn import state
from vitzoo.outputs import checked_file
from vitzoo.overwriting import Reads, check_apart
from vitzoo.parallel.mesh import devices
from vitzoo.registry import find
from vitzoo.spelling import shell_flag
from vitzoo.streams import counting
from vitzoo.weights.info import Info
from vitzoo.weights.load import Opened, open_model

HOW = ("values", "arguments", "texts")
"""How inputs are given."""

Compute = Callable[[Any, dict[str, Any]], dict[str, jax.Array]]


class Predictor:
    """A checkpoint ready to be called as often as wanted.

        predictor = vitzoo.inference.Predictor("runs/photos")
        predictor("cat.jpg")[0]["top"][0]                       # {"label": "cat", "index": 3, "probability": 0.98}
        predictor.similarity(["cat.jpg", "dog.jpg"])            # float32 [2, 2]

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        batch_size: most values computed at a time. Batches are padded to it, and for fewer values to a power of two,
            as texts are, so that one call compiles a few times at most.
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.

    Raises:
        UserError: there is no such checkpoint, it is damaged, its model takes several inputs or has no head, or the
            platform is absent.
    """

    def __init__(
        self, checkpoint: str | Path | Opened, *, weights: str = "auto", batch_size: int = 64, platform: str = ""
    ):
        if batch_size < 1:
            raise UserError("batch_size", batch_size, "must be at least 1")
        self.device, self.batch_size = devices(platform)[0], batch_size
        with jax.default_device(self.device):
            model, info = open_model(checkpoint).load(weights)
        self.info, self.task = info, task_of(model, info)
        self._graph, params = state.split(model)
        self._params = jax.device_put(params, self.device)
        self._answer = jax.jit(self._answered, static_argnames="top")
        self._embed = jax.jit(self._embedded)

    def __call__(self, inputs: Values, top: int | None = None) -> list[Prediction]:
        """What the model says of images, arrays or texts; see `predict`."""
        return [row for row, _ in self.answers(self.info.processor.gather(inputs), top)]

    def embeddings(self, inputs: Values) -> np.ndarray:
        """What the head sees of each image, or a text's embedding: the mean of its encoded tokens, or as the model's
        config says. Float32 `[n, width]`.

        Raises:
            UserError: the model gives none.
            RunError: an input can't be read.
        """
        self.check_embeds()
        found = []
        for one, _, outputs in self._computed(self.info.processor.gather(inputs), self.task.embeddable, self._embed):
            if isinstance(outputs, Unusable):
                raise RunError(f"{one.name}: {outputs.reason}")
            found.append(outputs["embedding"])
        return np.stack(found)

    def similarity(self, inputs: Values) -> np.ndarray:
        """The cosine of the angle between each two inputs' embeddings, float32 `[n, n]`; errors as of `embeddings`."""
        vectors = self.embeddings(inputs)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return np.clip(unit @ unit.T, -1, 1)

    def check_embeds(self) -> None:
        """Refuses a model that gives no embeddings."""
        if not self.task.embeds:
            raise UserError("checkpoint", self.info.checkpoint, self.task.no_embedding)

    def most(self, top: int | None) -> int:
        """How many answers a row lists: 5 by default, or all where several may be right, and no more than there are."""
        if top is not None and top < 1:
            raise UserError("top", top, "must be at least 1")
        return min(top or self.task.usual, self.task.answers)

    def answers(
        self,
        given: Sequence[Input],
        top: int | None = None,
        done: Callable[[int], None] | None = None,
        *,
        embed: bool = False,
    ) -> Iterator[tuple[Prediction, np.ndarray | None]]:
        """A row for each input, in order, and if `embed` its embedding, where it could be read.

        Args:
            given: what the processor gathered.
            top: answers listed for each.
            done: is called with how many are finished.
            embed: whether the embedding is wanted; then one of which nothing is asked, a text without a mask, is no
                error.
        """
        most = self.most(top)
        computed = self._computed(
            given, self.task.asked, lambda params, batch: self._answer(params, batch, top=most), done
        )
        vectors = self._vectors(given) if embed else itertools.repeat(None)
        for (one, asked, outputs), vector in zip(computed, vectors, strict=False):
            fields = cast(Prediction, one.fields)
            if isinstance(outputs, Unusable):
                error = None if embed and outputs.is_read else outputs.reason
                yield {**fields, **self.task.nothing(), **fields, "error": error}, vector
            else:
                row: Prediction = {**fields, **self.task.row(one, asked, outputs, most), "error": None}
                yield row, outputs.get("embedding", vector) if embed else None

    def _vectors(self, given: Sequence[Input]) -> Iterator[np.ndarray | None]:
        """The embedding of each input where it isn't among the outputs that answer; else nothing."""
        if self.task.answers_embed:
            yield from itertools.repeat(None)
        for _, _, outputs in self._computed(given, self.task.embeddable, self._embed):
            yield None if isinstance(outputs, Unusable) else outputs["embedding"]

    def _computed(
        self,
        given: Sequence[Input],
        make: Callable[[Input], Any],
        compute: Compute,
        done: Callable[[int], None] | None = None,
    ) -> Iterator[tuple[Input, Any, Any]]:
        """Each input with its arrays and what `compute` gives for them, or why it can't, a batch at a time."""
        size = min(self.batch_size, 1 << (len(given) - 1).bit_length())
        with ThreadPoolExecutor(self.task.threads) as threads:
            for start in range(0, len(given), size):
                part = given[start : start + size]
                made = list(threads.map(lambda one: _made(one, make), part))
                good = [one for one in made if not isinstance(one, Unusable)]
                outputs = self._rows(good, size, compute)
                for one, arrays in zip(part, made, strict=True):
                    yield one, arrays, arrays if isinstance(arrays, Unusable) else next(outputs)
                if done:
                    done(start + len(part))

    def _rows(self, made: Sequence[Any], size: int, compute: Compute) -> Iterator[dict[str, np.ndarray]]:
        """The outputs of each of a batch's rows."""
        if not made:
            return
        outputs = compute(self._params, jax.device_put(self.task.batch(made, size), self.device))
        arrays = {name: np.asarray(values) for name, values in outputs.items()}
        for index in range(len(made)):
            yield {name: values[index] for name, values in arrays.items()}

    def _answered(self, params: Any, batch: dict[str, jax.Array], top: int) -> dict[str, jax.Array]:
        return self.task.outputs(state.merge(self._graph, params), batch, top)

    def _embedded(self, params: Any, batch: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {"embedding": self.task.embedding(state.merge(self._graph, params), batch)}


def _made(one: Input, make: Callable[[Input], Any]) -> Any:
    """An input as arrays, or why it can't be."""
    if one.error is not None:
        return Unusable(one.error, is_read=False)
    try:
        return make(one)
    except Unusable as reason:
        return reason


def task_of(model: nnx.Module, info: Info) -> Task:
    """What a model can be asked.

    Raises:
        UserError: nothing: it takes several inputs, has no head, or answers with text.
    """
    if info.processor.tokenizer is None:
        if not info.num_classes:
            message = "holds a model without a head, so there are no classes to predict"
            raise UserError("checkpoint", info.checkpoint, message)
        return ArrayClasses(model, info)
    head = getattr(info.config, "head_kind", None)
    head = head or getattr(find("objective", info.description["objective"]["name"]), "HEAD", "")
    if head in TASKS:
        return TASKS[head](model, info)
    if hasattr(model, "extend") and not hasattr(model, "encode"):
        return Next(model, info)
    if hasattr(model, "extend"):
        command = f"vitzoo generate {shell_flag('--checkpoint', info.checkpoint)} --prompt TEXT"
        raise UserError("checkpoint", info.checkpoint, f"holds a model that answers with text: {command}")
    raise UserError("checkpoint", info.checkpoint, "holds a model without a head, so there is nothing to predict")


@checked(top=1, batch_size=1)
def predict(
    checkpoint: str | Path,
    inputs: Any,
    *,
    top: int | None = None,
    batch_size: int = 64,
    weights: str = "auto",
    output: str | Path | None = None,
    features: str | Path | None = None,
    platform: str = "",
    out: TextIO | None = None,
    given: str = "values",
) -> list[Prediction]:
    """Say of images, arrays or texts what a checkpoint can.

        import vitzoo
        for row in vitzoo.predict("runs/photos", ["a.jpg", "folder/"]):
            print(row["file"], row["top"][0]["label"])
        vitzoo.predict("runs/spam", ["win money", "see you at noon"])
        vitzoo.predict("runs/bert", "once [MASK] a time")
        vitzoo.predict("runs/similar", [{"first": "a cat", "second": "a dog"}])

    Args:
        checkpoint: `RUN`, `RUN@best`, `RUN@STEP` or `RUN/checkpoints/STEP`.
        inputs: of a model of images files, folders (searched to any depth), PIL images, arrays, bytes; of text texts,
            or records with the fields of training; of another input arrays, `.npy` files, folders. One or several.
        top: answers listed for each; 5, or all classes where several may be right.
        batch_size: most inputs computed at a time.
        weights: `ema`, `raw`, or `auto` for the moving average where there is one.
        output: a `.csv` or `.jsonl` file for the rows.
        features: an `.npz` file for `files` or `texts` `[n]` and `features` `[n, width]`, what the head sees of each
            input that could be read; of texts sentence embeddings (of a pair, of both as one).
        platform: `cpu`, `gpu`, `tpu`; empty for the best there is.
        out: where model, inputs and progress are told; nowhere by default.
        given: how: `values`; `arguments` of a command line, where what looks like the name of a file must be one; or
            `texts`, even where a file is named so.

    Returns:
        A row for each input, in order: its `file`, or the fields of its text, the answer, and `error`, which says why
        there is none; the others go on. The answer is, by what the model was trained for:

        - classes: `top`, a list of {"label", "index", "probability"}
        - regression: `value`
        - classes of words: `words`, and of each its label in `labels` and `probabilities` (None where the text is
          too long)
        - masked training: `masks`, for each [MASK] a list of {"token", "id", "probability"}, and `filled`, the text
          with the most probable ones
        - of a decoder: `next`, a list of {"token", "id", "probability"}
        - of an encoder without a head: `embedding`, a list of numbers

    Raises:
        UserError: no such checkpoint, nothing to predict, none of the files and folders is there, texts without the
            fields, or a file that can't be written to.
        RunError: a file couldn't be written.
    """
    inputs = several(inputs)
    if given not in HOW:
        raise UserError("given", given, f"must be one of {', '.join(HOW)}")
    reads = Reads([] if given == "texts" else inputs, [checkpoint])
    output_file = None if output is None else checked_file("--output", output, (".csv", ".jsonl"), reads)
    features_file = None if features is None else checked_file("--features", features, (".npz",), reads)
    check_apart(("--output", output_file), ("--features", features_file))
    opened = open_model(checkpoint)
    found = _gathered(opened, inputs, given)
    predictor = Predictor(opened, weights=weights, batch_size=batch_size, platform=platform)
    if features_file is not None:
        predictor.check_embeds()
    if out is not None:
        say_first(predictor.info, predictor.task, found, out)
    with contextlib.nullcontext() if out is None else counting("predicted", len(found), out) as done:
        answers = list(predictor.answers(found, top, done, embed=features_file is not None))
    rows = [row for row, _ in answers]
    if output_file is not None:
        write_rows(output_file, rows, predictor.task.columns)
    if features_file is not None:
        read = [(one.content, vector) for one, (_, vector) in zip(found, answers, strict=True) if vector is not None]
        what = "files" if "file" in found[0].fields else "texts"
        write_features(features_file, what, [name for name, _ in read], np.array([v for _, v in read], np.float32))
    return rows


def similar(
    checkpoint: str | Path, texts: list[str], *, weights: str = "auto", platform: str = "", out: TextIO | None = None
) -> list[list[float]]:
    """How similar texts are: the cosine between each two of their embeddings, [n][n].

    Raises:
        UserError: no such checkpoint, or its model encodes no texts.
    """
    opened = open_model(checkpoint)
    found = _gathered(opened, texts, "texts")
    predictor = Predictor(opened, weights=weights, platform=platform)
    predictor.check_embeds()
    if out is not None:
        say_first(predictor.info, predictor.task, found, out)
    return [[round(value, 6) for value in row] for row in predictor.similarity(texts).tolist()]


def _gathered(opened: Opened, inputs: Any, given: str) -> Sequence[Input]:
    """What is to be predicted, before any weights are read; arguments and errors as of `predict`."""
    processor = opened.processor
    if processor.tokenizer is not None and given != "texts":
        refuse_files(inputs, typed=given == "arguments")
    if processor.tokenizer is None and given == "texts":
        message = f"holds a model of {processor.noun}s, which takes files and folders, not text"
        raise UserError("checkpoint", opened.checkpoint, message)
    return processor.gather(inputs)
