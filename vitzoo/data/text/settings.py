"""The text sections of a config: how text becomes tokens, and what a row of a batch is made of."""

import dataclasses
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from vitzoo.data.effect import RECORDS_OF_TURNS
from vitzoo.data.settings import Data, InputSettings
from vitzoo.data.text.row_kinds import ACTS
from vitzoo.errors import UserError
from vitzoo.schema import default_of, setting
from vitzoo.spelling import either

TRAINED = ("characters", "bpe", "unigram", "wordpiece")  # kinds whose vocabulary is made from the training text
SIZED = ("bpe", "unigram", "wordpiece")  # those of them for which its size is chosen
BYTES = 256 + 3  # the alphabet of a trained bpe: every byte, and <pad>, </s>, <unk>
MARKS = 3  # tokens that `masking` adds
USED_BY = {"file": ("file",), "special": ("file",), "vocabulary_size": SIZED, "masking": ("bytes", *TRAINED)}
"""Settings of a tokenizer that not all kinds have a use for, and which do."""
ROLES = ("pad", "end", "unknown", "start", "mask", "classify", "separate")


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """How text becomes token ids. It travels with the checkpoint."""

    kind: str = setting(
        "bytes",
        "bytes: UTF-8, as in ByT5; characters: those of the training text; bpe (on bytes), unigram, wordpiece: trained "
        "on the training text; file: published, see `file`",
        choices=("bytes", *TRAINED, "file"),
    )
    file: str = setting(
        "", "tokenizer.json, spiece.model, vocab.json (beside merges.txt), vocab.txt, or a folder of one of them"
    )
    vocabulary_size: int = setting(
        8000, "tokens of a trained bpe, unigram or wordpiece, special tokens and sentinels included", minimum=16
    )
    lowercase: bool | None = setting(
        None, "text is lowered first; none: as a published vocab.txt (without capitals: yes), else no"
    )
    sentinels: int = setting(
        0, "tokens <extra_id_0>, ... at the vocabulary's end, the first last; T5 has 100", minimum=0
    )
    masking: bool = setting(False, "bytes, characters, bpe, unigram: adds <mask>, <cls> and <sep> for masked training")
    special_in_text: bool = setting(False, "text such as </s> means the special token; else it is text like any other")
    special: dict[str, str] = setting(
        factory=dict, help="token of a role, where a published file says otherwise: pad:<|endoftext|>,mask:<mask>"
    )

    @classmethod
    def unused(cls, kind: str, before: str) -> list[str]:
        """See `vitzoo.schema.WithKinds`."""
        unused = [field for field, kinds in USED_BY.items() if kind not in kinds]
        if kind == before:
            return [field for field in unused if field not in ("file", "special")]  # those contradict it: refused
        # a published one knows whether its text is lowered
        return [*unused, "lowercase"] if kind == "file" else unused

    def check(self) -> None:
        if (self.kind == "file") != bool(self.file):
            problem = "is read with kind=file only" if self.file else "kind=file needs the published file or its folder"
            raise UserError("file", self.file or None, problem)
        if unknown := sorted(set(self.special) - set(ROLES)):
            raise UserError("special", unknown[0], f"no such role; there are: {', '.join(ROLES)}")
        for field in ("special", "vocabulary_size", "masking"):
            value = getattr(self, field)
            if self.kind not in USED_BY[field] and value != default_of(self.__dataclass_fields__[field]):
                kinds = ", ".join(USED_BY[field])
                raise UserError(field, value, f"has no effect with kind={self.kind}; it is for {kinds}")
        self._check_size()

    def _check_size(self) -> None:
        least = self.sentinels + (BYTES + MARKS * self.masking if self.kind == "bpe" else len(ROLES) + 1)
        if self.kind in SIZED and self.vocabulary_size < least:
            needs = "every byte, special tokens" if self.kind == "bpe" else "special tokens, a letter"
            message = f"must be at least {least}: {needs} and {self.sentinels} sentinels"
            raise UserError("vocabulary_size", self.vocabulary_size, message)


