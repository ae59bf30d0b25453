"""Every setting that there is refuses every kind of value that it can't hold, from a file and from a flag, by its name.

The settings are listed from the schema, so a new one is tried without a line here. What a type takes is written down
below once more, and not asked of the code that is tested.
"""

import dataclasses
import typing
from typing import Any

import numpy as np
import pytest

from vitzoo.cli import main
from vitzoo.config import resolve
from vitzoo.config.experiment import CHOICES, Experiment
from vitzoo.config.fields import KINDS, every_part
from vitzoo.data.settings import Data
from vitzoo.errors import UserError
from vitzoo.registry import PARTS
from vitzoo.schema import annotations

BASE = {
    "total_steps": 1,
    "model": {"name": "vit", "variant": "Ti/16"},
    "objective": {"name": "classification"},
    "data": {"name": "digits"},
    "evaluate": {"val": {"name": "classification"}},
}


def circle() -> dict:
    found: dict = {}
    found["inner"] = found
    return found


def deep() -> list:
    found: list = []
    for _ in range(1000):
        found = [found]
    return found


NEVER = {
    "a set": {1, 2},
    "bytes": b"1",
    "a function": len,
    "a class": dict,
    "an object": object(),
    "an array": np.zeros(2),
    "a complex number": 1j,
    "an integer of 401 digits": 10**400,
    "an integer of 5,000 digits": 10**5000,
    "a dict that holds itself": circle(),
    "lists 1,000 deep": deep(),
    "a dict whose key is no text": {1: 2},
}
"""No setting takes one of these."""

PLAIN = {"bool": True, "int": 5, "float": 0.5, "str": "wrong", "list": [[None]], "dict": {"wrong": None}, "none": None}
TAKEN = {bool: {"bool"}, int: {"int"}, float: {"int", "float"}, str: {"str"}, type(None): {"none"}, dict: {"dict"}}
UNREAD = {
    int: [
        "x",
        "",
        "1.5",
        "1e3",
        "1_000",
        "٣",
        "²",
        "0x10",
        "9" * 5000,
        "nan",
        "[1]",
        "{1: 2}",
        "1,2,3",
        "\0",
        "\ud800",
    ],
    float: ["x", "", "1_0.5", "٣.٥", "nan", "-inf", "1e999", "1e-400", "1e39", "0x1p3", "1,2,3", "{}", "1\0", "\ud800"],
    bool: ["yes", "", "2", "٣", "1.0", "on", "[True]", "\0"],
    dict: ["x", "{", "{1: 2", "[1]", "{1}"],
}
"""By type, texts of a flag that are none of its values."""


def settings() -> list[tuple[str, str, Any]]:
    """Section, part named there (or nothing), field and type of every setting; an inherited one once."""
    hints = annotations(Experiment)
    found = {("", "", name): hint for name, hint in hints.items() if not section_like(hint) and name != "evaluate"}
    sections = {name: {"": hint} for name, hint in hints.items() if dataclasses.is_dataclass(hint) and name != "model"}
    parts = every_part()
    named = {section: dict(zip(PARTS[KINDS.get(section, "model")], parts[section], strict=True)) for section in parts}
    seen = set()
    for section, classes in {**sections, **named}.items():
        for part, cls in classes.items():
            for field, hint in annotations(cls).items():
                if (section, field, hint) not in seen:
                    seen.add((section, field, hint))
                    found[(section, part, field)] = hint
    return [(*key, hint) for key, hint in found.items()]


def section_like(hint: Any) -> bool:
    return hint is Any or dataclasses.is_dataclass(hint)


def members(hint: Any) -> list[Any]:
    """The plain types that a setting takes, of which a tuple is one."""
    if typing.get_origin(hint) is typing.Literal:
        return [type(one) for one in typing.get_args(hint)]
    if typing.get_origin(hint) in (typing.Union, type(int | str)):
        return [kind for member in typing.get_args(hint) for kind in members(member)]
    return [typing.get_origin(hint) or hint]


def taken(hint: Any) -> set[str]:
    """Which of the kinds of `PLAIN` could be right."""
    pairs = "tuple[tuple" in str(hint)  # rules may be written as a dict
    return set().union(*(TAKEN.get(kind, {"list"}) for kind in members(hint))) | ({"dict"} if pairs else set())


