"""Calibration is counted as scikit-learn and the papers do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_checkpoint import DIGITS, TINY, random_params

from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.settings import Data, Preprocessing
from vitzoo.errors import UserError
from vitzoo.evaluation.classification import CalibrationEvaluator, RealAccuracyEvaluator
from vitzoo.evaluation.run import Evaluation
from vitzoo.models.vit import ViT
from vitzoo.nn import state
from vitzoo.parallel.mesh import make_mesh

N, CLASSES = 400, 7


@pytest.fixture(scope="module")
def seen():
    random = np.random.default_rng(0)
    logits = (3 * random.normal(size=(N, CLASSES))).astype(np.float32)
    label = np.where(random.random(N) < 0.5, logits.argmax(1), random.integers(0, CLASSES, N)).astype(np.int32)
    return logits, label


def measured(logits, label, evaluator=None):
    evaluator = evaluator or CalibrationEvaluator()
    batch = {"image": jnp.asarray(logits), "label": jnp.asarray(label), "example_weight": jnp.ones(len(label))}
    kept = jax.jit(lambda batch: evaluator.outputs(lambda x, **how: x, batch))(batch)
    return {name: np.asarray(value) for name, value in kept.items()}


def test_likelihood_and_brier_are_scikit_learns(seen):
    from sklearn.metrics import log_loss

    logits, label = seen
    exact = np.exp(logits.astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    found = CalibrationEvaluator().metrics(measured(logits, label), CLASSES)
    assert found["accuracy"] == np.mean(exact.argmax(1) == label)
    assert found["negative_log_likelihood"] == pytest.approx(log_loss(label, exact, labels=range(CLASSES)), abs=1e-6)
    brier = np.square(exact - np.eye(CLASSES)[label]).sum(1).mean()
    assert found["brier"] == pytest.approx(brier, abs=1e-6)


@pytest.mark.parametrize("bins", [2, 15])
def test_the_error_is_the_gap_of_each_bin_by_its_share(seen, bins):
    logits, label = seen
    rows = measured(logits, label)
    probability, right = rows["probability"].astype(np.float64), rows["rank"] == 0
    error = 0.0
    for number in range(bins):
        inside = (probability > number / bins) & (probability <= (number + 1) / bins)
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - probability[inside].mean())
    found = CalibrationEvaluator(bins=bins).metrics(rows, CLASSES)
    assert found["expected_calibration_error"] == pytest.approx(error, abs=1e-6)


def test_probabilities_that_are_right_have_no_error():
    # of 100 predictions with probability 0.7, 70 are right; Brier is that of a fair guess, 2 · 0.7 · 0.3
    logits = np.tile(np.log([0.7, 0.3]).astype(np.float32), (100, 1))
    found = CalibrationEvaluator().metrics(measured(logits, (np.arange(100) >= 70).astype(np.int32)), 2)
    assert found["expected_calibration_error"] == pytest.approx(0, abs=1e-6)
    assert found["brier"] == pytest.approx(0.42, abs=1e-6)


def test_any_of_several_labels_is_right_and_images_without_one_are_left_out():
    logits = np.float32([[3, 1, 0], [3, 1, 0], [0, 1, 3], [0, 1, 3], [np.nan, 9, 0]])
    labels = np.float32([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0]])
    rows = measured(logits, labels, RealAccuracyEvaluator())
    assert rows["example_weight"].tolist() == [1, 1, 1, 0, 1]
    assert rows["label"].tolist()[:3] == [0, 1, 2]  # the prediction where it is right, else the first label
    real = {name: value[rows["example_weight"] > 0] for name, value in rows.items()}
    assert RealAccuracyEvaluator().metrics(real, 3) == {"accuracy": 0.5}  # what isn't finite is wrong


def evaluation(evaluator, name):
    graph, _ = state.abstract(lambda rngs: ViT(TINY, rngs=rngs))
    inputs, mesh = Inputs({"image": ImageProcessor(Preprocessing())}), make_mesh("auto", jax.devices()[:1])
    data = Data(name=name, batch_size=16)
    return Evaluation(evaluator, graph, inputs=inputs, config=TINY, data=data, classes=DIGITS, mesh=mesh)


def test_a_pass_of_a_model_is_calibrated_by_name_of_its_classes():
    found = evaluation(CalibrationEvaluator(split="test"), "made_data:Four")(random_params(TINY))
    assert found["n"] == 40
    assert 0 <= found["expected_calibration_error"] <= 1


@pytest.mark.parametrize(
    ("evaluator", "name", "message"),
    [
        (CalibrationEvaluator(split="test"), "made_data:Several", "has several labels to an example"),
        (RealAccuracyEvaluator(split="test"), "made_data:Many", "is of data with several labels to an example"),
    ],
)
def test_labels_of_another_kind_are_refused(evaluator, name, message):
    with pytest.raises(UserError, match=message):
        evaluation(evaluator, name)
