"""A text made of several fields, so that a task's own words stand before and between them."""

import json

import numpy as np
import pytest

import vitzoo.config
from vitzoo.data.datasets.tasks import TASKS, filled, right_answers
from vitzoo.data.open import open_source
from vitzoo.data.settings import Data
from vitzoo.data.text.examples import as_pairs, asked
from vitzoo.errors import UserError
from vitzoo.schema import build

MNLI = {"premise": "It rains.", "hypothesis": "It is wet.", "label": "entailment"}
SQUAD = {"question": "Who?", "context": "Ada wrote it.", "answers": {"text": ["Ada", "ada"], "answer_start": [0, 0]}}


def read(folder, record, **settings):
    (folder / "one.jsonl").write_text(json.dumps(record) + "\n")
    return open_source(
        build(Data, {"name": f"jsonl:{folder / 'one.jsonl'}", "validation_fraction": 0.0, **settings}, "data"), "train"
    )


@pytest.mark.parametrize(
    ("record", "text", "expected"),
    [
        (MNLI, {"template": "{hypothesis} | {premise}"}, {"text": "It is wet. | It rains.", "label": 0}),
        (SQUAD, {"template": "{question} {context}"}, {"question": "Who? Ada wrote it.", "answers": ["Ada", "ada"]}),
        ({"a": "x", "b": "y"}, {"template": "t: {a}", "target_field": "b"}, {"source": "t: x", "target": "y"}),
        ({"a": "x", "output": "y"}, {"template": "t: {a}"}, {"source": "t: x", "target": "y"}),
        ({"a": "x", "kind": "k"}, {"template": "{a}", "label_field": "kind"}, {"text": "x", "label": 0}),
        ({"a": 3, "b": 0.5, "c": ["u", "v"]}, {"template": "{{{a}}} {b} {c}"}, {"text": "{3} 0.5 u, v"}),
        ({"text": "x", "label": "k"}, {"template": "{label}: {text}"}, {"text": "k: x"}),  # what is said isn't asked
    ],
)
def test_what_belongs_to_the_made_text_is_found_or_named(tmp_path, record, text, expected):
    assert read(tmp_path, record, **text)[0] == expected


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ({"template": "no fields"}, "data.template"),
        ({"template": "{premise!r}"}, "data.template"),
        ({"template": "{premise:>9}"}, "data.template"),
        ({"template": "{premise"}, "data.template"),
        ({"template": "{}"}, "data.template"),
        ({"template": "{premise.__class__}"}, "data.template"),  # no such field: nothing is looked up on values
        ({"template": "{premis}"}, "data.template"),
        ({"template": "{premise}", "target_field": "lable"}, "data.target_field"),
        ({"template": "{premise}", "text_field": "hypothesis"}, "data.text_field"),
        ({"template": "{premise}", "label_field": "label", "target_field": "label"}, "data.target_field"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused(tmp_path, text, field):
    with pytest.raises(UserError) as refusal:
        read(tmp_path, MNLI, **text)
    assert refusal.value.field == field


@pytest.mark.parametrize("value", [None, True, {"a": 1}, [1]])
def test_a_field_that_is_no_text_is_refused_with_its_line(tmp_path, value):
    with pytest.raises(UserError, match=r"one\.jsonl:1: field 'premise' must be text"):
        read(tmp_path, {**MNLI, "premise": value}, template="{premise}")


def test_a_set_of_tfds_is_read_alike():
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=2):
        data = Data(name="glue/mnli", template="mnli hypothesis: {hypothesis} premise: {premise}")
        pair = as_pairs(open_source(data))[0]
        assert pair["source"].startswith("mnli hypothesis: ")
        assert " premise: " in pair["source"]
        assert pair["target"] in ("entailment", "neutral", "contradiction")
        read = open_source(Data(name="squad", template="question: {question} context: {context}"))[0]
        assert set(read) == {"question", "answers"}
        assert read["answers"]
        assert all(isinstance(one, str) for one in read["answers"])