def config_of(section: str, part: str, **fields: Any) -> tuple[dict, str]:
    """A config that names the part, with fields in its section; and what stands before their names."""
    if not section:
        return {**BASE, **fields}, ""
    named = {"name": part} if part else dict(BASE.get(section, {}))
    if section == "evaluate":
        return {**BASE, "evaluate": {"val": named | fields}}, "evaluate.val."
    return {**BASE, section: named | fields}, f"{section}."


def turn(values: list, place: int, some: int) -> list:
    """Some of the values, others at each place, so that all are tried in the end."""
    return [values[(place * some + each) % len(values)] for each in range(min(some, len(values)))]


def refusal(config: dict, overrides: Any, name: str) -> str:
    """What the config is refused with, of a field or of one within it."""
    with pytest.raises(UserError) as caught:
        resolve(config, overrides=overrides)
    assert caught.value.field == name or caught.value.field.startswith(f"{name}."), str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("some", [2, pytest.param(99, marks=pytest.mark.slow)])
def test_every_setting_refuses_what_it_cannot_hold_from_a_file(some):
    for place, (section, part, field, hint) in enumerate(settings()):
        for value in (
            *turn([PLAIN[kind] for kind in PLAIN if kind not in taken(hint)], place, some),
            *turn([*NEVER.values()], place, some),
        ):
            config, prefix = config_of(section, part, **{field: value})
            refusal(config, (), prefix + field)


@pytest.mark.parametrize("some", [3, pytest.param(99, marks=pytest.mark.slow)])
def test_every_setting_refuses_what_it_cannot_read_from_a_flag(some):
    tried = 0
    for place, (section, part, field, hint) in enumerate(settings()):
        kinds = [kind for kind in members(hint) if kind is not type(None)]
        if len(kinds) > 1 or kinds[0] not in UNREAD:
            continue
        config, prefix = config_of(section, part)
        for text in turn(UNREAD[kinds[0]], place, some):
            refusal(config, [f"{prefix}{field}={text}"], prefix + field)
            tried += 1
    assert tried > 400


@pytest.mark.parametrize("value", NEVER.values(), ids=NEVER.keys())
@pytest.mark.parametrize("section", ["total_epochs", "data", "model", "optimizer", "evaluate", "mesh", "checkpoint"])
def test_a_whole_section_of_a_wrong_kind_is_refused_by_its_name(section, value):
    refusal({**BASE, section: value}, (), section)
    refusal(BASE, {section: value}, section)
    if section in CHOICES:
        refusal({**BASE, section: {"name": value}}, (), f"{section}.name")


CONFIG = """import sys, ml_collections, vitzoo
def get_config():
    config = vitzoo.config.default()
    config.change(dict(total_steps=1, model=dict(name="vit", variant="Ti/16"), data=dict(name="digits")))
    LINE
    return config
"""
FILES = {
    "raises": ("raise ValueError('no such thing')", "experiment.py:5: ValueError: no such thing"),
    "raises what has no text": (
        "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()",
        "experiment.py:5: Odd",
    ),
    "raises what is no Exception": ("raise GeneratorExit", "experiment.py:5: GeneratorExit"),
    "exits": ("sys.exit(3)", "experiment.py:5: SystemExit: 3"),
    "calls itself": ("return (lambda call: call(call))(lambda call: call(call))", "RecursionError"),
    "returns nothing": ("return None", "its get_config returns NoneType, no config"),
    "returns a number": ("return 5", "its get_config returns int, no config"),
    "returns a class": ("return dict", "its get_config returns type, no config"),
    "returns a list": ("return [config]", "its get_config returns list, no config"),
    "yields": ("yield config", "its get_config returns generator, no config"),
    "holds itself": ("config.data = config", "RecursionError"),
    "holds itself below": ("config.data.name = config", "RecursionError"),
    "has a number for a name": ("config.data = dict(name=5)", "data.name = 5: must be text"),
    "has a list for a name": ("config.optimizer = dict(name=['adamw'])", "optimizer.name = ('adamw',): must be text"),
    "has a number for a section": ("config.data = 5", "data = 5: is a section"),
    "has nothing for a section": ("config.optimizer = None", "optimizer: is a section"),
    "has a number for an evaluator": (
        "config.evaluate = {1: dict(name='classification')}",
        "evaluate.1: a setting's name is text; this is of the type int",
    ),
    "has evaluators in a list": ("config.evaluate = [dict(name='classification')]", "evaluate = "),
    "has a set": ("config.optimizer.freeze = {'a'}", "optimizer.freeze = {'a'}: is of the type set"),
    "refers to nothing": ("config.seed = ml_collections.config_dict.placeholder(int, True)", "config = "),
}
"""By what is wrong with a config file: a line of its get_config, and what is said."""


