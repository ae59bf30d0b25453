"""The classification evaluator's metrics against independent implementations, and its behaviour at the edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, f1_score, top_k_accuracy_score

from vitzoo.errors import UserError
from vitzoo.evaluation.classification import ClassificationEvaluator, rank
from vitzoo.evaluation.label_metrics import calibration_error


def run(logits, label, evaluator=None):
    """The metrics of given logits: a model that hands its input through."""
    evaluator = evaluator or ClassificationEvaluator()
    batch = {"image": jnp.asarray(logits), "label": jnp.asarray(label), "example_weight": jnp.ones(len(label))}
    outputs = jax.jit(lambda batch: evaluator.outputs(lambda images, train: images, batch))(batch)
    rows = {key: np.asarray(value) for key, value in outputs.items()}
    return evaluator.metrics(rows, logits.shape[-1])


@pytest.fixture
def random():
    return np.random.default_rng(0)


def test_accuracy_top5_and_loss_are_those_of_scikit_learn_and_scipy(random):
    logits = random.normal(size=(503, 10)).astype(np.float32)
    label = random.integers(0, 10, 503).astype(np.int32)
    got = run(logits, label)
    assert got["accuracy"] == np.mean(logits.argmax(1) == label)
    assert got["top5_accuracy"] == top_k_accuracy_score(label, logits, k=5)
    expected = -log_softmax(logits.astype(np.float64), axis=1)[np.arange(503), label].mean()
    assert got["loss"] == pytest.approx(expected, abs=1e-6)


def test_top5_is_given_only_above_five_classes(random):
    label = np.zeros(20, np.int32)
    assert "top5_accuracy" not in run(random.normal(size=(20, 5)), label)
    assert "top5_accuracy" in run(random.normal(size=(20, 6)), label)


def test_calibration_error_is_that_of_an_independent_binning(random):
    logits = 2 * random.normal(size=(2000, 4)).astype(np.float32)
    label = random.integers(0, 4, 2000).astype(np.int32)
    probability = softmax(logits, axis=1).max(1)
    right, confidence = calibration_curve(logits.argmax(1) == label, probability, n_bins=15)
    count, _ = np.histogram(probability, np.linspace(0, 1, 16))
    expected = (count[count > 0] * np.abs(right - confidence)).sum() / 2000
    assert run(logits, label)["calibration_error"] == pytest.approx(expected, abs=1e-6)


def test_calibration_error_of_two_cases_done_by_hand():
    # 4 predictions at 0.75, 3 right: no gap; 4 at 0.9, 1 right: gap 0.65 over half of the examples
    probability = np.array([0.75] * 4 + [0.9] * 4)
    correct = np.array([1, 1, 1, 0, 1, 0, 0, 0], bool)
    assert calibration_error(probability, correct) == pytest.approx(0.325)
    assert calibration_error(np.ones(3), np.ones(3, bool)) == 0


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("bins", "edge"), [(15, 3), (15, 6), (15, 7), (10, 3), (10, 7), (20, 9), *((15, k) for k in range(8, 15))]
)
def test_a_probability_on_an_edge_falls_into_the_lower_bin(kind, bins, edge):
    # of bins (lo, hi] the edge shares one with what lies below it: right at edge - 0.01, wrong at the edge, together
    # |1/2 - (edge - 0.005)|; what lies above has the next one
    at = edge / bins
    probability = np.array([at - 0.01, at], kind)
    assert calibration_error(probability, np.array([True, False]), bins) == pytest.approx(
        abs(0.5 - at + 0.005), abs=1e-7
    )
    above = np.array([at, np.nextafter(np.float32(at), np.float32(1))], kind)
    apart = (at + (1 - at)) / 2  # the lower wrong, the upper right
    assert calibration_error(above, np.array([False, True]), bins) == pytest.approx(apart, abs=1e-6)


def test_calibration_of_a_model_whose_probabilities_lie_on_an_edge():
    # .19 right, .20 wrong: one bin of 15, (2/15, 3/15], in which 1/2 are right at .195
    logits = np.log([[0.19, *[0.162] * 5], [0.20, *[0.16] * 5]]).astype(np.float32)
    got = run(logits, np.array([0, 1], np.int32))
    assert got["calibration_error"] == pytest.approx(0.305, abs=1e-6)


def test_several_labels_give_scikit_learns_average_precision_and_f1(random):
    logits = random.normal(size=(300, 6)).astype(np.float32)
    label = (random.random((300, 6)) < 0.3).astype(np.float32)
    got = run(logits, label)
    said = logits > 0
    assert got["mean_average_precision"] == pytest.approx(average_precision_score(label, logits, average="macro"))
    assert got["f1_macro"] == pytest.approx(f1_score(label, said, average="macro"))
    assert got["f1_micro"] == pytest.approx(f1_score(label, said, average="micro"))
    assert got["classes_without_positives"] == 0
    assert not {"accuracy", "calibration_error"} & set(got)


@pytest.mark.parametrize("offset", [17, 40, -95])
def test_sure_predictions_keep_their_order(random, offset):
    logits = (offset + 3 * random.normal(size=(200, 3))).astype(np.float32)  # of which sigmoid is 1 or 0 in float32
    label = (logits + 3 * random.normal(size=(200, 3)) > offset).astype(np.float32)
    right = average_precision_score(label, logits, average="macro")
    assert run(logits, label)["mean_average_precision"] == pytest.approx(right)


@pytest.mark.parametrize("predicted", [True, False])
def test_a_class_that_no_example_has_has_no_average_precision_and_counts_in_f1_where_it_is_predicted(random, predicted):
    logits = random.normal(size=(50, 4)).astype(np.float32)
    label = (random.random((50, 4)) < 0.5).astype(np.float32)
    label[:, 2] = 0
    logits[:, 2] = 1 if predicted else -1
    got, kept = run(logits, label), [0, 1, 3]
    assert got["classes_without_positives"] == 1
    assert got["mean_average_precision"] == pytest.approx(average_precision_score(label[:, kept], logits[:, kept]))
    assert got["f1_macro"] == pytest.approx(f1_score(label, logits > 0, average="macro", zero_division=np.nan))
    assert got["f1_micro"] == pytest.approx(f1_score(label, logits > 0, average="micro"))


@pytest.mark.parametrize("seed", range(4))
def test_macro_f1_of_one_label_is_scikit_learns_though_a_class_is_predicted_that_is_never_true(seed):
    random = np.random.default_rng(seed)
    label, logits = random.integers(0, 3, 40).astype(np.int32), random.normal(size=(40, 7)).astype(np.float32)
    logits[:, 5:] -= 9  # neither true nor predicted
    right = f1_score(label, logits.argmax(1), average="macro", zero_division=0)
    assert run(logits, label)["f1_macro"] == pytest.approx(right)


def test_macro_f1_of_three_examples_by_hand():
    # true 0, 1, 1, said 0, 1, 2: F1 of 1, 2/3 and 0; scikit-learn 0.5556
    assert run(np.eye(3, dtype=np.float32), np.array([0, 1, 1], np.int32))["f1_macro"] == pytest.approx(5 / 9)


def test_one_present_class_of_several_is_still_scored(random):
    logits, label = random.normal(size=(30, 2)).astype(np.float32), np.zeros((30, 2), np.float32)
    label[:9, 1] = 1
    assert run(logits, label)["mean_average_precision"] == pytest.approx(
        average_precision_score(label[:, 1], logits[:, 1])
    )


def test_equal_logits_count_as_the_lowest_class_only_like_arg_max():
    # a zero-initialised head: all logits 0, so that 1 of 10 balanced classes is right and 5 of 10 are in the top 5
    label = np.arange(10, dtype=np.int32)
    got = run(np.zeros((10, 10), np.float32), label)
    assert (got["accuracy"], got["top5_accuracy"]) == (0.1, 0.5)


def test_a_row_that_is_not_a_number_is_never_called_right():
    logits = jnp.array([[jnp.nan, jnp.nan, 0.0], [3.0, 1.0, 2.0], [jnp.inf, 0.0, 0.0]])
    assert rank(logits, jnp.array([0, 0, 0])).tolist() == [3, 0, 3]


def test_a_label_outside_the_classes_is_refused_with_its_value(random):
    with pytest.raises(UserError, match=r"label = 7: lies outside the model's classes, 0 to 3"):
        run(random.normal(size=(3, 4)), np.array([0, 7, 1], np.int32))


def test_a_pass_without_examples_is_refused(random):
    with pytest.raises(UserError, match="no readable example"):
        run(np.zeros((0, 4), np.float32), np.zeros(0, np.int32))


def test_a_sigmoid_model_of_one_label_has_the_sigmoid_loss(random):
    logits, label = random.normal(size=(40, 3)).astype(np.float32), random.integers(0, 3, 40).astype(np.int32)
    hot = np.eye(3)[label]
    probability = 1 / (1 + np.exp(-logits.astype(np.float64)))
    expected = -(hot * np.log(probability) + (1 - hot) * np.log(1 - probability)).sum(1).mean()
    got = run(logits, label, ClassificationEvaluator(loss="sigmoid"))
    assert got["loss"] == pytest.approx(expected, abs=1e-6)
    assert got["accuracy"] == np.mean(logits.argmax(1) == label)


def test_every_reported_metric_but_the_count_has_a_direction(random):
    one = run(random.normal(size=(9, 6)), np.zeros(9, np.int32))
    several = run(random.normal(size=(9, 6)), np.ones((9, 6), np.float32))
    assert (set(one) | set(several)) - {"classes_without_positives"} == set(ClassificationEvaluator.BETTER)


def test_two_intervals_are_refused_and_so_is_a_second_split():
    with pytest.raises(UserError, match=r"every_epochs = 2.*with every_steps"):
        ClassificationEvaluator(every_steps=3, every_epochs=2).check()
    with pytest.raises(UserError, match=r"data.split = test"):
        ClassificationEvaluator(data={"split": "test"}).check()


def test_the_metrics_a_best_checkpoint_is_chosen_by_are_known_before_the_first_pass(random):
    evaluator = ClassificationEvaluator()
    for classes in (3, 10):
        logits = random.normal(size=(20, classes)).astype(np.float32)
        one = run(logits, random.integers(0, classes, 20).astype(np.int32))
        assert set(evaluator.metric_names(False, classes)) == set(one)
        several = run(logits, random.integers(0, 2, (20, classes)).astype(np.float32))
        assert set(evaluator.metric_names(True, classes)) == set(several) - {"classes_without_positives"}
