"""What is wrong with JSON from outside is said in words that its writer knows."""

import json

import pytest

from vitzoo import strict_json
from vitzoo.cli import main


@pytest.mark.parametrize("digits", [4301, 5000, 100_000])
@pytest.mark.parametrize("place", ["{}", "[{}]", '{{"text": "a", "id": -{}}}'])
@pytest.mark.parametrize("finite", [False, True])
def test_a_whole_number_that_is_too_long_is_said_in_plain_words(digits, place, finite):
    with pytest.raises(ValueError, match=r"^holds a whole number of more than 4,300 digits, too long to be read$"):
        strict_json.parsed(place.format("7" * digits), finite=finite)
    assert strict_json.parsed(place.format("7" * 4300), finite=finite)


def test_a_line_with_such_a_number_is_named(tmp_path, capsys):
    lines = [json.dumps({"text": "a b"}), f'{{"text": "c", "unused": {"1" * 5000}}}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert main(["data", "check", f"jsonl:{tmp_path / 'a.jsonl'}"]) == 1
    said = capsys.readouterr().out
    assert "a.jsonl:2 holds a whole number of more than 4,300 digits" in said
    assert "set_int_max" not in said


@pytest.mark.parametrize(("text", "line"), [("{", "is not JSON: "), ("[NaN]", "is not JSON: NaN is no number")])
def test_what_is_no_json_is_still_called_so(text, line):
    with pytest.raises(ValueError, match=line):
        strict_json.parsed(text, finite=True)
