"""The evaluator of what a model writes, compared with what it should have written."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from vitzoo.data.inputs import Inputs
from vitzoo.data.sources.base import Source
from vitzoo.data.text.questions import AskedSource
from vitzoo.data.text.tokenizers.base import TextTokenizer
from vitzoo.decoding.generate import GREEDY, How, how_of, write
from vitzoo.decoding.start import Writer
from vitzoo.errors import UserError
from vitzoo.evaluation.questions import AskingEvaluator
from vitzoo.evaluation.settings import Rows
from vitzoo.evaluation.text_metrics import BETTER, BLEU_TOKENIZERS, SACRE, Scores, make_sacre, scores
from vitzoo.models.base import ModelConfig
from vitzoo.models.text import kind_of, text_config
from vitzoo.schema import default_of, setting

BEAM_SETTINGS = ("length_penalty", "length_normalisation", "early_stopping")


@dataclasses.dataclass(frozen=True)
class GenerationEvaluator(AskingEvaluator):
    """Texts written in answer to each example, by the most probable tokens or by beam search, and compared with its
    references. An example is a source and its target, a prompt and its completion, a question and its answers, or a
    text and its class, of which the name is the answer.
    """

    rows: str = setting("prompts", "what a row holds: a question", choices=("prompts",), execution=True)
    metrics: tuple[str, ...] = setting(
        ("exact_match",),
        "bleu, chrf (sacreBLEU, 0 to 100), rouge1, rouge2, rougeL, rougeLsum (rouge-score, no stemming), exact_match, "
        "squad_f1 (SQuAD 1.1's), squad_v2_f1 (2.0's), accuracy, macro_f1 (of classes' names; every text that is "
        "written is a class, as in scikit-learn), pearson, spearman (of numbers), word_error_rate, phoneme_error_rate",
        choices=tuple(BETTER),
        execution=True,
    )  # type: ignore[assignment]
    max_new_tokens: int = setting(64, "most tokens of an answer", minimum=1, execution=True)
    num_beams: int = setting(1, "above 1: beam search", minimum=1, execution=True)
    length_penalty: float = setting(1.0, "of beam search, -5 to 5: see `decoding.beams`", execution=True)
    length_normalisation: str = setting("power", "of beam search", choices=("power", "gnmt"), execution=True)
    early_stopping: bool | Literal["never"] = setting(False, "of beam search", execution=True)
    stop: tuple[str, ...] = setting((), "an answer ends there; with shots, at shot_separator too", execution=True)
    bleu_tokenizer: str = setting("13a", "sacreBLEU's, of BLEU", choices=BLEU_TOKENIZERS, execution=True)
    rouge_sentences: str = setting(
        "lines",
        "of rougeLsum: a sentence is a line, as in rouge-score; punctuation: lines are cut behind . ! ? too, for "
        "models that write no line breaks",
        choices=("lines", "punctuation"),
        execution=True,
    )
    baselines: bool = setting(
        False, "adds METRIC_copy_source and METRIC_most_common: the question, and the most common training answer",
        execution=True,
    )  # fmt: skip

    CLASSES: ClassVar[bool] = False
    ROWS: ClassVar[tuple[str, ...]] = ("prompts",)
    BETTER: ClassVar[dict[str, Callable]] = BETTER

    def check(self) -> None:
        """Raises:
        UserError: as every evaluator that asks, no metric, or settings of beam search without it.
        """
        super().check()
        if not self.metrics:
            raise UserError("metrics", "()", f"must name a metric at least: {', '.join(BETTER)}")
        _ = self.how

    @property
    def new_tokens(self) -> int:
        return self.max_new_tokens

    @property
    def how(self) -> How:
        """How tokens are chosen."""
        defaults = {field.name: default_of(field) for field in dataclasses.fields(self)}
        given = {name: getattr(self, name) for name in BEAM_SETTINGS}
        changed = {name: value for name, value in given.items() if value != defaults[name]}
        if self.num_beams == 1 and not changed:
            return GREEDY
        return how_of(changed | {"num_beams": self.num_beams})

    def bind(self, *, inputs: Inputs, source: Source, config: ModelConfig) -> "Generation":
        questions = self.asked("generation", "prompts", source, config)
        vocabulary_size = text_config(config).vocabulary_size
        assert vocabulary_size is not None  # a checkpoint says it
        for metric in set(self.metrics) & set(SACRE):
            make_sacre(metric, self.bleu_tokenizer)
        tokenizer = inputs.text.tokenizer
        allowed = tokenizer.writable(vocabulary_size)
        return Generation(self, questions, tokenizer, allowed, kind_of(config) == "decoder")


@dataclasses.dataclass(frozen=True, eq=False)
class Generation:
    """The evaluator bound to its questions.

    Args:
        settings: the evaluator's.
        source: the questions.
        tokenizer: of the model.
        allowed: bool [vocabulary], ids that may be written.
        goes_on: whether the model is a decoder, which may go on with a question of its own.
    """

    settings: GenerationEvaluator
    source: AskedSource
    tokenizer: TextTokenizer
    allowed: np.ndarray
    goes_on: bool

    def metric_names(self, multi_label: bool, classes: int | None) -> tuple[str, ...]:
        """The metrics that a best checkpoint can be chosen by."""
        return self.settings.metrics

    def outputs(self, model: Writer, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """What a pass keeps of each question, computed on device: `ids` int32 [batch, new tokens], `length` int32."""
        settings, ends = self.settings, self.tokenizer.end_ids
        written = write(
            model,
            batch["tokens"],
            batch["length"],
            new=settings.max_new_tokens,
            how=settings.how,
            ends=ends,
            allowed=jnp.asarray(self.allowed),
        )
        return {"example_weight": batch["example_weight"], "ids": written.ids, "length": written.lengths}

    def metrics(self, rows: Rows, num_classes: int = 0) -> dict[str, float]:
        """The metrics of a pass, on the host; the same for every order and size of batches."""
        found = self._scores(self._written(rows), rows).values
        if not self.settings.baselines:
            return found
        copied = [self.source[position]["question"] for position in rows["position"].tolist()]
        common = [self.source.most_common()] * len(copied)
        for name, said in (("copy_source", copied), ("most_common", common)):
            found |= {f"{metric}_{name}": value for metric, value in self._scores(said, rows).values.items()}
        return found

    def signatures(self, rows: Rows) -> dict[str, str]:
        """By metric, what others need to repeat it."""
        return self._scores(self._written(rows), rows).signatures

    def predictions(self, rows: Rows) -> list[dict[str, str]]:
        """For each example `source` (the question), `reference` (several joined by |) and `prediction`."""
        texts = self._written(rows)
        asked = [self.source[position] for position in rows["position"].tolist()]
        return [
            {"source": one["question"], "reference": "|".join(one["references"]), "prediction": text}
            for one, text in zip(asked, texts, strict=True)
        ]

    def _scores(self, said: list[str], rows: Rows) -> Scores:
        right = [self.source[position]["references"] for position in rows["position"].tolist()]
        settings = self.settings
        return scores(settings.metrics, said, right, settings.bleu_tokenizer, settings.rouge_sentences)

    def _written(self, rows: Rows) -> list[str]:
        """The answers, without the space around them."""
        stops = [one for one in self.settings.stop if one]
        if self.settings.shots and self.goes_on and self.settings.shot_separator:
            stops.append(self.settings.shot_separator)
        texts = []
        for ids, length in zip(rows["ids"], rows["length"].tolist(), strict=True):
            ended = length > 0 and int(ids[length - 1]) in self.tokenizer.end_ids
            text = self.tokenizer.decode(ids[: length - ended], skip_specials=True)
            cuts = [place for stop in stops if (place := text.find(stop)) >= 0]
            texts.append((text[: min(cuts)] if cuts else text).strip())
        return texts
