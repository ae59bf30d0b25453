"""Metrics of classes, from what a whole pass kept, in float64 on the host: calibration, F1, average precision."""

from collections.abc import Sequence

import numpy as np

from vitzoo.evaluation.settings import Rows


def calibration_error(probability: np.ndarray, correct: np.ndarray, bins: int = 15) -> float:
    """The expected calibration error (Guo et al. 2017, https://arxiv.org/abs/1706.04599, equation 3).

    Predictions are sorted by probability into `bins` intervals (0, 1/bins], (1/bins, 2/bins] ..., one on an edge
    into the lower, and the error is Σ over bins of (fraction of the examples in it) · |accuracy in it − mean
    probability in it|.

    Args:
        probability: of the predicted class, `[n]`.
        correct: whether the prediction is right, bool `[n]`.
    """
    if not np.isfinite(probability).all():
        return float("nan")
    # in float32, which is what probabilities are: np.float32(0.2) lies above 3 / 15 in float64, and is that edge
    edges = (np.arange(1, bins) / bins).astype(np.float32)
    which = np.searchsorted(edges, probability.astype(np.float32), side="left")
    probability = probability.astype(np.float64)
    gap = np.bincount(which, weights=correct - probability, minlength=bins)
    return float(np.abs(gap).sum() / len(probability))


def multi_label_metrics(rows: Rows) -> dict[str, float]:
    """Mean average precision, F1 at probability 0.5, and loss, of labels, logits and probabilities `[n, classes]`.

    The mean average precision leaves out classes that no example has, whose average precision is undefined; how many
    those are is `classes_without_positives`. The macro F1 leaves out classes that are neither true nor predicted, as
    scikit-learn's with `zero_division=nan`; one that is predicted and never true counts as 0. The micro F1 counts every
    class.
    """
    truth = rows["label"] > 0.5
    present = truth.any(axis=0)
    metrics = {"loss": float(rows["loss"].mean(dtype=np.float64)), "classes_without_positives": int((~present).sum())}
    metrics |= dict.fromkeys(("mean_average_precision", "f1_macro", "f1_micro"), float("nan"))
    if not np.isfinite(rows["logit"]).all():
        return metrics
    if present.any():
        metrics["mean_average_precision"] = float(average_precisions(rows)[present].mean())
    hits, said, had = agreement(truth, rows["probability"] > 0.5)
    counted = said + had > 0
    if counted.any():
        metrics["f1_macro"] = float((2 * hits[counted] / (said + had)[counted]).mean())
        metrics["f1_micro"] = float(2 * hits.sum() / (said + had).sum())
    return metrics


def f1_scores(
    label: np.ndarray, said: np.ndarray, right: np.ndarray, classes: int, without: Sequence[int] = ()
) -> tuple[float, float]:
    """F1 averaged over the classes that are true or predicted, and of all examples together, as scikit-learn's; NaN
    where there is no such class.

    Args:
        label: the true class of each example, int `[n]`.
        said: the one predicted, int `[n]`.
        right: whether that is right, bool `[n]`.
        classes: how many there are.
        without: classes that are left out of both.
    """
    hits, said, had = (np.bincount(values, minlength=classes) for values in (label[right], said, label))
    kept = np.ones(classes, bool)
    kept[list(without)] = False
    present = kept & (said + had > 0)
    if not present.any():
        return float("nan"), float("nan")
    both = (said + had).astype(np.float64)
    return float((2 * hits[present] / both[present]).mean()), float(2 * hits[kept].sum() / both[kept].sum())


def average_precisions(rows: Rows) -> np.ndarray:
    """Average precision of every class, float64 `[classes]`; NaN for a class that no example has.

    By logits: in float32, probabilities of sure predictions are all 1, and their order is lost.
    """
    from sklearn.metrics import average_precision_score

    truth, logit = rows["label"] > 0.5, rows["logit"]
    scores = [
        average_precision_score(truth[:, c], logit[:, c]) if truth[:, c].any() else np.nan
        for c in range(truth.shape[1])
    ]
    return np.array(scores, np.float64)


def agreement(truth: np.ndarray, said: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often each class was rightly said, said, and true, int64 `[classes]` each, from bool `[n, classes]` twice."""
    return (truth & said).sum(axis=0), said.sum(axis=0), truth.sum(axis=0)
