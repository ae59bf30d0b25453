"""Saving and restoring a training state: bitwise, atomic, the newest good one found whatever lies around."""

import errno
import json
import os
import resource
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils
from made_states import abstract_of, array_file, describe, flip_bit, make_state, place, same, save
from PIL import Image

from vitzoo.checkpoints import manifest, steps
from vitzoo.checkpoints import store as store_module
from vitzoo.checkpoints.arrays import read_params
from vitzoo.checkpoints.average import average
from vitzoo.checkpoints.locate import locate
from vitzoo.checkpoints.steps import best_step
from vitzoo.checkpoints.store import Store
from vitzoo.checksums import crc32
from vitzoo.cli import main
from vitzoo.errors import RunError, UserError


def save_and_wait(store, step, rows=8):
    store.save(step, make_state(step, rows), describe(step), {"best": None})
    store.wait()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "checkpoints"


def test_a_state_comes_back_bit_for_bit_with_its_containers_and_counters(folder):
    save(folder, 3)
    store = Store(folder)
    state, loop = store.restore(store.latest_good(), abstract_of(make_state(3)))
    assert same(state, make_state(3))
    assert jax.tree.structure(state) == jax.tree.structure(make_state(3))  # tuples stay tuples
    assert loop == {"step": 3, "updates": 2, "skipped": 1, "best": None}


def test_saving_goes_on_in_the_background_while_the_state_is_donated(folder):
    advance = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    state = make_state(1, rows=40_000)
    abstract, expected = abstract_of(state), jax.tree.map(np.array, state)
    store = Store(folder)
    store.save(1, state, describe(1), {"best": None})
    for _ in range(5):
        state = advance(state)
    store.close()
    assert same(store.restore(1, abstract)[0], expected)


def test_a_step_is_a_plain_integer_folder_that_describes_itself(folder):
    save(folder, 3)
    assert [path.name for path in folder.iterdir()] == ["3"]
    names = {path.name for path in (folder / "3").iterdir()}
    assert {"params", "ema", "optimizer", "loop", "model.json", "manifest.json"} <= names
    content = json.loads((folder / "3" / "manifest.json").read_text())
    assert content["version"] == 1
    assert "model.json" in content["files"]
    # CRC-32 as in zlib and gzip: of the text b"123456789" it is cbf43926
    (folder / "check").write_bytes(b"123456789")
    assert crc32(folder / "check") == "cbf43926"


def test_the_newest_two_and_the_best_are_kept(folder):
    save(folder, 1, 2, 3, 4, 5, best=2)
    assert sorted(path.name for path in folder.iterdir()) == ["2", "4", "5"]
    assert best_step("run@best", folder.parent) == 2


@pytest.mark.parametrize(("saved_on", "restored_on"), [(8, 1), (1, 8), (8, 2)])
def test_a_state_moves_to_another_mesh_bit_for_bit(folder, saved_on, restored_on):
    store = Store(folder)
    store.save(3, jax.device_put(make_state(3), place(make_state(3), saved_on)), describe(3), {"best": None})
    store.close()
    target = place(make_state(3), restored_on)
    state, _ = store.restore(3, jax.tree.map(abstract_of, make_state(3), target))
    assert same(state, make_state(3))
    assert state["params"]["head"]["kernel"].sharding == target["params"]["head"]["kernel"]


