"""The metrics of texts by name."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from vitzoo.evaluation.text_metrics import errors, names, numbers, rouge, sacre, squad

SACRE = ("bleu", "chrf")
BETTER: dict[str, Callable] = {
    "bleu": max,
    "chrf": max,
    "rouge1": max,
    "rouge2": max,
    "rougeL": max,
    "exact_match": max,
    "f1": max,
    "accuracy": max,
    "macro_f1": max,
    "pearson": max,
    "spearman": max,
    "word_error_rate": min,
    "phoneme_error_rate": min,
}
OWN: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], float]] = {
    **{kind: partial(rouge.rouge, kind) for kind in ("rouge1", "rouge2", "rougeL")},
    "exact_match": squad.exact_match,
    "f1": squad.f1,
    "accuracy": names.accuracy,
    "macro_f1": names.macro_f1,
    "pearson": numbers.pearson,
    "spearman": numbers.spearman,
    "word_error_rate": errors.error_rate,
    "phoneme_error_rate": errors.error_rate,
}


@dataclasses.dataclass(frozen=True)
class Scores:
    """Values by metric, and the signatures of those that have one."""

    values: dict[str, float]
    signatures: dict[str, str]


def scores(
    metrics: Sequence[str], predictions: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str = "13a"
) -> Scores:
    """Every metric of a corpus.

    Args:
        metrics: keys of `BETTER`.
        predictions: a text for each example.
        references: for each, one or more right ones.
        tokenizer: of BLEU.
    """
    values, signatures = {}, {}
    for metric in metrics:
        if metric in SACRE:
            values[metric], signatures[metric] = sacre.score(metric, predictions, references, tokenizer)
        else:
            values[metric] = OWN[metric](predictions, references)
    return Scores(values, signatures)
