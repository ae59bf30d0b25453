"""The mean of a run's last checkpoints."""

import json

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from made_states import describe, make_state

from vitzoo.checkpoints import manifest, metadata
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.checkpoints.average import average, mean_params
from vitzoo.checkpoints.locate import locate
from vitzoo.checkpoints.steps import listed
from vitzoo.checkpoints.store import Store
from vitzoo.errors import UserError

STEPS = (2, 4, 6)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    store = Store(folder / "checkpoints", keep=3)
    for step in STEPS:
        store.save(step, make_state(step), describe(step), {"best": None})
    store.close()
    (folder / "config.json").write_text(json.dumps({"total_steps": 6}))
    return folder


def params(folder, step):
    return read_arrays(folder / "checkpoints" / str(step) / "params")


def test_the_mean_is_of_the_last_checkpoints_and_can_be_located(run, tmp_path):
    output = tmp_path / "mean"
    assert average(run, 2, output) == [4, 6]
    found = locate(output)
    assert (found.step, found.description["step"]) == (6, 6)
    assert (output / "config.json").read_text() == (run / "config.json").read_text()
    parts = [params(run, step) for step in (4, 6)]
    wanted = jax.tree.map(lambda a, b: ((a.astype(np.float64) + b) / 2).astype(a.dtype), *parts)
    jax.tree.map(np.testing.assert_array_equal, read_arrays(found.folder / "params"), wanted)
    assert not (found.folder / "optimizer").exists()
    assert metadata.read_loop(found.folder) == {"step": 6, "updates": 5, "skipped": 1, "averaged": [4, 6]}


def test_what_cannot_be_averaged_is_refused_and_nothing_is_written(run, tmp_path):
    output = tmp_path / "mean"
    with pytest.raises(UserError, match=r"--last = 4:.*keeps 3 \(2, 4, 6\).*keep=4"):
        average(run, 4, output)
    with pytest.raises(UserError, match="--last = 1"):
        average(run, 1, output)
    assert not output.exists()
    with pytest.raises(UserError, match="there already"):
        average(run, 2, run)
    with pytest.raises(UserError, match=r"--output.*is not a folder"):
        average(run, 2, run / "config.json" / "mean")
    with pytest.raises(UserError, match="--output = '': names nothing"):
        average(run, 2, "")
    with pytest.raises(UserError, match=r"--output = .*/9: lies among the checkpoints of the run .*/run; name another"):
        average(run, 2, run / "checkpoints" / "9")
    assert not (run / "checkpoints" / "9").exists()
    (run / "checkpoints" / "4" / "model.json").write_text("{}")
    with pytest.raises(UserError, match=r"model\.json"):
        average(run, 2, output)
    assert not output.exists()
    with pytest.raises(UserError, match=r"--workdir = .*nothing: .* does not exist"):
        average(run.parent / "nothing", 2, output)
    for one in (f"{run}@6", run / "checkpoints" / "6"):
        with pytest.raises(UserError, match=r"--workdir = .*6: names one checkpoint; name its run's folder"):
            average(one, 2, output)


def kept(folder, *parts, best=None):
    """A run in parts that each saved these steps and kept so many of the newest, and its best besides."""
    for saved, keep in parts:
        store = Store(folder / "checkpoints", keep=keep)
        store.latest_good()
        for step in saved:
            known = {"step": best, "value": 0.5} if best and step >= best else None
            store.save(step, make_state(step, rows=2, ema=False), describe(step), {"best": known})
        store.close()
    (folder / "config.json").write_text(json.dumps({"total_steps": saved[-1], "checkpoint": {"keep": keep}}))
    return folder


def forget(run):
    """Takes out of the checkpoints which was saved before each, as the first versions wrote them."""
    for step in listed(run / "checkpoints"):
        folder = run / "checkpoints" / str(step)
        file = folder / "model.json"
        known = json.loads(file.read_text())
        del known["previous"]
        file.write_text(json.dumps(known))
        manifest.write(folder)


