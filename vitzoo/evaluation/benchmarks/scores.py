"""Metrics of benchmarks beyond those of their evaluators, from the same pass."""

import collections
import math
from collections.abc import Callable, Mapping

import numpy as np

from vitzoo.evaluation.run import Evaluation, Rows


def matthews_correlation(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """Matthews' correlation of label and prediction (GLUE's of CoLA)."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(*classes_of(evaluation, rows)))


def f1(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """F1 of the data's class 1 (GLUE's of MRPC and QQP); 0 where it neither occurs nor is predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(*(part == 1 for part in classes_of(evaluation, rows)), zero_division=0))


def f1_macro(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """The mean of the F1 of all classes that are true or predicted (SuperGLUE's of CB)."""
    from sklearn.metrics import f1_score

    return float(f1_score(*classes_of(evaluation, rows), average="macro", zero_division=0))


def exact_match_by_question(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """The share of questions all of whose answers are rightly judged (MultiRC)."""
    label, said = classes_of(evaluation, rows)
    source = evaluation.source.source
    right: dict[str, bool] = collections.defaultdict(lambda: True)
    for position, good in zip(rows["position"].tolist(), (label == said).tolist(), strict=True):
        right[source.group(position)] &= good
    return float(np.mean(list(right.values())))


def word_perplexity(evaluation: Evaluation, rows: Rows, metrics: Mapping[str, float]) -> float:
    """The exponential of all loss over the number of words as WikiText counts them: what spaces divide, and the ends of
    lines.
    """
    source = evaluation.source
    texts = (source[index]["text"] for index in range(len(source)))
    words = sum(len(text.split()) + text.count("\n") for text in texts)
    mean = metrics["loss"] * metrics["tokens"] / words
    return math.exp(mean) if mean < 700 else math.inf


MORE: dict[str, Callable[[Evaluation, Rows, Mapping[str, float]], float]] = {
    "matthews_correlation": matthews_correlation,
    "f1": f1,
    "f1_macro": f1_macro,
    "exact_match_by_question": exact_match_by_question,
    "word_perplexity": word_perplexity,
}


def classes_of(evaluation: Evaluation, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Label and prediction, int [n] each, as the data number their classes; -1 is a class that they don't have."""
    if "answer" in rows:
        return rows["answer"], evaluation.evaluator.chosen(rows)
    mapping = evaluation.classes
    if mapping is None or mapping.columns is None or mapping.restricted:
        return rows["label"], rows["prediction"]
    number = np.full(mapping.count, -1)
    number[list(mapping.columns)] = np.arange(len(mapping.columns))
    return number[rows["label"]], number[rows["prediction"]]
