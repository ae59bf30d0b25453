"""What is said of texts: classes, numbers, classes of words, hidden and next tokens, how similar they are."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from made_text_run import MASKING, make_text_run

import vitzoo
from vitzoo.cli.entry import main
from vitzoo.data.text.settings import Text
from vitzoo.data.text.user_texts import gather_texts
from vitzoo.inference.predict import Predictor, similar
from vitzoo.weights.load import load

RUNS = {
    "classes": ("bert", "sequence_classification", {"head": "classes", "num_classes": 3}, ["ham", "spam", "odd"]),
    "number": ("bert", "regression", {"head": "number"}, None),
    "words": ("bert", "token_classification", {"head": "token_classes", "num_classes": 2}, ["O", "B-X"]),
    "masked": ("bert", "masked_lm", {"head": "pretraining"}, None),
    "vectors": ("bert", "masked_lm", {"head": "none", "unit_embedding": True}, None),
    "next": ("gpt", "causal_lm", {}, None),
    "answers": ("t5", "seq2seq", {}, None),
}
TEXTS = ["one", "a longer text than that", "x" * 100, "see [MASK] there <mask>"]


class Runs:
    """A run of each kind of model, with random weights, by name; each is made when it is first asked for."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __truediv__(self, name: str) -> Path:
        if not (self.folder / name).exists():
            model, objective, fields, classes = RUNS[name]
            changes = {"objective": objective if model == "bert" else None, "classes": classes, **fields}
            make_text_run(self.folder / name, model, "stdlib", text={"length": 32}, **changes)
        return self.folder / name


