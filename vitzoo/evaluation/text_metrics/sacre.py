"""BLEU and chrF as sacreBLEU counts them (Post 2018, https://arxiv.org/abs/1804.08771), on its scale of 0 to 100."""

from collections.abc import Sequence
from typing import Any

from vitzoo.errors import UserError
from vitzoo.hints import install_extra

TOKENIZERS = ("13a", "intl", "char", "zh", "none")


def make(metric: str, tokenizer: str = "13a") -> Any:
    """sacreBLEU's metric called `bleu` or `chrf`.

    Raises:
        UserError: sacreBLEU isn't installed.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise UserError("metrics", metric, f"needs sacreBLEU: {install_extra('text')}") from None
    return BLEU(tokenize=tokenizer) if metric == "bleu" else CHRF()


def score(
    metric: str, predictions: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str = "13a"
) -> tuple[float, str]:
    """The score of a corpus, and the signature by which others can repeat it.

    Args:
        metric: `bleu` or `chrf`.
        predictions: a text for each example.
        references: for each, one or more.
        tokenizer: of BLEU, one of `TOKENIZERS`.
    """
    made, most = make(metric, tokenizer), max(map(len, references))
    streams = [[one[number] if number < len(one) else None for one in references] for number in range(most)]
    value = made.corpus_score(list(predictions), streams).score
    return float(value), str(made.get_signature())
