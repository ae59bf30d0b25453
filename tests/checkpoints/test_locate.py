"""From what a user writes to a checkpoint folder."""

import json
import os
import shlex
import shutil

import pytest
from made_states import flip_bit, save

from vitzoo.checkpoints import manifest, steps
from vitzoo.checkpoints.average import average
from vitzoo.checkpoints.locate import locate
from vitzoo.cli import main
from vitzoo.errors import UserError


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
        "": "names no checkpoint",
    }.items():
        with pytest.raises(UserError, match=told):
            locate(wrong)


def test_best_of_a_run_that_keeps_none_is_refused(tmp_path):
    save(tmp_path / "checkpoints", 1)
    with pytest.raises(UserError, match="keep_best"):
        locate(f"{tmp_path}@best")


def test_a_damaged_step_asked_for_by_name_is_refused_and_never_replaced_by_another(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    flip_bit(tmp_path / "copy" / "checkpoints" / "3" / "model.json")
    with pytest.raises(UserError, match=r"3/model\.json: has checksum"):
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
            with pytest.raises(UserError, match=r"no checkpoint can be read below a folder named .*; rename it"):
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
    with pytest.raises(UserError, match=f"4/{file}"):
        locate(f"{tmp_path}/copy@best" if as_best else step)


@pytest.mark.parametrize("how", ["damaged", "set aside"])
@pytest.mark.parametrize("best", [2, 4])
def test_best_is_never_replaced_by_what_an_older_checkpoint_knew(how, best, tmp_path):
    """The newest checkpoint, which is or knows the best, is damaged; the one before it names step 2."""
    folder = tmp_path / "run" / "checkpoints"
    save(folder, 1, 2, 3, keep=3, best=2)
    save(folder, 4, keep=4, best=best)
    flip_bit(folder / "4" / "model.json")
    if how == "set aside":
        steps.set_aside(folder, 4)
    with pytest.raises(UserError, match=r"checkpoints/4.*The newest good checkpoint, 3, names step 2: write .*run@2"):
        locate(f"{tmp_path}/run@best")
    assert locate(f"{tmp_path}/run@2").step == 2


def test_best_warns_where_a_later_step_was_evaluated_of_which_no_checkpoint_is_left(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "config.json").write_text('{"checkpoint": {"keep_best": "val/accuracy"}}')
    lines = [{"step": step, "split": "val", "accuracy": step / 10} for step in (2, 4, 6)]
    (copy / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:2]) + "damaged\n")
    assert (locate(f"{copy}@best").step, capsys.readouterr().err) == (2, "")
    with (copy / "metrics.jsonl").open("a") as stream:
        stream.write(json.dumps(lines[2]) + "\n")
    assert locate(f"{copy}@best").step == 2
    assert "names step 2 as the best (0.5); step 6 was evaluated later (accuracy 0.6)" in capsys.readouterr().err


def crafted(run, target, file, change):
    """A copy of a run of which one checkpoint's file is edited and its manifest written anew, so that it verifies."""
    step = shutil.copytree(run, target) / "checkpoints" / "4"
    content = json.loads((step / file).read_text())
    (step / file).write_text(json.dumps(change(content)))
    manifest.write(step)
    return step


