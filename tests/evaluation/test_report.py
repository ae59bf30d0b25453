"""Tables, pictures and files of a pass."""

import csv
import io
import types
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from rich.console import Console
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from vitzoo.evaluation import pictures, tables
from vitzoo.evaluation.report import ClassReport, written


def one_label(n=400, classes=10, seed=0):
    """Rows as the evaluator keeps them, two thirds of them right."""
    random = np.random.default_rng(seed)
    label = random.integers(0, classes, n).astype(np.int32)
    prediction = np.where(random.random(n) < 0.66, label, random.integers(0, classes, n)).astype(np.int32)
    return {
        "label": label,
        "prediction": prediction,
        "probability": random.random(n).astype(np.float32),
        "rank": (prediction != label).astype(np.int32),
        "loss": np.ones(n, np.float32),
        "id": np.arange(n) + 10**12,
        "position": np.arange(n),
    }


def several_labels(n=60, classes=3):
    random = np.random.default_rng(1)
    return {
        "label": (random.random((n, classes)) < 0.4).astype(np.float32),
        "probability": (probability := random.random((n, classes)).astype(np.float32)),
        "logit": np.log(probability) - np.log1p(-probability),
        "id": np.arange(n),
        "position": np.arange(n),
    }


def read(path: Path):
    return list(csv.DictReader(path.read_text().splitlines()))


NAMES = tuple(f"class {index}" for index in range(10))


def test_per_class_numbers_and_confusion_are_those_of_scikit_learn():
    rows = one_label()
    table = tables.per_class(rows, NAMES)
    precision, recall, f1, n = precision_recall_fscore_support(rows["label"], rows["prediction"])
    for key, expected in {"n": n, "recall": recall, "precision": precision, "f1": f1}.items():
        np.testing.assert_allclose([row[key] for row in table], expected)
    np.testing.assert_array_equal(tables.confusion(rows, 10), confusion_matrix(rows["label"], rows["prediction"]))


def test_a_class_without_examples_has_no_recall_and_an_empty_cell(tmp_path):
    rows = {key: value[one_label()["label"] != 3] for key, value in one_label().items()}
    table = tables.per_class(rows, NAMES)
    assert table[3]["n"] == 0
    assert np.isnan(table[3]["recall"])
    tables.write_csv(tmp_path / "x.csv", table)
    assert read(tmp_path / "x.csv")[3]["recall"] == ""


def test_a_thousand_classes_print_as_the_twenty_worst():
    console = Console(width=100, record=True)
    tables.print_per_class(tables.per_class(one_label(5000, 1000), tables.names_of(None, 1000)), console)
    text = console.export_text()
    assert "the 20 worst of 994 classes with examples" in text
    assert len(text.splitlines()) < 30


def test_of_many_classes_those_without_examples_are_left_out_of_the_print():
    console = Console(width=100, record=True)
    tables.print_per_class(tables.per_class(one_label(classes=3), tables.names_of(None, 1000)), console)
    text = console.export_text()
    assert "the 3 classes with examples" in " ".join(text.split())
    assert len(text.splitlines()) < 10


def test_what_is_written_is_named_and_what_an_earlier_pass_left_is_replaced_or_removed(tmp_path):
    out, file = io.StringIO(), tmp_path / "new" / "x.csv"
    for write in (lambda path: path.touch(), lambda path: path.touch(), lambda path: False, lambda path: False):
        written(file, write, out)
    assert out.getvalue() == f"wrote    {file}\nreplaced {file}\nremoved  {file}\n"
    assert not file.exists()


def test_predictions_name_file_label_prediction_and_probability_in_the_datasets_order(tmp_path):
    rows = one_label(5)
    table = tables.predictions(rows, NAMES, [f"folder/{i}, x.png" for i in range(5)])
    tables.write_csv(tmp_path / "predictions.csv", table)
    back = read(tmp_path / "predictions.csv")
    assert list(back[0]) == ["file", "label", "prediction", "probability"]
    assert [row["file"] for row in back] == [f"folder/{i}, x.png" for i in range(5)]
    assert [row["label"] for row in back] == [NAMES[i] for i in rows["label"]]
    assert float(back[2]["probability"]) == pytest.approx(float(rows["probability"][2]))


