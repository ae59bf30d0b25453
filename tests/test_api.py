"""What a notebook calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vitzoo
from vitzoo import api
from vitzoo.config.assembly import assemble
from vitzoo.errors import UserError
from vitzoo.training import loop

TINY = {"width": 32, "depth": 2, "mlp_dim": 64, "num_heads": 2, "image_size": (8, 16), "num_classes": 5}


def test_a_model_is_made_by_name_and_variant_with_any_field_changed_and_drawn_from_its_seed():
    model, other = (vitzoo.create_model("vit", "Ti/4", seed=seed, **TINY) for seed in (0, 1))
    logits = model(jnp.ones((3, 8, 16, 3)))
    assert logits.shape == (3, 5)
    assert logits.dtype == jnp.float32
    kernels = [np.asarray(each.patch_embedding.kernel[...]) for each in (model, other)]
    assert kernels[0].shape == (4, 4, 3, 32)
    assert np.abs(kernels[0] - kernels[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vti", "S/16"), "model.name = vti: no such model; did you mean vit?"),
        (("vit", "S16"), "model.variant = S16: no such variant"),
    ],
)
def test_a_model_that_there_is_not_is_refused(arguments, message):
    with pytest.raises(UserError) as caught:
        vitzoo.create_model(*arguments)
    assert str(caught.value).startswith(message)
    with pytest.raises(UserError, match="did you mean depth"):
        vitzoo.create_model("vit", "S/16", dpeth=3)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        *(("vit_b_16", 86_567_656), ("vit_b_32", 88_224_232), ("vit_l_16", 304_326_632)),
        *(("vit_l_32", 306_535_400), ("vit_h_14", 632_045_800)),
        # timm 1.0: sum(p.numel() for p in timm.create_model(name).parameters())
        *(("vit_tiny_patch16_224", 5_717_416), ("vit_small_patch16_224", 22_050_664)),
        *(("vit_base_patch16_224", 86_567_656), ("vit_base_patch16_384", 86_859_496)),
        *(("vit_base_patch32_224", 88_224_232), ("vit_large_patch16_224", 304_326_632)),
    ],
)
def test_torchvisions_and_timms_names_are_their_models(name, parameters):
    choice = api.choose_model(name, "", {})
    _, shapes = assemble(choice).abstract
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == parameters
    assert api.choose_model(name, "", {"num_classes": 5}).config().num_classes == 5
    with pytest.raises(UserError, match="said by the name vit_"):
        api.choose_model(name, "B/16", {})


def test_train_takes_a_name_a_file_or_a_config_with_overrides(monkeypatch):
    seen = []
    monkeypatch.setattr(loop, "train", lambda resolved, workdir: seen.append((resolved, workdir)) or {"step": 1})
    config = vitzoo.config.load("quickstart")
    assert vitzoo.train("quickstart", "runs/a", {"total_steps": 5}) == {"step": 1}
    vitzoo.train(config, "runs/b", ["total_steps=5"])
    assert seen[0][0].experiment == seen[1][0].experiment
    assert [workdir for _, workdir in seen] == ["runs/a", "runs/b"]


def test_models_are_listed_as_plain_values():
    (row,) = vitzoo.list_models("Ti/16")
    assert round(row["parameters"] / 1e6, 1) == 5.7  # 5.5 million are the published body; 1000 classes are 0.2
