"""Every benchmark of text gives the score that its dataset was made to have.

A model whose parameters are all zero finds every token as probable as any other. The most probable of several choices
is then the shortest one, and the most probable for its length the longest, since a space goes before each.
"""

import io
import json
import math
import types

import jax
import numpy as np
import pytest
from made_benchmarks import TEXT, F, prepare
from made_text_run import make_text_run

from vitzoo.evaluation import text_metrics
from vitzoo.evaluation.benchmarks import evaluate
from vitzoo.evaluation.benchmarks.evaluate import evaluate_benchmarks
from vitzoo.evaluation.benchmarks.table import BENCHMARKS

CLASSES = {  # names of each task's classes, and its texts
    "glue/cola": (["unacceptable", "acceptable"], ["sentence"]),
    "glue/sst2": (["negative", "positive"], ["sentence"]),
    "glue/mrpc": (["not_equivalent", "equivalent"], ["sentence1", "sentence2"]),
    "glue/qqp": (["not_duplicate", "duplicate"], ["question1", "question2"]),
    "glue/mnli": (["entailment", "neutral", "contradiction"], ["premise", "hypothesis"]),
    "glue/qnli": (["entailment", "not_entailment"], ["question", "sentence"]),
    "glue/rte": (["entailment", "not_entailment"], ["sentence1", "sentence2"]),
    "glue/wnli": (["not_entailment", "entailment"], ["sentence1", "sentence2"]),
    "super_glue/boolq": (["False", "True"], ["question", "passage"]),
    "super_glue/cb": (["entailment", "contradiction", "neutral"], ["premise", "hypothesis"]),
    "super_glue/copa": (["choice1", "choice2"], ["premise", "choice1", "choice2", "question"]),
    "super_glue/multirc": (["False", "True"], ["question", "answer", "paragraph"]),
    "super_glue/rte": (["entailment", "not_entailment"], ["premise", "hypothesis"]),
    "super_glue/wic": (["False", "True"], ["word", "sentence1", "sentence2"]),
    "super_glue/wsc.fixed": (["False", "True"], ["text", "span1_text", "span2_text"]),
}
MADE = {task.replace("super_glue", "superglue").replace(".fixed", ""): task for task in CLASSES}
RIGHT = [True, True, False, True, True, False, True, True]
PAIRS = [("the cat sleeps in the house", "die Katze schläft im Haus"), ("a dog", "ein Hund"), ("two", "zwei")]
SAID = ["die Katze schläft im Haus", "ein kleiner Hund", "drei"]


def shortest(names):
    return int(np.argmin([len(name) for name in names]))


def truth(names):
    """Labels that are the shortest name's where `RIGHT` says so, else the next one."""
    said = shortest(names)
    return [said if right else (said + 1) % len(names) for right in RIGHT]


