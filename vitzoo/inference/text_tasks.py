"""What each kind of model says of a text: one small class a kind, from text to ids and from numbers to a row."""

import abc
import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.text.labelled import word_tokens
from vitzoo.data.text.packing import Layout
from vitzoo.data.text.tokenizers.base import Ids
from vitzoo.errors import UserError
from vitzoo.inference.inputs import TextInput
from vitzoo.models.text import is_prefix_lm
from vitzoo.objectives.inputs import logits_of
from vitzoo.registry import find
from vitzoo.spelling import shell_flag
from vitzoo.weights.load import TextInfo

Batch = Mapping[str, jax.Array]
Outputs = Mapping[str, Any]


class Unusable(Exception):
    """A text of which a model can say nothing, and why."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """A text as a model takes it.

    Attributes:
        ids: int32 [tokens].
        types: int32 [tokens], the part that each belongs to.
        places: int32 [k], the tokens at which something is asked.
        cut: tokens that were too many.
    """

    ids: Ids
    types: np.ndarray
    places: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int32))
    cut: int = 0


class Task(abc.ABC):
    """What a kind of model is asked.

    Args:
        model: the model.
        info: of its checkpoint.
    """

    SAYS: ClassVar[str]
    """What that is, in a few words."""

    def __init__(self, model: Any, info: TextInfo):
        self.config, self.info, self.tokenizer = model.config, info, info.tokenizer
        self.layout = Layout(info.tokenizer, info.text.length)

    @property
    def longest(self) -> int:
        """Most tokens of a text."""
        return self.layout.length

    @property
    def answers(self) -> int:
        """How many there are to choose from."""
        return self.config.vocabulary_size

    def checked(self, texts: list[TextInput]) -> list[TextInput]:
        """The texts, all of the kind that the model was trained on.

        Raises:
            UserError: one is a single text where that was pairs, or the reverse.
        """
        paired = self.info.text.paired
        for number, one in enumerate(texts, 1):
            if paired not in (None, len(one.parts) == 2):
                wanted = "pairs: --input FILE.jsonl with both texts of each" if paired else "single texts"
                problem = f"text {number} is {'a single text' if paired else 'a pair'}, and the model was trained on"
                raise UserError("inputs", one.name, f"{problem} {wanted}")
        return texts

    def asked(self, one: TextInput) -> Asked:
        """The text as it is in training.

        Raises:
            Unusable: nothing can be said of it.
        """
        parts = [self.tokenizer.encode(part) for part in self._with_prefix(one.parts)]
        ids, types = self.layout(parts)
        return Asked(ids, types, cut=max(0, sum(map(len, parts)) - self.layout.room(len(parts))))

    @abc.abstractmethod
    def outputs(self, model: Any, batch: Batch, top: int) -> dict[str, jax.Array]:
        """What is kept of each row of a batch, on the device. `top` is how many answers are wanted."""

    @abc.abstractmethod
    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> dict[str, Any]:
        """The answer as plain values, from the row's own outputs."""

    @abc.abstractmethod
    def nothing(self) -> dict[str, Any]:
        """The answer where there is none."""

    def _with_prefix(self, parts: tuple[str, ...]) -> list[str]:
        return [self.info.text.prefix + parts[0], *parts[1:]]

    def _tokens(self, ids: np.ndarray, probabilities: np.ndarray) -> list[dict[str, Any]]:
        """The most probable tokens at a place."""
        pairs = zip(ids.tolist(), probabilities.tolist(), strict=True)
        return [{"token": self.tokenizer.decode([id]), "id": id, "probability": value} for id, value in pairs]


class Classes(Task):
    """Which class a text is of."""

    SAYS = "classes"

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes' names, numbers where there are none."""
        return self.info.classes or tuple(str(index) for index in range(self.info.num_classes))

    @property
    def answers(self) -> int:
        return self.info.num_classes

    def outputs(self, model: Any, batch: Batch, top: int) -> dict[str, jax.Array]:
        sigmoid = self.info.description["objective"].get("loss") == "sigmoid"
        logits = logits_of(model, batch, train=False).astype(jnp.float32)
        return {"probability": (jax.nn.sigmoid if sigmoid else jax.nn.softmax)(logits)}

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> dict[str, Any]:
        values, labels = outputs["probability"], self.labels
        order = np.argsort(-values, kind="stable")[:top]
        return {"top": [{"label": labels[i], "index": int(i), "probability": float(values[i])} for i in order]}

    def nothing(self) -> dict[str, Any]:
        return {"top": []}


