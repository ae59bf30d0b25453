"""The whole evaluation of a checkpoint: what it prints, writes and gives back."""

import csv
import dataclasses
import io
import json
import shutil

import numpy as np
import pytest
from made_checkpoint import TINY, make_run

import vitzoo
from vitzoo.errors import RunError, UserError
from vitzoo.evaluation.checkpoint import make_ready
from vitzoo.parallel.mesh import show_mesh

EVALUATE = {"test": {"name": "classification", "split": "five", "every_epochs": 1}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "many"
    folder.mkdir()
    make_run(folder, data="made_data:Many", evaluate=EVALUATE)
    return folder


def evaluated(*arguments, **options):
    """The result and what was printed."""
    out = io.StringIO()
    result = vitzoo.evaluate(*arguments, out=out, **options)
    json.dumps(result, allow_nan=False)
    return result, out.getvalue()


def test_a_run_is_measured_by_its_own_evaluators(run, tmp_path):
    result, text = evaluated(run, predictions=tmp_path / "p.csv")
    assert list(result) == ["checkpoint", "step", "weights", "results"]
    assert (result["checkpoint"], result["step"], result["weights"]) == (str(run), 7, "ema")
    one = result["results"]["test"]
    assert list(one) == ["dataset", "split", "n", "metrics", "skipped"]
    assert (one["dataset"], one["split"], one["n"], one["skipped"]) == ("made_data:Many", "five", 5, None)
    assert set(one["metrics"]) == {"accuracy", "top5_accuracy", "f1_macro", "loss", "calibration_error"}
    for said in ("weights ema", "8 × 8 × 1, squash", "many five: 5 examples", "n=5", "the model's 10"):
        assert said in text
    folder = run / "eval" / "7-ema" / "test"
    assert json.loads((folder / "metrics.json").read_text()) == one
    assert {file.name for file in folder.iterdir()} >= {"metrics.json", "per_class.csv", "confusion.png"}
    rows = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == list("01234")
    right = np.mean([row["label"] == row["prediction"] for row in rows])
    assert one["metrics"]["accuracy"] == right


@pytest.mark.gate
def test_other_data_are_asked_for_by_name_and_split_and_have_a_folder_of_these_names(run):
    overrides = ["data.name=made_data:Four", "data.split=test[:30]", "data.batch_size=7"]
    result, text = evaluated(f"{run}@7", overrides, weights="raw", all_classes=True)
    one, folder = result["results"]["eval"], run / "eval" / "7-raw" / "made_data_Four-test_30-all_classes"
    assert (result["weights"], one["n"]) == ("raw", 30)
    assert "top5_accuracy" in one["metrics"]
    assert "classes  4 of the model's 10 occur in this data; predictions over all 10" in text
    assert f"wrote    {folder}/mistakes.png" in text
    few, text = evaluated(f"{run}@7", overrides, weights="raw")
    assert "predictions over these 4 only" in text
    assert "top5_accuracy" not in few["results"]["eval"]["metrics"]
    assert f"wrote    {folder.with_name('made_data_Four-test_30')}/metrics.json" in text
    assert json.loads((folder / "metrics.json").read_text()) == one


@pytest.mark.parametrize("field", ["image_size", "channels", "num_classes"])
def test_none_for_what_the_checkpoint_has_leaves_it(run, field):
    found = [make_ready(str(run), overrides, "ema") for overrides in ([], [f"model.{field}=None"])]
    assert found[0].config == found[1].config
    assert found[0].config.image_size == (8, 8)


def test_other_data_without_a_split_are_refused(run):
    with pytest.raises(UserError, match=r"data.split: must be given with data.name"):
        evaluated(run, {"data.name": "made_data:Four"})


def test_an_evaluator_may_be_another_than_the_one_by_which_the_run_kept_its_best(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    file = tmp_path / "run" / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"checkpoint": {"keep_best": "test/accuracy"}}))
    ready = make_ready(str(tmp_path / "run"), {"evaluate.test.name": "knn"}, "auto")
    assert type(ready.evaluators["test"]).__name__ == "KNNEvaluator"


