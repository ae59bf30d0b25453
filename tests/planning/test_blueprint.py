"""A training drawn from its config alone is the one that runs."""

import jax
import pytest

from vitzoo.config import list_configs, resolve
from vitzoo.errors import UserError
from vitzoo.parallel.mesh import make_mesh
from vitzoo.planning import search, training_data
from vitzoo.planning.blueprint import blueprint
from vitzoo.planning.estimate import Forecast
from vitzoo.planning.topology import parse
from vitzoo.steps.compile import batch_shapes
from vitzoo.training import setup

FROM_CHECKPOINTS = {"vit": "B/16", "gpt": "gpt2-124M", "t5": "v1.1-base", "bert": "base"}
"""A variant for the configs that start from any checkpoint of a family."""
QUICK = ("quickstart",)
REAL = (
    "gpt/adder",
    "gpt/prefix",
    "bert/classify",
    "t5/translate",
    "t5/pretrain",
    "bert/pretrain",
    "transformer/translate",
)


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *[pytest.param(name, marks=pytest.mark.slow) for name in REAL],
    ],
)
def test_rows_and_parameters_are_those_of_the_real_training(name):
    resolved = resolve(name, overrides={"mesh": "data:8"})
    task = setup.prepare(resolved, make_mesh("data:8", jax.devices()))
    task.stream.close()
    drawn = blueprint(resolved.experiment, "cpu", examples=task.info.n)
    real = batch_shapes(task.stream.rows.padding(), resolved.experiment.data.batch_size)
    assert drawn.batch(resolved.experiment.data.batch_size) == real
    assert drawn.steps == task.total_steps
    paths = jax.tree.structure(drawn.state["params"])
    assert paths == jax.tree.structure(task.state["params"])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name, _ in list_configs()]
)
def test_every_config_can_be_planned(name):
    resolved = resolve(name, complete=False)
    if not resolved.experiment.model.name:
        family = name.partition("/")[0]
        changes = {"init_from": "", "model.name": family, "model.variant": FROM_CHECKPOINTS[family]}
        if family == "vit":  # a checkpoint's patches may fit the config's size, where the variant's don't
            changes["model.pad_to_patch"] = True
        resolved = resolve(name, overrides=changes, complete=False)
    for text in ("cpu:8", "v5e:4x4"):
        where = parse(text)
        forecast = Forecast(blueprint(resolved.experiment, where.device.platform), where)
        best = search.ranked(forecast, search.Fixed())[0]
        assert best.flops > 0
        assert best.memory.activations > 0
        # what fits on a CPU is the machine's matter
        assert best.fits or text == "cpu:8" or search.nearest(forecast, search.Fixed())


def test_the_examples_of_known_sets_and_of_the_user_count(draw):
    assert draw("vit/imagenet:S/16").examples == 1_268_355  # 99 % of 1,281,167
    experiment = resolve("gpt/finetune", overrides={"init_from": "", "model.name": "gpt", "model.variant": "gpt-nano"},
                         complete=False).experiment  # fmt: skip
    assert blueprint(experiment, "cpu").steps is None  # three epochs of who knows how many rows
    assert blueprint(experiment, "cpu", examples=80).steps == 3 * 80 // 8
    assert training_data.total_steps(experiment, None) is None


def test_a_config_without_a_model_says_that_one_must_be_named():
    experiment = resolve("vit/finetune", complete=False).experiment
    with pytest.raises(UserError, match=r"model\.name"):
        blueprint(experiment, "tpu")
