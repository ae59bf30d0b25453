"""The evaluator of language models: how well the tokens of a text are told."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.text.row_kinds import LEARNED
from vitzoo.data.text.scored_bytes import scored_bytes
from vitzoo.errors import UserError
from vitzoo.evaluation.settings import TextEvaluator
from vitzoo.objectives.inputs import logits_of
from vitzoo.objectives.language_modelling import scored, token_losses
from vitzoo.schema import setting

Rows = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class PerplexityEvaluator(TextEvaluator):
    """Loss a token (nats), perplexity and accuracy of the next token, all weighted by token: each scored token counts
    once, whatever row or batch it stands in. No label smoothing.

    `bits_per_byte` doesn't depend on the tokenizer: all loss in bits, over the UTF-8 bytes of the text that is scored.
    Of windows and documents these are counted in the text itself; of other rows, and with `max_rows`, by what each
    token stands for, which is exact for bytes, characters and bpe.

    Of a prefix LM the tokens behind a prefix are scored, which is the prompt (rows of answers) or what stands before a
    place that is drawn for each text and is the same in every evaluation (rows of prefix, of any decoder).
    """

    stride: int | None = setting(
        None,
        "windows overlap: tokens from one's start to the next one's. Each token is scored once, after the first window "
        "with at least sequence_length - stride tokens before it; none: no overlap",
        minimum=1,
        execution=True,
    )

    max_rows: int | None = setting(
        None, "of a long text so many rows at most, spread evenly; none: all of it", minimum=1, execution=True
    )

    CLASSES: ClassVar[bool] = False
    ROWS: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys(LEARNED["decoder"] + LEARNED["encoder_decoder"]))
    BETTER: ClassVar[dict[str, Callable]] = {"loss": min, "perplexity": min, "accuracy": max, "bits_per_byte": min}

    def bind(self, *, feed: Any, source: Any, config: Any) -> "Perplexity":
        if feed.head is not None:
            raise UserError("name", "perplexity", f"measures the next token, and these rows are {feed.rows_of}")

        def total() -> int | None:
            if self.max_rows is not None:
                return None  # what the rows themselves hold is counted
            return scored_bytes(source, feed.tokenizer, feed.text, feed.rows_of)

        return Perplexity(self.split, feed.tokenizer.byte_lengths, functools.cache(total))


@dataclasses.dataclass(frozen=True, eq=False)
class Perplexity:
    """The evaluator bound to its text.

    Args:
        split: its name.
        byte_lengths: int [vocabulary], UTF-8 bytes of text that each token stands for.
        count_bytes: counts those of all text that is scored, where that is known.
    """

    split: str
    byte_lengths: np.ndarray
    count_bytes: Callable[[], int | None]

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device: `loss` (sum), `tokens`, `right` and `bytes`, float32
        [batch].
        """
        logits = logits_of(model, batch)
        weights, targets = scored(batch), batch["targets"]
        losses = jnp.where(weights > 0, token_losses(logits, targets) * weights, 0)
        right = jnp.where(weights > 0, (logits.argmax(-1) == targets) * weights, 0)
        read = jnp.where(weights > 0, jnp.asarray(self.byte_lengths)[targets], 0)
        kept = {"loss": losses.sum(-1), "tokens": weights.sum(-1), "right": right.sum(-1), "bytes": read.sum(-1)}
        return {"weight": batch["weight"], **kept}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: no token is scored.
        """
        loss, count, right = (float(rows[name].sum(dtype=np.float64)) for name in ("loss", "tokens", "right"))
        if not count:
            raise UserError("split", self.split, "has no token to score")
        mean, size = loss / count, self.count_bytes() or int(rows["bytes"].sum())
        perplexity = math.exp(mean) if mean < 700 else math.inf
        found = {"loss": mean, "perplexity": perplexity, "accuracy": right / count}
        return found | {"bits_per_byte": loss / math.log(2) / size if size else math.nan, "tokens": count}
