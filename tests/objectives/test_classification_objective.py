import dataclasses
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.objectives.classification import Classification
from vitzoo.schema import build
from vitzoo.steps.train import mean


@dataclasses.dataclass
class Info:
    multi_label: bool = False
    class_counts: tuple[int, ...] | None = None
    n: int = 0


def fixed(logits):
    """A model whose logits don't depend on its input."""
    return lambda images, *, train=False, key=None: jnp.asarray(logits, jnp.float32)


def evaluate(objective, logits, label, weight=None):
    """Loss and metrics of a batch: sums over counts, as the training step divides them."""
    rows = len(label)
    batch = {"image": jnp.zeros((rows, 1, 1, 1)), "label": jnp.asarray(label)}
    batch |= {} if weight is None else {"example_weight": jnp.asarray(weight, jnp.float32)}

    def compute(batch):
        counts = objective.counts(batch)
        sums, metrics, _ = objective.sums(fixed(logits), batch)
        loss = sum(mean(w * sums[term], counts[term]) for term, w in objective.term_weights.items())
        return loss, {name: total / count for name, (total, count) in metrics.items()}

    loss, metrics = jax.jit(compute)(batch)
    return float(loss), {name: float(value) for name, value in metrics.items()}


def bind(num_classes=3, info=None, **settings):
    return build(Classification, settings, "objective").bind(info or Info(), SimpleNamespace(num_classes=num_classes))


def test_softmax_loss_of_equal_logits_is_the_log_of_the_number_of_classes():
    loss, _ = evaluate(bind(1000), np.zeros((2, 1000)), [3, 999])
    assert loss == pytest.approx(math.log(1000), rel=1e-6)


def test_softmax_loss_is_the_mean_of_minus_log_probability():
    logits = np.float64([[2.0, 0.0, -1.0], [0.5, 1.5, 0.0]])
    expected = np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits, [0, 2], strict=True)])
    assert evaluate(bind(), logits, [0, 2])[0] == pytest.approx(expected, rel=1e-6)


def test_label_smoothing_is_the_mixture_with_the_uniform_distribution():
    logits = np.float64([[2.0, 0.0, -1.0]])
    log_p = logits[0] - np.log(np.exp(logits[0]).sum())
    expected = -(0.9 * log_p[0] + 0.1 * log_p.mean())
    assert evaluate(bind(label_smoothing=0.1), logits, [0])[0] == pytest.approx(expected, rel=1e-6)


def test_soft_labels_weigh_the_classes_they_mix():
    logits = [[2.0, 0.0, -1.0]]
    hard = [evaluate(bind(), logits, [label])[0] for label in range(3)]
    soft = evaluate(bind(), logits, np.float32([[0.7, 0.3, 0.0]]))[0]
    assert soft == pytest.approx(0.7 * hard[0] + 0.3 * hard[1], rel=1e-6)


def test_sigmoid_loss_is_summed_over_the_classes():
    def cross_entropy(x, y):
        return math.log(1 + math.exp(-x)) if y else math.log(1 + math.exp(x))

    expected = cross_entropy(2, 1) + cross_entropy(0, 0) + cross_entropy(-1, 0)
    assert evaluate(bind(loss="sigmoid"), [[2.0, 0.0, -1.0]], [0])[0] == pytest.approx(expected, rel=1e-6)


def test_sigmoid_loss_with_the_bias_of_big_vision_starts_near_ten():
    # head bias -10 over 21,843 classes: 21,842 log(1 + e^-10) + 10 = 10.99
    loss, _ = evaluate(bind(21_843, loss="sigmoid"), np.full((1, 21_843), -10.0), [7])
    assert loss == pytest.approx(21_842 * math.log1p(math.exp(-10)) + 10 + math.log1p(math.exp(-10)), rel=1e-4)


def test_binary_labels_make_a_whole_yes_of_every_class_in_the_mixture():
    # Touvron et al. 2022: binary cross-entropy, mean over the classes, with targets (mixed labels > 0)
    def softplus(x):
        return math.log1p(math.exp(x))

    logits, mixed = [[2.0, 0.0, -1.0]], np.float32([[0.7, 0.3, 0.0]])
    expected = (softplus(-2.0) + softplus(0.0) + softplus(-1.0)) / 3
    settings = {"loss": "sigmoid", "binary_labels": True}
    assert evaluate(bind(sum_classes=False, **settings), logits, mixed)[0] == pytest.approx(expected, rel=1e-6)
    assert evaluate(bind(**settings), logits, mixed)[0] == pytest.approx(3 * expected, rel=1e-6)


