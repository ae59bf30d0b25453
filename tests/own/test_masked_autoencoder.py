"""A masked autoencoder of a user's own: trained by its own objective without logits, its encoder the start of a ViT."""

import jax
import numpy as np
import pytest
from test_own_programs import devices, first_step, here, run_of, state_of, trained  # noqa: F401

import vitzoo
from vitzoo.checkpoints.arrays import read_arrays
from vitzoo.cli import main
from vitzoo.config.model import ModelChoice
from vitzoo.models.vit import Config as ViTConfig
from vitzoo.nn.paths import flatten
from vitzoo.nn.state import split
from vitzoo.schema import to_json
from vitzoo.training import metrics


@pytest.fixture(scope="module")
def mae(tmp_path_factory):
    return run_of("mae", tmp_path_factory, **{"log.every_steps": 1})


@pytest.mark.slow
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
@pytest.mark.parametrize(
    "how", [pytest.param({"accumulate": 4}, marks=pytest.mark.slow), {"accumulate": 2, "devices": 8}]
)
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--features", "features.npz"]])
def test_nothing_can_be_predicted_with_it(mae, more, capsys):
    assert main(["predict", "--checkpoint", str(mae[0]), "cnn.py", *more]) == 2
    said = capsys.readouterr().err
    assert "holds a model without a head, so there are no classes to predict" in said
    assert said.count("\n") == 1


def of_encoder(workdir, step=24):
    """The encoder's leaves as they lie in the run's checkpoint."""
    leaves = flatten(read_arrays(workdir / "checkpoints" / str(step) / "params"))
    return {path.removeprefix("encoder/"): leaf for path, leaf in leaves.items() if path.startswith("encoder/")}


def fine_tuning(checkpoint, **model):
    return {
        "total_steps": 1,
        "init_from": checkpoint,
        "model": {"name": "vit", "width": 16, "depth": 2, **model},
        "data": {"name": "cnn:bars", "batch_size": 16},
        "optimizer": {"name": "adamw", "learning_rate": 0.1, "freeze": ["(?!head/).*"]},
    }


@pytest.mark.gate
@pytest.mark.parametrize("step", [pytest.param(12, marks=pytest.mark.slow), 24])
def test_a_vit_starts_from_its_encoder_bitwise(mae, step, tmp_path, monkeypatch, capsys):
    devices(monkeypatch, 1)
    name = f"{mae[0]}@12:encoder" if step == 12 else f"{mae[0]}:encoder"
    vitzoo.train(fine_tuning(name), tmp_path / "vit")
    said = capsys.readouterr().out
    assert f"from    {name}, step {step}, raw weights\n" in said
    assert "weights: 22 leaves as they are, 2 new\n" in said
    assert "part    encoder of mae:MaskedAutoencoder, whose other 23 leaves are left\n" in said
    assert "new      head/kernel: 0 → 2, new, zero-initialised\n" in said
    wanted, found = of_encoder(mae[0], step), state_of(tmp_path / "vit", "params")
    assert found.keys() == wanted.keys() | {"head/kernel", "head/bias"}
    assert all(found[path].tobytes() == leaf.tobytes() for path, leaf in wanted.items())  # all but the head is frozen


@pytest.mark.slow
def test_its_encoder_is_loaded_as_a_model_of_its_own(mae):
    model, info = vitzoo.load(f"{mae[0]}:encoder")
    whole, _ = vitzoo.load(str(mae[0]))
    assert type(model).__name__ == "ViT"
    assert (info.step, info.classes, info.num_classes, info.size) == (24, None, 0, (8, 8))
    assert model.config == whole.encoder.config
    found, wanted = flatten(split(model)[1]), of_encoder(mae[0])
    assert found.keys() == wanted.keys()
    assert all(np.asarray(found[path]).tobytes() == leaf.tobytes() for path, leaf in wanted.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("teacher", "mae:MaskedAutoencoder has no part teacher; parts that can be taken: encoder"),
        ("", "mae:MaskedAutoencoder has no part ''; parts that can be taken: encoder"),
        (
            "decoder",
            "decoder of mae:MaskedAutoencoder is no model that keeps its Config as `config`; parts that can be ",
        ),
        (
            "encoder/encoder/blocks/*",
            r"encoder/encoder/blocks/\* of .* is no model that keeps its Config as `config`; ",
        ),
    ],
)
def test_another_part_is_refused_and_those_that_are_there_are_named(mae, part, message, tmp_path):
    with pytest.raises(vitzoo.UserError, match=f"checkpoint = {mae[0]}:{part.replace('*', '.')}: {message}"):
        vitzoo.load(f"{mae[0]}:{part}")
    with pytest.raises(vitzoo.UserError, match=f"init_from = {mae[0]}:{part.replace('*', '.')}: {message}"):
        vitzoo.train(fine_tuning(f"{mae[0]}:{part}"), tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"width": 32}, "model.width = 32: can't change: the checkpoint's is 16"),
        ({"depth": 3}, "model.depth = 3: can't change: the checkpoint's is 2"),
        ({"variant": "Ti/2"}, "model.variant = Ti/2: has width 192, and init_from 16; leave it out"),
    ],
)
def test_a_vit_of_other_sizes_is_refused(mae, model, message, tmp_path):
    with pytest.raises(vitzoo.UserError, match=message):
        vitzoo.train(fine_tuning(f"{mae[0]}:encoder", **model), tmp_path / "run")


def test_a_variant_of_the_same_sizes_is_that_of_the_part():
    fields = to_json(ViTConfig.from_variant("Ti/16"))
    assert ModelChoice("vit", "Ti/16").over({"name": "vit", **fields}).variant == "Ti/16"


@pytest.mark.slow
def test_the_state_of_a_whole_is_not_continued_by_its_part(mae, tmp_path):
    config = fine_tuning(f"{mae[0]}:encoder") | {"init_from_state": True}
    with pytest.raises(vitzoo.UserError, match="encoder is a part, and the optimizer's state is of the whole"):
        vitzoo.train(config, tmp_path / "run")


@pytest.mark.slow
def test_a_folder_with_a_colon_in_its_name_is_that_folder(mae, tmp_path):
    for name in ("a:encoder", "b:encoder"):
        (tmp_path / name).symlink_to(mae[0])
    (tmp_path / "a").symlink_to(mae[0])
    for name in ("a:encoder", "b:encoder", "b:encoder@12", "b:encoder/checkpoints/24"):
        assert type(vitzoo.load(str(tmp_path / name))[0]).__name__ == "MaskedAutoencoder"
    assert type(vitzoo.load(str(tmp_path / "b:encoder@12:encoder"))[0]).__name__ == "ViT"


@pytest.mark.slow
def test_a_soup_has_no_place_for_a_part_and_a_part_becomes_a_checkpoint_of_its_own(mae, tmp_path, capsys):
    part = f"{mae[0]}:encoder"
    assert main(["soup", part, str(mae[0]), "--output", str(tmp_path / "soup")]) == 2
    assert f"{part}: is a part of a checkpoint, and a whole one is needed; `vitzoo convert" in capsys.readouterr().err
    assert main(["convert", part, str(tmp_path / "whole"), "--format", "vitzoo"]) == 0
    model, _ = vitzoo.load(str(tmp_path / "whole"))
    assert {path: np.asarray(leaf).tobytes() for path, leaf in flatten(split(model)[1]).items()} == {
        path: leaf.tobytes() for path, leaf in of_encoder(mae[0]).items()
    }
