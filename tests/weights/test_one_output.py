"""Two commands that write one new folder: the first has it, the second is refused in a line and changes nothing."""

import contextlib
import json
import shutil
import threading
from pathlib import Path

import pytest
from made_checkpoint import make_run

from vitzoo.checkpoints import average
from vitzoo.cli import main
from vitzoo.data.text import prepare
from vitzoo.errors import UserError
from vitzoo.evaluation import soup
from vitzoo.outputs import only_writer, whole_folder
from vitzoo.weights import convert as conversion

GPT2 = Path(__file__).parents[1] / "goldens" / "weights" / "gpt2"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a run of two checkpoints, another run, and a text."""
    folder = tmp_path_factory.mktemp("inputs")
    make_run(folder / "run")
    make_run(folder / "run", step=9)
    shutil.copytree(folder / "run", folder / "other")
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 20)
    return folder


COMMANDS = {
    "convert to a published format": (conversion, "convert {in}/run {out}"),
    "convert to a run": (conversion, f"convert {GPT2} {{out}}"),
    "average": (average, "average --workdir {in}/run --last 2 --output {out}"),
    "soup": (soup, "soup {in}/run {in}/other --output {out}"),
    "data prepare": (
        prepare,
        "data prepare text:{in}/text.txt --output {out} "
        "--config.inputs.tokens.tokenizer.kind=bpe --config.inputs.tokens.tokenizer.vocabulary_size=300",
    ),
}


@pytest.mark.parametrize("finished", [False, True], ids=["being filled", "filled"])
@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_another_command_took_meanwhile_is_refused_and_stays(
    command, there, finished, inputs, tmp_path, capsys, monkeypatch
):
    module, line = COMMANDS[command]
    target = tmp_path / "out"
    if there:
        target.mkdir()
    other = contextlib.ExitStack()
    check = module.checked_new_folder

    def then_the_other(*args, **how):
        folder = check(*args, **how)
        with contextlib.ExitStack() as first:
            own = first.enter_context(whole_folder(target))
            (own / "config.json").write_text("the first's")
            if not finished:
                other.push(first.pop_all())
        return folder

    monkeypatch.setattr(module, "checked_new_folder", then_the_other)
    monkeypatch.setattr(average, "_in_a_row", lambda *_: ([7, 9], None))  # as if one training had saved both
    with other:
        assert main(line.format(**{"in": inputs, "out": target}).split()) == 2
        error = capsys.readouterr().err.splitlines()
        assert error[-1].endswith(
            "is there already and not empty; give another folder"
            if finished
            else "is being filled by another command; wait for it, or give another folder"
        )
        assert f"= {target}: " in error[-1]
    assert [file.name for file in target.iterdir()] == ["config.json"]
    assert (target / "config.json").read_text() == "the first's"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_of_many_that_begin_at_once_one_writes(tmp_path):
    for there in (False, True):
        target, together, ends = tmp_path / f"{there}", threading.Barrier(6), []
        if there:
            target.mkdir()

        def write(number, target=target, together=together, ends=ends):
            together.wait()
            try:
                with whole_folder(target) as folder:
                    for name in ("a", "b"):
                        (folder / name).write_text(json.dumps(number))
                ends.append(number)
            except UserError:
                ends.append(None)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = [number for number in ends if number is not None]
        assert len(ends) == 6
        assert {json.loads((target / name).read_text()) for name in ("a", "b")} == {winner}
        assert sorted(path.name for path in target.iterdir()) == ["a", "b"]


def test_one_command_at_a_time_writes_into_a_folder_whose_files_may_be_replaced(tmp_path):
    for target in (tmp_path / "new" / "out", tmp_path / "there"):
        if target.name == "there":
            target.mkdir()
        with only_writer("--output", target):
            with pytest.raises(UserError, match=f"--output = {target}: is being filled by another command"):
                only_writer("--output", target).__enter__()
            target.mkdir(parents=True, exist_ok=True)
            with pytest.raises(UserError, match="is being filled by another command"):
                only_writer("--output", target).__enter__()
            with only_writer("--output", tmp_path / "another"), only_writer("--output", None):
                pass
        with only_writer("--output", target):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "there"]


def test_a_second_evaluation_into_a_folder_is_refused(inputs, tmp_path, capsys):
    with only_writer("--output", tmp_path / "out"):
        line = ["eval", "--checkpoint", str(inputs / "run"), "--output", str(tmp_path / "out")]
        assert main([*line, "--config.data.name=digits", "--config.data.split=test"]) == 2
    assert "out: is being filled by another command; wait for it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