class Number(Task):
    """Which number a text is given."""

    SAYS = "a number"

    def outputs(self, model: Any, batch: Batch, top: int) -> dict[str, jax.Array]:
        return {"value": logits_of(model, batch, train=False).astype(jnp.float32)}

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> dict[str, Any]:
        return {"value": float(outputs["value"])}

    def nothing(self) -> dict[str, Any]:
        return {"value": None}


class Tags(Classes):
    """Which class each word of a text is of."""

    SAYS = "classes of words"

    def asked(self, one: TextInput) -> Asked:
        words = one.words
        if not words:
            raise Unusable("has no words")
        ids, firsts = word_tokens(words, self.tokenizer)
        laid, types = self.layout([ids])
        places = np.full(len(words), -1, np.int32)  # a word without tokens, or beyond the end, has no class
        starts = np.flatnonzero(firsts[: self.layout.room(1)])
        places[firsts[starts] - 1] = starts + len(self.layout.opening)
        return Asked(laid, types, places, max(0, len(ids) - self.layout.room(1)))

    def outputs(self, model: Any, batch: Batch, top: int) -> dict[str, jax.Array]:
        return {"probability": jax.nn.softmax(at_places(logits_of(model, batch, train=False), batch["places"]))}

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> dict[str, Any]:
        values = outputs["probability"][: len(asked.places)]
        known, best = asked.places >= 0, values.argmax(-1)
        return {
            "words": one.words,
            "labels": [self.labels[best[i]] if known[i] else None for i in range(len(known))],
            "probabilities": [float(values[i, best[i]]) if known[i] else None for i in range(len(known))],
        }

    def nothing(self) -> dict[str, Any]:
        return {"words": [], "labels": [], "probabilities": []}


class FillIn(Task):
    """Which tokens stand where a text has a mask, `[MASK]`, `<mask>` or the tokenizer's own."""

    SAYS = "hidden tokens"

    def __init__(self, model: Any, info: TextInfo):
        super().__init__(model, info)
        mask = self.tokenizer.mask_id
        if mask is None:
            raise UserError("checkpoint", info.checkpoint, "its tokenizer has no mask token, so no token can be hidden")
        own = dict(info.tokenizer.specials.names)[mask]
        self.mark = re.compile("|".join(re.escape(name) for name in dict.fromkeys([own, "[MASK]", "<mask>"])))
        # such a mask stands for one character or byte; of other tokens the space before belongs to the token
        self.spaced = info.tokenizer.kind not in ("bytes", "characters")

    def asked(self, one: TextInput) -> Asked:
        pieces = self.mark.split(self._with_prefix(one.parts)[0])
        if len(one.parts) > 1:
            raise Unusable("is a pair; hidden tokens are told of one text")
        if len(pieces) == 1:
            raise Unusable("has no [MASK]")
        if self.spaced:
            pieces = [*(piece.rstrip(" ") for piece in pieces[:-1]), pieces[-1]]
        mask, parts = np.array([self.tokenizer.mask_id], np.int32), []
        for number, piece in enumerate(pieces):
            parts += [mask] * (number > 0) + [self.tokenizer.encode(piece)]
        ids = np.concatenate(parts)
        if len(ids) > self.layout.room(1):
            raise Unusable(f"has {len(ids)} tokens, and the model was trained on {self.layout.room(1)}")
        laid, types = self.layout([ids])
        # special tokens in the text are none, so that every mask is one that was put there
        return Asked(laid, types, np.flatnonzero(laid == self.tokenizer.mask_id).astype(np.int32))

    def outputs(self, model: Any, batch: Batch, top: int) -> dict[str, jax.Array]:
        x = model.encode(batch["tokens"], sentence_types=batch["sentence_types"], segments=batch["segments"])
        return most_probable(model.masked_logits(at_places(x, batch["places"])), top)

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> dict[str, Any]:
        count = len(asked.places)
        masks = [self._tokens(outputs["id"][i], outputs["probability"][i]) for i in range(count)]
        return {"masks": masks, "filled": self._filled(one.parts[0], [mask[0]["token"] for mask in masks])}

    def nothing(self) -> dict[str, Any]:
        return {"masks": [], "filled": None}

    def _filled(self, text: str, tokens: list[str]) -> str:
        pieces = self.mark.split(text)
        filled = pieces[0]
        for token, piece in zip(tokens, pieces[1:], strict=True):
            joined = self.tokenizer.kind == "wordpiece" and token.startswith("##")
            shown = token.removeprefix("##") if joined else token.strip(" ") if self.spaced else token
            filled = (filled.rstrip(" ") if joined else filled) + shown + piece
        return filled