def test_without_files_predictions_carry_the_whole_64_bit_id():
    assert tables.predictions(one_label(3), NAMES)[2]["id"] == 10**12 + 2


def test_files_are_found_by_position_when_unreadable_examples_were_left_out():
    rows = one_label(3) | {"position": np.array([0, 2, 3])}
    table = tables.predictions(rows, NAMES, ["a", "broken", "c", "d"])
    assert [row["file"] for row in table] == ["a", "c", "d"]


def test_several_labels_are_joined_and_every_class_has_its_probability():
    rows = several_labels() | {}
    rows["label"][0], rows["probability"][0] = (1, 0, 1), (0.9, 0.6, 0.1)
    row = tables.predictions(rows, ("a", "b", "c"))[0]
    assert (row["label"], row["prediction"]) == ("a|c", "a|b")
    assert row["probability:b"] == pytest.approx(0.6)
    assert "average_precision" in tables.per_class(rows, ("a", "b", "c"))[0]


@pytest.mark.parametrize("classes", [10, 1000])
def test_the_confusion_picture_is_drawn_for_few_and_for_many_classes(tmp_path, classes):
    path = tmp_path / "confusion.png"
    names = [f"a rather long name of class {index}" for index in range(classes)]
    assert pictures.draw_confusion(one_label(3000, classes), names, path)
    with PIL.Image.open(path) as picture:
        assert 600 < picture.width < 3000
        assert np.asarray(picture.convert("L")).std() > 5


def test_no_confusion_matrix_for_several_labels_or_twenty_thousand_classes(tmp_path):
    assert not pictures.draw_confusion(several_labels(), ("a", "b", "c"), tmp_path / "x.png")
    assert not pictures.draw_confusion(one_label(9, 21_841), tables.names_of(None, 21_841), tmp_path / "x.png")


def test_mistakes_are_the_wrong_predictions_by_falling_probability():
    rows = one_label()
    worst = pictures.mistakes(rows)
    assert len(worst) == 36
    assert (rows["label"][worst] != rows["prediction"][worst]).all()
    wrong = np.sort(rows["probability"][rows["rank"] > 0])[::-1]
    np.testing.assert_array_equal(rows["probability"][worst], wrong[:36])
    assert pictures.caption(rows, worst[0], NAMES).startswith("is class")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [one_label(), several_labels(), one_label(8)])
def test_the_sheet_of_mistakes_shows_gray_and_colour_images_by_position(tmp_path, rows):
    asked = []

    def image(position):
        asked.append(position)
        return np.full((8, 6, 1 + 2 * (position % 2)), 200, np.uint8)

    assert pictures.draw_mistakes(rows, NAMES, image, tmp_path / "mistakes.png")
    assert asked == rows["position"][pictures.mistakes(rows)].tolist()


def test_no_mistakes_no_sheet(tmp_path):
    rows = one_label() | {"rank": np.zeros(400, np.int32)}
    assert not pictures.draw_mistakes(rows, NAMES, None, tmp_path / "mistakes.png")
    assert not (tmp_path / "mistakes.png").exists()


def test_a_mistake_whose_file_has_gone_is_a_white_point(tmp_path):
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    PIL.Image.new("L", (4, 4), 9).save(files[0])
    evaluation = types.SimpleNamespace(source=[{"image": str(file)} for file in files])
    shown = ClassReport(evaluation, {}, {}, 3)
    assert shown.image(0).tolist() == [[[9, 9, 9]] * 4] * 4
    assert shown.image(1).tolist() == [[[255, 255, 255]]]
