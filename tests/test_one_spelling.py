"""Wherever names meet, spellings that look alike are one: composed or decomposed (NFC), with spaces around or not."""

import json
import pathlib

import pytest
from PIL import Image

from vitzoo.cli import main
from vitzoo.config.assembly import columns_of
from vitzoo.data import splits
from vitzoo.data.text.settings import Text
from vitzoo.data.text.user_texts import gather_texts
from vitzoo.errors import UserError
from vitzoo.evaluation.classes import match
from vitzoo.weights.transfer import match_head

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
PAIRS = [(COMPOSED, DECOMPOSED), ("pos", "pos "), ("\u00c5ngstr\u00f6m", "A\u030angstro\u0308m\u00a0")]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("VITZOO_CACHE", str(tmp_path / "cache"))


def folder(root: pathlib.Path, labels: list[str]) -> str:
    for number, label in enumerate(labels):
        (root / label).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(root / label / f"{number}.png")
    return f"folder:{root}"


def table(root: pathlib.Path, labels: list[str], header: str = "file,label") -> str:
    folder(root, ["images"] * len(labels))
    rows = [header, *(f"images/{number}.png,{label}" for number, label in enumerate(labels))]
    (root / "x.csv").write_text("\n".join(rows), encoding="utf-8")
    return f"csv:{root / 'x.csv'}"


def several(root: pathlib.Path, labels: list[str]) -> str:
    return table(root, [f"{label}|z" for label in labels])


def records(root: pathlib.Path, labels: list[str]) -> str:
    root.mkdir()
    lines = [json.dumps({"text": f"text {number}", "label": label}) for number, label in enumerate(labels)]
    (root / "x.jsonl").write_text("\n".join(lines))
    return f"jsonl:{root / 'x.jsonl'}"


def tagged(root: pathlib.Path, labels: list[str]) -> str:
    root.mkdir()
    lines = [json.dumps({"words": [f"w{number}", "z"], "tags": [label, "z"]}) for number, label in enumerate(labels)]
    (root / "x.jsonl").write_text("\n".join(lines))
    return f"jsonl:{root / 'x.jsonl'}"


def checked(name: str, capsys, *flags: str) -> dict:
    code = main(["data", "check", name, "--config.data.validation_fraction=0", *flags, "--json"])
    assert code == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("make", [folder, table, several, records, tagged])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_spellings_are_one_class_and_it_is_said(tmp_path, capsys, make, one, other):
    found = checked(make(tmp_path / "set", [one, other, "z"]), capsys)
    name = one.strip()
    assert found["classes"] == sorted([name, "z"])
    assert found["splits"]["train"]["class_counts"][name] == 2
    (note,) = (note for note in found["notes"] if "written in several ways" in note)
    assert ascii(one) in note
    assert ascii(other) in note


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_columns_and_splits_are_found_in_either_spelling(tmp_path, capsys, one, other):
    name = table(tmp_path / "set", [f"a,{one}", f"b,{other}"], header=f"file,{one},split")
    for column in (one, other):
        found = checked(name, capsys, f"--config.data.label_field={column}", f"--split={other}")
        assert found["splits"] == {other: found["splits"][other]}
        assert found["splits"][other]["n"] == 2
    assert splits.parse(other, {one.strip(): 3})[0].stop == 3


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_fields_of_records_are_found_in_either_spelling(tmp_path, capsys, one, other):
    lines = [{one: "x", "label": "a"}, {other: "y", "label": "b"}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for name in (one, other):
        found = checked(f"jsonl:{tmp_path / 'x.jsonl'}", capsys, f"--config.data.text_field={name}")
        assert found["splits"]["train"]["n"] == 2
        found = checked(f"jsonl:{tmp_path / 'x.jsonl'}", capsys, f"--config.data.template=say {{{name}}}")
        assert found["splits"]["train"]["n"] == 2
        assert gather_texts({other: "x"}, Text(fields={"text_field": name}))[0].fields == {"text": "x"}
    (tmp_path / "x.jsonl").write_text(json.dumps({one: "x", other: "y"}))
    assert main(["data", "check", f"jsonl:{tmp_path / 'x.jsonl'}", f"--config.data.text_field={one}"]) == 2
    assert "twice, in two spellings" in capsys.readouterr().err


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_classes_of_a_model_and_of_data_meet_in_either_spelling(one, other):
    assert match([one, "z"], 2, [other, "z"], 2).columns is None
    assert match([one, "z"], 2, ["z", other], 2).columns == (1, 0)
    assert match(["z", one, "y"], 3, [other], 1).columns == (1,)
    with pytest.raises(UserError, match="names two classes of the model"):
        match([one, other, "z"], 3, [one], 1)
    assert match_head([one, "z"], 2, [other, "z"], 2).columns == (0, 1)
    assert match_head(["z", one], 2, [other, "z"], 2).columns == (1, 0)
    assert columns_of("objective.teacher", "W", ["z", one], 2, [other, "z"], 2) == (1, 0)