class Embedding(Task):
    """A text as one vector, of an encoder without a head."""

    SAYS = "embeddings"

    def outputs(self, model: Any, batch: Batch, top: int) -> dict[str, jax.Array]:
        x = model.encode(batch["tokens"], sentence_types=batch["sentence_types"], segments=batch["segments"])
        return {"embedding": model.sentence_embedding(x, batch["segments"])}

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> dict[str, Any]:
        return {"embedding": outputs["embedding"].tolist()}

    def nothing(self) -> dict[str, Any]:
        return {"embedding": []}


class Next(Task):
    """Which tokens may follow a text."""

    SAYS = "the next token"

    @property
    def longest(self) -> int:
        """Most tokens of a text: all that the model can look back on."""
        return getattr(self.config, "context_length", None) or self.layout.length

    def asked(self, one: TextInput) -> Asked:
        ids = self.tokenizer.encode(self._with_prefix(one.parts)[0])
        if not len(ids):
            first = self.tokenizer.end_id if self.tokenizer.start_id is None else self.tokenizer.start_id
            if first is None:
                raise Unusable("is empty, and the tokenizer has no token that a text begins with")
            ids = np.array([first], np.int32)
        if len(ids) > self.longest:
            raise Unusable(f"has {len(ids)} tokens, and the model takes {self.longest}")
        return Asked(ids, np.zeros_like(ids), np.array([len(ids) - 1], np.int32))

    def outputs(self, model: Any, batch: Batch, top: int) -> dict[str, jax.Array]:
        given = {name: batch[name] for name in ("tokens", "segments")}
        if is_prefix_lm(self.config):  # the text is to such a model what a prompt is
            given["prefix"] = batch["segments"] > 0
        logits = logits_of(model, given, train=False)
        return most_probable(at_places(logits, batch["places"]), top)

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> dict[str, Any]:
        return {"next": self._tokens(outputs["id"][0], outputs["probability"][0])}

    def nothing(self) -> dict[str, Any]:
        return {"next": []}


TASKS: dict[str, type[Task]] = {
    "classes": Classes,
    "number": Number,
    "token_classes": Tags,
    "pretraining": FillIn,
    "none": Embedding,
}
"""By the head that a model has."""


def task_of(model: Any, info: TextInfo) -> Task:
    """What a model of text can be asked.

    Raises:
        UserError: nothing: it has no head, or it answers with text.
    """
    head = getattr(model.config, "head_kind", None)
    head = head or getattr(find("objective", info.description["objective"]["name"]), "HEAD", "")
    if head in TASKS:
        return TASKS[head](model, info)
    if hasattr(model, "extend") and not hasattr(model, "encode"):
        return Next(model, info)
    if hasattr(model, "extend"):
        command = f"vitzoo generate {shell_flag('--checkpoint', info.checkpoint)} --prompt TEXT"
        message = f"holds a model that answers with text: {command}"
        raise UserError("checkpoint", info.checkpoint, message)
    raise UserError("checkpoint", info.checkpoint, "holds a model without a head, so there is nothing to predict")


def at_places(x: jax.Array, places: jax.Array) -> jax.Array:
    """What stands at given tokens: [batch, tokens, n] and int [batch, k] to [batch, k, n]; at -1 anything."""
    return jnp.take_along_axis(x, jnp.maximum(places, 0)[..., None], 1)


def most_probable(logits: jax.Array, top: int) -> dict[str, jax.Array]:
    """Of logits [batch, k, vocabulary] the `top` most probable tokens: `id` int32, `probability` float32, [batch, k,
    top].
    """
    probability, id = jax.lax.top_k(jax.nn.softmax(logits.astype(jnp.float32)), top)
    return {"id": id, "probability": probability}