class Predictors(dict):
    """Those of runs, by name."""

    def __init__(self, runs: Runs):
        super().__init__()
        self.runs = runs

    def __missing__(self, name: str) -> Predictor:
        self[name] = Predictor(self.runs / name)
        return self[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def predictors(runs):
    return Predictors(runs)


def close(first, second):
    """Whether two rows are the same but for rounding."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(close(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(close, first, second))
    return first == pytest.approx(second, abs=1e-5) if isinstance(first, float) else first == second


@pytest.mark.slow
@pytest.mark.parametrize("kind", [name for name in RUNS if name != "answers"])
def test_a_text_is_answered_alike_alone_and_among_others(predictors, kind):
    together = predictors[kind](TEXTS, top=2)
    alone = [predictors[kind](text, top=2)[0] for text in TEXTS]
    assert len(together) == len(TEXTS)
    assert all(close(one, other) for one, other in zip(together, alone, strict=True))


@pytest.mark.gate
def test_classes_are_those_of_the_row_that_training_makes(predictors, runs):
    row = predictors["classes"]("see you")[0]
    model, info = load(str(runs / "classes"))
    ids = [MASKING.classify_id, *MASKING.encode("see you"), MASKING.separate_id]
    logits = np.asarray(model(np.array([ids])), np.float64)[0]
    expected = np.exp(logits) / np.exp(logits).sum()
    assert [one["label"] for one in row["top"]] == [info.classes[index] for index in np.argsort(-expected)]
    assert [one["probability"] for one in row["top"]] == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
    assert (row["text"], row["error"]) == ("see you", None)


@pytest.mark.slow
def test_a_text_may_have_several_labels_and_then_all_are_listed(tmp_path):
    objective, classes = {"name": "sequence_classification", "loss": "sigmoid"}, [f"c{number}" for number in range(7)]
    fields = {"head": "classes", "num_classes": 7}
    make_text_run(tmp_path / "run", "bert", "stdlib", objective=objective, classes=classes, **fields)
    (row,) = vitzoo.predict(tmp_path / "run", "see you", output=tmp_path / "rows.csv")
    probabilities = [one["probability"] for one in row["top"]]
    assert len(probabilities) == 7
    assert sum(probabilities) != pytest.approx(1)
    (line,) = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    assert list(line) == ["text", "prediction", *(f"probability:{name}" for name in classes), "error"]
    assert line["prediction"] == "|".join(sorted(one["label"] for one in row["top"] if one["probability"] > 0.5))


@pytest.mark.slow
def test_of_a_pair_both_parts_are_read(predictors):
    pair, swapped = predictors["number"]([{"first": "a", "second": "b"}, {"sentence1": "b", "sentence2": "a"}])
    assert (pair["first"], pair["second"]) == ("a", "b")
    assert pair["value"] != pytest.approx(swapped["value"], abs=1e-6)


@pytest.mark.slow
def test_texts_are_preprocessed_as_the_model_takes_them_by_name(predictors, runs):
    texts = [{"first": "a", "second": "b"}, {"text": "see you"}]
    model, info = load(str(runs / "number"))
    values = [row["value"] for row in predictors["number"](texts)]
    np.testing.assert_allclose(model(**info.preprocess(texts)), values, atol=1e-5)
    model, info = load(str(runs / "next"))
    ids = info.tokenizer.encode("the cat")
    logits = model(**info.preprocess("the cat"))[0, len(ids) - 1]
    assert int(logits.argmax()) == predictors["next"]("the cat", top=1)[0]["next"][0]["id"]
    model, info = load(str(runs / "answers"))
    source = info.preprocess("the cat")
    end, start = info.tokenizer.end_id, info.tokenizer.decoder_start_id
    assert source["source"][0, : len(ids) + 1].tolist() == [*info.tokenizer.encode("the cat"), end]
    assert model(**source, tokens=np.array([[start]])).shape == (1, 1, info.config.vocabulary_size)
    with pytest.raises(vitzoo.UserError, match="takes tokens, not image"):
        _ = info.size


@pytest.mark.slow
def test_every_word_gets_a_class_and_those_beyond_the_end_none(predictors):
    row, given = predictors["words"](["Ada lives, in " + "London " * 10, {"words": ["Ada's", "x"]}])
    assert row["words"][:4] == ["Ada", "lives", ",", "in"]
    known = [label is not None for label in row["labels"]]
    assert known == sorted(known, reverse=True)
    assert 0 < sum(known) < len(known)
    assert given["words"] == ["Ada's", "x"]
    assert set(given["labels"]) <= {"O", "B-X"}


@pytest.mark.slow
def test_each_mask_is_filled_with_the_most_probable_tokens(predictors, runs):
    row = predictors["masked"]("ab[MASK]d<mask>", top=3)[0]
    model, _ = load(str(runs / "masked"))
    ids = np.concatenate([MASKING.encode("ab"), [MASKING.mask_id], MASKING.encode("d"), [MASKING.mask_id]])
    logits = np.asarray(model(np.array([[MASKING.classify_id, *ids, MASKING.separate_id]])))[0, [3, 5]]
    assert [[one["id"] for one in mask] for mask in row["masks"]] == np.argsort(-logits)[:, :3].tolist()
    tokens = [mask[0]["token"] for mask in row["masks"]]
    assert row["filled"] == f"ab{tokens[0]}d{tokens[1]}"


@pytest.mark.slow
def test_a_text_of_which_nothing_can_be_said_has_an_error_and_the_others_go_on(predictors):
    rows = predictors["masked"](["no mask", "a [MASK]", "[MASK]" + "y" * 50, {"first": "[MASK]", "second": "b"}])
    assert [row["error"] for row in rows] == [
        "has no [MASK]",
        None,
        "has 51 tokens, and the model was trained on 30",
        "is a pair; hidden tokens are told of one text",
    ]
    assert (rows[0]["masks"], rows[0]["filled"]) == ([], None)


@pytest.mark.slow
def test_next_tokens_are_those_after_the_last(predictors, runs):
    row = predictors["next"]("the cat", top=4)[0]
    model, info = load(str(runs / "next"))
    logits = np.asarray(model(info.tokenizer.encode("the cat")[None]))[0, -1]
    assert [one["id"] for one in row["next"]] == np.argsort(-logits)[:4].tolist()
    assert predictors["next"]("z" * 65)[0]["error"] == "has 65 tokens, and the model takes 64"


@pytest.mark.slow
def test_an_embedding_is_the_mean_of_the_encoded_tokens_and_its_cosine_the_similarity(predictors, runs):
    vectors = predictors["classes"].embeddings(["one cat", "two"])
    model, _ = load(str(runs / "classes"))
    ids = np.array([[MASKING.classify_id, *MASKING.encode("two"), MASKING.separate_id]])
    np.testing.assert_allclose(vectors[1], np.asarray(model.encode(ids))[0].mean(0), atol=1e-5)
    lengths = np.linalg.norm(vectors, axis=1)
    cosine = vectors[0] @ vectors[1] / lengths.prod()
    values = similar(runs / "classes", ["one cat", "two"])
    assert values == [[pytest.approx(1), pytest.approx(cosine, abs=1e-5)], [pytest.approx(cosine, abs=1e-5), 1]]


@pytest.mark.slow
def test_an_encoder_without_a_head_gives_embeddings(predictors, runs, tmp_path, capsys):
    vectors = predictors["vectors"].embeddings(["one", "two"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    arguments = ["predict", "--checkpoint", str(runs / "vectors"), "--output", str(tmp_path / "rows.csv")]
    assert main([*arguments, "--text", "one", "--text", "two"]) == 0
    assert f"one  16 numbers: {vectors[0, 0]:.4f} " in capsys.readouterr().out
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[1]) == ["text", *(f"number_{place}" for place in range(1, 17)), "error"]
    assert float(rows[1]["number_16"]) == pytest.approx(vectors[1, 15], abs=1e-6)


@pytest.mark.slow
def test_predict_takes_text_where_the_checkpoint_does(runs):
    assert vitzoo.predict(str(runs / "classes"), ["some text"])[0]["top"]
    assert vitzoo.predict(str(runs / "number"), {"text": "some text"})[0]["value"] is not None


@pytest.mark.slow
def test_lines_and_records_of_a_file_are_predicted_and_written(runs, tmp_path, capsys):
    (tmp_path / "texts.txt").write_text("one\n\ntwo\n")
    (tmp_path / "words.jsonl").write_text(json.dumps({"words": ["a", "b"], "tags": ["O", "O"]}) + "\n")
    files = [str(tmp_path / name) for name in ("texts.txt", "out.csv", "out.npz", "words.jsonl", "words.csv")]
    asked = ["predict", "--checkpoint", str(runs / "classes"), "--input", files[0], "--top", "2"]
    assert main([*asked, "--output", files[1], "--features", files[2]]) == 0
    assert "texts    2" in capsys.readouterr().out
    table = list(csv.DictReader(Path(files[1]).read_text().splitlines()))
    assert [row["text"] for row in table] == ["one", "two"]
    assert list(table[0]) == ["text", "prediction", "probability", "prediction_2", "probability_2", "error"]
    assert np.load(files[2])["features"].shape == (2, 16)
    assert main(["predict", "--checkpoint", str(runs / "words"), "--input", files[3], "--output", files[4]]) == 0
    table = list(csv.DictReader(Path(files[4]).read_text().splitlines()))
    assert [(row["text"], row["place"], row["word"]) for row in table] == [("a b", "1", "a"), ("a b", "2", "b")]


@pytest.mark.slow
def test_texts_of_a_kind_with_errors_are_one_table(runs, tmp_path):
    file = tmp_path / "out.csv"
    vitzoo.predict(runs / "masked", ["no mask", "a [MASK] b [MASK]"], output=file, top=1)
    table = list(csv.DictReader(file.read_text().splitlines()))
    assert [(row["text"], row["place"], bool(row["error"])) for row in table] == [
        ("no mask", "", True),
        ("a [MASK] b [MASK]", "1", False),
        ("a [MASK] b [MASK]", "2", False),
    ]


@pytest.mark.slow
def test_json_and_similarity_on_the_command_line(runs, capsys):
    assert main(["predict", "--checkpoint", str(runs / "masked"), "--text", "no mask", "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["predictions"][0]["error"] == "has no [MASK]"
    assert main(["predict", "--checkpoint", str(runs / "masked"), "--similar", "a", "a"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "cosine  1.0000"


@pytest.mark.parametrize(
    ("kind", "asked", "message"),
    [
        ("classes", [], "inputs: there are none; name images or folders, or give text"),
        ("classes", ["--similar", "a"], "--similar = a: takes two texts or more"),
        ("classes", ["--similar", "a", "b", "--top", "3"], "--top = 3: has no effect with --similar"),
        ("classes", ["--text", "a", "b.png"], "--text: doesn't go together with inputs"),
        ("classes", ["--input", "/nowhere.txt"], "--input = /nowhere.txt: does not exist"),
        ("classes", [__file__], "is a file; --input reads texts from it, and --text takes it as text"),
        ("classes", [__file__, "a text"], "is a file; --input reads texts from it"),
        ("classes", ["nosuch.txt"], "inputs = nosuch.txt: no such file; --text takes it as text"),
        ("classes", ["--text", "a\udcff"], r"inputs = 'a\udcff': text 1 holds what is no character"),
        ("classes", ["--similar", "b", "a\udcff"], r"inputs = 'a\udcff': text 2 holds what is no character"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ("next", ["--text", "a", "--features", "x.npz"], "holds no encoder (bert), which gives a text's"),
                ("next", ["--similar", "a", "b"], "holds no encoder (bert), which gives a text's embedding"),
                ("answers", ["--text", "a"], "holds a model that answers with text: vitzoo generate --checkpoint"),
            )
        ),
    ],
)
def test_what_can_not_be_predicted_is_refused_in_one_line(runs, capsys, kind, asked, message):
    assert main(["predict", "--checkpoint", str(runs / kind), *asked]) == 2
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1]
    assert len(said) == 1


def test_the_space_before_a_word_belongs_to_the_token_that_a_mask_hides():
    from vitzoo.data.text.settings import Tokenizer
    from vitzoo.data.text.tokenizers.train import train_tokenizer
    from vitzoo.inference.text_tasks import FillIn

    for kind in ("bpe", "wordpiece"):
        settings = Tokenizer(kind=kind, vocabulary_size=300, masking=True)
        tokenizer = train_tokenizer(settings, ["once upon a time there was a cat", "upon a time once"] * 5)

        known = {"tokenizer": tokenizer, "text": Text(length=32), "checkpoint": "made", "config": None}
        info = type("Info", (), known)()
        task = FillIn(None, info)
        asked = task.asked(gather_texts("once [MASK] a time", Text())[0])
        whole = tokenizer.encode("once upon a time")
        shown = asked.ids[1:-1]
        assert len(shown) == len(whole)
        assert (shown != whole).sum() == 1
        token = tokenizer.decode([int(whole[asked.places[0] - 1])])
        assert task._filled("once [MASK] a time", [token]) == "once upon a time"
