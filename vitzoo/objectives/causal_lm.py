"""Causal language modelling: say the next token of a text."""

import dataclasses
from typing import Any, ClassVar

import jax

from vitzoo.objectives import tokens
from vitzoo.schema import setting

Batch = dict[str, jax.Array]
TERM = "tokens"


@dataclasses.dataclass(frozen=True)
class CausalLanguageModelling:
    """The mean cross-entropy over the scored tokens of a batch.

    Batches hold `tokens`, `targets`, `segments`, `positions` int [B, T], `weights` float [B, T] (places that are
    scored) and `weight` float [B] (0: a row that only fills up the batch).
    """

    rows: str = setting(
        "windows",
        "windows: cut from one long text; documents: each text for itself, packed with text.packing; answers: prompts "
        "and completions or turns, of which the answers are learned",
        choices=("windows", "documents", "answers"),
    )
    label_smoothing: float = setting(0.0, "share of a target spread over the vocabulary", minimum=0.0, below=1.0)
    z_loss: float = setting(0.0, "weight of the squared log-normaliser; PaLM has 1e-4", minimum=0.0)

    FEED: ClassVar[str] = "text"

    def bind(self, info: Any, num_classes: int | None = None) -> "CausalLanguageModelling":
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
        given = {"segments": batch["segments"], "positions": batch["positions"]}
        logits = model(batch["tokens"], **given, train=train, key=key)
        weights = tokens.scored(batch)
        sums = {TERM: tokens.summed(tokens.token_losses(logits, batch["targets"], self.label_smoothing), weights)}
        if self.z_loss:
            sums["z"] = tokens.summed(tokens.z_losses(logits), weights)
        return sums, tokens.accuracy(logits, batch["targets"], weights)
