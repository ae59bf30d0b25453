"""`vitzoo plan`, as it is typed."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from made_checkpoint import make_run
from PIL import Image

from vitzoo.cli import main
from vitzoo.cli.output import last_line
from vitzoo.planning import plan, tpu_compiler

ARGUMENTS = ("plan", "--config", "quickstart", "--topology", "h100:8", "--price-per-device-hour", "2.5")


@pytest.fixture(scope="module")
def planned():
    """What is printed for people, and for programs; planned once."""
    out, made = io.StringIO(), []
    real = plan.plan
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(plan, "plan", lambda *given, **how: made.append(real(*given, **how)) or made[0])
        assert main([*ARGUMENTS]) == 0
    return out.getvalue(), json.loads(last_line(made[0].to_json()))


@pytest.mark.gate
def test_the_figures_add_up(planned):
    values = planned[1]
    sizes = values["bytes_per_device"]
    parts = ("parameters", "optimizer", "gradients", "batch", "activations")
    assert sizes["peak"] == sum(sizes[part] for part in parts)
    assert values["fits"]
    assert sizes["peak"] < sizes["capacity"] == 0.75 * 80e9
    assert values["source"] == "formula"
    assert values["steps"] == 1348  # 120 epochs of 1,437 digits in batches of 128
    hours = values["seconds_per_step_min"] * 1348 / 3600 * 8
    assert values["device_hours"] == pytest.approx(hours)
    assert values["cost"] == pytest.approx(2.5 * hours)


def test_every_figure_is_labelled_and_the_setting_can_be_copied(planned):
    text, values = planned
    figures = [line for line in text.splitlines() if line.startswith(("  ", "FLOPs", "sent", "time", "in all"))]
    assert len(figures) == 10
    assert all("[formula]" in line for line in figures)
    assert f"--config.mesh={values['mesh']} --config.remat={values['remat']}" in text
    assert len(values["runners_up"]) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--config", "quickstart", "--topology", "v5q:4"), "topology = v5q:4: no such device"),
        (("--config", "quickstart", "--topology", "v5e:0x3"), "topology = v5e:0x3"),
        (("--config", "quickstart", "--topology", "h100:x"), "topology = h100:x"),
        (("--config", "quickstart"), "--topology: must be given"),
        (("--config", "quickstrt", "--topology", "cpu:8"), "did you mean quickstart?"),
        (("--config", "vit/finetune", "--topology", "cpu:8", "--config.init_from="), "model.name: must be set"),
        (("--config", "quickstart", "--topology", "cpu:8", "--config.mesh=fsdp:4"), "mesh = fsdp:4: takes 4 devices"),
        (
            ("--config", "gpt/quickstart", "--topology", "cpu:8", "--config.mesh=data:2,sequence:4"),
            "mesh = data:2,sequence:4: no forecast counts the axis sequence",
        ),
        (("--config", "quickstart", "--topology", "cpu:8", "--examples", "0"), "--examples"),
        (
            ("--config", "gpt/quickstart", "--topology", "cpu:8", "--config.inputs.tokens.length=128"),
            "inputs.tokens.length = 128: is more than model.context_length = 64",
        ),
        (
            ("--config", "quickstart", "--topology", "h100:8", "--compile", "2"),
            "--compile = 2: h100:8 compiles nothing",
        ),
        (
            ("--config", "quickstart", "--topology", "v5e:2x2", "--compile", "2", "--formula"),
            "--formula compiles nothing",
        ),
        (("--config", "quickstart", "--topology", "cpu:8", "--config.total_epochs=1e30"), "total_epochs = 1e+30: of"),
        (("--config", "quickstart", "--topology", "cpu:8", "--price-per-device-hour", "x"), "--price-per-device-hour"),
    ],
)
def test_a_mistake_is_one_line(capsys, arguments, said):
    assert main(["plan", *arguments]) == 2
    refused = capsys.readouterr().err
    assert said in refused
    assert refused.count("\n") == 1


@pytest.fixture(scope="module")
def small_gpt(tmp_path_factory):
    """A run of a GPT of published form, with random weights, whose rows are shorter than a config's by default."""
    weights, run = Path(__file__).parents[1] / "goldens/weights/gpt2", tmp_path_factory.mktemp("gpt") / "run"
    assert main(["convert", str(weights), str(run)]) == 0
    return run


def test_a_checkpoints_model_and_rows_are_those_of_the_training(small_gpt, capsys):
    asked = ("plan", "--formula", "--topology", "h100:1", f"--config.init_from={small_gpt}")
    capsys.readouterr()
    assert main([*asked, "--config", "gpt/finetune"]) == 0
    assert main([*asked, "--config", "vit/finetune"]) == 2
    assert f"init_from = {small_gpt}: holds gpt, which takes no images" in capsys.readouterr().err


@pytest.mark.parametrize("side", [8, 12, 24])
def test_a_checkpoints_image_size_is_kept_whatever_size_the_photos_have(side, tmp_path, capsys):
    make_run(tmp_path / "run")
    for number in range(4):
        (tmp_path / "photos" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side, side), (50 * number,) * 3).save(
            tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        )
    flags = ["--config", "vit/finetune", f"--config.init_from={tmp_path / 'run'}", "--config.data.batch_size=8"]
    flags += [f"--config.data.name=folder:{tmp_path / 'photos'}", "--config.data.split=train", "--json"]
    capsys.readouterr()
    assert main(["plan", "--topology", "cpu:1", "--formula", *flags]) == 0
    planned = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main(["train", "--dry-run", *flags, "--config.evaluate.val=none", "--config.checkpoint.keep_best="]) == 0
    trained = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert planned["bytes_per_device"]["parameters"] == 4 * trained["parameters"]  # of float32, on one device


def test_compiling_without_the_compiler_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(tpu_compiler.importlib.util, "find_spec", lambda name: None)
    assert main(["plan", "--config", "quickstart", "--topology", "v5e:2x2", "--compile", "2"]) == 2
    assert "--compile = 2: needs the compiler of the extra `plan`" in capsys.readouterr().err
