"""Values from files and flags become what a field's type says, or are refused in words."""

import dataclasses
import json
import subprocess
import sys
import typing
from typing import Any

import numpy as np
import pytest

import vitzoo.config
from vitzoo.errors import UserError
from vitzoo.limits import limits_of
from vitzoo.literals import FlagText, literal, plain
from vitzoo.registry import PARTS, find
from vitzoo.schema import build, convert, setting, to_json


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: float = setting(0.5, "a share", minimum=0.0, maximum=1.0)
    name: str = setting("a", choices=("a", "bee"))

    def check(self):
        if self.name == "bee" and self.rate == 0:
            raise UserError("rate", self.rate, "a bee needs a rate")


@dataclasses.dataclass(frozen=True)
class Outer:
    steps: int = setting(help="how many", minimum=1)
    size: int | tuple[int, int] | None = None
    rules: dict[str, float] = setting(factory=dict, above=0)
    crop: tuple[float, float] = setting((0.05, 1.0), above=0.0, maximum=1.0)
    freeze: tuple[str, ...] = ()
    inner: Inner = Inner()


def refusal(annotation, value) -> str:
    with pytest.raises(UserError) as caught:
        convert(annotation, value, "part.field")
    assert caught.value.field.startswith("part.field")
    return str(caught.value)


# What ml_collections refuses or lets through for these texts is in the table of known faults; the last two it accepts.
@pytest.mark.parametrize("text", ["1e-3", "10.0", "1e3", "", "ten", "none", "0x10", "true"])
def test_text_that_is_no_integer_literal_is_refused_for_an_integer(text):
    assert "must be an integer" in refusal(int, FlagText(text))


def test_a_whole_number_with_an_exponent_is_answered_with_its_integer():
    assert refusal(int, FlagText("1e3")) == "part.field = 1e3: must be an integer (written out: 1000)"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_a_float_is_finite(text):
    assert "must be a finite number" in refusal(float, FlagText(text))
    assert "must be a finite number" in refusal(float, float(text))


# Python's int and float read these; a person who writes one of them means something else, or has mistyped.
ONLY_PYTHON = ["1_000", "٣", "１２", "1_0.5", "٣.٥", "1e1_0", "\u20035", "0_0"]


@pytest.mark.parametrize("text", ONLY_PYTHON)
@pytest.mark.parametrize(
    "annotation",
    [int, float, int | None, float | None, tuple[int, ...], tuple[float, float], dict[str, float], bool | int],
)
def test_numbers_are_read_in_plain_decimals(annotation, text):
    written = {tuple[float, float]: f"0.5,{text}", dict[str, float]: f"head:{text}"}.get(annotation, text)
    refusal(annotation, FlagText(written))


@pytest.mark.parametrize(
    "text", [*ONLY_PYTHON, "0x10", "0b1", "1j", "(1_000, 2)", "[0x10]", "1e-400", "1e999", "nan", "9" * 5000]
)
def test_where_no_type_says_such_a_text_is_no_number(text):
    assert literal(text) == text


@pytest.mark.parametrize("text", ["1e-400", "-1e-5000", ".5e-999", "0.1e-9999"])
def test_a_number_that_would_become_0_is_refused(text):
    for annotation in (float, float | None, tuple[float, ...]):
        assert "too near to 0" in refusal(annotation, FlagText(text))
    assert convert(float, FlagText("0e-400"), "x") == 0.0
    assert convert(float, FlagText("1e-300"), "x") == 1e-300  # whether float32 has it is a question of its limits


EXCLUSIVE = [
    (parts, name, field, limits_of(field))
    for parts in ("optimizer", "objective", "schedule", "evaluator")
    for name in PARTS[parts]
    for field in dataclasses.fields(find(parts, name))
    if "float" in str(field.type)
]


@pytest.mark.parametrize("text", ["1e-60", "1e-46", "1e-300", "1.1e-38"])
@pytest.mark.parametrize(("parts", "name"), sorted({one[:2] for one in EXCLUSIVE}))
def test_what_float32_turns_into_0_is_refused_by_every_float_setting(parts, name, text):
    """The smallest number of float32 that keeps its digits is 2**-126 = 1.17549435e-38."""
    for field in [field for *which, field, _ in EXCLUSIVE if which == [parts, name]]:
        given = f"head:{text}" if "dict" in str(field.type) or "Mapping" in str(field.type) else text
        with pytest.raises(UserError, match=rf"{field.name}"):
            build(find(parts, name), {field.name: FlagText(given)})


@pytest.mark.parametrize(
    ("parts", "name", "field", "text"),
    [
        (parts, name, field.name, text)
        for parts, name, field, limits in EXCLUSIVE
        if limits.below == 1
        for text in ("0.9999999999", "0.99999998", "0.9999999999999999")
    ],
)
def test_what_float32_turns_into_1_is_refused_where_1_is(parts, name, field, text):
    """The number of float32 next to 1 is 1 - 2**-24 = 0.99999994; beyond 1 - 2**-25 a number is rounded to 1."""
    with pytest.raises(UserError, match=rf"{field} = .* becomes 1; write 0\.99999994 or less"):
        build(find(parts, name), {field: FlagText(text)})


