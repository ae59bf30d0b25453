"""Frozen features are measured as the papers and scikit-learn do, whatever the batch and the devices."""

import jax
import numpy as np
import pytest
from made_checkpoint import TINY, random_params

from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.image import ImageProcessor
from vitzoo.data.settings import Data, Preprocessing
from vitzoo.errors import UserError
from vitzoo.evaluation.features import Examples
from vitzoo.evaluation.frozen import FewShotEvaluator, KNNEvaluator, LinearProbeEvaluator
from vitzoo.evaluation.run import Evaluation
from vitzoo.models.vit import ViT
from vitzoo.nn import state
from vitzoo.parallel.mesh import make_mesh
from vitzoo.schema import build

CLASSES, WIDTH = 5, 12


def blobs(count, seed, spread=1.5):
    """Points around a centre for each class, which overlap."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(CLASSES, WIDTH))
    label = random.integers(0, CLASSES, count)
    return Examples(centres[label] + spread * random.normal(size=(count, WIDTH)), label)


TRAIN, TEST = blobs(300, 0), blobs(200, 1)


@pytest.mark.parametrize("k", [1, 10, 200, 300, 5000])
def test_neighbours_vote_as_in_scikit_learn(k):
    from sklearn.neighbors import KNeighborsClassifier

    reference = KNeighborsClassifier(
        min(k, 300), metric="cosine", algorithm="brute", weights=lambda distance: np.exp((1 - distance) / 0.07)
    ).fit(TRAIN.features, TRAIN.label)
    found = KNNEvaluator(k=(k,)).measure(TRAIN, TEST, CLASSES)
    assert found == {f"accuracy_k{k}": pytest.approx(reference.score(TEST.features, TEST.label), abs=1e-6)}


def test_the_vote_is_dinos_and_of_equal_neighbours_the_earlier_one_counts():
    axes = np.eye(2)
    known = Examples(np.array([axes[0], axes[0], axes[1], axes[1] * 3]), np.array([1, 0, 2, 2]))
    asked = Examples(np.array([axes[0], axes[1]]), np.array([1, 2]))
    assert KNNEvaluator(k=(1, 2, 4)).measure(known, asked, 3) == {
        "accuracy_k1": 1.0,  # of two equal neighbours the first, of class 1
        "accuracy_k2": 0.5,  # one vote for each of 0 and 1: the lower wins
        "accuracy_k4": 0.5,
    }


def test_blocks_of_questions_change_nothing(monkeypatch):
    whole = KNNEvaluator(k=(3, 50)).measure(TRAIN, TEST, CLASSES)
    monkeypatch.setattr("vitzoo.evaluation.frozen.ENTRIES", 300 * 7)
    assert KNNEvaluator(k=(3, 50)).measure(TRAIN, TEST, CLASSES) == whole


@pytest.mark.parametrize("shots", [1, 5, 25])
def test_few_shots_are_ridge_regression_on_what_the_seed_draws(shots):
    from sklearn.linear_model import Ridge

    accuracies = []
    for draw in range(3):
        random = np.random.default_rng((7, draw))
        rows = [random.permutation(np.flatnonzero(TRAIN.label == number))[:shots] for number in range(CLASSES)]
        x, y = TRAIN.features[np.concatenate(rows)], TRAIN.label[np.concatenate(rows)]
        scale = [(features - x.mean(0)) / (x.std(0) + 1e-5) for features in (x, TEST.features)]
        known, asked = (np.c_[features, np.full(len(features), 100.0)] for features in scale)
        ridge = Ridge(alpha=1024.0, fit_intercept=False).fit(known, 2.0 * np.eye(CLASSES)[y] - 1)
        accuracies.append((ridge.predict(asked).argmax(1) == TEST.label).mean())
    found = FewShotEvaluator(shots=(shots,), seed=7).measure(TRAIN, TEST, CLASSES)
    assert found[f"accuracy_{shots}_shot"] == pytest.approx(np.mean(accuracies), abs=1e-6)
    assert found[f"accuracy_{shots}_shot_std"] == pytest.approx(np.std(accuracies, ddof=1), abs=1e-6)


def test_draws_are_a_function_of_the_seed():
    score = lambda seed: FewShotEvaluator(seed=seed).measure(TRAIN, TEST, CLASSES)  # noqa: E731
    assert score(0) == score(0) != score(1)


@pytest.mark.parametrize("penalty", [1e-3, 0.1])
def test_the_linear_probe_is_at_the_minimum_of_its_loss(penalty):
    from scipy.optimize import minimize

    x = (TRAIN.features - TRAIN.features.mean(0)) / (TRAIN.features.std(0) + 1e-5)
    truth = np.eye(CLASSES)[TRAIN.label]

    def loss(flat):
        weights = flat.reshape(WIDTH + 1, CLASSES)
        logits = x @ weights[:-1] + weights[-1]
        logits -= logits.max(1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        error = (np.exp(log_p) - truth) / len(x)
        gradient = np.concatenate([x.T @ error + penalty * weights[:-1], error.sum(0)[None]])
        return -(log_p * truth).sum() / len(x) + penalty / 2 * (weights[:-1] ** 2).sum(), gradient.ravel()

    best = minimize(loss, np.zeros((WIDTH + 1) * CLASSES), jac=True, method="BFGS", options={"gtol": 1e-8})
    model = LinearProbeEvaluator()._fitted(x, TRAIN.label, penalty)
    own = np.concatenate([model.coef_.T, model.intercept_[None]]).ravel()
    assert loss(own)[0] == pytest.approx(best.fun, abs=1e-6)


def test_the_penalty_is_the_one_that_serves_held_out_examples_best():
    found = LinearProbeEvaluator(penalties=(1e-3, 0.1, 1000.0)).measure(TRAIN, TEST, CLASSES)
    assert found["penalty"] == 0.1
    alone = LinearProbeEvaluator(penalties=(0.1,)).measure(TRAIN, TEST, CLASSES)
    assert alone == found


def test_the_held_out_examples_may_be_the_last_ones():
    wrong = Examples(TRAIN.features, np.r_[TRAIN.label[:240], (TRAIN.label[240:] + 1) % CLASSES])
    chosen = LinearProbeEvaluator(penalties=(0.1, 1e6), held_out_examples="last")._chosen(wrong)
    assert chosen == 1e6  # what is learned from the first 240 is wrong of the last 60
    assert LinearProbeEvaluator(penalties=(0.1, 1e6), held_out_examples="last")._chosen(TRAIN) == 0.1


def test_one_class_and_too_few_iterations_are_refused():
    alike = Examples(TRAIN.features, np.zeros_like(TRAIN.label))
    with pytest.raises(UserError, match="train_split = train: holds examples of one class only"):
        LinearProbeEvaluator(penalties=(1.0,)).measure(alike, TEST, CLASSES)
    with pytest.raises(UserError, match="iterations = 2: not enough for the penalty"):
        LinearProbeEvaluator(penalties=(1e-6,), iterations=2).measure(TRAIN, TEST, CLASSES)
    with pytest.raises(UserError, match="penalties = \\(\\): must list a number"):
        build(LinearProbeEvaluator, {"penalties": ()})


@pytest.mark.parametrize(("part", "field"), [(KNNEvaluator, "k"), (FewShotEvaluator, "shots")])
def test_no_number_to_measure_by_is_refused(part, field):
    with pytest.raises(UserError, match=f"{field} = \\(\\): must list a number"):
        build(part, {field: ()})


def test_the_nearest_neighbour_votes_however_low_the_temperature():
    at = lambda temperature: KNNEvaluator(k=(1, 10), temperature=temperature).measure(TRAIN, TEST, CLASSES)  # noqa: E731
    assert at(1e-300)["accuracy_k10"] == at(1e-300)["accuracy_k1"] == at(0.07)["accuracy_k1"] > 0.4


GRAPH, _ = state.abstract(lambda rngs: ViT(TINY, rngs=rngs))
PARAMS = random_params(TINY)


def striped(data):
    """Images of four directions and steps of stripes: easy to tell apart, with two test images mislabelled."""
    from vitzoo.data.arrays import from_arrays

    random, rows, columns = np.random.default_rng(0), *np.mgrid[:8, :8]
    kinds = np.stack([(rows // 4) % 2, (columns // 4) % 2, (rows // 2) % 2, (columns // 2) % 2])
    label = np.arange(60) % 4
    images = (kinds[label] * 200 + random.integers(0, 4, (60, 8, 8))).astype(np.uint8)
    said = label.copy()
    said[[41, 50]] = (said[[41, 50]] + 1) % 4
    return from_arrays({"train": (images[:40], label[:40]), "test": (images[40:], said[40:])}, list("abcd"))


def evaluation(evaluator, devices=1, batch=16, name="test_frozen:striped"):
    return Evaluation(
        evaluator,
        GRAPH,
        inputs=Inputs({"image": ImageProcessor(Preprocessing())}),
        config=TINY,
        data=Data(name=name, batch_size=batch),
        classes=None,
        mesh=make_mesh("auto", jax.devices()[:devices]),
    )


PARTS = [
    (KNNEvaluator(split="test", k=(3, 500)), "accuracy_k3"),
    (FewShotEvaluator(split="test", shots=(10,), draws=1, l2=0.01), "accuracy_10_shot"),
    (LinearProbeEvaluator(split="test", penalties=(0.01,)), "accuracy"),
]


@pytest.mark.parametrize(("evaluator", "metric"), PARTS, ids=["knn", "few_shot", "linear_probe"])
def test_a_pass_learns_from_one_split_and_counts_the_other_once(evaluator, metric):
    found = evaluation(evaluator)(PARAMS)
    assert found["n"] == 20
    assert found[metric] == 0.9  # 18 of 20: the two that are mislabelled
    again = evaluation(evaluator, devices=8, batch=24)
    assert again(PARAMS) == pytest.approx(found)
    assert (again.source.info.split, again.source.info.n) == ("test (20), learning from train (40)", 60)


def test_any_features_can_be_taken_and_unknown_ones_are_named():
    rows = evaluation(KNNEvaluator(split="test", features="block_0", reduce="first")).rows(PARAMS)
    assert rows["features"].shape == (60, 16)
    with pytest.raises(UserError, match="features = block_9: no such features; there are embedded, block_0, block_1"):
        evaluation(KNNEvaluator(split="test", features="block_9")).trace(PARAMS)


def test_several_labels_are_refused():
    with pytest.raises(UserError, match="several labels to an example"):
        evaluation(KNNEvaluator(split="test[5:]", train_split="five"), name="made_data:Several")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"train_split": "test[:5]"},
            r"train_split = test\[:5\]: holds 5 of the examples to be measured, test; name others",
        ),
        ({"train_split": "trian"}, "train_split = trian: no split 'trian'; did you mean train"),
    ],
)
def test_examples_to_learn_from_are_there_and_none_of_them_is_measured(settings, message):
    with pytest.raises(UserError, match=message):
        evaluation(KNNEvaluator(split="test", **settings))


def test_a_single_example_to_learn_from_is_refused_without_a_warning(recwarn):
    one = Examples(TRAIN.features[:1], TRAIN.label[:1])
    with pytest.raises(UserError, match="train_split = train: holds examples of one class only"):
        LinearProbeEvaluator().measure(one, TEST, CLASSES)
    assert not list(recwarn)