@pytest.fixture(scope="module", autouse=True)
def one_device():
    patch = pytest.MonkeyPatch()
    patch.setattr("vitzoo.evaluation.checkpoint.devices", lambda platform: jax.devices()[:1])
    yield
    patch.undo()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of models of zeros, and all datasets."""
    root = tmp_path_factory.mktemp("texts")
    data = root / "data"
    data.mkdir()
    for name in ("gpt", "t5"):
        make_text_run(root / name, name, "jsonl:none", scale=0.0)
    for name, (names, fields) in CLASSES.items():
        label = F.ClassLabel(names=names)
        rows = [
            {**{field: f"{field} {n // 2 if field != 'answer' else n}" for field in fields}, "label": label}
            for n, label in enumerate(truth(names))
        ]
        splits = ["validation_matched", "validation_mismatched"] if name == "glue/mnli" else ["validation"]
        prepare(data, name, {**dict.fromkeys(fields, TEXT), "label": label}, dict.fromkeys(splits, rows))
    prepare(data, "lambada", {"passage": TEXT}, {"test": [{"passage": "one two three"}, {"passage": "he saw me"}]})
    endings = [["a bc", "d", "ef g hi"], ["long one", "longest one", "no"]]
    rows = [{"context": "so", "endings": each, "label": label} for each, label in zip(endings, (1, 1), strict=True)]
    prepare(data, "hellaswag", {"context": TEXT, "endings": F.Sequence(TEXT), "label": F.Scalar(np.int32)},
            {"validation": rows})  # fmt: skip
    for name, target in (
        ("wmt14_translate/de-en", "de"),
        ("wmt14_translate/fr-en", "fr"),
        ("wmt16_translate/ro-en", "ro"),
    ):
        rows = [{"en": english, target: other} for english, other in PAIRS]
        prepare(data, name, {"en": TEXT, target: TEXT}, {"test": rows})
    rows = [{"article": english, "highlights": other} for english, other in PAIRS]
    prepare(data, "cnn_dailymail", {"article": TEXT, "highlights": TEXT}, {"test": rows})
    several = F.Sequence({"text": TEXT, "answer_start": np.int32})
    rows = [
        {
            "question": english,
            "context": "so",
            "answers": [{"text": one, "answer_start": 0} for one in (other, "The Drei!")],
        }
        for english, other in PAIRS
    ]
    prepare(data, "squad/v1.1", {"question": TEXT, "context": TEXT, "answers": several}, {"validation": rows})
    lists = {"passage": TEXT, "query": TEXT, "entities": F.Sequence(TEXT), "answers": F.Sequence(TEXT)}
    rows = [{"passage": "so", "query": q, "entities": ["A", "B"], "answers": [a, a]} for q, a in PAIRS]
    prepare(data, "super_glue/record", lists, {"validation": rows})
    stsb = {"sentence1": TEXT, "sentence2": TEXT, "label": F.Scalar(np.float32)}
    rows = [{"sentence1": "a", "sentence2": "b", "label": value} for value in (0.0, 2.51, 4.75)]
    prepare(data, "glue/stsb", stsb, {"validation": rows})
    (data / "wikitext-103-raw").mkdir()
    (data / "wikitext-103-raw" / "wiki.test.raw").write_text(" = One = \n two three \n" * 4)
    (root / "own.txt").write_text("so it goes on\n" * 9)
    return root


def measured(made, run, names, overrides=()):
    out = io.StringIO()
    given = [f"data.dir={made / 'data'}", *overrides]
    found = evaluate_benchmarks(made / run, names, given, out=out)
    json.dumps(found, allow_nan=False)
    return found["results"], out.getvalue()


def expected_of(name):
    """The metrics of predictions that are always the shortest name, counted by hand."""
    names, _ = CLASSES[MADE[name]]
    label, said = np.array(truth(names)), shortest(names)
    found = {"accuracy": np.mean(label == said)}
    classes = {*label.tolist(), said}
    f1 = {number: f1_by_hand(label == number, np.full(len(label), said == number)) for number in classes}
    more = {"f1": f1.get(1, 0.0), "f1_macro": np.mean(list(f1.values())), "matthews_correlation": 0.0}
    questions = np.array(RIGHT).reshape(-1, 2).all(1)  # two answers to each
    more["exact_match_by_question"] = questions.mean()
    return found | {metric: more[metric] for metric in BENCHMARKS[name].more}


def f1_by_hand(label, said):
    return 2 * (label & said).sum() / (label.sum() + said.sum())


SOME = ["glue/mrpc", "superglue/multirc"]


@pytest.mark.gate
@pytest.mark.parametrize(
    ("run", "names"),
    [
        ("gpt", SOME),
        pytest.param("gpt", list(MADE), marks=pytest.mark.slow),
        pytest.param("t5", list(MADE), marks=pytest.mark.slow),
    ],
    ids=["some", "gpt", "t5"],
)
def test_classes_are_chosen_among_their_names_and_counted_as_each_task_asks(made, run, names):
    results, _ = measured(made, run, names)
    for name in names:
        found = {key: value for key, value in results[name]["metrics"].items() if not key.startswith("acc_")}
        assert found == pytest.approx(expected_of(name), abs=1e-6), name
        assert results[name]["n"] == len(RIGHT)


def test_last_words_endings_and_perplexities_are_those_of_even_odds(made):
    own = [f"data.name=text:{made / 'own.txt'}"]
    results, text = measured(made, "gpt", ["lambada", "hellaswag", "wikitext103", "perplexity"], own)
    assert results["lambada"]["metrics"]["perplexity"] == pytest.approx(272 ** ((6 + 3) / 2), rel=1e-4)
    assert results["lambada"]["metrics"]["accuracy"] == 0.0
    # the shortest endings are 1 and 2, the longest 2 and 1; the labels are 1 and 1
    assert results["hellaswag"]["metrics"] == {"accuracy": 0.5, "acc_norm": 0.5, "acc_bytes": 0.5}
    wiki = results["wikitext103"]["metrics"]
    words = 4 * (3 + 1 + 2 + 1)  # what spaces divide, and the ends of lines
    assert wiki["word_perplexity"] == pytest.approx(math.exp(wiki["tokens"] * math.log(272) / words), rel=1e-4)
    assert results["perplexity"]["metrics"]["perplexity"] == pytest.approx(272, rel=1e-4)
    assert results["perplexity"]["dataset"] == own[0].partition("=")[2]
    assert "29.40" in text


GENERATED = ["wmt/en-de", "squad", "glue/stsb"]
OTHERS = ["wmt/en-fr", "wmt/en-ro", "cnn_dailymail", "superglue/record"]


@pytest.mark.parametrize("names", [GENERATED, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["some", "others"])
def test_what_is_written_is_compared_with_the_datasets_answers(made, monkeypatch, names):
    from sacrebleu.metrics import BLEU

    prompts = {}

    def written(self, rows):
        questions = [self.source.prompts(position)[0] for position in rows["position"].tolist()]
        prompts[self.settings.data["name"]] = questions
        return ["0.2", "no number", "4.8"] if "stsb" in self.settings.data["name"] else SAID

    nothing = lambda self, model, batch: {"example_weight": batch["example_weight"], "length": batch["length"]}  # noqa: E731
    monkeypatch.setattr("vitzoo.evaluation.generation.Generation.outputs", nothing)
    monkeypatch.setattr("vitzoo.evaluation.generation.Generation._written", written)
    results, _ = measured(made, "t5", names)
    bleu = BLEU().corpus_score(SAID, [[target for _, target in PAIRS]]).score
    for name in names:
        metrics = results[name]["metrics"]
        if name.startswith("wmt"):
            assert metrics["bleu"] == pytest.approx(bleu, abs=1e-6)
        if name == "squad":  # the third is one of two right answers, but for case, article and punctuation
            assert metrics == pytest.approx({"exact_match": 2 / 3, "squad_f1": (1 + 2 * 2 / 5 + 1) / 3}, abs=1e-6)
        if name == "superglue/record":
            assert metrics["exact_match"] == pytest.approx(1 / 3)
        if name == "cnn_dailymail":
            assert metrics["rouge1"] == pytest.approx((1 + 2 * 2 / 5 + 0) / 3, abs=1e-6)
            assert metrics["rougeLsum"] == metrics["rougeL"]  # of a single sentence
        if name == "glue/stsb":
            want = np.corrcoef([0.2, -1, 4.8], [0.0, 2.6, 4.8])[0, 1]  # rounded to fifths, as T5 puts them
            assert metrics["pearson"] == pytest.approx(want, abs=1e-6)
    if "wmt/en-de" in names:
        assert prompts["tasks/wmt/en-de"][1] == "translate English to German: a dog"
        assert prompts["tasks/squad"][1] == "question: a dog context: so"
        assert prompts["tasks/glue/stsb"][0] == "stsb sentence1: a sentence2: b"


def test_what_a_model_can_not_be_asked_is_skipped_with_its_reason(made):
    results, _ = measured(made, "t5", ["wikitext103", "perplexity", "imagenet", "glue/cola"])
    assert "rows of windows, which this model doesn't read" in results["wikitext103"]["skipped"]
    assert "must name your text: --config.data.name=text:FILE" in results["perplexity"]["skipped"]
    assert "is of images, and this checkpoint reads text" in results["imagenet"]["skipped"]
    assert results["glue/cola"]["skipped"] is None


@pytest.fixture(scope="module")
def encoders(made):
    """BERTs with a head for a task."""
    names = CLASSES["glue/cola"][0]
    heads = {"head": "classes", "num_classes": 2, "scale": 0.5}
    make_text_run(made / "cola", "bert", "glue/cola", objective="sequence_classification", classes=names[::-1], **heads)
    make_text_run(made / "stsb", "bert", "glue/stsb", objective="regression", head="number")
    return made


def test_a_head_is_scored_by_its_task(encoders):
    results, _ = measured(encoders, "cola", ["glue/cola", "glue/mrpc", "hellaswag"])
    metrics = results["glue/cola"]["metrics"]
    assert metrics["accuracy"] in np.arange(9) / 8
    assert -1 <= metrics["matthews_correlation"] <= 1
    assert "not_equivalent, equivalent: aren't among the model's 2" in results["glue/mrpc"]["skipped"]
    assert "needs a model that writes" in results["hellaswag"]["skipped"]
    results, _ = measured(encoders, "stsb", ["glue/stsb"])
    assert results["glue/stsb"]["n"] == 3
    assert {"pearson", "spearman"} <= set(results["glue/stsb"]["metrics"])


def classified(label, said, columns=None, count=2):
    """A pass of a head, whose classes are the data's in the order of `columns`."""
    mapping = types.SimpleNamespace(columns=columns, restricted=False, count=count)
    if columns is not None:
        label, said = (np.array(columns)[part] for part in (np.array(label), np.array(said)))
    evaluation = types.SimpleNamespace(classes=mapping)
    return evaluation, {"label": np.array(label), "prediction": np.array(said)}, {}


