"""What each kind of model says of a text: one small class a kind, from text to ids and from numbers to a row."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo.data.rows import Batch
from vitzoo.data.text.labelled import word_tokens
from vitzoo.data.text.packing import Layout
from vitzoo.data.text.token_array import unknown_note
from vitzoo.data.text.tokenizers.base import Ids
from vitzoo.data.text.user_texts import TextInput
from vitzoo.errors import UserError
from vitzoo.inference.tasks import Classes, OnDevice, Outputs, Prediction, Task, TokenAnswer, Unusable
from vitzoo.models.text import is_prefix_lm
from vitzoo.objectives.inputs import given, logits_of, numbers_of
from vitzoo.weights.info import Info

SHORTEST = 16  # tokens that a row is filled up to at least


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


@runtime_checkable
class WithSentenceEmbedding(Protocol):
    """A model that makes one vector of a text."""

    def sentence_embedding(self, x: jax.Array, segments: jax.Array) -> jax.Array:
        """Encoded tokens [batch, tokens, width] and their segments, 0 for padding, to [batch, width]."""
        ...


@runtime_checkable
class TokenEncoder(Protocol):
    """A model that encodes a text's tokens."""

    def encode(self, tokens: jax.Array, **others: jax.Array) -> jax.Array:
        """Int32 ids [batch, tokens], and what comes beside them, to [batch, tokens, width]."""
        ...


@runtime_checkable
class WithMaskedLogits(Protocol):
    """A model that tells which tokens are hidden."""

    def masked_logits(self, x: jax.Array) -> jax.Array:
        """Encoded tokens [..., width] to logits [..., vocabulary]."""
        ...


class TextTask(Task[TextInput, Asked]):
    """What a model of text is asked."""

    threads = 1
    answers_embed = False
    no_embedding = "holds no encoder (bert), which gives a text's embedding"

    def __init__(self, model: nnx.Module, info: Info):
        super().__init__(model, info)
        self.tokenizer, self.layout = info.tokenizer, Layout(info.tokenizer, info.text.length)

    def has_embedding(self, model: nnx.Module) -> bool:
        return isinstance(model, WithSentenceEmbedding)

    @property
    def longest(self) -> int:
        """Most tokens of a text."""
        return self.layout.length

    @property
    def answers(self) -> int:
        return self.config.vocabulary_size

    def notes(self, given: Sequence[TextInput]) -> tuple[str, list[str]]:
        asked = []
        for one in given:
            try:
                asked.append(self.asked(one))
            except Unusable:
                continue
        cut = sum(one.cut > 0 for one in asked)
        unknown = sum(int(np.count_nonzero(one.ids == self.tokenizer.unknown_id)) for one in asked)
        of = " of the text" if len(given) == 1 else " of the texts"
        warnings = unknown_note(unknown, sum(len(one.ids) for one in asked), of)
        note = f" ({cut:,} longer than {self.longest} tokens: only their beginning is read)" if cut else ""
        return note, list(warnings)

    def asked(self, one: TextInput) -> Asked:
        """The text as it is in training.

        Raises:
            Unusable: nothing can be said of it.
        """
        return self.embeddable(one)

    def embeddable(self, one: TextInput) -> Asked:
        parts = [self.tokenizer.encode(part) for part in self._with_prefix(one.parts)]
        ids, types = self.layout(parts)
        return Asked(ids, types, cut=max(0, sum(map(len, parts)) - self.layout.room(len(parts))))

    def batch(self, asked: Sequence[Asked], size: int) -> Batch:
        """Texts as one batch, of few shapes so that few are compiled."""
        length = min(self.longest, power_of_two(max(SHORTEST, *(len(one.ids) for one in asked))))
        names = ("tokens", "tokens_segments", "tokens_types")
        batch: Batch = {name: np.zeros((size, length), np.int32) for name in names}
        batch["tokens"][:] = self.tokenizer.fill_id
        batch["places"] = np.full((size, power_of_two(max(1, *(len(one.places) for one in asked)))), -1, np.int32)
        for row, one in enumerate(asked):
            used = slice(0, len(one.ids))
            batch["tokens"][row, used], batch["tokens_segments"][row, used] = one.ids, 1
            batch["tokens_types"][row, used] = one.types
            batch["places"][row, : len(one.places)] = one.places
        return batch

    def embedding(self, model: nnx.Module, batch: OnDevice) -> jax.Array:
        """Of each text the mean of its encoded tokens, or as the model's config says, float32 [batch, width]."""
        assert isinstance(model, WithSentenceEmbedding)
        return model.sentence_embedding(self._encoded(model, batch), batch["tokens_segments"])

    def _encoded(self, model: nnx.Module, batch: OnDevice) -> jax.Array:
        assert isinstance(model, TokenEncoder)
        tokens, others = given(model, batch)
        return model.encode(tokens, **others)

    def _with_prefix(self, parts: tuple[str, ...]) -> list[str]:
        return [self.info.text.prefix + parts[0], *parts[1:]]

    def _tokens(self, ids: np.ndarray, probabilities: np.ndarray) -> list[TokenAnswer]:
        """The most probable tokens at a place."""
        pairs = zip(ids.tolist(), probabilities.tolist(), strict=True)
        return [{"token": self.tokenizer.decode([id]), "id": id, "probability": value} for id, value in pairs]


