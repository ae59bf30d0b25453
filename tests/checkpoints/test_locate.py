"""From what a user writes to a checkpoint folder."""

import os
import shutil

import pytest
from made_states import flip_bit, save

from vitzoo.checkpoints import manifest
from vitzoo.checkpoints.locate import locate
from vitzoo.errors import Refused


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "digits"
    save(folder / "checkpoints", 1, 2, 3, 4, best=2)
    return folder


def test_every_way_of_naming_a_checkpoint_finds_its_step(run, tmp_path):
    shutil.copytree(run / "checkpoints" / "3", tmp_path / "elsewhere")
    assert locate(str(run)).step == 4
    assert locate(f"{run}@best").step == 2
    assert locate(f"{run}@3").step == 3
    assert locate(run / "checkpoints" / "2").step == 2
    assert locate(run / "checkpoints" / "2").run == run
    assert locate(tmp_path / "elsewhere").step == 3
    assert locate(tmp_path / "elsewhere").run is None
    assert locate(run).description["data"]["name"] == "digits"


def test_what_is_not_there_is_refused_with_what_is(run, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    for wrong, told in {
        f"{run}@1": "step 1 is not in .*; there are 2, 3, 4",
        f"{run}@newest": "after @ comes best or a step",
        f"{run}x": "does not exist; .* holds digits/",
        f"{tmp_path}/photos": "neither a run folder .*it holds cat.jpg",
        f"{tmp_path}/photos/cat.jpg": "is a file",
        f"{tmp_path}/photos@best": "neither a run folder",
        "": "names none",
    }.items():
        with pytest.raises(Refused, match=told):
            locate(wrong)


def test_best_of_a_run_that_keeps_none_is_refused(tmp_path):
    save(tmp_path / "checkpoints", 1)
    with pytest.raises(Refused, match="keep_best"):
        locate(f"{tmp_path}@best")


def test_a_damaged_step_asked_for_by_name_is_refused_and_never_replaced_by_another(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    flip_bit(tmp_path / "copy" / "checkpoints" / "3" / "model.json")
    with pytest.raises(Refused, match=r"3/model\.json: has checksum"):
        locate(f"{tmp_path}/copy@3")


def test_a_run_uses_its_newest_good_step_with_one_warning(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "checkpoints" / "4" / "manifest.json").write_text("{")
    assert locate(tmp_path / "copy").step == 3
    assert "4/manifest.json" in capsys.readouterr().err
    assert (tmp_path / "copy" / "checkpoints" / "4").is_dir()  # a reader moves nothing


def test_a_checkpoint_that_was_moved_to_where_none_can_be_read_is_refused_by_that_name(run, tmp_path):
    shutil.copytree(run, tmp_path / "exp[1]")  # is read there all the same
    assert locate(tmp_path / "exp[1]").step == 4
    for name in ("back\\slash", "gs:"):
        shutil.copytree(run, tmp_path / name / "run")
        for text in ("run", "run@3", "run/checkpoints/2"):
            with pytest.raises(Refused, match=r"no checkpoint can be read below a folder named .*; rename it"):
                locate(f"{tmp_path}/{name}/{text}")


@pytest.mark.parametrize("file", ["model.json", "manifest.json", "loop/metadata"])
@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"step": 1, "step": 2}', b"[]", b"null", b"\xff{}", b'{"best": 5}', b"", "/dev/zero", None],
)
def test_a_file_of_a_checkpoint_that_says_nothing_of_use_is_refused_by_its_name(file, content, run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    step = tmp_path / "copy" / "checkpoints" / "4"
    if isinstance(content, bytes):
        (step / file).write_bytes(content)
        if file != "manifest.json":  # as if it had been saved so
            manifest.write(step)
    else:  # what never ends, or a pipe into which nobody writes
        (step / file).unlink()
        (step / file).symlink_to(content) if content else os.mkfifo(step / file)
    as_best = file == "loop/metadata" and isinstance(content, bytes)
    with pytest.raises(Refused, match=f"4/{file}"):
        locate(f"{tmp_path}/copy@best" if as_best else step)