# a record of each task's fields, and T5's words for it
T5_TASKS = {
    "glue/cola": ({"sentence": "s", "label": "acceptable"}, "cola sentence: s", "acceptable"),
    "glue/mnli": (MNLI, "mnli hypothesis: It is wet. premise: It rains.", "entailment"),
    "glue/mrpc": (
        {"sentence1": "s", "sentence2": "t", "label": "equivalent"},
        "mrpc sentence1: s sentence2: t",
        "equivalent",
    ),
    "glue/qnli": (
        {"question": "q", "sentence": "s", "label": "entailment"},
        "qnli question: q sentence: s",
        "entailment",
    ),
    "glue/qqp": (
        {"question1": "p", "question2": "q", "label": "duplicate"},
        "qqp question1: p question2: q",
        "duplicate",
    ),
    "glue/rte": ({"sentence1": "s", "sentence2": "t", "label": "yes"}, "rte sentence1: s sentence2: t", "yes"),
    "glue/sst2": ({"sentence": "s", "label": "positive"}, "sst2 sentence: s", "positive"),
    "super_glue/boolq": ({"passage": "p", "question": "q", "label": "True"}, "boolq passage: p question: q", "True"),
    "super_glue/copa": (
        {"choice1": "a", "choice2": "b", "premise": "p", "question": "cause", "label": "choice1"},
        "copa choice1: a choice2: b premise: p question: cause",
        "choice1",
    ),
    "super_glue/multirc": (
        {"paragraph": "p", "question": "q", "answer": "a", "label": "False"},
        "multirc question: q answer: a paragraph: p",
        "False",
    ),
    "super_glue/record": (
        {"passage": "p", "query": "@placeholder q", "entities": ["A", "B"], "answers": ["B"]},
        "record query: @placeholder q entities: A, B passage: p",
        "B",
    ),
    "super_glue/wic": (
        {"sentence1": "s", "sentence2": "t", "word": "w", "label": "True"},
        "wic sentence1: s sentence2: t word: w",
        "True",
    ),
    "squad": (SQUAD, "question: Who? context: Ada wrote it.", "Ada"),
    "cnn_dailymail": ({"article": "a", "highlights": "h"}, "summarize: a", "h"),
    "wmt/en-de": ({"en": "Hello.", "de": "Hallo."}, "translate English to German: Hello.", "Hallo."),
}


def as_tfds(value):
    """A value as a record of TFDS holds it."""
    if isinstance(value, dict):
        return {key: as_tfds(part) for key, part in value.items()}
    if isinstance(value, list):
        return np.array([as_tfds(part) for part in value], object)
    return value.encode() if isinstance(value, str) else np.asarray(value)


@pytest.mark.parametrize("name", T5_TASKS)
def test_the_tasks_of_t5_are_put_in_its_words(name):
    record, source, target = T5_TASKS[name]
    experiment = vitzoo.config.resolve(f"t5/tasks:{name}", overrides={"init_from": "x"}).experiment
    task, text = TASKS[name], experiment.inputs["tokens"]
    record = {key: as_tfds(value) for key, value in record.items()}
    assert text.prefix + filled(task.question, record) == source
    if not task.label:
        assert right_answers(task, record)[0] == target


def test_a_number_to_say_is_rounded_as_t5_rounds_it():
    record = {"sentence1": b"s", "sentence2": b"t", "label": np.float32(3.3333)}
    assert right_answers(TASKS["glue/stsb"], record) == ["3.4"]  # multiples of 0.2
    assert filled("{label}", record) == "3.3333"


def test_a_whole_number_is_written_whole():
    assert filled("{id}", {"id": np.int64(12_345_678)}) == "12345678"


def test_every_task_of_the_recipe_is_one_that_is_put():
    import configs.t5.tasks as recipe

    assert set(recipe.TASKS) | set(recipe.LONG) < set(TASKS)


def test_a_label_that_is_withheld_is_never_taken_for_the_last_class(tmp_path):
    # GLUE's test splits have -1 for every label
    with pytest.raises(UserError, match=r"the label -1, which is no class: test splits often withhold theirs"):
        asked({"text": "s", "label": -1}, ("no", "yes"))
    with pytest.raises(UserError, match=r"the label 2, which is no class"):
        asked({"first": "s", "second": "t", "label": 2}, ("no", "yes"))


@pytest.mark.parametrize("task", ["cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"])
def test_the_tasks_of_glue_are_texts_or_pairs_for_bert(task):
    import tensorflow_datasets as tfds

    experiment = vitzoo.config.resolve(f"bert/glue:{task}", overrides={"init_from": "x"}).experiment
    with tfds.testing.mock_data(num_examples=1):
        example = open_source(experiment.data)[0]
    assert set(example) == ({"text", "label"} if task in ("cola", "sst2") else {"first", "second", "label"})
