"""A masked autoencoder of a user's own: trained by its own objective without logits, its encoder the start of a ViT."""

import contextlib
import io

import jax
import numpy as np
import pytest
from test_own_programs import HERE, devices, first_step, here, state_of, trained  # noqa: F401

import vitzoo
from vitzoo.cli import main
from vitzoo.training import metrics


@pytest.fixture(scope="module")
def mae(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(HERE)
        patch.syspath_prepend(HERE)
        devices(patch, 1)
        workdir = tmp_path_factory.mktemp("own") / "mae"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            return workdir, trained("mae", workdir, **{"log.every_steps": 1}), said.getvalue()


def test_it_trains_without_logits_or_classes_and_its_loss_falls(mae):
    workdir, summary, said = mae
    assert summary["finished"]
    losses = [line["loss"] for line in metrics.read(workdir) if line["split"] == "train"]
    assert len(losses) == 24
    assert np.mean(losses[-4:]) < 0.7 * losses[0]
    assert "mae:MaskedAutoencoder: 8,028 parameters, images 8 × 8 × 1\n" in said  # no outputs are told of
    assert "vitzoo predict" not in said


@pytest.mark.gate
def test_a_killed_one_ends_bitwise_as_if_undisturbed(mae, tmp_path, monkeypatch):
    devices(monkeypatch, 1)
    trained("mae", tmp_path / "killed", stop=18, monkeypatch=monkeypatch)
    for item in ("params", "optimizer"):
        left, right = state_of(mae[0], item), state_of(tmp_path / "killed", item)
        assert {path: leaf.tobytes() for path, leaf in left.items()} == {p: leaf.tobytes() for p, leaf in right.items()}


@pytest.mark.gate
@pytest.mark.parametrize("how", [{"accumulate": 4}, {"devices": 8}, {"accumulate": 2, "devices": 8}])
def test_masks_are_the_same_for_any_accumulation_and_mesh(how, monkeypatch):
    sgd = {"optimizer.name": "sgd", "optimizer.learning_rate": 0.1}
    loss, right = first_step("mae", monkeypatch, 1, **sgd)
    other_loss, found = first_step(
        "mae", monkeypatch, how.get("devices", 1), **sgd, accumulate=how.get("accumulate", 1)
    )
    assert loss == pytest.approx(other_loss, rel=1e-5)
    assert right.keys() == found.keys()
    for path in right:
        np.testing.assert_allclose(right[path], found[path], rtol=1e-5, atol=1e-6, err_msg=path)


def test_what_is_hidden_does_not_reach_the_encoder(mae):
    model, _ = vitzoo.load(str(mae[0]))
    image, seen = np.float32(np.random.default_rng(0).normal(size=(2, 8, 8, 1))), np.array([[1, 6], [15, 0]])
    slope = jax.jit(jax.grad(lambda image: (model.encoder.tokens(image, seen) ** 2).sum()))(image)
    looked_at = np.abs(slope).reshape(2, 4, 2, 4, 2).max((2, 4)).reshape(2, 16) > 0  # patches of 2 × 2 pixels
    assert [list(np.flatnonzero(row)) for row in looked_at] == [[1, 6], [0, 15]]


@pytest.mark.parametrize(
    ("needing", "field"),
    [
        (["objective.name=classification"], "objective"),
        (["evaluate.val.name=classification"], "evaluate.val"),
        (["evaluate.val.name=calibration"], "evaluate.val"),
    ],
)
def test_what_needs_logits_refuses_it_before_any_work(needing, field, tmp_path):
    message = f"gives no logits of classes, which {field} needs: its Config lacks `num_classes`"
    with pytest.raises(vitzoo.UserError, match=message):
        vitzoo.train("mae.py", tmp_path / "run", needing)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [[], ["--features", "features.npz"]])
def test_nothing_can_be_predicted_with_it(mae, more, capsys):
    assert main(["predict", "--checkpoint", str(mae[0]), "cnn.py", *more]) == 2
    said = capsys.readouterr().err
    assert "holds a model without a head, so there are no classes to predict" in said
    assert said.count("\n") == 1
