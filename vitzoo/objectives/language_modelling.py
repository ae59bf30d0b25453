"""Language modelling: say the next token of a text, the rest of it, its target, or what of it is hidden."""

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from vitzoo.objectives.base import Batch, Pairs, Sums, TrainingData
from vitzoo.objectives.inputs import given, logits_of
from vitzoo.schema import setting

TERM = "tokens"


@dataclasses.dataclass(frozen=True)
class TokenObjective:
    """The mean cross-entropy over the scored tokens of a batch.

    Batches hold `tokens`, `targets`, `tokens_segments`, `tokens_positions` int [B, T], `target_weights` float [B, T]
    (places that are scored), `example_weight` float [B] (0: a row that only fills up the batch), and for an
    encoder-decoder `source`, `source_segments`, `source_positions` int [B, S]. A kind of it says by `rows` what a row
    is made of.
    """

    label_smoothing: float = setting(0.0, "fraction of a target spread over the vocabulary", minimum=0.0, below=1.0)
    z_loss: float = setting(0.0, "weight of the squared log-normaliser; PaLM and T5 v1.1 have 1e-4", minimum=0.0)

    TAKES: ClassVar[str] = "text"
    HEAD: ClassVar[str] = ""
    """Which head of an encoder it teaches; none: it takes a model that says the next token."""
    EVALUATOR: ClassVar[str] = "perplexity"
    """What measures such a model on other data than its run's."""

    def bind(self, info: TrainingData, model_config: Any = None) -> Self:
        """This objective for given data: the same for all."""
        return self

    @property
    def term_weights(self) -> dict[str, float]:
        """Factor of each term in the differentiated loss."""
        return {TERM: 1.0} | ({"z": self.z_loss} if self.z_loss else {})

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """What each term's sum is divided by: the scored tokens of the whole global batch."""
        return dict.fromkeys(self.term_weights, scored(batch).sum())

    def sums(self, model: Any, batch: Batch, key: jax.Array | None = None, *, train: bool = True, **_: Any) -> Sums:
        """Sums over the tokens of a (micro-)batch: `{term: sum}`, `{metric: (sum, count)}` and no notes."""
        return *self.token_sums(logits_of(model, batch, train=train, key=key), batch["targets"], scored(batch)), {}

    def token_sums(
        self, logits: jax.Array, targets: jax.Array, weights: jax.Array
    ) -> tuple[dict[str, jax.Array], Pairs]:
        """The same from logits [batch, tokens, vocabulary], their targets and how much each counts [batch, tokens]."""
        sums = {TERM: summed(token_losses(logits, targets, self.label_smoothing), weights)}
        if self.z_loss:
            sums["z"] = summed(z_losses(logits), weights)
        return sums, {"accuracy": (summed(logits.argmax(-1) == targets, weights), weights.sum())}


def token_losses(logits: jax.Array, targets: jax.Array, label_smoothing: float = 0.0) -> jax.Array:
    """Cross-entropy of each place, float32 [batch, tokens].

    Args:
        logits: float32 [batch, tokens, vocabulary]; or of whole texts, [batch, classes], and so are the targets.
        targets: int [batch, tokens].
        label_smoothing: fraction of the target spread evenly over the vocabulary
            (https://arxiv.org/abs/1512.00567, section 7).
    """
    log_probability = jax.nn.log_softmax(logits.astype(jnp.float32))
    own = -jnp.take_along_axis(log_probability, targets[..., None], -1)[..., 0]
    if not label_smoothing:
        return own
    return (1 - label_smoothing) * own - label_smoothing * log_probability.mean(-1)


def z_losses(logits: jax.Array) -> jax.Array:
    """The squared logarithm of the softmax's normaliser at each place, which keeps logits near zero
    (https://arxiv.org/abs/2204.02311, section 5): float32 [batch, tokens].
    """
    return jnp.square(jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1))


def scored(batch: Batch) -> jax.Array:
    """How much each place counts, float32 [batch, tokens]; nothing in rows that only fill up a batch."""
    return batch["target_weights"].astype(jnp.float32) * (batch["example_weight"] > 0)[:, None]