def test_settings_of_the_runs_evaluators_are_refused_where_other_data_take_their_place(run):
    with pytest.raises(UserError, match=r"evaluate.test: has no effect with data.split, which is measured in place of"):
        evaluated(run, {"data.split": "five", "evaluate.test.calibration_bins": 5})


def test_other_classes_are_refused_by_name(run):
    with pytest.raises(UserError, match=r"cat, dog, cow, hen: aren't among the model's 10"):
        evaluated(run, {"data.name": "made_data:Strangers", "data.split": "test"})


def test_an_override_of_the_pixels_is_warned_of(run):
    ready = make_ready(str(run), {"data.split": "five", "inputs.image.mean": (0.0,)}, "auto")
    assert ready.info.preprocessing.mean == (0.0,)
    assert ready.notes == ["warning: inputs.image.mean = (0.0,), but the weights were trained with (127.5,)"]


@pytest.mark.gate
def test_several_labels_give_precision_and_f1_and_a_column_a_class(tmp_path):
    config = dataclasses.replace(TINY, num_classes=3)
    make_run(tmp_path, config, ("round", "straight", "closed"), loss="sigmoid", data="made_data:Several")
    result, text = evaluated(tmp_path, {"data.split": "test"}, predictions=tmp_path / "p.csv")
    metrics = result["results"]["eval"]["metrics"]
    assert {"mean_average_precision", "f1_macro", "f1_micro", "loss"} <= set(metrics)
    assert "average precision" in text
    (first, *_) = csv.DictReader((tmp_path / "p.csv").read_text().splitlines())
    assert list(first) == ["id", "label", "prediction", *(f"probability:{n}" for n in ("round", "straight", "closed"))]


@pytest.mark.slow
def test_unreadable_images_are_counted_apart_when_skipped_and_stop_otherwise(run):
    data = {"data.name": "made_data:Holed", "data.split": "test", "data.in_memory": "never"}
    result, text = evaluated(run, data | {"data.bad_files": "skip"})
    assert result["results"]["eval"]["n"] == 48
    assert "n=48 (2 unreadable, left out)" in text
    with pytest.raises(RunError, match="holed example 3"):
        evaluated(run, data)


def test_one_evaluator_that_can_not_run_is_skipped_with_its_reason_and_all_are_a_failure(tmp_path):
    broken = {"name": "classification", "split": "nowhere"}
    make_run(tmp_path, data="made_data:Many", evaluate=EVALUATE | {"other": broken})
    result, text = evaluated(tmp_path)
    assert "no split 'nowhere'" in result["results"]["other"]["skipped"]
    assert result["results"]["test"]["n"] == 5
    assert "other: skipped:" in text
    with pytest.raises(RunError, match="no evaluator could run"):
        evaluated(tmp_path, {"evaluate.test.split": "nowhere"})
    with pytest.raises(UserError, match="no split 'nowhere'"):
        evaluated(tmp_path, {"data.split": "nowhere"})


def test_a_checkpoint_outside_a_run_is_measured_on_what_is_asked_for(run, tmp_path):
    shutil.copytree(run / "checkpoints" / "7", tmp_path / "copy")
    result, text = evaluated(tmp_path / "copy", {"data.name": "made_data:Many", "data.split": "five"})
    assert result["results"]["eval"]["n"] == 5
    assert "no pictures" in text
    with pytest.raises(UserError, match="evaluate: the checkpoint's run has no evaluators"):
        evaluated(tmp_path / "copy")


def test_a_run_of_other_devices_is_measured_on_those_that_are_here(tmp_path):
    make_run(tmp_path, data="made_data:Many", evaluate=EVALUATE, mesh="data:64")
    assert show_mesh(make_ready(str(tmp_path), (), "auto").mesh) == "fsdp:8"
    with pytest.raises(UserError, match="mesh = data:3"):
        make_ready(str(tmp_path), {"mesh": "data:3"}, "auto")


def test_what_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(UserError, match="nothing-here does not exist"):
        evaluated(tmp_path / "nothing-here")
