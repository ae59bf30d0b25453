"""The metrics of texts by name, among them BLEU and chrF as sacreBLEU counts them (Post 2018,
https://arxiv.org/abs/1804.08771), on its scale of 0 to 100.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vitzoo.errors import UserError, install_extra
from vitzoo.evaluation.text_metrics import answers, rouge

BLEU_TOKENIZERS = ("13a", "intl", "char", "zh", "none")


def make_sacre(metric: str, tokenizer: str = "13a") -> Any:
    """sacreBLEU's metric called `bleu` or `chrf`.

    Raises:
        UserError: sacreBLEU isn't installed.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise UserError("metrics", metric, f"needs sacreBLEU: {install_extra('text')}") from None
    return BLEU(tokenize=tokenizer) if metric == "bleu" else CHRF()


def sacre_score(
    metric: str, predictions: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str = "13a"
) -> tuple[float, str]:
    """The score of a corpus, and the signature by which others can repeat it.

    Args:
        metric: `bleu` or `chrf`.
        predictions: a text for each example.
        references: for each, one or more.
        tokenizer: of BLEU, one of `TOKENIZERS`.
    """
    made, most = make_sacre(metric, tokenizer), max(map(len, references))
    streams = [[one[number] if number < len(one) else None for one in references] for number in range(most)]
    value = made.corpus_score(list(predictions), streams).score
    return float(value), str(made.get_signature())


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
    "exact_match": answers.exact_match,
    "squad_f1": partial(answers.squad_f1, 1),
    "squad_v2_f1": partial(answers.squad_f1, 2),
    "accuracy": answers.accuracy,
    "macro_f1": answers.macro_f1,
    "pearson": answers.pearson,
    "spearman": answers.spearman,
    "word_error_rate": answers.error_rate,
    "phoneme_error_rate": answers.error_rate,
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
            values[metric], signatures[metric] = sacre_score(metric, predictions, references, tokenizer)
        elif metric in rouge.ROUGE:
            values[metric] = rouge.rouge(metric, predictions, references, sentences)
        else:
            values[metric] = OWN[metric](predictions, references)
    return Scores(values, signatures)
