"""The evaluators of language models: how well the next token is told, a hidden one, or a text's last word (LAMBADA)."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vitzoo.data.inputs import Inputs
from vitzoo.data.sources.base import Source
from vitzoo.data.text.continuations import split_last
from vitzoo.data.text.row_kinds import LEARNED
from vitzoo.data.text.scored_bytes import scored_bytes
from vitzoo.errors import UserError
from vitzoo.evaluation.questions import check_says
from vitzoo.evaluation.settings import Rows, TextEvaluator, check_rows
from vitzoo.models.base import ModelConfig
from vitzoo.objectives.inputs import logits_of
from vitzoo.objectives.language_modelling import masked_outputs, scored, token_losses
from vitzoo.schema import setting


def token_sums(logits: jax.Array, targets: jax.Array, weights: jax.Array) -> dict[str, jax.Array]:
    """Of each row, float32 [batch]: `loss`, the sum over its tokens, `tokens`, that of their weights, and `right`."""
    losses = jnp.where(weights > 0, token_losses(logits, targets) * weights, 0)
    right = jnp.where(weights > 0, (logits.argmax(-1) == targets) * weights, 0)
    return {"loss": losses.sum(-1), "tokens": weights.sum(-1), "right": right.sum(-1)}


def token_metrics(rows: Rows, split: str) -> tuple[dict[str, float], float]:
    """`loss` a token, `perplexity` and `accuracy`, in float64, of what `token_sums` gave; and the number of tokens.

    Raises:
        UserError: there are none.
    """
    loss, count, right = (float(rows[name].sum(dtype=np.float64)) for name in ("loss", "tokens", "right"))
    if not count:
        raise UserError("split", split, "has no token to score")
    mean = loss / count
    return {"loss": mean, "perplexity": perplexity(mean), "accuracy": right / count}, count


def perplexity(mean: float) -> float:
    """The exponential of a mean loss; infinite where that is more than a number can be."""
    return math.exp(mean) if mean < 700 else math.inf


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
        "with at least length - stride tokens before it; none: no overlap",
        minimum=1,
        execution=True,
    )

    max_rows: int | None = setting(
        None, "of a long text so many rows at most, spread evenly; none: all of it", minimum=1, execution=True
    )

    CLASSES: ClassVar[bool] = False
    ROWS: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys(LEARNED["decoder"] + LEARNED["encoder_decoder"]))
    BETTER: ClassVar[dict[str, Callable]] = {"loss": min, "perplexity": min, "accuracy": max, "bits_per_byte": min}

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> "Perplexity":
        text = inputs.text
        if text.head is not None:
            raise UserError("name", "perplexity", f"measures the next token, and these rows are {text.rows_of}")

        def total() -> int | None:
            if self.max_rows is not None:
                return None  # what the rows themselves hold is counted
            return scored_bytes(source, text.tokenizer, text.text, text.rows_of)

        return Perplexity(self.split, text.tokenizer.byte_lengths, functools.cache(total))


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
        read = jnp.where(weights > 0, jnp.asarray(self.byte_lengths)[targets], 0)
        return {
            "example_weight": batch["example_weight"],
            **token_sums(logits, targets, weights),
            "bytes": read.sum(-1),
        }

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: no token is scored.
        """
        found, tokens = token_metrics(rows, self.split)
        loss, size = float(rows["loss"].sum(dtype=np.float64)), self.count_bytes() or int(rows["bytes"].sum())
        return found | {"bits_per_byte": loss / math.log(2) / size if size else math.nan, "tokens": tokens}


