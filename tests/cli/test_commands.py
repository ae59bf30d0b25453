"""What the commands print."""

import json

from vitzoo.cli import main


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


def test_configs_lists_every_config_with_what_it_is(capsys):
    said = printed(capsys, "configs")
    assert "vit/imagenet" in said
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
        capsys, "train", "--config", "quickstart", "--dry-run", "--config.optimizer.layer_decay=0.5", "--json"
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
    assert "Nothing was trained or written" in said
    assert list(tmp_path.iterdir()) == []
