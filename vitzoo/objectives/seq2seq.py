"""From a source to a target, by an encoder and a decoder: translation, span corruption, prefix language modelling."""

import dataclasses
from typing import Any, ClassVar

import jax

from vitzoo.objectives import tokens
from vitzoo.schema import setting

Batch = dict[str, jax.Array]
TERM = "tokens"


@dataclasses.dataclass(frozen=True)
class SequenceToSequence:
    """The mean cross-entropy over the scored target tokens of a batch.

    Batches hold `source_tokens`, `source_segments`, `source_positions` int [B, S], `tokens`, `targets`, `segments`,
    `positions` int [B, T], `weights` float [B, T] and `weight` float [B].
    """

    rows: str = setting(
        "pairs",
        "pairs: a source and its target; span_corruption: T5's, masked spans of a text and what they held; prefix: a "
        "text's beginning and its rest",
        choices=("pairs", "span_corruption", "prefix"),
    )
    label_smoothing: float = setting(0.0, "share of a target spread over the vocabulary", minimum=0.0, below=1.0)
    z_loss: float = setting(0.0, "weight of the squared log-normaliser; T5 v1.1 has 1e-4", minimum=0.0)

    FEED: ClassVar[str] = "text"

    def bind(self, info: Any, num_classes: int | None = None) -> "SequenceToSequence":
        """This objective for given data: the same for all."""
        return self

    @property
    def term_weights(self) -> dict[str, float]:
        """Factor of each term in the differentiated loss."""
        return {TERM: 1.0} | ({"z": self.z_loss} if self.z_loss else {})

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """What each term's sum is divided by: the scored tokens of the whole global batch."""
        return dict.fromkeys(self.term_weights, tokens.scored(batch).sum())

    def sums(
        self, model: Any, batch: Batch, key: jax.Array | None = None, train: bool = True
    ) -> tuple[dict[str, jax.Array], tokens.Pairs]:
        """Sums over the tokens of a (micro-)batch: `{term: sum}`, and `{metric: (sum, count)}`."""
        names = ("source_segments", "source_positions", "segments", "positions")
        given = {name: batch[name] for name in names}
        logits = model(batch["source_tokens"], batch["tokens"], **given, train=train, key=key)
        weights = tokens.scored(batch)
        sums = {TERM: tokens.summed(tokens.token_losses(logits, batch["targets"], self.label_smoothing), weights)}
        if self.z_loss:
            sums["z"] = tokens.summed(tokens.z_losses(logits), weights)
        return sums, tokens.accuracy(logits, batch["targets"], weights)