@dataclasses.dataclass(frozen=True)
class MaskedEvaluator(TextEvaluator):
    """Loss of a hidden token (nats), perplexity and accuracy, all weighted by token, and, with `next_sentence`,
    loss and accuracy of the next sentence, by row. Which tokens are hidden, and which second part stands where, is
    drawn the same in every run. No label smoothing.
    """

    max_rows: int | None = setting(
        None, "of a long text so many rows at most, spread evenly; none: all of it", minimum=1, execution=True
    )

    ROWS: ClassVar[tuple[str, ...]] = ("masked",)
    BETTER: ClassVar[dict[str, Callable]] = {
        "loss": min,
        "perplexity": min,
        "accuracy": max,
        "next_sentence_loss": min,
        "next_sentence_accuracy": max,
    }

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> "BoundMaskedEvaluator":
        """What measures these rows; refuses others, and a model that names no hidden tokens."""
        check_rows("masked_lm", inputs, config, "masked", "pretraining")
        return BoundMaskedEvaluator(self.split, inputs.text.text.next_sentence)


@dataclasses.dataclass(frozen=True)
class BoundMaskedEvaluator:
    """`MaskedEvaluator` for given rows, of one part or of two."""

    split: str
    next_sentence: bool

    def metric_names(self, multi_label: bool, num_classes: int | None) -> tuple[str, ...]:
        """The metrics that such data give and that a best checkpoint can be chosen by."""
        names = tuple(MaskedEvaluator.BETTER)
        return names if self.next_sentence else tuple(name for name in names if not name.startswith("next_"))

    def outputs(self, model: nnx.Module, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each row, computed on device: float32 [batch] each, `loss` (sum), `tokens` and `right`,
        and of the next sentence `next_loss` and `next_right`.
        """
        logits, targets, weights, following = masked_outputs(model, batch)
        kept = {"example_weight": batch["example_weight"], **token_sums(logits, targets, weights)}
        if following is None:
            return kept
        label = batch["label"]
        return kept | {
            "next_loss": token_losses(following, label),
            "next_right": (following.argmax(-1) == label).astype(jnp.float32),
        }

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host.

        Raises:
            UserError: no token is hidden.
        """
        metrics, tokens = token_metrics(rows, self.split)
        if "next_loss" in rows:
            metrics["next_sentence_loss"] = float(rows["next_loss"].mean(dtype=np.float64))
            metrics["next_sentence_accuracy"] = float(rows["next_right"].mean(dtype=np.float64))
        return metrics | {"tokens": tokens}


@dataclasses.dataclass(frozen=True)
class LastWordEvaluator(TextEvaluator):
    """Whether the last word of each text is what the model would write, taking the most probable token each time:
    `accuracy`, the fraction of texts of which every token of the last word is; and `perplexity`, of a last word: the
    exponential of the mean over texts of minus the log-probability of all its tokens. An example is a `text`.
    """

    rows: str = setting("last_word", "what a row holds: a text", choices=("last_word",), execution=True)

    CLASSES: ClassVar[bool] = False
    ROWS: ClassVar[tuple[str, ...]] = ("last_word",)
    BETTER: ClassVar[dict[str, Callable]] = {"accuracy": max, "perplexity": min}

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> "LastWord":
        check_says("last_word", config)
        return LastWord(source)


@dataclasses.dataclass(frozen=True, eq=False)
class LastWord:
    """The evaluator bound to its texts."""

    source: Source

    def outputs(self, model: Callable, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each text, computed on device: `loss` float32 [batch], of its whole last word, and
        `right` bool [batch].
        """
        logits, said = logits_of(model, batch), batch["target_weights"] > 0
        losses = jnp.where(said, token_losses(logits, batch["targets"]), 0)
        right = (logits.argmax(-1) == batch["targets"]) | ~said
        return {"example_weight": batch["example_weight"], "loss": losses.sum(-1), "right": right.all(-1)}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, in float64 on the host."""
        mean = float(rows["loss"].mean(dtype=np.float64))
        return {"accuracy": float(rows["right"].mean()), "perplexity": perplexity(mean)}

    def predictions(self, rows: Rows) -> list[dict[str, str | bool | float]]:
        """For each example `source` (what stands before), `reference` (the word), `right` and `loss`."""
        found: list[dict[str, str | bool | float]] = []
        for row, position in enumerate(rows["position"].tolist()):
            before, word = split_last(self.source[position]["text"])
            right, loss = bool(rows["right"][row]), float(rows["loss"][row])
            found.append({"source": before, "reference": word.strip(), "right": right, "loss": loss})
        return found
