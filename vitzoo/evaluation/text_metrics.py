"""The metrics of texts by name: of short answers, as SQuAD's scripts count them; BLEU and chrF as sacreBLEU does.

sacreBLEU: Post 2018, https://arxiv.org/abs/1804.08771; on its scale of 0 to 100.
"""

import collections
import dataclasses
import re
import string
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vitzoo.errors import UserError, install_extra
from vitzoo.evaluation import rouge
from vitzoo.evaluation.rouge import f_measure
from vitzoo.spelling import normalise

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF


def accuracy(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Share of predictions that are one of their references, as names are compared: see `vitzoo.spelling`."""
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([normalise(prediction) in set(map(normalise, right)) for prediction, right in pairs]))


def macro_f1(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean over classes of their F1, as scikit-learn's: the classes are all first references and all predictions,
    so one that is predicted and never true counts as 0, and so does a text that is no class's name."""
    from sklearn.metrics import f1_score

    said = [normalise(prediction) for prediction in predictions]
    wanted = [normalise(right[0]) for right in references]
    return float(f1_score(wanted, said, average="macro", zero_division=0))


NO_NUMBER = -1.0
"""What a prediction that is no number counts as (Raffel et al. 2020, https://arxiv.org/abs/1910.10683: any other answer
is wrong); the numbers that are asked for are 0 to 5."""


def pearson(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Pearson's correlation with the first references; NaN where one of the two doesn't vary."""
    from vitzoo.evaluation.text_labels import correlation

    return correlation(*_numbers(predictions, references))


def spearman(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Spearman's correlation with the first references; NaN where one of the two doesn't vary."""
    from vitzoo.evaluation.text_labels import correlation, ranks

    return correlation(*map(ranks, _numbers(predictions, references)))


def _numbers(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    said = np.array([_number(prediction) for prediction in predictions])
    return said, np.array([_number(right[0]) for right in references])


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return NO_NUMBER
    return value if np.isfinite(value) else NO_NUMBER


def error_rate(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Insertions, deletions and substitutions of what spaces divide (words, phonemes) that make the predictions from
    the references, over how many of these there are; it can be above 1. Of several references the one with the fewest
    edits counts, the longest of those.

    What is said where nothing was wanted counts among the edits and adds nothing to the length. Where all references
    are empty no rate is defined: it is 1 if anything is said, and 0 if not.
    """
    edits = length = 0
    for prediction, right in zip(predictions, references, strict=True):
        said = prediction.split()
        best = min((distance(said, one.split()), -len(one.split())) for one in right)
        edits, length = edits + best[0], length - best[1]
    return edits / length if length else float(edits > 0)


def distance(said: Sequence[str], wanted: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions between two sequences (Levenshtein 1966)."""
    right, places = np.array(list(wanted), object), np.arange(len(wanted) + 1)
    row = places
    for number, one in enumerate(said, 1):
        # one more said, or another: then each place may be reached from the one before by leaving a wanted one out
        reached = np.concatenate([[number], np.minimum(row[1:] + 1, row[:-1] + (right != one))])
        row = np.minimum.accumulate(reached - places) + places
    return int(row[-1])


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_normal(text: str) -> str:
    """What SQuAD's scripts compare of a text."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Share of predictions that are one of their references, as SQuAD's scripts count them: lower case, without
    punctuation, articles and repeated spaces.
    """
    pairs = zip(predictions, references, strict=True)
    return float(
        np.mean([any(squad_normal(prediction) == squad_normal(one) for one in right) for prediction, right in pairs])
    )


def squad_f1(version: int, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """F-measure of the words that a prediction and its reference share, averaged over examples; of several references
    the best counts.

    The scripts of versions 1.1 (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250) and 2.0
    (https://arxiv.org/abs/1806.03822) differ in an answer of which nothing is left: 1.1's is 0, 2.0's is 1 where
    nothing is left of the reference either, since there "no answer" is one.

    Args:
        version: 1 for the script of SQuAD 1.1, 2 for that of SQuAD 2.0.
        predictions: a text for each example.
        references: for each, one or more.
    """
    pairs = zip(predictions, references, strict=True)
    return float(np.mean([max(token_f1(version, prediction, one) for one in right) for prediction, right in pairs]))


def token_f1(version: int, prediction: str, reference: str) -> float:
    """Of one prediction and one reference."""
    said, wanted = squad_normal(prediction).split(), squad_normal(reference).split()
    if version == 2 and not (said and wanted):
        return float(said == wanted)
    return f_measure((collections.Counter(said) & collections.Counter(wanted)).total(), len(said), len(wanted))


BLEU_TOKENIZERS = ("13a", "intl", "char", "zh", "none")


def make_sacre(metric: str, tokenizer: str = "13a") -> "BLEU | CHRF":
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
    value = made.corpus_score(list(predictions), streams).score  # type: ignore[arg-type]  # it takes None as none
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
    "exact_match": exact_match,
    "squad_f1": partial(squad_f1, 1),
    "squad_v2_f1": partial(squad_f1, 2),
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "pearson": pearson,
    "spearman": spearman,
    "word_error_rate": error_rate,
    "phoneme_error_rate": error_rate,
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