@pytest.mark.parametrize("columns", [None, (1, 0)])
def test_correlation_and_f1_are_of_the_datas_classes(columns):
    random = np.random.default_rng(0)
    label, said = random.integers(0, 2, 50), random.integers(0, 2, 50)
    given = classified(label, said, columns)
    both, neither = ((label == 1) & (said == 1)).sum(), ((label == 0) & (said == 0)).sum()
    over, missed = ((label == 0) & (said == 1)).sum(), ((label == 1) & (said == 0)).sum()
    root = math.sqrt(float((both + over) * (both + missed) * (neither + over) * (neither + missed)))
    assert evaluate.matthews_correlation(*given) == pytest.approx((both * neither - over * missed) / root, abs=1e-6)
    assert evaluate.f1(*given) == pytest.approx(2 * both / (2 * both + over + missed), abs=1e-6)
    halves = [f1_by_hand(label == number, said == number) for number in (0, 1)]
    assert evaluate.f1_macro(*given) == pytest.approx(np.mean(halves), abs=1e-6)


def test_numbers_are_correlated_as_in_scipy():
    from scipy.stats import pearsonr, spearmanr

    said, right = ["1.0", "2.5", "what", "2.5", "nan", "4"], [["1"], ["3"], ["0.4"], ["2"], ["0.2"], ["5"]]
    values = [1.0, 2.5, -1.0, 2.5, -1.0, 4.0], [float(one[0]) for one in right]
    assert text_metrics.pearson(said, right) == pytest.approx(pearsonr(*values).statistic, abs=1e-6)
    assert text_metrics.spearman(said, right) == pytest.approx(spearmanr(*values).statistic, abs=1e-6)
