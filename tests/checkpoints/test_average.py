"""The mean of a run's last checkpoints."""

import json

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from made_states import describe, make_state

from vitzoo.checkpoints import read
from vitzoo.checkpoints.average import average, mean_params
from vitzoo.checkpoints.locate import locate
from vitzoo.checkpoints.steps import listed
from vitzoo.checkpoints.store import Store
from vitzoo.errors import Refused

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
    return read.arrays(folder / "checkpoints" / str(step) / "params")


def test_the_mean_is_of_the_last_checkpoints_and_can_be_located(run, tmp_path):
    output = tmp_path / "mean"
    assert average(run, 2, output) == [4, 6]
    found = locate(output)
    assert (found.step, found.description["step"]) == (6, 6)
    assert (output / "config.json").read_text() == (run / "config.json").read_text()
    parts = [params(run, step) for step in (4, 6)]
    wanted = jax.tree.map(lambda a, b: ((a.astype(np.float64) + b) / 2).astype(a.dtype), *parts)
    jax.tree.map(np.testing.assert_array_equal, read.arrays(found.folder / "params"), wanted)
    assert not (found.folder / "optimizer").exists()
    assert read.values(found.folder / "loop") == {"step": 6, "updates": 5, "skipped": 1, "averaged": [4, 6]}


def test_what_cannot_be_averaged_is_refused_and_nothing_is_written(run, tmp_path):
    output = tmp_path / "mean"
    with pytest.raises(Refused, match=r"--last = 4:.*keeps 3 \(2, 4, 6\).*keep=4"):
        average(run, 4, output)
    with pytest.raises(Refused, match="--last = 1"):
        average(run, 1, output)
    assert not output.exists()
    with pytest.raises(Refused, match="there already"):
        average(run, 2, run)
    with pytest.raises(Refused, match=r"--output.*is not a folder"):
        average(run, 2, run / "config.json" / "mean")
    with pytest.raises(Refused, match="--output = '': names nothing"):
        average(run, 2, "")
    with pytest.raises(Refused, match=r"--output = .*/9: lies among the checkpoints of the run .*/run; name another"):
        average(run, 2, run / "checkpoints" / "9")
    assert not (run / "checkpoints" / "9").exists()
    (run / "checkpoints" / "4" / "model.json").write_text("{}")
    with pytest.raises(Refused, match=r"model\.json"):
        average(run, 2, output)
    assert not output.exists()
    with pytest.raises(Refused, match=r"--workdir = .*nothing: .* does not exist"):
        average(run.parent / "nothing", 2, output)
    for one in (f"{run}@6", run / "checkpoints" / "6"):
        with pytest.raises(Refused, match=r"--workdir = .*6: names one checkpoint; name its run's folder"):
            average(one, 2, output)


def kept(folder, saved, keep, best, told=True):
    """A run that saved these steps and keeps the newest of them, and its best besides."""
    store = Store(folder / "checkpoints", keep=keep)
    for step in saved:
        known = {"step": best, "value": 0.5} if best and step >= best else None
        store.save(step, make_state(step, rows=2, ema=False), describe(step), {"best": known})
    store.close()
    values = {"checkpoint": {"keep": keep}} if told else {}
    (folder / "config.json").write_text(json.dumps({"total_steps": saved[-1], **values}))
    return folder


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    ("saved", "keep", "best", "there", "in_a_row"),
    [
        ((4, 5, 10, 15, 20), 2, 4, [4, 15, 20], [15, 20]),
        ((2, 4, 6, 8, 10), 3, 2, [2, 6, 8, 10], [6, 8, 10]),
        ((5, 10, 15, 20, 22), 2, 10, [10, 20, 22], [20, 22]),
        ((5, 10, 15, 20), 2, 10, [10, 15, 20], [10, 15, 20]),  # it is the third from the end
        ((5, 10, 12, 15, 20), 2, 12, [12, 15, 20], [12, 15, 20]),
        ((5, 10, 15, 20), 3, 15, [10, 15, 20], [10, 15, 20]),  # one of the newest anyway
        ((5, 10, 15, 20), 3, 20, [10, 15, 20], [10, 15, 20]),
    ],
)
def test_the_best_is_none_of_the_last_where_others_lay_between(saved, keep, best, there, in_a_row, told, tmp_path):
    run = kept(tmp_path / "run", saved, keep, best, told)
    assert listed(run / "checkpoints") == there
    assert average(run, len(in_a_row), tmp_path / "mean") == in_a_row
    besides = (
        rf", and {there[0]}, its best, which others came after that are gone; train" if in_a_row != there else "; train"
    )
    names = ", ".join(map(str, in_a_row))
    with pytest.raises(Refused, match=rf"keeps {len(in_a_row)} \({names}\){besides} with .*keep={len(in_a_row) + 1}"):
        average(run, len(in_a_row) + 1, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("keep", "in_a_row"), [(1, [20]), (2, [4, 20])])
def test_of_two_checkpoints_the_config_says_whether_the_best_is_kept_besides(keep, in_a_row, tmp_path):
    run = kept(tmp_path / "run", (4, 12, 20) if keep == 1 else (4, 20), keep, 4)
    if len(in_a_row) == 1:
        with pytest.raises(Refused, match=r"keeps 1 \(20\), and 4, its best"):
            average(run, 2, tmp_path / "mean")
    else:
        assert average(run, 2, tmp_path / "mean") == in_a_row


def test_a_checkpoint_that_was_set_aside_is_not_passed_over(run, tmp_path):
    (run / "checkpoints" / "4").rename(run / "checkpoints" / "4.damaged")
    with pytest.raises(Refused, match=r"--last = 2: checkpoint 4 of .* is damaged, and lies between the others"):
        average(run, 2, tmp_path / "mean")


def test_weights_that_are_not_finite_have_no_mean(tmp_path):
    with ocp.StandardCheckpointer() as writer:
        writer.save(tmp_path / "1" / "params", {"part": {"a": np.array([1, np.inf], np.float32)}})
    with pytest.raises(Refused, match=r"--workdir = .*/1: its weights are not all finite \(part/a\)"):
        mean_params([tmp_path / "1"])


def test_checkpoints_of_unlike_models_are_refused_by_the_leaf_that_differs(tmp_path):
    folders = []
    for step, leaves in ((1, {"a": 3, "b": 2}), (2, {"a": 3, "b": 4}), (3, {"a": 3})):
        state = {name: np.ones(size, np.float32) for name, size in leaves.items()}
        folders.append(tmp_path / str(step))
        with ocp.StandardCheckpointer() as writer:
            writer.save(folders[-1] / "params", {"part": state})
    with pytest.raises(Refused, match=r"/2: can't be averaged with step 1: part/b is \(4,\) here, and \(2,\) there"):
        mean_params(folders[:2])
    with pytest.raises(Refused, match=r"/3: can't be averaged with step 1: part/b is missing here, and \(2,\) there"):
        mean_params([folders[0], folders[2]])