WRONG = [
    *(("model.json", name, value) for name in ("model", "objective", "inputs", "data") for value in (None, 5, [])),
    *(("model.json", name, value) for name in ("model", "objective") for value in ({}, {"name": None}, {"name": 5})),
    *(("model.json", "classes", value) for value in (5, "ab", [1, 2], {"0": "a"})),
    *(("model.json", "inputs", {"image": value}) for value in (None, 5, [], {}, {"kind": 5}, {"kind": "image"})),
    *(
        ("model.json", "inputs", {"tokens": {"kind": "text", "tokenizer": value}})
        for value in (None, 5, [], {}, {"kind": 1, "file": "f", "sha256": "s"})
    ),
    *(
        ("model.json", "inputs", {"image": {"kind": "image", "size": [8, 8], "channels": 1, **wrong}})
        for wrong in (
            *({"size": size} for size in (8, [8], [8, "8"], [0, 8], None)),
            *({"channels": count} for count in (None, 0, "1")),
            *({"mean": mean} for mean in (1.0, ["a"])),
        )
    ),
    *(
        ("model.json", name, value)
        for name in ("step", "examples", "vitzoo", "format")
        for value in (None, 1.5, True, [])
    ),
    *(("loop/metadata", "best", value) for value in (5, [], {}, {"step": "2", "value": 1}, {"step": 2, "value": None})),
    *(
        ("loop/metadata", name, value)
        for name in ("step", "updates", "skipped", "total_steps")
        for value in (1.5, -1, 2**40)
    ),
    *(
        ("loop/metadata", "window", value)
        for value in (5, {}, {"sums": {"loss": 1}, "last": {}, "skipped_in_a_row": 0})
    ),
    ("model.json", "frozen", 5),
]


@pytest.mark.parametrize(("file", "key", "value"), WRONG)
def test_a_value_of_another_type_is_refused_with_file_and_key(file, key, value, run, tmp_path):
    step = crafted(run, tmp_path / "copy", file, lambda content: {**content, key: value})
    with pytest.raises(UserError, match=rf"4/{file}: .*{key}"):
        locate(step)
    with pytest.raises(UserError, match=rf"4/{file}: .*{key}"):
        average(tmp_path / "copy", 2, tmp_path / "mean")


@pytest.mark.parametrize("size", ["1e999", "7.0", "1.5", '"7"', "null", "true", "[]"])
def test_the_size_of_a_file_in_a_manifest_is_a_whole_number(size, run, tmp_path):
    file = shutil.copytree(run, tmp_path / "copy") / "checkpoints" / "4" / "manifest.json"
    content = json.loads(file.read_text())
    content["files"]["model.json"]["size"] = "SIZE"
    file.write_text(json.dumps(content).replace('"SIZE"', size))
    with pytest.raises(UserError, match=r"4/manifest\.json: gives model\.json no size"):
        locate(file.parent)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{}", "is no manifest of vitzoo: an object with version and files is right"),
        ("[]", "is no manifest of vitzoo: an object with version and files is right"),
        ("null", "is no manifest of vitzoo: an object with version and files is right"),
        ('{"version": 1}', "is no manifest of vitzoo: an object with version and files is right"),
        ('{"version": 2, "files": {}}', "is of version 2, this vitzoo reads 1"),
        ('{"version": 1, "files": []}', "lists no files: an object with size and crc32 of each is right"),
        ('{"version": 1, "files": {"model.json": 5}}', "gives model.json no size in whole bytes, or no checksum"),
        (
            '{"version": 1, "files": {"model.json": {"size": 5}}}',
            "gives model.json no size in whole bytes, or no check",
        ),
        ("{", "can't be read (is not JSON: "),
    ],
)
def test_what_is_wrong_with_a_manifest_is_said_in_words(content, line, run, tmp_path, capsys):
    file = shutil.copytree(run, tmp_path / "copy") / "checkpoints" / "4" / "manifest.json"
    file.write_text(content)
    assert main(["eval", "--checkpoint", str(file.parent)]) == 2
    assert f"{file}: {line}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["back\\slash", "gs:"])
def test_no_mean_is_made_of_a_run_where_no_checkpoint_can_be_read(name, run, tmp_path):
    shutil.copytree(run, tmp_path / name / "run")
    with pytest.raises(UserError, match=r"--workdir = .*no checkpoint can be read below a folder named .*; rename it"):
        average(tmp_path / name / "run", 2, tmp_path / "mean")


@pytest.mark.parametrize("name", ["*", "my model", "$HOME", "plain"])
def test_a_folder_that_a_shell_reads_otherwise_is_suggested_in_quotes(name, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError) as refusal:
        locate(tmp_path)
    assert str(refusal.value).endswith(f"; did you mean {shlex.quote(str(tmp_path / name))}?")
