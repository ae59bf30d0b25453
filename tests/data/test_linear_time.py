"""Reading takes time in proportion to what is read: each of these took minutes or hours where it was quadratic."""

import json
import time

import numpy as np
import pytest

from vitzoo import spelling
from vitzoo.data import duplicates
from vitzoo.data.settings import Data
from vitzoo.data.sources import image_table
from vitzoo.data.sources.index import FileFacts
from vitzoo.data.sources.json_lines import open_json_lines
from vitzoo.data.text.answers import conversation
from vitzoo.data.text.continuations import split_last
from vitzoo.data.text.settings import Text, Tokenizer
from vitzoo.data.text.tokenizers.open import open_tokenizer
from vitzoo.errors import UserError
from vitzoo.evaluation.classes import match
from vitzoo.strict_json import parsed
from vitzoo.weights.transfer import match_head

SECONDS = 5.0  # of this process; all take less than one
MANY = 40_000


@pytest.fixture(autouse=True)
def _bound():
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


def objects() -> dict[str, str]:
    fields = [f'"field {number}": 1' for number in range(MANY)]
    return {
        "all": f"{{{', '.join(fields * 2)}}}",
        "last": f"{{{', '.join([*fields, fields[-1]])}}}",
        "within": f'{{"a": {{{", ".join([*fields, fields[-1]])}}}}}',
    }


@pytest.mark.parametrize("kind", ["all", "last", "within"])
def test_a_large_object_that_names_a_field_twice(tmp_path, kind):
    line = objects()[kind]
    assert 500_000 < len(line) < 3_000_000
    with pytest.raises(ValueError, match=r"names the field 'field \d+' twice"):
        parsed(line)
    (tmp_path / "x.jsonl").write_text(line)
    with pytest.raises(UserError, match="twice"):
        open_json_lines(Data(name="jsonl:x"), str(tmp_path / "x.jsonl"))


@pytest.mark.parametrize("unknown", [False, True])
def test_many_files_of_many_classes(monkeypatch, unknown):
    def facts(paths, _):
        return [FileFacts("", 1, 1, 3, number, number) for number in range(len(paths))]

    monkeypatch.setattr(image_table, "index_files", facts)
    others = "!" if unknown else ""
    named = [image_table.ImageFile(f"a/{n}", f"a/{n}", "train", (f"{n % 10_000}",)) for n in range(20_000)]
    named += [image_table.ImageFile(f"b/{n}", f"b/{n}", "test", (f"{n % 10_000}{others}",)) for n in range(20_000)]
    if unknown:
        with pytest.raises(UserError, match="and 9,995 more"):
            image_table.table_of_files(named, Data(name="x"), multi_label=False)
    else:
        assert len(image_table.table_of_files(named, Data(name="x"), multi_label=False).classes) == 10_000


def test_many_classes_in_another_order():
    ours = [f"class {number}" for number in range(MANY)]
    assert match(ours, MANY, ours[::-1], MANY).columns[0] == MANY - 1
    assert match_head(ours, MANY, ours[::-1], MANY).columns[0] == MANY - 1
    assert len(spelling.positions(ours)) == MANY


@pytest.mark.parametrize("text", ["x" * 1_000_000 + " y", " " * 1_000_000 + "y", "x " * 500_000, "x" * 1_000_000])
def test_the_last_word_of_a_megabyte(text):
    before, word = split_last(text)
    assert before + word == text.rstrip()
    assert word.strip() == text.split()[-1]


def test_a_conversation_of_many_turns():
    turns = [{"role": "user", "text": "x" * 20} for _ in range(50_000)]
    tokenizer = open_tokenizer(Tokenizer())
    assert len(conversation(turns, Text(), tokenizer)[1]) > 1_000_000


@pytest.mark.parametrize("copies", [1, 2, MANY])
def test_many_copies(copies):
    units = np.arange(MANY) // copies
    assert len(duplicates.repeated(units)) == (MANY // copies if copies > 1 else 0)
    assert len(duplicates.hold_out(np.random.RandomState(0).permutation(MANY), units, MANY // 10)) in (0, MANY // 10)
    duplicates.equal_notes(units, duplicates.differing(units, units % 2), str, str, thing="file")


@pytest.mark.parametrize("labels", ["classes", "words"])
def test_many_records_of_many_classes(tmp_path, labels):
    one = (
        (lambda n: {"text": "a", "label": f"c{n}"})
        if labels == "classes"
        else (lambda n: {"words": ["a"], "tags": [f"c{n}"]})
    )
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps(one(number)) for number in range(5_000)))
    table = open_json_lines(Data(name="jsonl:x", validation_fraction=0.0), str(tmp_path / "x.jsonl"))
    assert len(table.classes) == 5_000