def test_the_numbers_nearest_to_a_limit_that_float32_has_are_taken():
    part = dataclasses.make_dataclass(
        "Part", [("share", float, setting(0.5, above=0.0, below=1.0)), ("base", float, setting(2.0, above=1))]
    )
    for field, text in {"share": "0.99999994", "base": "1.0000001"}.items():
        assert getattr(build(part, {field: FlagText(text)}), field) == float(text)
    assert build(part, {"share": 2.0**-126}).share == 2.0**-126
    for field, value in {"share": 2.0**-127, "base": 1 + 1e-9}.items():
        with pytest.raises(UserError, match=rf"{field} = .*: is too near to [01] for float32"):
            build(part, {field: value})
    with pytest.raises(UserError, match=r"write 0, or -1\.1754944e-38 or below"):
        build(dataclasses.make_dataclass("Part", [("offset", float, setting(0.0))]), {"offset": -1e-60})


@pytest.mark.parametrize("value", [FlagText("1e39"), 1e39, -1e308, 10**40, 10**400, np.float64(1e200)])
def test_a_number_beyond_float32_is_refused(value):
    for hint in (float, float | None):
        part = dataclasses.make_dataclass("Part", [("rate", hint, setting(0.5))], frozen=True)
        with pytest.raises(UserError, match=r"part\.rate = .*: must be (at most 3\.4e\+38|a finite number)"):
            build(part, {"rate": value}, "part")


@pytest.mark.parametrize("name", PARTS["optimizer"])
def test_no_optimizer_takes_a_learning_rate_that_cannot_be_meant(name):
    with pytest.raises(UserError, match=r"learning_rate = 1e\+30: must be at least 0 and at most 10000"):
        build(find("optimizer", name), {"learning_rate": FlagText("1e30")})


def test_numbers_of_numpy_are_numbers_and_arrays_are_refused():
    assert convert(int, plain(np.int64(3)), "x") == 3
    assert convert(float, plain(np.float32(0.5)), "x") == 0.5
    assert convert(bool, plain(np.bool_(True)), "x") is True
    with pytest.raises(UserError, match=r"x = .*: is of the type ndarray; a setting is a number, text"):
        plain(np.zeros(3), "x")


@pytest.mark.parametrize("value", [FlagText("1e-4x"), FlagText(""), FlagText("none"), True, "0.1", None])
def test_what_is_no_number_is_refused_for_a_float(value):
    assert "must be a number" in refusal(float, value)


def test_an_integer_is_fine_for_a_float_and_becomes_one():
    for one in (1, FlagText("1")):
        value = convert(float, one, "learning_rate")
        assert value == 1.0
        assert type(value) is float


@pytest.mark.parametrize("value", [True, 10.0, "10", None])
def test_a_bool_a_float_and_a_string_are_refused_for_an_integer(value):
    assert "must be an integer" in refusal(int, value)


def test_booleans_are_true_false_1_and_0_and_no_is_none_of_them():
    texts = {"true": True, "True": True, "1": True, "false": False, "0": False}
    assert {text: convert(bool, FlagText(text), "flip") for text in texts} == texts
    for text in ("no", "yes", "off", "2", ""):
        assert "must be true or false" in refusal(bool, FlagText(text))
    assert "must be true or false" in refusal(bool, 1)


def test_optional_fields_take_none_and_others_do_not():
    assert convert(int | None, FlagText("none"), "x") is None
    assert convert(int | None, None, "x") is None
    assert convert(str, FlagText("none"), "remat") == "none"
    assert refusal(int | None, FlagText("1.5")) == "part.field = 1.5: must be an integer, or none"


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (int | tuple[int, int] | None, FlagText("384.5,384"), "must be an integer, two integers HEIGHT,WIDTH, or none"),
        (int | tuple[int, int] | None, [1, 2, 3], "must be an integer, two integers HEIGHT,WIDTH, or none"),
        (int | tuple[int, int], FlagText("a"), "must be an integer, or two integers HEIGHT,WIDTH"),
        (tuple[float, ...] | None, FlagText("a"), "must be numbers A,B,..., or none"),
        (str | tuple[float, ...], 5, "must be text, or numbers A,B,..."),
        (bool | int, FlagText("x"), "must be an integer, or true or false"),
        (bool | typing.Literal["never"], "always", "must be true or false, or never"),
        (float | None, FlagText("inf"), "must be a finite number, or none"),
        (float | None, "x", "must be a number, or none"),
    ],
)
def test_a_union_says_what_each_of_its_kinds_looks_like(annotation, value, said):
    with pytest.raises(UserError) as caught:
        convert(annotation, value, "x", "HEIGHT,WIDTH")
    assert caught.value.message == said


