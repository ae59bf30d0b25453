"""The metrics of texts by name."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial

from vitzoo.evaluation.text_metrics import errors, names, numbers, rouge, sacre, squad

SACRE = ("bleu", "chrf")
BETTER: dict[str, Callable] = {
    "bleu": max,
    "chrf": max,
    **dict.fromkeys(rouge.ROUGE, max),
    "exact_match": max,
    "squad_f1": max,
    "squad_v2_f1": max,
    "accuracy": max,
    "macro_f1": max,
    "pearson": max,
    "spearman": max,
    "word_error_rate": min,
    "phoneme_error_rate": min,
}
OWN: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], float]] = {
    "exact_match": squad.exact_match,
    "squad_f1": partial(squad.f1, 1),
    "squad_v2_f1": partial(squad.f1, 2),
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
    metrics: Sequence[str],
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenizer: str = "13a",
    sentences: str = "lines",
) -> Scores:
    """Every metric of a corpus.

    Args:
        metrics: keys of `BETTER`.
        predictions: a text for each example.
        references: for each, one or more right ones.
        tokenizer: of BLEU.
        sentences: of rougeLsum, as `rouge.sentences_of` takes it.
    """
    values, signatures = {}, {}
    for metric in metrics:
        if metric in SACRE:
            values[metric], signatures[metric] = sacre.score(metric, predictions, references, tokenizer)
        elif metric in rouge.ROUGE:
            values[metric] = rouge.rouge(metric, predictions, references, sentences)
        else:
            values[metric] = OWN[metric](predictions, references)
    return Scores(values, signatures)
