"""What evaluators of encoders find: hidden tokens, classes of texts and of words, numbers; each example once."""

import json

import jax
import numpy as np
import pytest
from made_text_run import MASKING, made_model

from vitzoo.data.inputs import Inputs
from vitzoo.data.processors.text import TextProcessor
from vitzoo.data.settings import Data
from vitzoo.data.text.settings import Text
from vitzoo.errors import UserError
from vitzoo.evaluation.classification import ClassificationEvaluator
from vitzoo.evaluation.label_metrics import f1_scores
from vitzoo.evaluation.language_modelling import MaskedEvaluator
from vitzoo.evaluation.run import Evaluation
from vitzoo.evaluation.text_labels import (
    RegressionEvaluator,
    Tagging,
    TokenClassificationEvaluator,
    are_entity_tags,
    correlation,
    entities,
    entity_scores,
    ranks,
)
from vitzoo.parallel.mesh import make_mesh

WORDS = ["one", "two", "three", "four", "five", "six", "seven"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Eleven texts with classes, numbers and words' classes."""
    folder = tmp_path_factory.mktemp("data")
    sentences = [WORDS[n % 7 :] + WORDS[: n % 3] for n in range(11)]
    rows = {
        "texts": [{"text": " ".join(words)} for words in sentences],
        "classes": [{"text": " ".join(words), "label": "ab"[n % 2]} for n, words in enumerate(sentences)],
        "numbers": [{"text": " ".join(words), "label": len(words)} for words in sentences],
        "words": [{"words": words, "tags": [["B-X", "I-X", "O"][len(w) - 3] for w in words]} for words in sentences],
    }
    for name, values in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in values))
    return folder


KINDS = {
    "masked": (MaskedEvaluator, "texts", {"head": "pretraining"}, "loss"),
    "labelled": (ClassificationEvaluator, "classes", {"head": "classes", "num_classes": 3}, "f1_macro"),
    "tagged": (TokenClassificationEvaluator, "words", {"head": "token_classes", "num_classes": 3}, "accuracy"),
    "number": (RegressionEvaluator, "numbers", {"head": "number"}, "mean_squared_error"),
}
CLASSES = {"labelled": ("c", "b", "a"), "tagged": ("O", "I-X", "B-X")}  # not in the data's order


def bound(kind, data, batch=4, devices=1, evaluator=None, name=None, **settings):
    made, own, fields, _ = KINDS[kind]
    config, graph, params = made_model("bert", scale=0.3, **fields)
    text = Text(length=48, next_sentence=kind == "masked")
    processor = TextProcessor(text, "labelled" if kind == "number" else kind, 0, known=MASKING)
    evaluation = Evaluation(
        (evaluator or made)(split="all", **settings),
        graph,
        inputs=Inputs({"tokens": processor}),
        config=config,
        data=Data(name=f"jsonl:{data}/{name or own}.jsonl", batch_size=batch),
        classes=CLASSES.get(kind),
        mesh=make_mesh("auto", jax.devices()[:devices]),
    )
    return evaluation, params


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_text_counts_once_whatever_the_batch_and_the_devices(kind, data):
    few, params = bound(kind, data)
    many, _ = bound(kind, data, batch=16, devices=2)
    first, second = few(params), many(params)
    assert first["n"] == 11
    assert first == pytest.approx(second, rel=1e-3)  # the correlations magnify what float32 rounds
    assert KINDS[kind][3] in first
    assert set(getattr(few.evaluator, "metric_names", lambda *_: first)(False, 3)) <= set(first)


def test_hidden_tokens_and_second_parts_are_drawn_alike_in_every_run(data):
    first, second = (bound("masked", data)[0].examples for _ in range(2))
    for index in range(len(first)):
        one, other = first.eval_row(index), second.eval_row(index)
        assert all(np.array_equal(one[key], other[key]) for key in one)


def test_words_are_matched_with_the_models_classes_by_name_and_counted_once(data):
    evaluation, params = bound("tagged", data)
    words = evaluation.evaluator.examples(evaluation.rows(params))
    tags = [json.loads(line) for line in (data / "words.jsonl").read_text().splitlines()]
    expected = [(id, number, tag) for id, row in enumerate(tags) for number, tag in enumerate(row["tags"], 1)]
    named = [CLASSES["tagged"][label] for label in words["label"]]
    assert sorted(zip(words["id"].tolist(), words["word"].tolist(), named, strict=True)) == expected


@pytest.mark.slow
def test_texts_are_scored_among_all_of_the_models_classes_or_only_their_own(data):
    every, params = bound("labelled", data, all_classes=True)
    among, _ = bound("labelled", data)
    assert every.classes.names == ("c", "b", "a")
    all_rows, own = every.rows(params), among.rows(params)
    assert [("c", "b", "a")[label] for label in all_rows["label"]] == [("a", "b")[label] for label in own["label"]]
    assert set(own["prediction"]) <= {0, 1}


