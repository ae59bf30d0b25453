"""The recipes of images say what their sources say, and run."""

import io
import math
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import vitzoo.config
from vitzoo.models.vit import ViT
from vitzoo.models.vit_config import ViTConfig
from vitzoo.nn import state
from vitzoo.nn.paths import flatten
from vitzoo.optim.rules import leaf_rules
from vitzoo.parallel import mesh as meshes
from vitzoo.training import loop

sys.path.append(str(Path(__file__).parents[1] / "weights"))  # where run folders are made

TINY = {"width": 16, "depth": 2, "mlp_dim": 32, "num_heads": 2, "patch_size": 16}
SHORT = {"data.name": "config_data:gray28", "data.split": "train", "data.batch_size": 24, "total_steps": 2}
SHORT |= {"model.image_size": 32, "checkpoint.keep_best": "", "log.tensorboard": False}


def experiment(name, **changes):
    return vitzoo.config.resolve(name, overrides=changes).experiment


def rules_of(experiment, **sizes):
    config = experiment.model.config(num_classes=10, **TINY | sizes)
    shapes = state.abstract(lambda rngs: ViT(config, rngs=rngs))[1]
    return leaf_rules(experiment.optimizer, shapes)


def test_the_head_of_scaling_decays_by_three_and_the_body_by_three_hundredths():
    # Zhai et al. 2022, section 3.2; train_vit_g.py: wd = 0.03 * lr, multipliers 100 and 1
    scaling = experiment("vit/scaling:G/14", **{"data.name": "digits"})
    rules = rules_of(scaling)
    assert float(rules["head/kernel"].decay) == pytest.approx(3.0)
    assert float(rules["encoder/blocks/*/mlp/up/kernel"].decay) == pytest.approx(0.03)
    assert not any(rules[path].decay.any() for path in rules if not path.endswith("kernel"))
    rate = scaling.schedule.make(1_000_000, 16_384, 10**9, 8e-4)
    np.testing.assert_allclose([rate(10_000), rate(20_000), rate(950_000)], [8e-4, 8e-4 / 2**0.5, 8e-4 / 95**0.5], 1e-5)
    assert float(rate(975_000)) == pytest.approx(8e-4 / 97.5**0.5 / 2, rel=1e-5)


@pytest.mark.parametrize(("data", "bias"), [("i1k", -6.9), ("i21k", -10.0)])
def test_augreg_decays_as_big_vision_does(data, bias):
    found = experiment(f"vit/augreg:{data},B/16", **{"data.name": "imagenet2012"})
    optimizer = found.optimizer
    assert optimizer.decay_per_rate == pytest.approx(0.1)  # 1e-4 at a learning rate of 1e-3
    half = experiment(
        f"vit/augreg:{data},B/16", **{"data.name": "imagenet2012", "optimizer.learning_rate": 5e-4}
    ).optimizer
    assert half.decay_per_rate * half.learning_rate == pytest.approx(1e-4)  # whatever the rate
    assert found.objective.loss == "sigmoid"
    assert found.model.config(num_classes=1000).head_bias_init == bias


def test_augregs_rows_are_asked_for_by_name():
    default, other = (experiment(f"vit/augreg:i1k,S/32{more}") for more in ("", ",strong2,dropout"))
    assert (default.augment.randaugment_magnitude, default.augment.mixup) == (15, 0.2)  # medium1
    assert (other.augment.randaugment_magnitude, other.augment.mixup) == (20, 0.8)
    assert not default.model.config(num_classes=9).random
    config = other.model.config(num_classes=9)
    assert (config.dropout, config.drop_path, config.drop_path_schedule) == (0.1, 0.1, "linear")


