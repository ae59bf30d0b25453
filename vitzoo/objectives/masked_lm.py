"""BERT's pre-training: name the hidden tokens of a text and, of two parts, whether the second follows the first."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from vitzoo.objectives.base import Batch, Sums
from vitzoo.objectives.inputs import told
from vitzoo.objectives.tokens import TokenObjective, scored, summed, token_losses
from vitzoo.schema import setting

NEXT_SENTENCE = ("follows", "random")
"""The classes of rows of two parts, by label."""
TERM = "next_sentence"


@dataclasses.dataclass(frozen=True)
class MaskedLanguageModelling(TokenObjective):
    """Of an encoder: the mean cross-entropy over the chosen tokens of a batch, plus, with `text.next_sentence`, the
    mean over rows of that of the next sentence (Devlin et al. 2019, appendix A.2).

    Batches hold what `TokenObjective` says and `chosen` int [B, K], the places of the chosen tokens, filled up with
    places that aren't scored: only these K of a row's T tokens go through the vocabulary's head.
    """

    rows: str = setting("masked", "of what the rows are made", choices=("masked",))

    HEAD: ClassVar[str] = "pretraining"
    EVALUATOR: ClassVar[str] = "masked_lm"

    def bind(self, info: Any, model_config: Any = None) -> "BoundMaskedLanguageModelling":  # type: ignore[override]
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
        return self.tokens.term_weights | ({TERM: 1.0} if self.next_sentence else {})

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """What each term's sum is divided by: the chosen tokens, or the rows, of the whole global batch."""
        return self.tokens.counts(batch) | ({TERM: real(batch).sum()} if self.next_sentence else {})

    def sums(self, model: Any, batch: Batch, key: jax.Array | None = None, *, train: bool = True, **_: Any) -> Sums:
        """Sums over a (micro-)batch: `{term: sum}`, `{metric: (sum, count)}` and no notes."""
        said = masked_outputs(model, batch, train=train, key=key)
        sums, metrics = self.tokens.token_sums(*said[:3])
        if (logits := said[3]) is not None:
            label, rows = batch["label"], real(batch)
            sums |= {TERM: summed(token_losses(logits, label), rows)}
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
    x = model.encode(batch["tokens"], **told(batch), key=model.config.key(train, key))
    chosen = batch["chosen"]
    logits = model.masked_logits(jnp.take_along_axis(x, chosen[..., None], 1))
    targets, weights = (jnp.take_along_axis(values, chosen, 1) for values in (batch["targets"], scored(batch)))
    return logits, targets, weights, model.next_sentence_logits(x) if "label" in batch else None


def real(batch: Batch) -> jax.Array:
    """1 for each row but those that only fill up a batch, float32 [batch]."""
    return (batch["weight"] > 0).astype(jnp.float32)
