"""What a student learns of a teacher, against the papers' formulas."""

import types
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vitzoo.errors import UserError
from vitzoo.objectives.distillation import Distillation
from vitzoo.schema import build

STUDENT = np.float64([[2.0, 0.0, -1.0], [0.5, 1.5, 0.0], [9.0, 9.0, 9.0]])
TEACHER = np.float64([[1.0, 3.0, 0.0], [0.0, 0.5, 2.0], [0.0, 1.0, 0.0]])
LABELS, WEIGHT = np.array([0, 1, 2]), np.float32([1, 1, 0])


class TwoHeads:
    def logits_by_head(self, images, *, train, key):
        return jnp.float32(STUDENT), jnp.float32(STUDENT[:, ::-1])


def one_head(images, *, train, key):
    return jnp.float32(STUDENT)


def bind(multi_label=False, **settings):
    info = types.SimpleNamespace(multi_label=multi_label, class_counts=None, n=2)
    objective = build(Distillation, {"teacher": "RUN", **settings}, "objective")
    # a model whose weights are what it says
    teacher = SimpleNamespace(classifier=lambda: lambda weights, batch: weights)
    return objective.bind(info, SimpleNamespace(num_classes=3), teacher=teacher)


def terms(objective, model):
    """Each term's mean, and the metrics."""
    batch, memory = {"image": jnp.zeros((3, 1, 1, 1)), "label": LABELS, "example_weight": WEIGHT}, {"teacher": TEACHER}

    def both(batch, memory):
        return objective.counts(batch), objective.sums(model, batch, memory=memory)

    counts, (sums, metrics, _) = jax.jit(both)(batch, memory)
    return {term: float(sums[term] / counts[term]) for term in sums}, metrics


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def test_soft_labels_are_the_divergence_of_hinton_times_the_squared_temperature():
    found, metrics = terms(bind(temperature=2.0), one_head)
    p, q = softmax(TEACHER[:2] / 2), softmax(STUDENT[:2] / 2)  # the third row is padding
    assert found["distillation"] == pytest.approx(4 * (p * np.log(p / q)).sum(-1).mean(), rel=1e-5)
    own = -np.log(softmax(STUDENT[:2])[np.arange(2), LABELS[:2]]).mean()
    assert found["classification"] == pytest.approx(own, rel=1e-5)
    assert float(metrics["accuracy"][0]) == 2
    assert float(metrics["accuracy"][1]) == 2


def test_hard_labels_are_the_teachers_first_choice_learned_by_the_second_head():
    # Touvron et al. 2021, section 4: half the cross-entropy with the label, half that with the teacher's arg-max
    objective = bind(kind="hard")
    assert objective.term_weights == {"classification": 0.5, "distillation": 0.5}
    found, metrics = terms(objective, TwoHeads())
    second = softmax(STUDENT[:2, ::-1])
    assert found["distillation"] == pytest.approx(-np.log(second[[0, 1], [1, 2]]).mean(), rel=1e-5)
    own = -np.log(softmax(STUDENT[:2])[np.arange(2), LABELS[:2]]).mean()
    assert found["classification"] == pytest.approx(own, rel=1e-5)
    mean = STUDENT + STUDENT[:, ::-1]  # what the model answers with is the mean of its heads
    assert float(metrics["accuracy"][0]) == (mean.argmax(-1) == LABELS)[:2].sum()


def test_a_student_that_agrees_with_its_teacher_has_nothing_to_learn_from_it():
    def gradient(logits):
        batch, memory = (
            {"image": jnp.zeros((3, 1, 1, 1)), "label": LABELS, "example_weight": WEIGHT},
            {"teacher": logits},
        )

        def loss(x):
            return bind().sums(lambda images, **how: x, batch, memory=memory)[0]["distillation"]

        return jax.grad(loss)(logits)

    np.testing.assert_allclose(jax.jit(gradient)(jnp.float32(TEACHER)), 0, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"teacher": ""}, "objective.teacher: must be given"),
        ({"temperature": 0.0}, "objective.temperature = 0.0: must be above 0"),
        ({"multi_label": True}, "several labels per image; it needs one"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(UserError) as refusal:
        bind(**settings)
    assert message in str(refusal.value)
