"""Text as a model's input."""

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.described import InputDescription, TokenizerDescription
from vitzoo.data.mixing import Prepare
from vitzoo.data.open import open_source
from vitzoo.data.processors.base import Evaluating, Shapes, Use, as_it_is, shapes_of
from vitzoo.data.rows import Row, Rows
from vitzoo.data.settings import Data
from vitzoo.data.sources.base import Source, SourceInfo
from vitzoo.data.text import assumed
from vitzoo.data.text.examples import all_text, as_pairs, refuse_unusable
from vitzoo.data.text.mixture import NAME as MIXTURE
from vitzoo.data.text.mixture import MixedSource, MixtureRows, open_mixture
from vitzoo.data.text.packing import Layout
from vitzoo.data.text.questions import AskedSource, Questions
from vitzoo.data.text.row_kinds import ASKED, EXAMPLES, has_source
from vitzoo.data.text.settings import TRAINED, Mixture, Text
from vitzoo.data.text.token_array import TextArrays, text_row, token_array
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.data.text.tokenizers.published import differing
from vitzoo.data.text.tokenizers.saved import load_tokenizer
from vitzoo.data.text.user_texts import TextInput, gather_texts
from vitzoo.data.user_inputs import Input, Values
from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.models.text import is_prefix_lm, kind_of, known_vocabulary, text_config
from vitzoo.nn.capture import Outputs
from vitzoo.schema import build, patch, to_json
from vitzoo.strict_json import JSON

MAKERS = {
    "windows": "documents:Windows",
    "documents": "documents:Documents",
    "answers": "answers:Answers",
    "pairs": "examples:Pairs",
    "span_corruption": "span_corruption:SpanCorruption",
    "prefix": "documents:PrefixRows",
    "masked": "masked:MaskedRows",
    "labelled": "labelled:LabelledRows",
    "tagged": "labelled:TaggedRows",
    "prompts": "prompts:Prompts",
    "choices": "continuations:Choices",
    "last_word": "continuations:LastWords",
}
OF_DECODERS = {"prefix": "documents:PrefixDocuments"}
"""What makes rows of some kinds for decoders."""
SCORED = {"windows": "documents:ScoredWindows"}
"""What makes rows of some kinds for evaluation."""
QUESTIONS = ("prompts", "choices")
"""Rows of questions."""
PACKED_BY_SEED = ("documents", "answers", "pairs")
WITHOUT_PREFIX = ("windows", "documents")
PREFIXED = ("answers", "choices", "last_word")
"""Rows that tell a prefix LM what a text begins with, and have other uses too."""
HEADS = {"masked": "pretraining", "labelled": "classes", "tagged": "token_classes"}
"""Rows by which an encoder learns, and with which head; `labelled` with numbers is for the head `number`."""