def test_rows_of_weight_zero_enter_neither_sum_nor_count():
    logits = np.float32([[2.0, 0.0, -1.0], [np.nan, np.inf, 0.0], [0.5, 1.5, 0.0]])
    padded = evaluate(bind(), logits, [0, -1, 2], [1, 0, 1])
    assert padded == evaluate(bind(), logits[[0, 2]], [0, 2])
    assert evaluate(bind(), logits[:1], [0], [0])[0] == 0.0


def test_class_weights_give_torch_weighted_mean():
    logits = np.float64([[2.0, 0.0, -1.0], [0.5, 1.5, 0.0]])
    losses = [np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits, [0, 2], strict=True)]
    expected = (1.0 * losses[0] + 4.0 * losses[1]) / 5.0  # torch.nn.CrossEntropyLoss(weight): divided by their sum
    loss, metrics = evaluate(bind(class_weights=(1.0, 2.0, 4.0)), logits, [0, 2])
    assert loss == pytest.approx(expected, rel=1e-6)
    assert metrics["accuracy"] == 0.5


def test_balanced_class_weights_are_scikit_learns():
    objective = bind(info=Info(class_counts=(10, 30, 60), n=100), class_weights="balanced")
    assert objective.weights == pytest.approx((100 / 30, 100 / 90, 100 / 180))


def test_balanced_weights_of_several_labels_weigh_the_positive_part():
    info = Info(multi_label=True, class_counts=(25, 50), n=100)
    objective = bind(2, info, loss="sigmoid", class_weights="balanced")
    assert objective.weights == pytest.approx((3.0, 1.0))
    loss, _ = evaluate(objective, [[0.0, 0.0]], np.float32([[1.0, 0.0]]))
    assert loss == pytest.approx((3 + 1) * math.log(2), rel=1e-6)


def test_accuracy_and_top5_follow_arg_max_even_with_equal_logits():
    logits = np.zeros((3, 10))
    logits[1, 7] = 1.0
    _, metrics = evaluate(bind(10), logits, [0, 7, 9])  # equal logits rank in the order of the classes
    assert metrics == pytest.approx({"accuracy": 2 / 3, "top5_accuracy": 2 / 3})
    assert evaluate(bind(10), np.full((1, 10), np.nan), [0])[1] == {"accuracy": 0.0, "top5_accuracy": 0.0}
    assert "top5_accuracy" not in evaluate(bind(5), np.zeros((1, 5)), [0])[1]


def test_label_accuracy_under_several_labels_counts_each_yes_or_no():
    objective = bind(4, Info(multi_label=True), loss="sigmoid")
    _, metrics = evaluate(objective, [[1.0, -1.0, 1.0, -1.0]], np.float32([[1, 0, 0, 0]]))
    assert metrics == {"label_accuracy": 0.75}


@pytest.mark.parametrize(
    ("settings", "info", "message"),
    [
        ({}, Info(multi_label=True), "objective.loss = softmax: these data have several labels"),
        ({"class_weights": (1.0, 2.0)}, Info(), "2 numbers for 3 classes"),
        ({"class_weights": "balanced"}, Info(), "give numbers"),
        ({"class_weights": "balance"}, Info(), "objective.class_weights = balance"),
        ({"class_weights": (0.0, 0.0, 0.0)}, Info(), "not all 0"),
        ({"class_weights": (1.0, 1e-35, 1.0)}, Info(), "numbers from 1e-30 to 1e+30, or 0"),
        ({"label_smoothing": 1.0}, Info(), "objective.label_smoothing"),
        ({"binary_labels": True}, Info(), "objective.binary_labels = True: acts with loss=sigmoid only"),
        (
            {"loss": "sigmoid", "binary_labels": True, "label_smoothing": 0.1},
            Info(),
            "objective.label_smoothing = 0.1: must be 0",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, info, message):
    with pytest.raises(UserError) as refusal:
        bind(info=info, **settings)
    assert message in str(refusal.value)
