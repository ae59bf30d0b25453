"""What the commands print."""

import json

import pytest
from PIL import Image

from vitzoo.cli import main
from vitzoo.cli.data import ACTIONS
from vitzoo.cli.output import say_check
from vitzoo.evaluation import evaluate as evaluation
from vitzoo.inference import predict as inference


def printed(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_models_lists_parameters_and_cost(capsys):
    said = printed(capsys, "models", "B/16")
    assert "86,567,656" in said  # with class token and 1000 classes, as published for ViT-B/16
    (row,) = json.loads(printed(capsys, "models", "B/16", "--json"))["models"]
    assert (row["name"], row["variant"], row["parameters"]) == ("vit", "B/16", 86_567_656)
    assert row["bytes_float32"] == 4 * 86_567_656
    assert abs(row["gflops"] / 35.1 - 1) < 0.007  # published: 35.1; matrix products are up to 0.7 % less


def test_models_lists_texts_with_their_length_in_a_table_of_their_own(capsys):
    said = printed(capsys, "models", "small")  # a T5 and a BERT
    assert "76,961,152" not in said
    assert ["t5", "small", "60,506,624", "512", "+", "512", "71.6"] in [line.split() for line in said.splitlines()]
    assert ["bert", "small", "28,763,648", "512", "15.0"] in [line.split() for line in said.splitlines()]
    assert "224" not in said
    rows = json.loads(printed(capsys, "models", "small", "--json"))["models"]
    assert [(row["name"], row["tokens"], row["source_tokens"]) for row in rows] == [("t5", 512, 512), ("bert", 512, 0)]


def test_configs_lists_every_config_with_what_it_is(capsys):
    said = printed(capsys, "configs")
    assert "vit/imagenet" in said
    assert "  :short (default), :long, :student, :distilled\n" in said
    found = json.loads(printed(capsys, "configs", "--json").splitlines()[-1])["configs"]
    assert {"quickstart", "vit/finetune", "vit/imagenet"} <= {config["name"] for config in found}


def test_configs_shows_each_setting_of_one_with_value_source_and_help(capsys):
    said = printed(capsys, "configs", "quickstart", "--config.optimizer.name=sgd")
    assert "A small Vision Transformer on handwritten digits" in said
    lines = {line.split()[0]: line for line in said.splitlines() if line.startswith("  ")}
    assert lines["optimizer.name"].split()[1:] == ["sgd", "(flag)"]
    assert "(default)" in lines["optimizer.momentum"]
    assert "peak of the schedule" in lines["optimizer.learning_rate"]


def test_a_dry_run_shows_settings_data_and_rules_and_writes_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = printed(
        capsys,
        "train",
        "--config",
        "quickstart",
        "--dry-run",
        "--config.optimizer.layer_decay=0.5",
        "--json",
        "--config.optimizer.freeze=patch_embedding/.*,.*/blocks/1/mlp/.*",
    )
    result = json.loads(said.splitlines()[-1])
    assert result["sources"]["optimizer.layer_decay"] == "flag"
    assert {name: data["n"] for name, data in result["data"].items()} == {"train": 1437, "test": 360}
    assert result["total_steps"] == 1348  # 120 epochs of 1,437 examples in batches of 128, rounded up
    leaves = {leaf["path"]: leaf for leaf in result["leaves"]}
    query = leaves["encoder/blocks/*/attention/query/kernel"]
    assert query["weight_decay"] == 0.05
    assert query["learning_rate"] == [0.0625, 0.125, 0.25, 0.5]  # by depth: head 1, halved for each block below it
    assert leaves["head/bias"]["weight_decay"] == 0
    assert leaves["patch_embedding/kernel"]["frozen"] is True
    shown = {line.split()[0]: line.split()[3:] for line in said.splitlines() if line.startswith("  ")}
    assert shown["patch_embedding/kernel"] == ["frozen", "frozen"]
    assert leaves["encoder/blocks/*/mlp/up/kernel"]["learning_rate"] == [0.0625, 0, 0.25, 0.5]
    up = shown["encoder/blocks/*/mlp/up/kernel"]
    assert " ".join(up) == "0.05 x 0.0625 to 0.5, layer 1 frozen"
    assert "Nothing was trained or written" in said
    assert list(tmp_path.iterdir()) == []


def test_eval_passes_on_what_was_asked_and_prints_the_results(capsys, monkeypatch):
    asked = []
    result = {"checkpoint": "runs/a", "step": 3, "weights": "ema", "results": {}}
    monkeypatch.setattr(evaluation, "evaluate", lambda *args, **more: asked.append((args, more)) or result)
    said = printed(capsys, "eval", "--workdir", "runs/a", "--weights=ema", "--config.data.split=test", "--json")
    options = {"weights": "ema", "predictions": None, "output": None, "all_classes": False, "shots": None}
    assert asked == [(("runs/a", ["data.split=test"]), options)]
    assert json.loads(said) == result


def test_generate_says_where_the_context_ended_an_answer(capsys, monkeypatch):
    from vitzoo.inference import generate as writing

    answers = [{"prompt": "a", "text": "b", "tokens": 1, "reason": reason} for reason in ("end", "context")]
    monkeypatch.setattr(writing, "generate", lambda *_, **__: answers)
    flags = ["--prompt", "a", "--prompt", "b", "--max-new-tokens", "3", "--json"]
    assert main(["generate", "--checkpoint", "runs/a", *flags]) == 0
    said = capsys.readouterr()
    assert said.err == (
        "note: the answer to prompt 2 of 2 ends after 1 of 3 tokens: the model takes no more (model.context_length)\n"
    )
    assert [answer["reason"] for answer in json.loads(said.out)["answers"]] == ["end", "context"]


def test_eval_wants_one_checkpoint(capsys):
    assert main(["eval"]) == main(["eval", "--workdir", "a", "--checkpoint", "b"]) == 2
    assert capsys.readouterr().err.count("give either --checkpoint or --workdir\n") == 2


def test_predict_names_each_image_and_what_it_wrote_and_fails_when_one_could_not_be_read(capsys, monkeypatch):
    good = {"file": "a.png", "top": [{"label": "cat", "index": 1, "probability": 0.75}], "error": None}
    bad = {"file": "b.png", "top": [], "error": "truncated"}
    rows = [good, bad]
    monkeypatch.setattr(
        inference, "predict", lambda checkpoint, inputs, **more: [r for r in rows if r["file"] in inputs]
    )
    # flags may stand between the files
    assert main(["predict", "a.png", "--checkpoint", "runs/a", "b.png", "--output", "o.csv"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == ["b.png  error: truncated", "wrote    o.csv: 2 rows"]
    assert printed(capsys, "predict", "a.png", "--checkpoint", "runs/a") == "a.png  cat 75.0%\n"
    assert main(["predict", "--checkpoint", "runs/a", "b.png", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"checkpoint": "runs/a", "predictions": [bad]}


@pytest.fixture
def photos(tmp_path):
    """A folder of two classes, three images each, of which one is no image."""
    for name, shade in (("cat", 0), ("dog", 255)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(3):
            Image.new("L", (6, 4 + index), shade).save(tmp_path / "photos" / name / f"{index}.png")
    (tmp_path / "photos" / "cat" / "2.png").write_bytes(b"")
    return f"folder:{tmp_path / 'photos'}"


def test_data_check_counts_a_folder_names_what_cannot_be_read_and_ends_as_training_would(capsys, photos):
    arguments = ["data", "check", photos, "--config.data.validation_fraction=0"]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[4:7] == [["class", "train"], ["cat", "2"], ["dog", "3"]]
    assert (out + err).count("2.png") == 1
    assert "training will stop" in out
    said = printed(capsys, *arguments, "--config.data.bad_files=skip", "--json")
    assert "training will stop" not in said
    splits = json.loads(said.splitlines()[-1])["splits"]
    assert splits["train"]["class_counts"] == {"cat": 2, "dog": 3}


def test_of_many_classes_a_check_shows_the_smallest_and_the_largest(capsys):
    counts = {f"class {number}": 7 * number % 101 for number in range(101)}
    split = {"n": 5050, "class_counts": counts, "channels": 1, "smallest": [8, 8], "largest": [9, 8]}
    say_check(
        {
            "classes": list(counts),
            "fields": ["image", "label"],
            "splits": {"train": split},
            "notes": [],
            "unreadable": [],
        },
        True,
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == "examples of the 5 smallest and the 5 largest of 101 classes:"
    assert [int(line.split()[-1]) for line in lines[5:15]] == [0, 1, 2, 3, 4, 96, 97, 98, 99, 100]
    assert lines[-1] == "every image can be read"


@pytest.mark.parametrize("action", ACTIONS)
def test_the_help_of_an_action_lists_the_flags_that_it_takes(capsys, action):
    said = printed(capsys, "data", action, "--help")
    assert said.startswith(f"usage: vitzoo data {action} ")
    known = {name for names in ACTIONS.values() for name in names}
    listed = {name for name in known if f"--{name.replace('_', '-')} " in said.partition("prepare  write")[0]}
    assert listed == set(ACTIONS[action])


def test_data_show_and_prepare_write_a_picture_and_a_dataset(capsys, photos, tmp_path):
    extra = ["--config.data.bad_files=skip", "--config.data.validation_fraction=0"]
    picture = tmp_path / "examples.png"
    assert f"wrote    {picture}" in printed(capsys, "data", "show", photos, "--output", str(picture), *extra)
    assert Image.open(picture).width > 0
    said = printed(capsys, "data", "prepare", photos, "--dir", str(tmp_path / "tfds"), "--shards", "1", *extra)
    *_, prepared, command = said.splitlines()
    assert prepared == f"prepared {tmp_path / 'tfds' / 'photos' / '1.0.0'}"
    assert command.startswith(
        "next     vitzoo train --config vit/finetune --config.init_from=RUN --config.data.name=photos"
    )
    assert list((tmp_path / "tfds").rglob("*.array_record*"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["chek", "digits"], "vitzoo: action = chek: did you mean check?"),
        (["check", "digits", "--shards=3"], "vitzoo: --shards = 3: is no flag of `vitzoo data check`"),
        (["prepare", "digits", "--shards=0"], "vitzoo: --shards = 0: must be at least 1"),
        (["check", "digits", "--config.seed=1"], "vitzoo: --config.seed: `vitzoo data` takes settings of the data"),
        (["check", "digits", "--config.data.spilt=x"], "vitzoo: data.spilt = x: no such field; did you mean split?"),
        (["check"], "vitzoo: NAME: must be given"),
        (["check", "digits", "--config.data.name=x"], "vitzoo: --config.data.name = x: the dataset is named without"),
        (["check", "digits", "--config.data.workers=2"], "vitzoo: --config.data.workers = 2: has no effect in `vitzoo"),
        (
            ["show", "digits", "--split=test", "--config.data.split=x"],
            "vitzoo: --config.data.split = x: can't be given with",
        ),
        (["check", "digits", "--bad-files=x"], "vitzoo: data.bad_files = x: "),
    ],
)
def test_data_refuses_in_one_line(capsys, arguments, line):
    assert main(["data", *arguments]) == 2
    assert capsys.readouterr().err.startswith(line)
