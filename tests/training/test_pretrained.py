"""Starting from a checkpoint: its architecture and weights, fresh moments and step 0, or its whole state."""

import contextlib
import io
import json

import jax
import numpy as np
import pytest
from striped import config, finetune

from vitzoo.checkpoints import metadata
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.checkpoints.locate import locate
from vitzoo.cli.train import dry_run
from vitzoo.config import resolve
from vitzoo.errors import UserError
from vitzoo.nn.paths import flatten
from vitzoo.training import loop, setup


def run(settings, workdir):
    out = io.StringIO()
    return loop.train(settings, workdir, out), out.getvalue()


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "pretrained"
    run(pretraining(total_steps=4), workdir)
    return workdir


def pretraining(**changes):
    return config(
        schedule={"name": "constant"},
        evaluate={"test": None},
        checkpoint={"every_steps": 9, "keep_best": ""},
        inputs={"image": {"mean": (100.0,)}},
        model={"dropout": 0.0, "drop_path": 0.0, "layer_scale": 0.2},
        augment={"mixup": 0.0},
        accumulate=1,
        log={"every_steps": 50},
        **changes,
    )


@pytest.fixture(scope="module")
def tuned(pretrained, tmp_path_factory):
    """A run with learning rate 0: what it started from is what it saved."""
    workdir = tmp_path_factory.mktemp("runs") / "tuned"
    _, said = run(finetune(pretrained, inputs={"image": {"std": (50.0,)}}), workdir)
    return workdir, said


@pytest.mark.gate
def test_weights_are_the_average_all_but_the_new_head_and_resized_positions(pretrained, tuned):
    before, after = (
        flatten(read_arrays(locate(run).folder / item)) for run, item in ((pretrained, "ema"), (tuned[0], "params"))
    )
    changed = {path for path in after if before[path].tobytes() != after[path].tobytes()}
    assert changed == {"head/kernel", "head/bias", "positions/embedding"}
    assert after["head/kernel"].shape == (16, 3)
    assert not after["head/kernel"].any()
    assert after["positions/embedding"].shape == (1, 1 + 2 * 4, 16)  # 8 × 16 pixels in patches of 4
    np.testing.assert_array_equal(after["positions/embedding"][:, 0], before["positions/embedding"][:, 0])


@pytest.mark.gate
def test_what_became_of_the_weights_is_said(tuned):
    said = tuned[1]
    assert "step 4, averaged weights" in said
    assert "head/kernel: 2 → 3, new" in said
    assert "2×2 → 2×4 patches" in said


@pytest.mark.gate
def test_it_starts_at_step_0_with_fresh_moments(tuned):
    counters = metadata.read_loop(locate(tuned[0]).folder)
    assert (counters["step"], counters["updates"]) == (3, 3)
    moments = flatten(read_arrays(locate(tuned[0]).folder / "optimizer"))
    assert int(moments["updates"]) == 3


@pytest.mark.gate
def test_preprocessing_is_the_checkpoints_but_for_what_the_config_sets(tuned):
    preprocessing = locate(tuned[0]).description["inputs"]["image"]
    assert preprocessing["size"] == [8, 16]
    assert (preprocessing["mean"], preprocessing["std"]) == ([100.0], [50.0])


@pytest.mark.gate
def test_the_architecture_is_the_checkpoints_but_for_what_the_config_changes(pretrained):
    resolved = resolve(finetune(pretrained, model={"drop_path": 0.3}))
    model = setup.prepare(resolved, setup.mesh_of(resolved.experiment)).model_config
    assert (model.drop_path, model.layer_scale, model.depth, model.num_classes) == (0.3, 0.2, 2, 3)


@pytest.mark.slow
def test_a_longer_training_with_its_state_is_the_one_that_was_never_interrupted(pretrained, tmp_path):
    run(pretraining(total_steps=7), tmp_path / "straight")
    with pytest.raises(UserError) as refusal:
        run(pretraining(total_steps=7), pretrained)
    flags = [word for word in str(refusal.value).split() if word.startswith("--config.")]
    _, said = run(resolve(pretraining(total_steps=7), overrides=flags), tmp_path / "longer")
    assert "at step 4, with its optimizer state" in said
    for item in ("params", "ema", "optimizer"):
        left, right = (read_arrays(tmp_path / name / "checkpoints" / "7" / item) for name in ("straight", "longer"))
        assert all(
            a.tobytes() == b.tobytes() for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
        )


@pytest.mark.gate
def test_a_last_line_comes_though_the_training_is_shorter_than_the_interval(pretrained):
    lines = [json.loads(line) for line in (pretrained / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["split"]) for line in lines] == [(4, "train")]


@pytest.mark.slow
def test_a_dry_run_shows_what_becomes_of_the_weights(pretrained, tuned, tmp_path):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        dry_run(resolve(finetune(pretrained, inputs={"image": {"std": (50.0,)}})), str(tmp_path / "run"))
    assert f"loads   {pretrained}" in out.getvalue()
    start = out.getvalue().index(f"from    {pretrained}, step 4, averaged weights")
    shown = out.getvalue()[start:].partition("\n\n")[0]
    assert "head/kernel: 2 → 3, new" in shown
    assert shown in tuned[1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gate
def test_a_state_that_is_already_past_the_end_is_refused(pretrained, tmp_path):
    over = pretraining(total_steps=4, init_from=str(pretrained), init_from_state=True)
    with pytest.raises(UserError, match="is at step 4 of this run's 4"):
        run(over, tmp_path / "run")
    with pytest.raises(UserError, match="is at step 4 of this run's 4"):
        dry_run(resolve(over), str(tmp_path / "run"))


def test_a_missing_checkpoint_is_refused_and_never_means_starting_from_nothing(tmp_path):
    with pytest.raises(UserError, match=r"init_from = .*gone: .*does not exist"):
        run(finetune(tmp_path / "gone"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.gate
def test_another_depth_is_refused(pretrained, tmp_path):
    with pytest.raises(UserError, match="depth"):
        run(finetune(pretrained, model={"depth": 4}), tmp_path / "run")