@pytest.mark.parametrize(
    ("kind", "evaluator", "message"),
    [
        ("masked", ClassificationEvaluator, "measures labelled rows, and these are masked"),
        ("labelled", MaskedEvaluator, "measures masked rows, and these are labelled"),
        ("labelled", TokenClassificationEvaluator, "measures tagged rows, and these are labelled"),
        ("labelled", RegressionEvaluator, "measures a model with the head number; this one's is classes"),
        ("number", ClassificationEvaluator, "measures a model with the head classes; this one's is number"),
    ],
)
def test_an_evaluator_of_something_else_is_refused(kind, evaluator, message, data):
    with pytest.raises(UserError, match=message):
        bound(kind, data, evaluator=evaluator)


def found(tags, texts=None):
    tags = tags.split()
    return [entity[1:] for entity in entities(tags, texts or [0] * len(tags))]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("I-PER I-PER O I-PER", [("PER", 0, 2), ("PER", 3, 4)]),  # IOB1: no B where nothing comes before
        ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),  # another kind begins another entity
        ("B-PER I-PER E-PER S-LOC", [("PER", 0, 3), ("LOC", 3, 4)]),
        ("B-PER L-PER U-PER I-PER", [("PER", 0, 2), ("PER", 2, 3), ("PER", 3, 4)]),
        ("O O", []),
    ],
)
def test_entities_are_those_of_conll(tags, expected):
    assert found(tags) == expected


def test_an_entity_ends_with_its_text():
    assert found("B-PER I-PER", [0, 1]) == [("PER", 0, 1), ("PER", 1, 2)]


def test_an_entity_is_right_where_its_kind_and_both_ends_are():
    truth = ["B-PER", "I-PER", "O", "B-LOC", "O", "B-ORG"]
    said = ["B-PER", "I-PER", "O", "B-ORG", "O", "O"]  # one of two right, one of three found
    assert entity_scores(truth, said, [0] * 6) == pytest.approx((1 / 2, 1 / 3, 2 / 5))
    assert entity_scores(["O"], ["O"], [0]) == (0, 0, 0)  # as conlleval and seqeval 1.2.2 say
    assert entity_scores(["O"], ["B-PER"], [0]) == (0, 0, 0)


def test_classes_are_entities_only_with_marks_and_an_outside():
    assert are_entity_tags(("B-PER", "I-PER", "O"))
    assert not are_entity_tags(("NOUN", "VERB", "O"))
    assert not are_entity_tags(("O",))


def test_f1_is_scikit_learns():
    from sklearn.metrics import f1_score

    random = np.random.default_rng(0)
    label, said = random.integers(0, 5, 300), random.integers(0, 5, 300)
    macro, micro = f1_scores(label, said, label == said, 5)
    assert macro == pytest.approx(f1_score(label, said, average="macro"))
    assert micro == pytest.approx(f1_score(label, said, average="micro"))
    macro, micro = f1_scores(label, said, label == said, 5, [2])
    kept = [0, 1, 3, 4]
    assert macro == pytest.approx(f1_score(label, said, average="macro", labels=kept))
    assert micro == pytest.approx(f1_score(label, said, average="micro", labels=kept))


def test_classes_that_are_neither_true_nor_predicted_are_not_averaged():
    macro, _ = f1_scores(np.array([0, 0]), np.array([0, 0]), np.array([True, True]), 4)
    assert macro == 1
    assert f1_scores(np.array([0]), np.array([1]), np.array([False]), 2, [0]) == (0, 0)
    assert np.isnan(f1_scores(np.array([0]), np.array([0]), np.array([True]), 2, [0])).all()


def rows_of_words(label, said):
    """One text of these words, of three classes."""
    label, said = np.array([label]), np.array([said])
    shape = {"probability": np.full(label.shape, 0.5, np.float32), "loss": np.ones(label.shape, np.float32)}
    word = np.arange(1, label.shape[1] + 1)[None]
    return {"label": label, "prediction": said, "rank": (label != said).astype(int), "word": word, **shape}


def test_the_outside_class_is_left_out_of_f1_and_counts_in_accuracy():
    rows = rows_of_words([0, 0, 0, 1, 2], [0, 0, 0, 1, 0]) | {"position": np.array([0])}
    metrics = Tagging("test", "O", ("O", "B-A", "B-B")).metrics(rows, 3)
    assert metrics["accuracy"] == 0.8
    assert metrics["f1_macro"] == pytest.approx((1 + 0) / 2)
    assert metrics["f1_micro"] == pytest.approx(2 * 1 / (1 + 2))
    assert (metrics["entity_precision"], metrics["entity_recall"], metrics["words"]) == (1, 0.5, 5)
    every = Tagging("test", "", ("O", "B-A", "B-B")).metrics(rows, 3)
    assert every["f1_micro"] == pytest.approx(0.8)


def test_correlations_are_scipys():
    from scipy import stats

    random = np.random.default_rng(0)
    first = random.integers(0, 6, 100).astype(np.float64)  # with ties
    second = first + random.normal(size=100)
    assert correlation(first, second) == pytest.approx(stats.pearsonr(first, second)[0])
    assert correlation(ranks(first), ranks(second)) == pytest.approx(stats.spearmanr(first, second)[0])
    assert np.isnan(correlation(first, np.full(100, 0.1)))