def summed(values: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum; a place that isn't scored can't bring a NaN into it."""
    return jnp.where(weights > 0, weights * values, 0).sum()


@dataclasses.dataclass(frozen=True)
class CausalLanguageModelling(TokenObjective):
    """Of a decoder; see `TokenObjective`."""

    rows: str = setting(
        "windows",
        "windows: cut from one long text; documents: each text for itself, packed with inputs.tokens.packing; answers: "
        "prompts and completions or turns, of which the answers are learned",
        choices=("windows", "documents", "answers"),
    )


@dataclasses.dataclass(frozen=True)
class PrefixLanguageModelling(TokenObjective):
    """Of a decoder whose tokens all see the whole prefix and those behind it only what stands before them, or of an
    encoder-decoder, whose source the prefix is (Raffel et al. 2020, https://arxiv.org/abs/1910.10683, sections 3.1.4
    and 3.2.1). The tokens behind the prefix alone are scored; see `TokenObjective`.

    A decoder's batches hold `prefix` bool [B, T] besides.
    """

    rows: str = setting(
        "prefix",
        "prefix: a text, split at a place that is drawn; answers: prompts and completions or turns, the prefix is all "
        "that stands before the answer",
        choices=("prefix", "answers"),
    )

    PREFIX_LM: ClassVar[bool] = True
    """Whether a decoder reads what a text begins with in both directions."""


@dataclasses.dataclass(frozen=True)
class SequenceToSequence(TokenObjective):
    """Of an encoder-decoder; see `TokenObjective`."""

    rows: str = setting(
        "pairs",
        "pairs: a source and its target; span_corruption: T5's, masked spans of a text and what they held",
        choices=("pairs", "span_corruption"),
    )


NEXT_SENTENCE = ("follows", "random")
"""The classes of rows of two parts, by label."""
NEXT_SENTENCE_TERM = "next_sentence"


@dataclasses.dataclass(frozen=True)
class MaskedLanguageModelling(TokenObjective):
    """Of an encoder: the mean cross-entropy over the chosen tokens of a batch, plus, with `next_sentence`, the
    mean over rows of that of the next sentence (Devlin et al. 2019, appendix A.2).

    Batches hold what `TokenObjective` says and `chosen` int [B, K], the places of the chosen tokens, filled up with
    places that aren't scored: only these K of a row's T tokens go through the vocabulary's head.
    """

    rows: str = setting("masked", "of what the rows are made", choices=("masked",))

    HEAD: ClassVar[str] = "pretraining"
    EVALUATOR: ClassVar[str] = "masked_lm"

    def bind(self, info: TrainingData, model_config: Any = None) -> "BoundMaskedLanguageModelling":  # type: ignore[override]
        """The objective for rows of one part, or of two."""
        return BoundMaskedLanguageModelling(self, info.classes == NEXT_SENTENCE)


@dataclasses.dataclass(frozen=True)
class BoundMaskedLanguageModelling:
    """`MaskedLanguageModelling` for given rows.

    Attributes:
        tokens: the loss of the chosen tokens.
        next_sentence: whether rows have two parts, and a `label` int [B]: 0 where the second follows the first.
    """

    tokens: TokenObjective
    next_sentence: bool

    @property
    def term_weights(self) -> dict[str, float]:
        """Factor of each term in the differentiated loss."""
        return self.tokens.term_weights | ({NEXT_SENTENCE_TERM: 1.0} if self.next_sentence else {})

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """What each term's sum is divided by: the chosen tokens, or the rows, of the whole global batch."""
        return self.tokens.counts(batch) | ({NEXT_SENTENCE_TERM: real(batch).sum()} if self.next_sentence else {})

    def sums(self, model: Any, batch: Batch, key: jax.Array | None = None, *, train: bool = True, **_: Any) -> Sums:
        """Sums over a (micro-)batch: `{term: sum}`, `{metric: (sum, count)}` and no notes."""
        said = masked_outputs(model, batch, train=train, key=key)
        sums, metrics = self.tokens.token_sums(*said[:3])
        if (logits := said[3]) is not None:
            label, rows = batch["label"], real(batch)
            sums |= {NEXT_SENTENCE_TERM: summed(token_losses(logits, label), rows)}
            metrics |= {"next_sentence_accuracy": (summed(logits.argmax(-1) == label, rows), rows.sum())}
        return sums, metrics, {}


def masked_outputs(
    model: Any, batch: Batch, train: bool = False, key: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    """What an encoder says of a batch, from one encoding of it.

    Returns:
        Of the chosen tokens: logits float32 [batch, chosen, vocabulary], targets int [batch, chosen], and how much each
        counts, float32 [batch, chosen]; and of the next sentence logits float32 [batch, 2], where rows have a `label`.
    """
    tokens, others = given(model, batch)
    x = model.encode(tokens, **others, key=model.config.key(train, key))
    chosen = batch["chosen"]
    logits = model.masked_logits(jnp.take_along_axis(x, chosen[..., None], 1))
    targets, weights = (jnp.take_along_axis(values, chosen, 1) for values in (batch["targets"], scored(batch)))
    return logits, targets, weights, model.next_sentence_logits(x) if "label" in batch else None


def real(batch: Batch) -> jax.Array:
    """1 for each row but those that only fill up a batch, float32 [batch]."""
    return (batch["example_weight"] > 0).astype(jnp.float32)
