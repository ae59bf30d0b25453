"""A config file, its argument and overrides become one checked experiment, or one line that says what is wrong."""

import copy
import json
import re
import subprocess
import sys

import pytest

import vitzoo
from vitzoo.config import resolve
from vitzoo.config.model import ModelChoice
from vitzoo.errors import UserError


def refusal(config, *overrides, arg=None) -> str:
    with pytest.raises(UserError) as caught:
        resolve(config, arg, overrides)
    return str(caught.value)


def test_later_layers_win_default_variant_file_flag(changed):
    file = changed("config.model.depth = 3")
    resolved = resolve(file, "B/32", ["model.num_heads=8", "optimizer.weight_decay=0"])
    model = resolved.experiment.model.config()
    assert (model.width, model.patch_size, model.depth, model.num_heads) == (768, 32, 3, 8)
    source = resolved.sources
    assert source["model.dropout"] == "default"
    assert source["model.width"] == source["model.patch_size"] == "variant"
    assert source["model.depth"] == source["optimizer.learning_rate"] == "file"
    assert source["model.num_heads"] == source["optimizer.weight_decay"] == "flag"
    assert set(source) >= {"seed", "data.name", "evaluate.val.split", "checkpoint.keep"}


def test_what_a_file_states_is_from_the_file_even_where_it_is_the_default(changed):
    sources = resolve(changed("config.seed = 0", "config.data.prefetch = 2")).sources
    assert sources["seed"] == sources["data.prefetch"] == "file"
    assert sources["data.workers"] == sources["mesh"] == "default"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("total_steps=1e-3", "total_steps = 1e-3: must be an integer, or none"),
        ("total_steps=10.0", "total_steps = 10.0: must be an integer (written out: 10), or none"),
        ("total_steps=1e3", "total_steps = 1e3: must be an integer (written out: 1000), or none"),
        ("total_steps=-5", "total_steps = -5: must be at least 1"),
        ("optimizer.learning_rate=nan", "optimizer.learning_rate = nan: must be a finite number"),
        ("optimizer.learning_rate=1e-4x", "optimizer.learning_rate = 1e-4x: must be a number"),
        ("augment.flip=no", "augment.flip = no: must be true or false"),
        ("wieght_decay=0.1", "wieght_decay = 0.1: no such setting; did you mean optimizer.weight_decay?"),
        ("optimizer.wieght_decay=0.1", "optimizer.wieght_decay = 0.1: no such field; did you mean weight_decay?"),
        ("optimizer.name=adam", "optimizer.name = adam: no such optimizer; did you mean adamw?"),
        ("model.variant=S16", "model.variant = S16: no such variant"),
        ("model.image_size=225", "model.image_size = 225: does not divide by patch_size 16 (nearest: 224, 240)"),
        ("optimizer=sgd", "optimizer = sgd: is a section: set one of its fields"),
        ("evaluate.vla.split=test", "evaluate.vla.name: must be set for a new evaluator; did you mean val?"),
        ("evaluate.val.data.nmae=x", "evaluate.val.data.nmae = x: no such field; did you mean name?"),
        ("checkpoint.keep_best=val/acuracy", "checkpoint.keep_best = val/acuracy: val has no metric 'acuracy'"),
        ("accumulate=3", "data.batch_size = 1024: does not divide by accumulate = 3 (nearest: 1023, 1026; on"),
        ("accumulate=3 mesh=data:4,fsdp:2", "data.batch_size = 1024: does not divide by accumulate = 3 (nearest: 1008"),
        ("mesh=rows:2", "mesh = rows:2: no axis 'rows'"),
        ("platform=gpux", "platform = gpux: did you mean gpu?"),
        (
            "data.balance=classes objective.class_weights=balanced",
            "objective.class_weights = balanced: corrects for the classes' sizes a second time, after data.balance",
        ),
        ("profile=10", "profile = 10: must be START:STOP"),
        ("init_from_state=true", "init_from_state = True: needs init_from"),
        ("seed", "seed: an override is written KEY=VALUE"),
        ("evaluate.train.name=classification", "evaluate.train: an evaluator's name is"),
    ],
)
def test_a_bad_flag_is_one_line_with_field_value_and_remedy(write, override, message):
    said = refusal(write(), *override.split())
    assert said.startswith(message)
    assert "\n" not in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("config.wieght_decay = 0.1", "wieght_decay = 0.1: no such setting; did you mean optimizer.weight_decay?"),
        ("config.optimizer.wieght_decay = 1", "optimizer.wieght_decay = 1: no such field; did you mean weight_decay?"),
        ("config.data.batch_size = 1e2", "data.batch_size = 100.0: must be an integer (written out: 100)"),
        ("config.total_steps = 10", "total_epochs = 90.0: can't be set with total_steps; set one of them"),
        ("config.total_epochs = None", "total_steps: no length of training"),
        ("config.data.batch_size = '128'", "data.batch_size = 128: must be an integer"),
        ("config.data.batch_size = True", "data.batch_size = True: must be an integer"),
        ("config.optimizer = 'sgd'", "optimizer = sgd: is a section"),
    ],
)
def test_a_bad_line_in_a_file_is_refused_alike(changed, line, message):
    assert refusal(changed(line)).startswith(message)


