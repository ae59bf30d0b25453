"""What the language models have in common: ids and segments checked, masks, norms, heads."""

import abc
import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Protocol, Self, runtime_checkable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.nn.initializers import Initializer

from vitzoo.errors import UserError
from vitzoo.models.base import ModelConfig
from vitzoo.nn import masks
from vitzoo.nn.embeddings import vocabulary_logits
from vitzoo.nn.execution import Execution
from vitzoo.nn.norms import LayerNorm, RMSNorm
from vitzoo.strict_json import JSON

NORMS = ("layer_norm", "rms_norm")


def named_variant(variant: str, variants: Mapping[str, Mapping[str, JSON]]) -> dict[str, JSON]:
    """The fields that a variant fixes.

    Raises:
        UserError: no such variant; the nearest is named.
    """
    if variant in variants:
        return dict(variants[variant])
    near = difflib.get_close_matches(str(variant), variants, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(variants)}"
    raise UserError("variant", variant, f"no such variant; {hint}")


class TextConfig(abc.ABC):
    """What the configs of language models share."""

    VARIANTS: ClassVar[Mapping[str, Mapping[str, JSON]]]
    KIND: ClassVar[str] = "encoder"
    """`encoder`, `decoder` or `encoder_decoder`; only the last two write."""
    USUAL_VOCABULARY: ClassVar[int] = 50_257
    """Ids of a variant that leaves them to the tokenizer, where it is only counted: GPT-2's."""
    TASK_PREFIX: ClassVar[bool] = False
    """Whether it was pretrained on texts that begin with the name of a task, so that benchmarks begin theirs so."""

    @classmethod
    def from_variant(cls, variant: str, **changes: JSON) -> Self:
        """The config of a variant with changes; UserError if it is unknown, or if the fields don't fit together."""
        config = cls(**{**named_variant(variant, cls.VARIANTS), **changes})
        config.check()
        return config

    @abc.abstractmethod
    def check(self) -> None:
        """Refuses fields that don't fit together, and says what would."""

    @property
    def random(self) -> bool:
        """Whether training draws random numbers inside the model."""
        return any(getattr(self, name, 0) for name in ("dropout", "attention_dropout"))

    def key(self, train: bool, key: jax.Array | None) -> jax.Array | None:
        """The source of randomness of a call: none outside training.

        Raises:
            UserError: training needs one, and there is none.
        """
        if train and key is None and self.random:
            raise UserError("key", None, "training with dropout needs one (jax.random.key)")
        return key if train else None


@runtime_checkable
class WithVocabulary(Protocol):
    """What a model's settings say of the ids that it takes; None where the tokenizer is to say it."""

    @property
    def vocabulary_size(self) -> int | None: ...


def text_config(config: ModelConfig) -> WithVocabulary:
    """The settings of a model that takes text.

    Raises:
        UserError: they don't say how many ids there are.
    """
    if not isinstance(config, WithVocabulary):
        message = "has no setting vocabulary_size, which a model of text needs"
        raise UserError("model.name", type(config).__name__, message)
    return config


def kind_of(config: ModelConfig | type[ModelConfig]) -> str:
    """The `KIND` of a model; of a user's own that doesn't say, a start id tells an encoder-decoder."""
    return getattr(config, "KIND", "encoder_decoder" if hasattr(config, "start_id") else "decoder")


def usual_vocabulary(config: ModelConfig | type[ModelConfig]) -> int:
    """The `USUAL_VOCABULARY` of a model or its Config's class; of a user's own that doesn't say, GPT-2's."""
    return getattr(config, "USUAL_VOCABULARY", TextConfig.USUAL_VOCABULARY)


def begins_with_task(config: ModelConfig | type[ModelConfig]) -> bool:
    """The `TASK_PREFIX` of a model; false of a user's own that doesn't say."""
    return getattr(config, "TASK_PREFIX", TextConfig.TASK_PREFIX)


def is_prefix_lm(config: ModelConfig) -> bool:
    """Whether a decoder reads what a text begins with in both directions, by its settings."""
    return bool(getattr(config, "prefix_lm", None))


def check_divides(field: str, value: int, total_field: str, total: int) -> None:
    """Refuses a `value` that doesn't divide `total`, and names the nearest that do."""
    if total % value:
        divisors = sorted((n for n in range(1, total + 1) if total % n == 0), key=lambda n: abs(n - value))
        low, high = sorted(divisors[:2])
        raise UserError(field, value, f"does not divide {total_field} {total} (nearest: {low}, {high})")


def known_vocabulary(size: int | None) -> int:
    """The number of ids.

    Raises:
        UserError: it isn't known yet; the tokenizer says it.
    """
    if size is None:
        raise UserError("vocabulary_size", None, "must be set where no tokenizer says it")
    return size


def check_ids(field: str, ids: jax.Array, limit: int | None = None) -> None:
    """Refuses what isn't a batch of texts.

    Args:
        field: how to name it.
        ids: int [batch, tokens].
        limit: most tokens of a text.
    """
    if ids.ndim != 2 or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise UserError(field, f"{ids.dtype}{list(ids.shape)}", "must be whole numbers [batch, tokens]")
    if limit is not None and ids.shape[1] > limit:
        raise UserError(field, ids.shape[1], f"tokens, and the model takes {limit} (context_length)")


def places(ids: jax.Array, positions: jax.Array | None) -> jax.Array:
    """The positions given, or 0, 1, 2 ... for every row: [1 or batch, tokens]."""
    return jnp.arange(ids.shape[1])[None] if positions is None else positions


def self_mask(
    ids: jax.Array, segments: jax.Array | None, *, causal: bool, prefix: jax.Array | None = None
) -> jax.Array | None:
    """Who may look at whom among a row's tokens; None where all may.

    Args:
        ids: [batch, tokens].
        segments: [batch, tokens]; 0 is padding.
        causal: no token sees those after it,
        prefix: bool [batch, tokens], but for these, which all tokens of their segment see.
    """
    seen = masks.causal(ids.shape[1]) if causal else None
    if seen is not None and prefix is not None:
        seen = seen | masks.prefix(prefix)
    if segments is None:
        return seen
    same = masks.same_segment(segments)
    return same if seen is None else seen & same


def make_norm(
    kind: str, width: int, epsilon: float, execution: Execution, *, bias: bool = True
) -> Callable[[], nnx.Module]:
    """Makes norms of a kind in `NORMS`; `bias` is of LayerNorms."""
    if kind == "rms_norm":
        return partial(RMSNorm, width, epsilon=epsilon, execution=execution)
    return partial(LayerNorm, width, epsilon=epsilon, bias=bias, execution=execution)


class VocabularyHead(nnx.Module):
    """A head of its own: [..., width] to float32 logits [..., vocabulary]."""

    def __init__(self, width: int, vocabulary: int, *, init: Initializer, rngs: nnx.Rngs, execution: Execution):
        self.execution = execution
        self.kernel = nnx.Param(init(rngs.params(), (width, vocabulary), jnp.float32))

    def __call__(self, x: jax.Array) -> jax.Array:
        return vocabulary_logits(x, self.kernel[...], self.execution)


HEAD_RULES = ((r"head/kernel", ("embed", "vocabulary")),)
"""Logical axes of `VocabularyHead`."""