@pytest.mark.parametrize(
    "damage", ["flipped bit", "cut short", "missing", "no manifest", "half the files", "empty folder"]
)
def test_a_damaged_newest_checkpoint_is_named_once_and_the_previous_one_used(folder, damage, capsys):
    save(folder, 1, 2)
    file = array_file(folder / "2")
    match damage:
        case "flipped bit":
            flip_bit(file)
        case "cut short":
            os.truncate(file, file.stat().st_size // 2)
        case "missing":
            file.unlink()
        case "no manifest":
            file = folder / "2" / "manifest.json"
            file.unlink()
        case "half the files":
            file = folder / "2" / "optimizer"
            os.rename(file, folder.parent / "gone")
        case "empty folder":
            (folder / "7").mkdir()
            file = folder / "7"
    store = Store(folder)
    assert store.latest_good() == (2 if damage == "empty folder" else 1)
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1
    assert str(file) in warning
    again = 7 if damage == "empty folder" else 2
    store.save(again, make_state(again), describe(again), {"best": None})  # the same step is saved again
    store.close()
    assert Store(folder).latest_good() == again
    assert capsys.readouterr().err == ""


def test_saving_does_not_ask_whether_to_end(folder, monkeypatch):
    # the runtime names one of the loop's own calls as the one in which all processes see a preemption
    asked = []
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", lambda count: asked.append(count))
    save(folder, 3, 4)
    assert sorted(path.name for path in folder.iterdir()) == ["3", "4"]
    assert asked == []


def test_leftovers_of_a_killed_save_are_ignored_and_cleaned(folder):
    save(folder, 1)
    (folder / "140000.orbax-checkpoint-tmp-0").mkdir()
    (folder / "2.orbax-checkpoint-tmp").mkdir()
    (folder / "2.orbax-checkpoint-tmp" / "half").write_text("x")
    store = Store(folder)
    assert store.latest_good() == 1
    store.save(2, make_state(2), describe(2), {"best": None})
    store.close()
    assert sorted(path.name for path in folder.iterdir()) == ["1", "2"]


def test_a_run_of_which_no_checkpoint_verifies_is_not_started_again_in_silence(folder):
    save(folder, 1)
    flip_bit(array_file(folder / "1"))
    with pytest.raises(UserError, match="no checkpoint verifies"):
        Store(folder).latest_good()
    (folder.parent / "other" / "7").mkdir(parents=True)
    assert Store(folder.parent / "other").latest_good() is None  # a folder's name does not make it a checkpoint


def test_a_state_of_other_shapes_is_refused(folder):
    save(folder, 1)
    with pytest.raises(UserError, match="params"):
        Store(folder).restore(1, abstract_of(make_state(1, rows=9)))


def test_a_full_disk_fails_with_the_cause_and_leaves_the_previous_checkpoint(folder, monkeypatch):
    save(folder, 1)
    store = Store(folder)
    store.latest_good()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(manifest, "write", full)
    with pytest.raises(RunError, match=r"checkpoint 2 could not be saved.*No space left.*checkpoint 1 is intact"):
        save_and_wait(store, 2)
    monkeypatch.undo()
    assert Store(folder).latest_good() == 1


def test_a_file_that_the_system_refuses_to_grow_fails_with_the_cause(folder):
    save(folder, 1)
    store, soft = Store(folder), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, soft[1]))
    try:
        with pytest.raises(
            RunError, match=r"checkpoint 2 could not be saved in \S+: File too large; checkpoint 1 is intact"
        ):
            save_and_wait(store, 2, rows=100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert Store(folder).latest_good() == 1


def test_only_the_item_asked_for_is_read_and_the_average_preferred(folder):
    save(folder, 3)
    located = locate(folder.parent)
    for item in ("optimizer", "params"):
        os.rename(folder / "3" / item, folder.parent / item)
    weights, which = read_params(located)
    assert which == "ema"
    assert same(weights, make_state(3)["ema"])
    assert isinstance(weights["head"]["kernel"], np.ndarray)
    assert weights["head"]["bias"].dtype == jnp.bfloat16


def test_an_average_that_was_never_made_is_refused(folder):
    store = Store(folder)
    store.save(1, make_state(1, ema=False), describe(1), {"best": None})
    store.close()
    located = locate(folder.parent)
    assert read_params(located)[1] == "raw"
    with pytest.raises(UserError, match="without a moving average"):
        read_params(located, "ema")


@pytest.mark.parametrize("name", ["exp[1]", "a[b]/run", "back\\slash"])
def test_a_save_that_could_not_be_read_back_is_a_failed_save(name, tmp_path):
    # below such names Orbax doesn't find the parts that it is to merge, and says so in its log alone
    folder = tmp_path / name / "checkpoints"
    store = Store(folder)
    with pytest.raises(RunError, match=r"checkpoint 3 could not be saved .* 2 of 2 arrays are missing, one of shape"):
        save_and_wait(store, 3)
    store.close()
    assert Store(folder).latest_good() is None


@pytest.mark.parametrize("part", ["params", "ema", "optimizer"])
def test_a_save_of_which_a_part_is_lost_before_it_is_committed_fails(part, folder, monkeypatch):
    complete = store_module.check_complete

    def lose(item, wanted):
        if item.name == part:
            (item / "manifest.ocdbt").unlink()
        complete(item, wanted)

    monkeypatch.setattr(store_module, "check_complete", lose)
    store = Store(folder)
    with pytest.raises(RunError, match="checkpoint 3 could not be saved"):
        save_and_wait(store, 3)
    store.close()
    assert Store(folder).latest_good() is None


ADDED = {
    "an item of another run": lambda step, other: shutil.copytree(other / "ema", step / "teacher"),
    "an empty folder": lambda step, other: (step / "ema2").mkdir(),
    "a file": lambda step, other: (step / "notes.txt").write_text("x"),
    "a file within an item": lambda step, other: (step / "params" / "d" / "x").write_text("x"),
    "another manifest": lambda step, other: shutil.copy(other / "manifest.json", step / "params" / "manifest.json"),
    "a link to an item": lambda step, other: (step / "teacher").symlink_to(other / "ema"),
    "two items swapped": lambda step, other: swap(step / "params", step / "ema"),
}


@pytest.mark.parametrize("added", ADDED)
def test_what_was_not_saved_with_a_checkpoint_is_damage(added, folder, capsys):
    save(folder, 1, 2)
    save(folder.parent.parent / "other" / "checkpoints", 1)
    ADDED[added](folder / "2", folder.parent.parent / "other" / "checkpoints" / "1")
    assert locate(folder.parent).step == 1
    assert "warning: damaged checkpoint: " in capsys.readouterr().err
    with pytest.raises(UserError, match=r"was not saved with this checkpoint|has checksum|bytes"):
        locate(f"{folder.parent}@2")
    assert Store(folder).latest_good() == 1


def test_a_moving_average_of_another_run_is_not_used(folder, tmp_path):
    store = Store(folder)
    store.save(3, make_state(3, ema=False), describe(3), {"best": None})
    store.close()
    save(tmp_path / "other", 3)
    shutil.copytree(tmp_path / "other" / "3" / "ema", folder / "3" / "ema")
    with pytest.raises(UserError, match=r"3/ema: was not saved with this checkpoint; move it away"):
        locate(f"{folder.parent}@3")


@pytest.mark.parametrize("name", [".DS_Store", "params/Thumbs.db", ".nfs000000000001", "ema/._d"])
def test_what_a_file_system_adds_by_itself_is_no_damage(name, folder):
    save(folder, 1)
    (folder / "1" / name).write_text("")
    assert locate(folder.parent).step == 1


def swap(one, other):
    one.rename(one.with_name("between"))
    other.rename(one)
    one.with_name("between").rename(other)


def test_a_step_under_another_name_is_damage(folder, tmp_path, capsys):
    save(folder, 1, 2, 3, keep=3)
    swap(folder / "1", folder / "3")
    assert locate(folder.parent).step == 2
    assert "checkpoints/3: holds the checkpoint of step 1 under another name" in capsys.readouterr().err
    for text in (f"{folder.parent}@1", folder / "3"):
        with pytest.raises(UserError, match="under another name"):
            locate(text)
    with pytest.raises(UserError, match="under another name"):
        average(folder.parent, 2, tmp_path / "mean")
    shutil.copytree(folder / "2", folder / "9")
    assert Store(folder).latest_good() == 2
    shutil.copytree(folder / "2", tmp_path / "9")  # elsewhere a name means nothing
    assert locate(tmp_path / "9").step == 2


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "checkpoints"
    save(folder, 2, 7)
    return folder


@pytest.fixture
def renamed(saved, folder):
    """A run's checkpoints, with the folder of step 7 under another name."""

    def rename(name):
        shutil.copytree(saved, folder)
        (folder / "7").rename(folder / name)

    return rename


NUMBERS = ["07", "007", "\N{ARABIC-INDIC DIGIT SEVEN}", "\N{FULLWIDTH DIGIT SEVEN}", "7.0", "+7", "7 ", " 7", "7e0"]


@pytest.mark.parametrize("name", [*NUMBERS, "step7", "7_", "best"])
def test_a_checkpoint_whose_folder_is_not_called_by_its_step_is_refused_by_name(
    name, folder, renamed, tmp_path, capsys
):
    renamed(name)
    assert steps.listed(folder) == [2]
    held = f"{folder} holds the checkpoint of step 7 under the name {name!a}; call it 7, or move it away"
    run = str(folder.parent)
    with pytest.raises(UserError) as caught:
        Store(folder).latest_good()
    assert str(caught.value) == f"workdir = {run}: {held}"
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    predict = ["predict", str(tmp_path / "a.png"), "--checkpoint"]
    mean = ["average", "--workdir", run, "--last=2", "--output", str(tmp_path / "mean")]
    for arguments in ([*predict, run], [*predict, f"{run}@2"], ["eval", "--workdir", run], mean):
        assert main(arguments) == 2
        assert held in capsys.readouterr().err, arguments
    if name in NUMBERS:
        assert main([*predict, str(folder / name)]) == 2
        assert "holds the checkpoint of step 7 under another name" in capsys.readouterr().err
    shutil.copytree(folder / name, folder / "7")
    with pytest.raises(UserError, match=r"holds the checkpoint of step 7 under the name '.*'; move it away"):
        locate(run)


@pytest.mark.parametrize("name", ["7.bak", "7.damaged", "7.damaged-2", ".7", "7.orbax-checkpoint-tmp-1", "notes"])
def test_what_was_put_aside_is_no_checkpoint_of_the_run(name, folder, renamed):
    renamed(name)
    if name == "notes":
        (folder / name / "manifest.json").unlink()
    assert Store(folder).latest_good() == locate(folder.parent).step == 2


def test_a_damaged_checkpoint_whose_folder_is_not_called_by_its_step_is_refused_too(folder, renamed):
    renamed("07")
    (folder / "07" / "model.json").write_text("{")
    with pytest.raises(UserError, match=r"07/model.json: can't be read .*; its folder is called by no step"):
        Store(folder).latest_good()