@dataclasses.dataclass(frozen=True)
class TextProcessor:
    """See `vitzoo.data.processors.base.Processor`.

    Args:
        text: what a row holds, and which tokenizer.
        rows_of: a key of `MAKERS`, as the objective asks; empty: each example's text is a row, beside other inputs.
        seed: of the plan by which texts are packed.
        mixture: the sources behind `data.name=mixture`.
        known: the tokenizer, once it is made or read.
        questions: how an evaluator puts questions.
        stride: of an evaluator's windows.
        prefix_lm: whether the objective wants a decoder that reads what a text begins with in both directions.
        numbers: whether labels are numbers to predict.
        name: of the input.
    """

    kind: ClassVar[str] = "text"
    noun: ClassVar[str] = "text"
    argument: ClassVar[str] = "--text TEXT"
    is_picture: ClassVar[bool] = False

    text: Text
    rows_of: str
    seed: int
    mixture: Mixture = dataclasses.field(default_factory=Mixture)
    known: TextTokenizer | None = None
    questions: Questions = dataclasses.field(default_factory=Questions)
    stride: int | None = None
    prefix_lm: bool = False
    numbers: bool = False
    name: str = "tokens"

    @property
    def settings(self) -> Text:
        """What the config says of the input."""
        return self.text

    @classmethod
    def bind(cls, settings: Text, use: Use) -> Self:
        """The processor of an input with these settings."""
        text = dataclasses.replace(settings, fields=dict(use.fields))
        return cls(text, use.rows, use.seed, use.mixture, prefix_lm=use.prefix_lm, numbers=use.numbers, name=use.name)

    @property
    def field(self) -> str:
        return self.text.FIELD

    @property
    def row_kind(self) -> str:
        return self.rows_of or EXAMPLES

    @property
    def tokenizer(self) -> TextTokenizer:
        """The tokenizer.

        Raises:
            UserError: it would have to be trained first.
        """
        return open_tokenizer(self.text.tokenizer) if self.known is None else self.known

    def adopt(self, own: InputDescription, folder: Path, stated: Mapping[str, JSON]) -> "TextProcessor":
        known = load_tokenizer(self._folder(folder / "assets"), own["tokenizer"])
        settings, field = self.text.tokenizer, f"inputs.{self.name}"
        asked = stated.get("tokenizer")
        for name, had in differing(settings, asked if isinstance(asked, Mapping) else (), known).items():
            message = f"the checkpoint's tokenizer is taken as it is, and there it is {had}; leave it out"
            raise UserError(f"{field}.tokenizer.{name}", getattr(settings, name), message)
        changes = {key: value for key, value in stated.items() if key != "tokenizer"}
        # what records call their fields is for these data to say, not for those of the checkpoint's training
        text = dataclasses.replace(
            patch(text_of(own, field), changes, field), tokenizer=settings, fields=self.text.fields
        )
        return dataclasses.replace(self, known=known, text=text)

    def source(self, data: Data, split: str | None = None) -> Any:
        if self.rows_of in QUESTIONS:
            return self._questions(data, split)
        if data.name == MIXTURE:
            mixed = open_mixture(self.mixture, data, self.text, split)
            return dataclasses.replace(mixed, sources=mixed.each(lambda _, source: self._taken(source)))
        return self._taken(self._opened(data, split))

    def _questions(self, data: Data, split: str | None) -> AskedSource:
        if data.name == MIXTURE:
            raise UserError("data.name", MIXTURE, "questions are asked of one source; name it in the evaluator's data")
        how = self.questions
        return AskedSource(self._opened(data, split), lambda: self._opened(data, how.split), how, self.text.prefix)

    def _opened(self, data: Data, split: str | None) -> Source:
        return open_source(dataclasses.replace(data, regression=data.regression or self.numbers), split, needs="text")

    def _taken(self, source: Source) -> Source:
        return as_pairs(source) if self.rows_of == "pairs" else source

    def learned(self, source: Source | MixedSource) -> "TextProcessor":
        told: dict[str, Any] = {"chat": None}
        if not isinstance(source, MixedSource):
            if self.rows_of == "labelled":
                told["paired"] = "first" in source.fields
            if self.rows_of == "answers":
                told["chat"] = "turns" in source.fields
        return dataclasses.replace(self, text=dataclasses.replace(self.text, **told))._with_tokenizer(source)

    def _with_tokenizer(self, source: Source | MixedSource) -> "TextProcessor":
        if self.known is not None:
            return self
        trained = self.text.tokenizer.kind in TRAINED
        texts = None if not trained else source if isinstance(source, MixedSource) else all_text(source)
        return dataclasses.replace(self, known=open_tokenizer(self.text.tokenizer, texts))

    @property
    def head(self) -> str | None:
        """The head of an encoder that these rows are for; None where they are for other models."""
        head = HEADS.get(self.rows_of)
        return "number" if head == "classes" and self.numbers else head

    def model_fields(self, source: Source | MixedSource) -> dict[str, JSON]:
        classes = self._classes(source)
        known: dict[str, JSON] = {
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "start_id": self.tokenizer.decoder_start_id,
        }
        told: dict[str, JSON] = {"head": self.head, "num_classes": None if classes is None else len(classes)}
        return known | told | {"prefix_lm": self.prefix_lm}

    def _classes(self, source: Source | MixedSource) -> tuple[str, ...] | None:
        """The classes that a head is to tell apart.

        Raises:
            UserError: the data have none where they are asked for, or have some where numbers are.
        """
        name, classes = source.info.name, source.info.classes
        if self.head == "number" and classes is not None:
            problem = f"takes numbers, and the labels of {name} are {len(classes)} classes: sequence_classification"
            raise UserError("objective.name", "regression", problem)
        if self.head not in ("classes", "token_classes"):
            return None
        if isinstance(source, MixedSource):
            raise UserError("data.name", MIXTURE, "the classes of several sources can't be joined; take one of them")
        refuse_unusable(source)
        if classes is None and {"label", "tags"} & set(source.fields):
            problem = f"the labels of {name} are numbers, for the objective regression, or name no classes"
            raise UserError("data.name", name, problem)
        return classes

    def complete(self, config: ModelConfig, source: Source | MixedSource) -> ModelConfig:
        self._check_vocabulary(config)
        named = len(self._classes(source) or ())
        if named and (own := getattr(config, "num_classes", named)) != named:
            raise UserError("model.num_classes", own, f"the data have {named} classes")
        return config

    @property
    def row_classes(self) -> tuple[str, ...] | None:
        return ("follows", "random") if self.text.next_sentence and self.rows_of == "masked" else None

    def assumed_fields(
        self, source: Source, config: ModelConfig, stated: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], tuple[str, ...]]:
        size, notes = assumed.vocabulary(self.text.tokenizer, config)
        fields: dict[str, JSON] = {"vocabulary_size": size, "head": self.head, "prefix_lm": self.prefix_lm}
        if self.head not in ("classes", "token_classes"):
            return fields, notes
        if not stated.get("num_classes"):
            notes = (*notes, f"{assumed.CLASSES} classes assumed (--config.model.num_classes states them)")
        return fields | {"num_classes": assumed.CLASSES}, notes

    def assumed_row(self, source: Source, config: ModelConfig) -> tuple[ModelConfig, Shapes]:
        if not self.rows_of:
            return config, shapes_of(self.blank(config))
        self.check_length(config, self.text)
        return config, assumed.row_shapes(self.rows_of, self.text, config, number=self.head == "number")

    def _check_vocabulary(self, config: ModelConfig) -> None:
        size, own = self.tokenizer.vocabulary_size, known_vocabulary(text_config(config).vocabulary_size)
        if own < size:
            message = f"the tokenizer has {size:,} ids; leave it out, or at least that"
            raise UserError("model.vocabulary_size", own, message)

    def check_length(self, config: ModelConfig, text: Text) -> None:
        """Refuses rows that are longer than the model's context."""
        limit, length = getattr(config, "context_length", None), text.length
        if limit is not None and length > limit and self.rows_of not in ASKED:  # those fill the context as it is
            raise UserError(f"inputs.{self.name}.length", length, f"is more than model.context_length = {limit}")

    def evaluating(self, stated: Mapping[str, JSON], evaluator: Evaluating) -> "TextProcessor":
        text = patch(self.text, stated, f"inputs.{self.name}")
        rows_of, stride = getattr(evaluator, "rows", "") or self.rows_of, getattr(evaluator, "stride", None)
        if stride is not None and rows_of != "windows":
            raise UserError("stride", stride, f"is of windows, which overlap; these rows are {rows_of}")
        questions = getattr(evaluator, "questions", self.questions)
        numbers = bool(getattr(evaluator, "data", {}).get("regression", self.numbers))
        return dataclasses.replace(
            self, text=text, rows_of=rows_of, questions=questions, stride=stride, numbers=numbers
        )

    def rows(self, source: Source | MixedSource, data: Data, config: ModelConfig, *, train: bool) -> Rows:
        if isinstance(source, MixedSource):
            make = functools.partial(self._made, config=config, train=train)
            parts = source.each(lambda name, one: make(one, source.texts[name]))
            return MixtureRows(list(parts.values()), self.mixture, list(parts))
        return self._made(source, self.text, config, train)

    def _made(self, source: Source, text: Text, config: ModelConfig, train: bool) -> Rows:
        self.check_length(config, text)
        if is_prefix_lm(config) and self.rows_of in WITHOUT_PREFIX:
            message = "give a prefix LM no prefix: take prefix, which splits each text at a draw, or answers"
            raise UserError("rows", self.rows_of, message)
        kind, rows_of = kind_of(config), self.rows_of
        split = kind == "decoder" and rows_of in OF_DECODERS
        makers = OF_DECODERS if split else MAKERS if train else MAKERS | SCORED
        module, _, name = makers[rows_of].partition(":")
        make = getattr(importlib.import_module(f"vitzoo.data.text.{module}"), name)
        more: dict[str, Any] = {"seed": self.seed} if split or rows_of in PACKED_BY_SEED else {}
        if split or rows_of in PREFIXED:
            more["prefix_lm"] = is_prefix_lm(config)
        if self.rows_of in SCORED and not train:
            more["stride"] = self.stride
        if self.rows_of in ASKED:  # made for a decoder or for an encoder-decoder
            more |= {"encodes": kind == "encoder_decoder", "context": getattr(config, "context_length", None)}
        return make(source, self.tokenizer, text, **more)

    def arrays(self, source: Source, config: ModelConfig, *, train: bool) -> TextArrays:
        tokens = token_array(source, self.tokenizer, prefix=self.text.prefix, ends=True)
        return TextArrays(tokens, self.text.length, self.tokenizer.fill_id, self.tokenizer.end_id, self.name)

    def blank(self, config: ModelConfig) -> Row:
        return text_row(self.name, np.zeros(0, np.int32), self.text.length, 0)

    def prepare(self, config: ModelConfig, info: SourceInfo | None, *, train: bool) -> Prepare:
        return as_it_is

    def gather(self, inputs: Values) -> list[TextInput]:
        return gather_texts(inputs, self.text)

    def example(self, given: Input, config: ModelConfig) -> Row:
        assert isinstance(given, TextInput)
        tokenizer, kind, length = self.tokenizer, kind_of(config), self.text.length
        first, *second = given.parts
        parts = [tokenizer.encode(part) for part in (self.text.prefix + first, *second)]
        if kind == "decoder":
            return text_row(self.name, tokenizer.opened(parts[0])[:length], length, tokenizer.fill_id)
        if kind == "encoder_decoder":
            ids, _ = Layout(tokenizer, self.text.source_length)(parts)
            return text_row("source", ids, self.text.source_length, tokenizer.fill_id)
        ids, types = Layout(tokenizer, length)(parts)
        more = {f"{self.name}_types": np.pad(types, (0, length - len(types)))}
        return text_row(self.name, ids, length, tokenizer.fill_id) | more

    def unheeded(self, stated: Mapping[str, JSON]) -> list[str]:
        of_tokenizer = stated.get("tokenizer")
        if not isinstance(of_tokenizer, Mapping):
            return []
        other = differing(self.text.tokenizer, of_tokenizer, self.tokenizer)
        listed = ", ".join(f"inputs.{self.name}.tokenizer.{name} = {of_tokenizer[name]}" for name in other)
        return (
            [f"tokenizer: the checkpoint's {self.tokenizer.kind}; {listed} of the config has no effect"]
            if other
            else []
        )

    def departures(self, trained: Self, config: ModelConfig) -> list[str]:
        return []  # its ids are those of the checkpoint, and how long a row is, the data measured decide

    def exported(
        self, model: Callable[..., Outputs], config: ModelConfig, batch: Any
    ) -> tuple[Callable, dict[str, jax.ShapeDtypeStruct]]:
        target = jax.ShapeDtypeStruct((batch, self.text.length), jnp.int32)
        takes = {"tokens": target, "tokens_segments": target}
        if is_prefix_lm(config):
            takes["tokens_prefix"] = target
        if kind_of(config) == "encoder_decoder":
            source = jax.ShapeDtypeStruct((batch, self.text.source_length), jnp.int32)
            takes = {"source": source, "source_segments": source, **takes}

        def function(*arrays: jax.Array) -> Any:
            given = dict(zip(takes, arrays, strict=True))
            return model(**{name: x > 0 if name == "tokens_prefix" else x for name, x in given.items()})

        return function, takes

    def described(self, config: ModelConfig) -> dict[str, JSON]:
        files = self.tokenizer.files()
        tokenizer: TokenizerDescription = {
            "kind": self.tokenizer.kind,
            "file": next(iter(files)),
            "sha256": self.tokenizer.sha256,
        }
        return described_text(self.text, tokenizer)

    def assets(self, folder: Path) -> Path:
        self.tokenizer.save(self._folder(folder))
        return folder

    def _folder(self, assets: Path) -> Path:
        """Where the tokenizer's files lie; that of a second input of text beside the first one's."""
        return assets if self.name == "tokens" else assets / self.name

    def shown(self, config: ModelConfig) -> str:
        lengths = f"rows of {self.text.length} tokens"
        if has_source(self.rows_of, kind_of(config)):
            lengths = f"rows of {self.text.source_length} + {self.text.length} tokens"
        lengths += ", the first of a text read in both directions" if is_prefix_lm(config) else ""
        return (
            f"{lengths}, vocabulary {known_vocabulary(text_config(config).vocabulary_size):,} ({self.tokenizer.kind})"
        )

    def details(self, config: ModelConfig) -> tuple[str, str]:
        tokenizer = self.tokenizer
        return f"{tokenizer.kind}, {tokenizer.vocabulary_size:,} tokens, rows of {self.text.length}", "tokens"

    def arguments(self, config: ModelConfig) -> tuple[jax.ShapeDtypeStruct, ...]:
        lengths = [self.text.length]
        if has_source(self.rows_of, kind_of(config)):
            lengths.insert(0, self.text.source_length)
        return tuple(jax.ShapeDtypeStruct((1, length), np.int32) for length in lengths)


def text_of(own: InputDescription, field: str) -> Text:
    """The text settings that a checkpoint's `model.json` tells of; its tokenizer lies in files."""
    return build(Text, {key: value for key, value in own.items() if key not in ("kind", "tokenizer")}, field)


def described_text(text: Text, tokenizer: TokenizerDescription) -> dict[str, JSON]:
    """What `model.json` says of an input of text: its settings, and the files of its tokenizer."""
    return {"kind": "text", **to_json(text), "tokenizer": to_json(tokenizer)}