STOPPED = ((40, 80, 240, 241), 2), ((280, 320, 321), 6)  # with keep=2 first, then with 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "best", "there", "in_a_row"),
    [
        ([((4, 5, 10, 15, 20), 2)], 4, [4, 15, 20], [15, 20]),
        ([((2, 4, 6, 8, 10), 3)], 2, [2, 6, 8, 10], [6, 8, 10]),
        ([((5, 10, 15, 20, 22), 2)], 10, [10, 20, 22], [20, 22]),
        ([((5, 10, 15, 20), 2)], 10, [10, 15, 20], [10, 15, 20]),  # it is the third from the end
        ([((5, 10, 20, 22), 2)], 10, [10, 20, 22], [10, 20, 22]),  # so too, and far off
        ([((5, 10, 15, 20), 3)], 15, [10, 15, 20], [10, 15, 20]),  # one of the newest anyway
        ([((5, 10, 15, 20), 3)], 20, [10, 15, 20], [10, 15, 20]),
        ([((4, 20), 2)], 4, [4, 20], [4, 20]),
        (STOPPED, 40, [40, 240, 241, 280, 320, 321], [240, 241, 280, 320, 321]),
        (STOPPED, None, [240, 241, 280, 320, 321], [240, 241, 280, 320, 321]),
        ([((2, 4, 6), 5), ((8, 10), 2)], 2, [2, 8, 10], [8, 10]),
        ([((2, 4), 1), ((6,), 4), ((7, 8), 4)], None, [4, 6, 7, 8], [4, 6, 7, 8]),
    ],
)
def test_the_last_are_those_between_which_no_others_were_saved(parts, best, there, in_a_row, tmp_path):
    run = kept(tmp_path / "run", *parts, best=best)
    assert listed(run / "checkpoints") == there
    assert average(run, len(in_a_row), tmp_path / "mean") == in_a_row
    besides = f", and {there[0]}, after which it may have saved others that are gone" if in_a_row != there else ""
    names = ", ".join(map(str, in_a_row))
    more = rf"keeps {len(in_a_row)} \({names}\){besides}; train with .*keep={len(in_a_row) + 1}"
    with pytest.raises(UserError, match=more):
        average(run, len(in_a_row) + 1, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("best", "in_a_row"),
    [
        (None, [10, 15, 20]),
        (20, [10, 15, 20]),
        (15, [20]),
        (10, [15, 20]),
    ],  # 15 may be one of the newest
)
def test_of_checkpoints_that_do_not_say_it_only_the_best_may_have_others_after_it(best, in_a_row, tmp_path):
    run = kept(tmp_path / "run", ((5, 10, 15, 20), 3 if best != 10 else 2), best=best)
    forget(run)
    with pytest.raises(UserError, match=rf"keeps {len(in_a_row)} \({', '.join(map(str, in_a_row))}\)"):
        average(run, 4, tmp_path / "mean")
    if len(in_a_row) > 1:
        assert average(run, len(in_a_row), tmp_path / "mean") == in_a_row


def test_what_was_saved_again_after_damage_follows_on_what_it_went_on_from(tmp_path):
    run = kept(tmp_path / "run", ((2, 4, 6), 3))
    (run / "checkpoints" / "6" / "model.json").write_text("{}")
    kept(tmp_path / "run", ((7, 8), 4))
    assert average(run, 4, tmp_path / "mean") == [2, 4, 7, 8]


def test_a_checkpoint_that_was_set_aside_is_not_passed_over(run, tmp_path):
    (run / "checkpoints" / "4").rename(run / "checkpoints" / "4.damaged")
    with pytest.raises(UserError, match=r"keeps 1 \(6\); checkpoint 4, which it saved before these, is damaged"):
        average(run, 2, tmp_path / "mean")


def test_weights_that_are_not_finite_have_no_mean(tmp_path):
    with ocp.StandardCheckpointer() as writer:
        writer.save(tmp_path / "1" / "params", {"part": {"a": np.array([1, np.inf], np.float32)}})
    with pytest.raises(UserError, match=r"--workdir = .*/1: its weights are not all finite \(part/a\)"):
        mean_params([tmp_path / "1"])


def test_checkpoints_of_unlike_models_are_refused_by_the_leaf_that_differs(tmp_path):
    folders = []
    for step, leaves in ((1, {"a": 3, "b": 2}), (2, {"a": 3, "b": 4}), (3, {"a": 3})):
        state = {name: np.ones(size, np.float32) for name, size in leaves.items()}
        folders.append(tmp_path / str(step))
        with ocp.StandardCheckpointer() as writer:
            writer.save(folders[-1] / "params", {"part": state})
    with pytest.raises(UserError, match=r"/2: can't be averaged with step 1: part/b is \(4,\) here, and \(2,\) there"):
        mean_params(folders[:2])
    with pytest.raises(UserError, match=r"/3: can't be averaged with step 1: part/b is missing here, and \(2,\) there"):
        mean_params([folders[0], folders[2]])
