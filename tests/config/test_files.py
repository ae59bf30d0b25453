"""Config files are found by path or name, and a fault in one is told in one line with its place."""

from pathlib import Path

import pytest

import vitzoo
from vitzoo.config import load, resolve
from vitzoo.config.files import argument_of, find_config
from vitzoo.errors import UserError


def refusal(config, arg=None) -> str:
    with pytest.raises(UserError) as caught:
        load(config, arg)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_config_is_found_by_name_wherever_one_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, arg = find_config("vit/imagenet:B/16")
    assert path.parts[-2:] == ("vit", "imagenet.py")
    assert arg == "B/16"
    assert find_config("configs/quickstart.py")[0].name == "quickstart.py"


def test_a_file_comes_before_a_name_and_may_have_a_colon_in_it(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("def get_config(): return {'seed': 1}", "quickstart")
    write("def get_config(): return {'seed': 2}", "a:b.py")
    assert load("quickstart") == {"seed": 1}
    assert load("a:b.py") == {"seed": 2}


def test_the_argument_reaches_get_config(write):
    file = write("def get_config(arg='none'): return {'name': arg}")
    assert load(file) == {"name": "none"}
    assert load(f"{file}:my.file:Model") == {"name": "my.file:Model"}
    assert load(file, "x") == {"name": "x"}


def test_an_unknown_name_is_answered_with_the_nearest():
    assert "did you mean vit/imagenet?" in refusal("vit/imagenets:S/16")
    assert "no such file, and no config of that name" in refusal("")
    assert "longer than 255 bytes" in refusal("x" * 5000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def get_config(:\n", "bad.py:1: SyntaxError: invalid syntax"),
        ("x = 1\nimport no_such_module\n", "bad.py:2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def get_config():\n    return undefined\n", "bad.py:2: NameError: name 'undefined' is not defined"),
        ("def get_config(arg='a'):\n    return {'a': 1}['b']\n", "bad.py:2: KeyError: b"),
        ("def get_config():\n    raise ValueError('two\\nlines')\n", "bad.py:2: ValueError: two"),
        ("x = 1\n", "defines no function get_config"),
        ("def get_config(): pass\n", "its get_config returns NoneType, no config"),
        ("def get_config():\n    import json\n    json.loads('{')\n", "bad.py:3: JSONDecodeError: "),
    ],
)
def test_a_fault_in_a_file_is_one_line_with_its_place(write, text, message):
    assert message in refusal(write(text, "bad.py"))


def test_an_argument_that_a_config_does_not_take_is_refused(write, tmp_path):
    assert "takes no argument" in refusal(write("def get_config(): return {}") + ":B/16")
    (tmp_path / "config.json").write_text("{}")
    assert "takes no argument" in refusal(f"{tmp_path}/config.json:B/16")


def test_a_bad_argument_is_one_line(write):
    file = write("def get_config(arg):\n    return {'steps': int(arg)}\n")
    said = refusal(f"{file}:many")
    assert said.startswith(f"config = {file}:many: experiment.py:2: ValueError: invalid literal")
    assert said.endswith("(its argument was 'many')")
    assert "missing 1 required positional argument" in refusal(file)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_a_broken_config_json_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert "JSON" in refusal(tmp_path / "config.json")


def test_running_a_config_leaves_nothing_beside_it(write, tmp_path):
    load(write("def get_config(): return {}"))
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.py"]


def test_a_config_builds_on_another(write):
    base = write(
        "import vitzoo\ndef get_config():\n    c = vitzoo.config.default()\n    c.seed = 3\n    return c", "base.py"
    )
    file = write(
        f"import vitzoo\ndef get_config():\n    c = vitzoo.config.load({base!r})\n    c.ema = 0.5\n    return c"
    )
    assert (load(file).seed, load(file).ema) == (3, 0.5)


def test_the_default_config_reads_as_the_schema_says():
    config = vitzoo.config.default()
    assert (config.seed, config.data.batch_size, config.optimizer.name) == (0, 128, "adamw")
    assert config.stated() == {}


def test_a_config_that_ends_the_program_is_refused_as_one_that_raises(tmp_path):
    for code in ("0", "3", "'text'"):
        file = tmp_path / "ends.py"
        file.write_text(f"import sys\n\ndef get_config():\n    sys.exit({code})\n")
        assert "ends.py:4: SystemExit" in refusal(file)


CHOOSES = """
import vitzoo.config

def get_config(arg="short,small"):
    length, size = arg.split(",")
    epochs = vitzoo.config.choice(length, {"short": 1, "long": 9})
    return {"total_epochs": epochs, "size": vitzoo.config.choice(size, ("small", "large"))}
"""


def test_an_argument_is_one_of_a_configs_choices(write):
    file = write(CHOOSES)
    assert load(f"{file}:long,large") == {"total_epochs": 9, "size": "large"}
    assert refusal(f"{file}:middle,large") == (
        f"config = {file}:middle,large: there is no 'middle'; take one of short, long"
    )
    assert refusal(file, "long,") == f"config = {file}:long,: there is no ''; take one of small, large"


def test_the_arguments_that_a_config_takes_are_listed(write):
    def listed(text):
        return str(argument_of(Path(write(text))))

    assert listed(CHOOSES) == ":short,small (default): short, long; then small, large"
    one = 'import vitzoo.config\ndef get_config(arg="b"):\n    return {"x": vitzoo.config.choice(arg, ["a", "b"])}'
    assert listed(one) == ":b (default), :a"
    assert listed("def get_config(arg='a'): return {'x': arg}") == ":a (default), or another"
    assert listed("def get_config(): return {}") == listed("def get_config(arg): return {}") == listed("x = (") == ""


@pytest.mark.parametrize("name", ["gpt/gpt2", "t5/c4", "transformer/wmt14", "vit/ablation", "vit/fashion_mnist"])
def test_a_config_of_the_package_with_a_table_of_choices_names_them_all(name):
    choices = argument_of(find_config(name)[0]).choices[0]
    assert refusal(f"{name}:wrong").endswith(f"there is no 'wrong'; take one of {', '.join(choices)}")


def test_what_a_config_leaves_to_its_user_must_be_given_by_the_flags_it_names(write):
    file = write(
        "import vitzoo\ndef get_config():\n    c = vitzoo.config.default()\n    c.total_steps = 1\n"
        "    c.init_from = vitzoo.config.required('RUN')\n    c.data.name = vitzoo.config.required('folder:PHOTOS')\n"
        "    return c\n"
    )
    with pytest.raises(UserError) as caught:
        resolve(file)
    assert str(caught.value) == "init_from: must be given: --config.init_from=RUN --config.data.name=folder:PHOTOS"
    with pytest.raises(UserError, match=r"data.name: must be given: --config.data.name=folder:PHOTOS$"):
        resolve(file, overrides=["init_from=runs/a"])
    assert resolve(file, overrides=["init_from=runs/a", "data.name=digits"]).values["data"]["name"] == "digits"
    assert resolve(file, complete=False).values["init_from"] == "RUN"