@pytest.mark.parametrize(("line", "said"), FILES.values(), ids=FILES.keys())
def test_a_config_file_that_gives_no_config_is_refused_in_one_line(line, said, write, tmp_path, capsys):
    text = CONFIG.replace("    LINE\n", f"    {line}\n")
    assert main(["train", "--config", write(text), "--workdir", str(tmp_path / "run"), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "unexpected" not in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def get_config(one, two): return {}", "takes 2"),
        ("get_config = 5", "defines no function get_config"),
        ("def get_config(:", "experiment.py:1: SyntaxError"),
        ("x = '\0'", "null bytes"),
        ("", "defines no function get_config"),
    ],
)
def test_a_file_without_a_usable_get_config_is_refused_in_one_line(text, said, tmp_path, capsys):
    file = tmp_path / "experiment.py"
    file.write_text(text)
    assert main(["train", "--config", str(file), "--workdir", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("vitzoo: config = ")


@pytest.mark.parametrize(
    "text", ["[]", "5", "null", '"x"', "{", "[" * 100_000, "{}", '{"data": null}', '{"data": {"name": 1}}']
)
def test_a_json_file_that_holds_no_config_is_refused_in_one_line(text, tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(text)
    assert main(["train", "--config", str(file), "--workdir", str(tmp_path / "run"), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "unexpected" not in told


@pytest.mark.parametrize(
    "pattern", ["/data/*.txt", "", " ", ".", "..", "../*.txt", "a/../../*", "**x", "x**", "/", "~/*.txt", "a\0b"]
)
def test_a_pattern_that_leads_out_of_the_folder_or_is_none_is_refused(pattern):
    config = {**BASE, "model": {"name": "gpt"}, "objective": {"name": "causal_lm"}, "data": {"name": "text:/nothing"}}
    stated = {**config, "data": {"name": "text:/nothing", "files": pattern}}
    for layers in (stated, ()), (config, [f"data.files={pattern}"]):
        assert "is no pattern of files within the folder" in refusal(*layers, "data.files")


@pytest.mark.parametrize("pattern", ["*", "**/*.md", "part-[0-9].txt", "[", "sub/x.txt"])
def test_patterns_within_the_folder_are_taken(pattern):
    assert Data(name="text:/nothing", files=pattern).check() is None


TEXTS = {**BASE, "model": {"name": "gpt"}, "objective": {"name": "causal_lm"}, "data": {"name": "text:/nothing"}}
PATCHES = {
    "evaluate.val.inputs.tokens.prefix": [5, None],
    "evaluate.val.inputs.tokens.length": ["16", 1.5, 1],
    "evaluate.val.inputs.tokens.nosuch": [5],
    "evaluate.val.data.files": ["/a*"],
    "evaluate.val.data.name": [5],
    "evaluate.val.data.batch_size": ["x", 0],
    "mixture.sources.a.name": [5, ""],
    "mixture.sources.a.prefix": [5],
    "mixture.sources.a.nosuch": [5],
    "mixture.sources.a.batch_size": [5],
    "mixture.sources.a.length": [0.5],
}


@pytest.mark.parametrize("name", PATCHES)
def test_what_differs_for_an_evaluator_or_a_source_is_read_by_the_types_of_the_section_that_it_changes(name):
    section, field = name.rsplit(".", 1)
    base = {**TEXTS, "evaluate": {"val": {"name": "perplexity"}}}
    if section.startswith("mixture"):
        base |= {"data": {"name": "mixture"}, "mixture": {"sources": {"a": {"name": "verses"}}}}
    for value in PATCHES[name]:
        refusal(base, {name: value}, name)
        refusal(base, {section: {"name": "verses", field: value} if "mixture" in name else {field: value}}, name)
    resolve(base)
    assert resolve(base, overrides=["evaluate.val.inputs.tokens.prefix=5"]).values["evaluate"]["val"]["inputs"] == {
        "tokens": {"prefix": "5"}
    }


@pytest.mark.parametrize(
    "section",
    ["evaluate.val.inputs", "evaluate.val.inputs.tokens", "evaluate.val.data", "mixture.sources", "mixture.sources.a"],
)
@pytest.mark.parametrize("value", [5, "x", [1], True])
def test_what_differs_is_a_dict(section, value):
    refusal({**TEXTS, "evaluate": {"val": {"name": "perplexity"}}, "mixture": {}}, {section: value}, section)
