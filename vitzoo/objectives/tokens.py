"""The loss of saying tokens, shared by all objectives of text: sums and counts over the places that are scored."""

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp

from vitzoo.objectives.base import Batch, Pairs, Sums
from vitzoo.objectives.inputs import logits_of as logits_of
from vitzoo.schema import setting

TERM = "tokens"


@dataclasses.dataclass(frozen=True)
class TokenObjective:
    """The mean cross-entropy over the scored tokens of a batch.

    Batches hold `tokens`, `targets`, `segments`, `positions` int [B, T], `weights` float [B, T] (places that are
    scored), `weight` float [B] (0: a row that only fills up the batch), and for an encoder-decoder `source_tokens`,
    `source_segments`, `source_positions` int [B, S]. A kind of it says by `rows` what a row is made of.
    """

    label_smoothing: float = setting(0.0, "share of a target spread over the vocabulary", minimum=0.0, below=1.0)
    z_loss: float = setting(0.0, "weight of the squared log-normaliser; PaLM and T5 v1.1 have 1e-4", minimum=0.0)

    FEED: ClassVar[str] = "text"
    HEAD: ClassVar[str] = ""
    """Which head of an encoder it teaches; none: it takes a model that says the next token."""
    EVALUATOR: ClassVar[str] = "perplexity"
    """What measures such a model on other data than its run's."""

    def bind(self, info: Any, model_config: Any = None) -> Self:
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
        label_smoothing: share of the target spread evenly over the vocabulary
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
    return batch["weights"].astype(jnp.float32) * (batch["weight"] > 0)[:, None]


def summed(values: jax.Array, weights: jax.Array) -> jax.Array:
    """The weighted sum; a place that isn't scored can't bring a NaN into it."""
    return jnp.where(weights > 0, weights * values, 0).sum()