def test_an_integer_for_a_float_becomes_a_float(write):
    rate = resolve(write(), overrides=["optimizer.learning_rate=1"]).experiment.optimizer.learning_rate
    assert rate == 1.0
    assert type(rate) is float


def test_overrides_from_python_are_typed_values_dotted_or_nested(write):
    nested = {"optimizer": {"learning_rate": 2}, "model.image_size": (32, 64)}
    experiment = resolve(write(), overrides=nested).experiment
    assert (experiment.optimizer.learning_rate, experiment.optimizer.beta2) == (2.0, 0.95)
    assert experiment.model.config().image_size == (32, 64)
    with pytest.raises(UserError, match="must be an integer"):
        resolve(write(), overrides={"data.batch_size": "8"})


def test_config_json_resolves_to_the_same_again(write, tmp_path):
    overrides = ["optimizer.name=sgd", "model.image_size=32,64", "augment.crop_area=0.2,1"]
    first = resolve(write(), overrides=overrides)
    (tmp_path / "config.json").write_text(json.dumps(first.values))
    again = resolve(tmp_path / "config.json")
    assert again.experiment == first.experiment
    assert again.values == first.values
    assert again.notes == []


def test_a_section_assigned_in_a_file_is_a_patch(changed):
    file = changed("config.optimizer = dict(learning_rate=0.5)", "config.evaluate = dict(val=dict(split='test'))")
    experiment = resolve(file).experiment
    assert (experiment.optimizer.learning_rate, experiment.optimizer.beta2) == (0.5, 0.95)
    assert (experiment.evaluate["val"].split, experiment.evaluate["val"].every_epochs) == ("test", 1.0)


def test_another_name_by_flag_drops_what_the_new_part_lacks_and_says_so(write):
    resolved = resolve(write(), overrides=["optimizer.name=sgd"])
    optimizer = resolved.experiment.optimizer
    assert (type(optimizer).__name__, optimizer.learning_rate, optimizer.weight_decay) == ("SGD", 1e-3, 0.1)
    assert resolved.notes == ["optimizer.name = sgd has no use for optimizer.beta2 = 0.95: left out"]
    assert "optimizer.beta2" not in resolved.values["optimizer"]
    assert "beta2" in refusal(write(), "optimizer.name=sgd", "optimizer.beta2=0.9")


def test_another_name_in_a_file_drops_what_the_new_part_lacks(changed):
    file = changed("config.optimizer = dict(name='sgd', momentum=0.8)")
    optimizer = resolve(file).experiment.optimizer
    assert (optimizer.momentum, optimizer.weight_decay) == (0.8, 0.1)
    # stated for the new part, a field that it lacks is a mistake
    assert "no such field" in refusal(changed("config.optimizer = dict(name='sgd', beta2=0.8)"))


def test_a_flag_for_one_duration_replaces_the_files_other_one_and_says_so(write):
    resolved = resolve(write(), overrides=["total_steps=20", "evaluate.val.every_steps=5", "schedule.warmup_epochs=1"])
    experiment = resolved.experiment
    assert (experiment.total_steps, experiment.total_epochs) == (20, None)
    assert (experiment.evaluate["val"].every_steps, experiment.evaluate["val"].every_epochs) == (5, None)
    assert (experiment.schedule.warmup_epochs, experiment.schedule.warmup_steps) == (1.0, 0)
    assert resolved.notes[0] == "total_steps replaces total_epochs = 90"
    assert "can't be set with" in refusal(write(), "total_steps=20", "total_examples=100")


def test_an_evaluators_data_is_a_patch_of_the_data_read_by_its_types(write):
    overrides = ["evaluate.val.data.name=123", "evaluate.val.data.split=test", "evaluate.val.batch_size=64"]
    experiment = resolve(write(), overrides=overrides).experiment
    data = experiment.evaluation_data("val")
    assert (data.name, data.split, data.batch_size) == ("123", "test", 64)
    assert experiment.data.split == "train[:99%]"


def test_an_evaluator_set_to_none_is_off(write):
    experiment = resolve(write(), overrides=["evaluate.val=none", "checkpoint.keep_best="]).experiment
    assert experiment.evaluate == {}


def test_what_the_data_says_fills_the_model_where_the_config_says_nothing():
    choice = ModelChoice("vit", "Ti/4", {"channels": 3, "num_classes": None})
    config = choice.config(num_classes=10, channels=1, image_size=(28, 28))
    assert (config.num_classes, config.channels, config.image_size) == (10, 3, (28, 28))


def test_with_init_from_the_architecture_is_the_checkpoints_and_the_config_holds_the_changes(changed):
    file = changed("del config.model['name']", "del config.model['variant']")
    resolved = resolve(file, overrides=["init_from=runs/a", "model.image_size=64", "model.drop_path=0.1"])
    assert resolved.values["model"] == {"name": "", "variant": "", "image_size": 64, "drop_path": 0.1}
    choice = resolved.experiment.model.over({"name": "vit", "variant": "Ti/8", "patch_size": [8, 8], "width": 48})
    config = choice.config(num_classes=4, image_size=None)
    assert (choice.name, config.patch_size, config.width, config.image_size) == ("vit", (8, 8), 48, 64)
    assert (config.num_classes, config.drop_path) == (4, 0.1)
    with pytest.raises(UserError, match="init_from holds Ti/8"):
        ModelChoice("vit", "S/16").over({"name": "vit", "variant": "Ti/8"})
    assert "model.name: must be set" in refusal(file)