def test_deit3_is_the_published_recipe():
    # Touvron et al. 2022, table 1 and README_revenge: LAMB, 3e-3, decay 0.02, 1e-6 to the peak to 1e-5, drop-path 0.1
    # alike in all blocks, LayerScale 1e-4, 3-Augment with colour jitter 0.3, mixup 0.8, CutMix 1, 192 pixels
    found = experiment("vit/deit3:B/16")
    config = found.model.config(num_classes=1000)
    assert config.image_size == 192
    np.testing.assert_allclose(config.drop_path_rates, 0.1)
    assert (config.layer_scale, config.prefix_positions) == (1e-4, "none")
    objective = found.objective
    assert (objective.loss, objective.binary_labels, objective.sum_classes) == ("sigmoid", True, False)
    assert (found.data.batch_size, found.data.repeats, found.optimizer.weight_decay) == (2048, 3, 0.02)
    assert (found.augment.three_augment, found.augment.color_jitter) == (True, 0.3)
    assert (found.augment.mixup, found.augment.cutmix) == (0.8, 1.0)
    steps = math.ceil(400 * 1_281_167 / 2048)
    rate = found.schedule.make(steps, 2048, 1_281_167, found.optimizer.learning_rate)
    warmup = round(5 * 1_281_167 / 2048)
    np.testing.assert_allclose([rate(0), rate(warmup), rate(steps)], [1e-6, 3e-3, 1e-5], rtol=1e-5)
    tuned = experiment("vit/deit3:B/16,finetune", init_from="RUN")
    rate = tuned.schedule.make(50_046, 512, 1_281_167, tuned.optimizer.learning_rate)
    np.testing.assert_allclose([rate(0), rate(20_000), rate(50_000)], [1e-6, 1e-5, 1e-5], rtol=1e-5)


def test_the_linear_probe_trains_the_head_alone():
    probe = experiment("vit/linear_probe", init_from="RUN")
    shapes = state.abstract(lambda rngs: ViT(ViTConfig(num_classes=10, **TINY), rngs=rngs))[1]
    rules = leaf_rules(probe.optimizer, shapes)
    assert {path for path in flatten(shapes) if not rules[path].frozen} == {"head/kernel", "head/bias"}
    assert probe.optimizer.learning_rate == 0.004  # 0.001 · 1024 / 256


def test_the_transfer_table_has_the_best_learning_rates():
    # google-research/big_vision, configs/transfer.py, the results in its docstring
    rates = {"imagenet": 0.03, "cifar10": 0.003, "cifar100": 0.01, "pets": 0.003, "flowers": 0.003}
    for task, rate in rates.items():
        assert experiment(f"vit/transfer:{task}", init_from="RUN").optimizer.learning_rate == rate


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("vit/augreg:i21k,B/16", "vit/scaling", "vit/deit:S/16", "vit/deit3:S/16"),
        *("vit/original_finetune", "vit/transfer", "vit/linear_probe", "vit/deit3:S/16,finetune"),
        *("vit/deit:S/16,distilled", "vit/distill"),
    ],
)
def test_a_recipe_steps_at_a_tiny_size(name, tmp_path, monkeypatch):
    monkeypatch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:1])  # less to compile
    changes = dict(SHORT)
    required = {"finetune": "init_from", "transfer": "init_from", "probe": "init_from", "distill": "objective.teacher"}
    needs = [setting for word, setting in required.items() if word in name]
    if needs:
        config = ViTConfig(**TINY, image_size=(32, 32), num_classes=10, channels=1)
        from made_checkpoint import make_run

        make_run(tmp_path / "teacher", config, [f"class {number}" for number in range(10)])
        changes[needs[0]] = str(tmp_path / "teacher")
    if needs != ["init_from"]:
        changes |= {f"model.{field}": value for field, value in TINY.items()}
    resolved = vitzoo.config.resolve(name, overrides=changes)
    for evaluator in list(resolved.experiment.evaluate):
        changes[f"evaluate.{evaluator}.split"] = "test"
    result = loop.train(vitzoo.config.resolve(name, overrides=changes), tmp_path / "run", io.StringIO())
    assert result["finished"]
    assert np.isfinite(result["metrics"]["train"]["loss"])
    assert result["metrics"]["train"]["skipped"] == 0