class TextClasses(Classes[TextInput, Asked], TextTask):
    """Which class a text is of."""

    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        return {"probability": self._probability(logits_of(model, batch, train=False))}


class Number(TextTask):
    """Which number a text is given."""

    says = "a number"

    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        return {"value": numbers_of(model, batch, train=False)}

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> Prediction:
        return {"value": float(outputs["value"])}

    def nothing(self) -> Prediction:
        return {"value": None}


class Tags(TextTask):
    """Which class each word of a text is of."""

    says = "classes of words"

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

    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        return {"probability": jax.nn.softmax(at_places(logits_of(model, batch, train=False), batch["places"]))}

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> Prediction:
        values = outputs["probability"][: len(asked.places)]
        known, best = asked.places >= 0, values.argmax(-1)
        return {
            "words": one.words,
            "labels": [self.info.labels[best[i]] if known[i] else None for i in range(len(known))],
            "probabilities": [float(values[i, best[i]]) if known[i] else None for i in range(len(known))],
        }

    def nothing(self) -> Prediction:
        return {"words": [], "labels": [], "probabilities": []}


class FillIn(TextTask):
    """Which tokens stand where a text has a mask, `[MASK]`, `<mask>` or the tokenizer's own."""

    says = "hidden tokens"

    def __init__(self, model: nnx.Module, info: Info):
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

    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        assert isinstance(model, WithMaskedLogits)
        return most_probable(model.masked_logits(at_places(self._encoded(model, batch), batch["places"])), top)

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> Prediction:
        count = len(asked.places)
        masks = [self._tokens(outputs["id"][i], outputs["probability"][i]) for i in range(count)]
        return {"masks": masks, "filled": self._filled(one.parts[0], [mask[0]["token"] for mask in masks])}

    def nothing(self) -> Prediction:
        return {"masks": [], "filled": None}

    def _filled(self, text: str, tokens: list[str]) -> str:
        pieces = self.mark.split(text)
        filled = pieces[0]
        for token, piece in zip(tokens, pieces[1:], strict=True):
            joined = self.tokenizer.kind == "wordpiece" and token.startswith("##")
            shown = token.removeprefix("##") if joined else token.strip(" ") if self.spaced else token
            filled = (filled.rstrip(" ") if joined else filled) + shown + piece
        return filled


class Embedding(TextTask):
    """A text as one vector, of an encoder without a head."""

    says = "embeddings"
    answers_embed = True

    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        return {"embedding": self.embedding(model, batch)}

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> Prediction:
        return {"embedding": outputs["embedding"].tolist()}

    def nothing(self) -> Prediction:
        return {"embedding": []}


class Next(TextTask):
    """Which tokens may follow a text."""

    says = "the next token"

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

    def outputs(self, model: nnx.Module, batch: OnDevice, top: int) -> dict[str, jax.Array]:
        if is_prefix_lm(self.config):  # the text is to such a model what a prompt is
            batch = {**batch, "tokens_prefix": batch["tokens_segments"] > 0}
        logits = logits_of(model, batch, train=False)
        return most_probable(at_places(logits, batch["places"]), top)

    def row(self, one: TextInput, asked: Asked, outputs: Outputs, top: int) -> Prediction:
        return {"next": self._tokens(outputs["id"][0], outputs["probability"][0])}

    def nothing(self) -> Prediction:
        return {"next": []}


TASKS: dict[str, type[TextTask]] = {
    "classes": TextClasses,
    "number": Number,
    "token_classes": Tags,
    "pretraining": FillIn,
    "none": Embedding,
}
"""By the head that a model has."""


def at_places(x: jax.Array, places: jax.Array) -> jax.Array:
    """What stands at given tokens: [batch, tokens, n] and int [batch, k] to [batch, k, n]; at -1 anything."""
    return jnp.take_along_axis(x, jnp.maximum(places, 0)[..., None], 1)


def most_probable(logits: jax.Array, top: int) -> dict[str, jax.Array]:
    """Of logits [batch, k, vocabulary] the `top` most probable tokens: `id` int32, `probability` float32, [batch, k,
    top].
    """
    probability, id = jax.lax.top_k(jax.nn.softmax(logits.astype(jnp.float32)), top)
    return {"id": id, "probability": probability}


def power_of_two(count: int) -> int:
    """The power of two that is at least that."""
    return 1 << (count - 1).bit_length()
