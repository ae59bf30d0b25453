"""The ids that end what a published model writes: generation_config.json's eos_token_id before config.json's, and that
before the tokenizer's end token, as in transformers."""

import json
import shutil
from pathlib import Path

import pytest

from vitzoo.cli import main
from vitzoo.inference.generator import Generator
from vitzoo.weights.convert import convert
from vitzoo.weights.load import load

GOLDENS = Path(__file__).parents[1] / "goldens" / "weights"
PROMPT, NEW = "a b", 12


def stating(folder, golden="gpt2", **files):
    """A copy of a golden folder whose files state these ends."""
    shutil.copytree(GOLDENS / golden, folder)
    for stem, end in files.items():
        file = folder / f"{stem}.json"
        content = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**content, "eos_token_id": end}))
    return folder


def answer(checkpoint):
    return Generator(str(checkpoint))([PROMPT], max_new_tokens=NEW, temperature=1.0, seed=1)[0]


def cut(ids, ends):
    """What has been written where an end is met."""
    place = next(place for place, id in enumerate(ids) if id in ends)
    return ids[: place + 1]


@pytest.fixture(scope="module")
def written():
    """What is written where nothing ends it."""
    found = answer(GOLDENS / "gpt2")
    assert found.reason == "length"
    assert len(set(found.ids)) > 3
    return found.ids


def stated(written):
    third, second = [id for place, id in enumerate(written) if id not in written[:place]][2:0:-1]
    return {
        "config": ({"config": third}, [third]),
        "generation_config decides": ({"config": second, "generation_config": third}, [third]),
        "a list": ({"generation_config": [third, 279]}, [third]),
        "any of a list": ({"config": [third, second]}, [third, second]),
        "null says nothing": ({"config": third, "generation_config": None}, [third]),
    }


@pytest.mark.gate
@pytest.mark.parametrize(
    "case", ["config", "generation_config decides", "a list", "any of a list", "null says nothing"]
)
def test_the_stated_end_ends_an_answer_also_of_what_is_converted(case, written, tmp_path, capsys):
    files, ends = stated(written)[case]
    folder = stating(tmp_path / "in", **files)
    found = answer(folder)
    assert (found.ids, found.reason) == (cut(written, ends), "end")
    assert main(["convert", str(folder), str(tmp_path / "own")]) == 0
    assert main(["convert", str(tmp_path / "own"), str(tmp_path / "out")]) == 0
    end = json.loads((tmp_path / "out" / "config.json").read_text())["eos_token_id"]
    assert set(end if isinstance(end, list) else [end]) >= set(ends)
    assert answer(tmp_path / "own").ids == answer(tmp_path / "out").ids == found.ids


@pytest.mark.parametrize(
    ("files", "ends"),
    [({}, (279,)), ({"config": 2}, (2,)), ({"config": 2, "generation_config": 5}, (5,)), ({"config": None}, (279,)),
     ({"config": [5, 2, 5]}, (5, 2)), ({"config": 2, "generation_config": None}, (2,)), ({"config": 279}, (279,))],
)  # fmt: skip
def test_the_files_that_state_ends_decide_before_the_tokenizer(files, ends, tmp_path):
    folder = stating(tmp_path / "in", **files)
    convert(folder, tmp_path / "own")
    convert(tmp_path / "own", tmp_path / "out")
    for one in (folder, tmp_path / "own", tmp_path / "out"):
        tokenizer = load(str(one))[1].tokenizer
        assert tokenizer.end_ids == ends
        assert tokenizer.end_id == 279
        assert tokenizer.writable(280)[list(ends)].all()


@pytest.mark.parametrize("stem", ["config", "generation_config"])
@pytest.mark.parametrize(
    ("golden", "end", "most"),
    [("gpt2", 280, 279), ("gpt2", -1, 279), ("gpt2", [5, 999], 279), ("gpt2", "2", 279), ("gpt2", [], 279),
     ("gpt2", True, 279), ("gpt1", 78, 77), ("t5", 80, 79), ("t5", 1.0, 79), ("byt5", [1, 384], 383)],
)  # fmt: skip
def test_ends_that_are_no_ids_are_refused(stem, golden, end, most, tmp_path, capsys):
    folder = stating(tmp_path / "in", golden, **{stem: end})
    for line in (
        ["generate", "--checkpoint", str(folder), "--prompt", "a"],
        ["convert", str(folder), str(folder) + "x"],
    ):
        assert main(line) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        right = f"an integer from 0 to {most}, or a list of such, is right"
        assert f"{stem}.json has eos_token_id = {end!r}; {right}" in error
