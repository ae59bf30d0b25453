"""Every family trains on any mesh as it does on one device, whatever is recomputed and whether layers are scanned."""

import io
import json

import jax
import pytest
from families import FAMILIES, STEPS, config_of, write_texts

import vitzoo.config
from vitzoo.nn import paths
from vitzoo.parallel import mesh as meshes
from vitzoo.training import loop

# how one is run: mesh, devices, remat, scan, accumulate
WAYS = [
    ("data:8", 8, "none", True, 1),
    ("fsdp:8", 8, "full", True, 1),
    ("data:2,fsdp:2,tensor:2", 8, "dots", False, 1),
    ("fsdp:2,tensor:4", 8, "none", True, 1),  # two heads don't divide over four
    ("data:2,sequence:4", 8, "none", True, 1),  # nor do 31 tokens, which stay whole
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("texts"))


def losses(family, files, workdir, mesh="data:1", devices=1, remat="none", scan=True, accumulate=1):
    """Of every step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meshes, "devices", lambda platform="": jax.devices(platform or None)[:devices])
        loop.train(config_of(family, files, mesh, remat, scan, accumulate), workdir, io.StringIO())
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["split"] == "train"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", FAMILIES)
def test_losses_are_those_of_one_device_on_every_mesh(family, files, tmp_path):
    alone = losses(family, files, tmp_path / "alone")
    assert len(alone) == STEPS
    for number, way in enumerate(WAYS):
        spread = losses(family, files, tmp_path / str(number), *way)
        assert spread == pytest.approx(alone, rel=1e-5), way


QUICK = ("vit", "gpt", "t5")


@pytest.mark.parametrize(
    "family", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES if name not in QUICK)]
)
def test_optimizer_state_is_spread_as_the_parameters_are(family, files):
    from vitzoo.training import setup

    resolved = vitzoo.config.resolve(config_of(family, files, "fsdp:8", "none", True, 1))
    task = setup.prepare(resolved, meshes.make_mesh("fsdp:8", jax.devices()[:8]))
    task.stream.close()
    params, moments = (paths.flatten(task.shardings[part]) for part in ("params", "optimizer"))
    spread = {path for path, place in params.items() if "fsdp" in place.spec}
    assert spread >= {path for path in params if path.endswith("/kernel")}
    for path in spread:
        own = [place for name, place in moments.items() if name.endswith(f"/{path}")]
        assert own, path
        assert all(place == params[path] for place in own), path