def test_parts_may_be_the_users_own(write, tmp_path, monkeypatch):
    (tmp_path / "my_parts.py").write_text(
        "import dataclasses\n"
        "from vitzoo.optim.optimizers import AdamW\n"
        "from vitzoo.schema import setting\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Mine(AdamW):\n"
        "    push: float = setting(1.0, 'more', minimum=0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    resolved = resolve(write(), overrides=["optimizer.name=my_parts:Mine", "optimizer.push=2"])
    assert resolved.experiment.optimizer.push == 2.0
    assert resolve(resolved.values).experiment == resolved.experiment
    assert "there is no module my_missing to import" in refusal(write(), "optimizer.name=my_missing:Mine")
    assert "is no dataclass of settings" in refusal(write(), "optimizer.name=numpy:ndarray")
    assert "is of Python's own module json" in refusal(write(), "optimizer.name=json:JSONDecoder")


def test_another_model_by_flag_keeps_what_it_knows_and_drops_the_rest(changed, tmp_path, monkeypatch):
    (tmp_path / "my_model.py").write_text(
        "import dataclasses\n"
        "from flax import nnx\n"
        "class MyModel(nnx.Module):\n"
        "    @dataclasses.dataclass(frozen=True)\n"
        "    class Config:\n"
        "        width: int = 8\n"
        "        sides: int = 3\n"
        "        image_size: int | tuple[int, int] | None = None\n"
        "        channels: int | None = None\n"
        "        num_classes: int | None = None\n"
        "    VARIANTS = {'wide': {'width': 99}}\n"
        "    def __init__(self, config, *, rngs, execution): ...\n"
        "    def __call__(self, images, train=False, key=None): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    file = changed("config.model.width = 48", "config.model.depth = 3")
    resolved = resolve(file, overrides=["model.name=my_model:MyModel", "model.sides=5"])
    stated = {key: value for key, value in resolved.values["model"].items() if value is not None}
    assert stated == {"name": "my_model:MyModel", "variant": "", "width": 48, "sides": 5}
    assert resolved.notes == [
        "model.name = my_model:MyModel has no use for model.depth = 3: left out",
        "model.name = my_model:MyModel has no variant S/16: left out",
    ]
    assert resolve(resolved.values).experiment == resolved.experiment
    wide = resolve(file, overrides=["model.name=my_model:MyModel", "model.variant=wide"])
    assert wide.experiment.model.config().width == 48
    assert "no such variant" in refusal(file, "model.name=my_model:MyModel", "model.variant=wyde")


def test_a_config_can_be_printed_copied_and_updated_as_any_config_dict():
    config = vitzoo.config.load("vit/imagenet", "B/32")
    assert "variant: B/32" in str(config)
    copied = copy.deepcopy(config)
    copied.update({"optimizer": {"beta2": 0.9}})
    copied.update_from_flattened_dict({"data.batch_size": 64})
    assert "beta2" not in config.optimizer
    experiment = resolve(copied).experiment
    assert (experiment.optimizer.beta2, experiment.data.batch_size) == (0.9, 64)
    assert experiment.optimizer.learning_rate == resolve(config).experiment.optimizer.learning_rate


def test_resolving_starts_no_device_backend(write):
    code = (
        "import sys, vitzoo.config; vitzoo.config.resolve(sys.argv[1])\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()\n"
        "assert not {'tensorflow', 'tensorflow_datasets', 'grain', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, write()], check=True, timeout=120)


def test_every_config_of_the_package_resolves_with_its_defaults_and_what_it_asks_for():
    for name, summary in vitzoo.config.list_configs():
        try:
            resolved = resolve(name)
        except UserError as refusal:
            asked = re.findall(r"--config\.(\S+=\S+)", refusal.message)
            resolved = resolve(name, overrides=asked)
        assert resolved.experiment.data.name
        assert summary


def test_places_of_data_are_absolute_wherever_they_are_stated(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    other = {"name": "classification", "split": "all", "data": {"name": "folder:./others/", "dir": "prepared"}}
    given = {"data.name": "csv:~/labels.csv", "data.dir": "prepared", "evaluate.other": other}
    values = resolve(write(), overrides=given).values
    assert (values["data"]["name"], values["data"]["dir"]) == ("csv:/home/me/labels.csv", f"{tmp_path}/prepared")
    assert values["evaluate"]["other"]["data"] == {"name": f"folder:{tmp_path}/others", "dir": f"{tmp_path}/prepared"}
    monkeypatch.chdir("/")
    assert resolve(values).values == values
    named = resolve(write(), overrides={"data.name": "digits/file_order", "data.dir": ""}).values["data"]
    assert (named["name"], named["dir"]) == ("digits/file_order", "")