def test_a_union_takes_the_first_type_that_reads_the_text():
    size = int | tuple[int, int] | None
    assert [convert(size, FlagText(text), "x") for text in ("16", "16,8", "none")] == [16, (16, 8), None]
    assert convert(size, [16, 8], "x") == (16, 8)
    assert [convert(bool | int, FlagText(text), "x") for text in ("true", "768")] == [True, 768]
    assert "must be 2 values" in refusal(tuple[int, int], FlagText("1,2,3"))


def test_lists_are_split_at_commas_and_patterns_keep_their_brackets():
    assert convert(tuple[float, ...], FlagText("1,2.5"), "x") == (1.0, 2.5)
    assert convert(tuple[float, ...], FlagText("(1, 2.5)"), "x") == (1.0, 2.5)
    assert convert(tuple[str, ...], FlagText("(a|b)/.*,[cd]"), "x") == ("(a|b)/.*", "[cd]")
    assert convert(tuple[str, ...], FlagText("['a{1,2}']"), "x") == ("a{1,2}",)
    assert convert(tuple[str, ...], FlagText(""), "x") == ()


def test_rules_are_written_pattern_colon_number():
    rules = dict[str, float]
    assert convert(rules, FlagText("head/.*:10,(?:a|b){1,2}:0.1"), "x") == {"head/.*": 10.0, "(?:a|b){1,2}": 0.1}
    assert convert(rules, FlagText('{"head": 1}'), "x") == {"head": 1.0}
    assert convert(rules, {"head": 2}, "x") == {"head": 2.0}
    assert "must be key:value" in refusal(rules, FlagText("head"))
    assert "must be a number" in refusal(rules, FlagText("head:fast"))


def test_ordered_rules_are_pairs_and_may_be_written_as_a_dict():
    rules = tuple[tuple[str, float], ...]
    expected = (("head/.*", 10.0), (".*", 1.0))
    for written in (FlagText("head/.*:10,.*:1"), {"head/.*": 10, ".*": 1}, [["head/.*", 10], [".*", 1]]):
        assert convert(rules, written, "x") == expected
    assert convert(rules, FlagText("(a|b)/.*:2,[cd]{1,2}:3"), "x") == (("(a|b)/.*", 2.0), ("[cd]{1,2}", 3.0))


def test_where_no_type_says_text_is_read_as_the_plainest_literal():
    read = {"64": 64, "1e-3": 1e-3, "64,32": (64, 32), "none": None, "false": False, "S/16": "S/16", "gap": "gap"}
    assert {text: literal(text) for text in read} == read
    assert convert(Any, FlagText("64"), "x") == 64


def test_a_part_is_built_with_nested_sections_and_read_back_from_json():
    part = build(Outer, {"steps": FlagText("3"), "size": [4, 8], "inner": {"rate": 1}, "rules": {"a.b": 2}})
    assert part == Outer(steps=3, size=(4, 8), inner=Inner(rate=1.0), rules={"a.b": 2.0})
    assert build(Outer, json.loads(json.dumps(to_json(part)))) == part


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stepz": 3}, "part.stepz = 3: no such field; did you mean steps?"),
        ({"steps": 3, "inner": {"rte": 1}}, "part.inner.rte = 1: no such field; did you mean rate?"),
        ({}, "part.steps: must be set (how many)"),
        ({"steps": 0}, "part.steps = 0: must be at least 1"),
        ({"steps": FlagText("-5")}, "part.steps = -5: must be at least 1"),
        ({"steps": 1, "inner": {"rate": 1.5}}, "part.inner.rate = 1.5: must be at least 0 and at most 1"),
        ({"steps": 1, "inner": {"name": "be"}}, "part.inner.name = be: did you mean bee?"),
        ({"steps": 1, "inner": {"name": "bee", "rate": 0}}, "part.inner.rate = 0.0: a bee needs a rate"),
        ({"steps": 1, "crop": (0, 1)}, "part.crop = 0.0: must be above 0 and at most 1"),
        ({"steps": 1, "rules": {"head": 0}}, "part.rules = 0.0: must be above 0"),
        ({"steps": 1, "inner": FlagText("bee")}, "part.inner = bee: is a section: set one of its fields (rate, name)"),
    ],
)
def test_a_refusal_names_the_full_field_the_value_and_what_would_be_right(values, message):
    with pytest.raises(UserError) as caught:
        build(Outer, values, "part")
    assert str(caught.value) == message


def test_an_integer_that_no_device_could_count_to_is_refused():
    with pytest.raises(UserError, match=r"total_steps = 99999999999: must be at most 2,147,483,647"):
        vitzoo.config.resolve("quickstart", overrides={"total_steps": 99_999_999_999})


@pytest.mark.parametrize("model", PARTS["model"])
def test_the_types_of_a_models_settings_can_be_read_whatever_was_imported_before(model):
    code = f"from vitzoo import registry, schema; schema.annotations(registry.find('model', {model!r}).Config)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