@dataclasses.dataclass(frozen=True)
class Text(InputSettings):
    """How text becomes what a model is given: the tokenizer, which text a row holds, and what is asked there.

    Neither an evaluator nor a source of a mixture has its own of `OF_MODEL`.
    """

    FILLS: ClassVar[Mapping[str, Any]] = {"vocabulary_size": 8}
    OF_MODEL: ClassVar[tuple[str, ...]] = ("tokenizer", "fields")
    FIELD: ClassVar[str] = "text"
    DATA: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
        ("answer_roles", "turn_prefix", "turn_suffix"), RECORDS_OF_TURNS
    )

    tokenizer: Tokenizer = setting(factory=Tokenizer, help="how text becomes token ids")
    length: int = setting(128, "tokens of a row; of an encoder-decoder, those of the target", minimum=2)
    source_length: int = setting(128, "tokens of an encoder-decoder's source", minimum=2)
    packing: bool = setting(False, "several texts share a row, told apart by segments")
    random_offsets: bool = setting(True, "the windows of a long text start elsewhere in each epoch")
    noise_density: float = setting(0.15, "span corruption: fraction of tokens masked (T5: 0.15)", above=0.0, below=1.0)
    mean_span: float = setting(3.0, "span corruption: mean tokens of a masked span (T5: 3)", minimum=1.0)
    roll_spans: bool = setting(
        False, "span corruption: the mask is rotated by a draw, so that a row needn't end with a masked span"
    )
    mask_rate: float = setting(0.15, "masked training: fraction of tokens chosen (BERT: 0.15)", above=0.0, below=1.0)
    whole_words: bool = setting(False, "masked training: all tokens of a word are chosen together")
    next_sentence: bool = setting(False, "masked training: a second part follows, half of the time from another text")
    prefix: str = setting("", "put before every source or text, to tell tasks apart: `translate English to Spanish: `")
    turn_prefix: str = setting("{role}: ", "before each turn of a conversation")
    turn_suffix: str = setting("\n", "after each turn that isn't an answer; an answer ends with the end token")
    answer_roles: tuple[str, ...] = setting(
        ("assistant", "model", "gpt"), "roles whose turns are answers to learn, in capitals or not"
    )
    paired: bool | None = setting(None, "labels are of pairs of texts; never set: the training data say it")
    chat: bool | None = setting(None, "answers are turns of conversations; never set: the training data say it")
    fields: dict[str, str] = setting(
        factory=dict, help="what records call that which the model is given; never set: data.text_field ... say it"
    )

    def check(self) -> None:
        if self.length < 4 and self.next_sentence:
            raise UserError("length", self.length, "leaves no room for two parts and their marks")
        if self.packing and self.next_sentence:
            raise UserError("packing", True, "has no effect with next_sentence: a row is two parts")
        if "{role}" not in self.turn_prefix:
            raise UserError(
                "turn_prefix", self.turn_prefix or "''", "must hold {role}, or speakers can't be told apart"
            )

    def check_rows(self, section: str, rows: Sequence[str], data: Data) -> None:
        for name, are in (("paired", "pairs of texts"), ("chat", "conversations")):
            if (value := getattr(self, name)) is not None:
                raise UserError(f"{section}.{name}", value, f"can't be set: the training data are {are} or aren't")
        if self.fields:
            raise UserError(
                f"{section}.fields", self.fields, "can't be set: data.text_field, source_field ... name them"
            )
        plain = Text()
        changed = {
            f"{section}.{name}": (value, acts)
            for name, acts in ACTS.items()
            if (value := getattr(self, name)) != getattr(plain, name)
        }
        changed |= {"data.regression": (True, ("labelled",))} if data.regression else {}
        for field, (value, acts) in changed.items():
            if not set(acts) & set(rows):
                these = either(list(dict.fromkeys(rows)))
                raise UserError(field, value, f"has no effect on rows of {these}; it acts on {either(acts)}")

    def check_model(self, section: str, stated: Collection[str], model: str, kind: str | None) -> None:
        if kind in ("decoder", "encoder") and "source_length" in stated:
            message = f"has no effect on {model}, which is no encoder-decoder; {section}.length is its length"
            raise UserError(f"{section}.source_length", self.source_length, message)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """How often each of several sources comes, by rates given or made from their sizes (Raffel et al. 2020, 3.5)."""

    sources: dict = setting(
        factory=dict,
        help="with data.name=mixture, by name: what differs from config.data and config.inputs.tokens, "
        "dict(spanish=dict(name='verses', prefix='translate English to Spanish: '))",
    )
    rates: tuple[float, ...] | None = setting(
        None, "relative rate of each source, in their order; none: by size", above=0.0, maximum=sys.float_info.max
    )
    cap: int = setting(0, "sizes count up to this many rows (T5's K, artificial limit); 0: no cap", minimum=0)
    temperature: float = setting(1.0, "sizes are raised to 1/temperature: 1 in proportion, large equal", minimum=1.0)

    def check(self) -> None:
        if self.rates is not None and (self.cap or self.temperature != 1.0):
            raise UserError("rates", self.rates, "are given, so that cap and temperature of sizes have no meaning")
